"""Without memory: threads of a daemon begin with it, and a relay that stopped to accept begins anew."""

import asyncio
import socket
import threading
from types import SimpleNamespace

import pytest

from overstory.client.upload.http import Response
from overstory.protocol.oblivious.formats import RESPONSE_TYPE
from overstory.relay import process
from overstory.relay.process import Forwarder
from overstory.relay.service import HourlyLimit, RelayService, Troubles
from overstory.relay.shuffling import Shuffler
from overstory.relay.spool import Rules, Taken
from overstory.supervision.listening import Listening
from overstory.supervision.upkeep import fill_default_pool, full_pool, in_thread


def hang(thread):
    raise AssertionError(f"{thread.name} was started late: without memory this would wait for ever")


def meet(number):
    return threading.Barrier(number).wait


def test_a_full_pool_starts_no_thread_later(monkeypatch):
    with full_pool(5, "test") as pool:
        monkeypatch.setattr(threading.Thread, "start", hang)
        work = meet(5)
        assert sorted(future.result(60) for future in [pool.submit(work) for _ in range(5)]) == list(range(5))


def test_an_event_loop_works_in_threads_that_have_begun(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    async def main():
        fill_default_pool(asyncio.get_running_loop())
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", hang)
            work = meet(6)
            return await asyncio.gather(*(asyncio.to_thread(work) for _ in range(6)))

    assert sorted(asyncio.run(main())) == list(range(6))


def heads_of_a_relay(requests, loses_its_listener=False, troubles=None):
    service = RelayService(None, HourlyLimit(10), troubles or Troubles())

    async def main():
        listening = Listening(port=0)
        listener = listening.bind(backlog=process.BACKLOG)
        relay = process.RelayServer(service, listening, lambda: None, connections=3)
        serving = asyncio.create_task(relay.serve([listener]))
        if loses_its_listener:
            await asyncio.sleep(0.2)
            assert asyncio.get_running_loop().remove_reader(listener)
        heads = [await asyncio.wait_for(ask(*listener.getsockname()), 30) for _ in range(requests)]
        relay.should_exit = True
        await serving
        return heads

    return asyncio.run(main())


async def ask(host, port):
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: relay\r\nConnection: close\r\n\r\n")
    try:
        return await reader.readline()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def test_a_connection_that_cannot_be_accepted_waits(monkeypatch):
    accept, faults, troubles = socket.socket.accept, iter([MemoryError(), OSError("none left")]), Troubles()

    def fails_twice(self):
        if (fault := next(faults, None)) is not None:
            raise fault
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", fails_twice)
    assert heads_of_a_relay(5, troubles=troubles) == [b"HTTP/1.1 200 OK\r\n"] * 5
    assert any("a connection could not be accepted" in line for line in troubles.lines())


def test_a_listener_that_the_event_loop_lost_is_looked_at_again(monkeypatch):
    monkeypatch.setattr(process, "LOOK", 5)
    assert heads_of_a_relay(5, loses_its_listener=True) == [b"HTTP/1.1 200 OK\r\n"] * 5


def test_a_request_that_finds_no_memory_is_counted_and_has_no_line_of_its_own(monkeypatch, caplog):
    """A line would tell when a message came."""
    receive, faults = socket.socket.recv, iter([MemoryError()])

    def fails_once(self, size):
        if size > 4096 and (fault := next(faults, None)) is not None:  # the loop wakes itself up with short ones
            raise fault
        return receive(self, size)

    monkeypatch.setattr(socket.socket, "recv", fails_once)
    troubles = Troubles()

    assert heads_of_a_relay(2, troubles=troubles) == [b"", b"HTTP/1.1 200 OK\r\n"]
    assert any("Fatal read error on socket transport: MemoryError" in line for line in troubles.lines())
    assert not caplog.records


@pytest.fixture
def nobody_wakes_the_loop(monkeypatch):
    """Threads without memory: none of them can tell an event loop that it is done."""
    wake = asyncio.BaseEventLoop.call_soon_threadsafe

    def without_memory(self, *call, **options):
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError
        return wake(self, *call, **options)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", without_memory)


@pytest.mark.usefixtures("nobody_wakes_the_loop")
def test_what_a_thread_did_is_there_although_it_could_not_say_so():
    """With `asyncio.to_thread`, a collector's or a console's request waited for ever."""
    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(asyncio.wait_for(in_thread(lambda number: 2 * number, 21), 10)) == 42
    finally:
        loop.close()


def stored(messages, senders):
    return [Taken.STORED] * len(messages)


@pytest.mark.parametrize("shuffles", [True, False], ids=["shuffle", "pass-through"])
@pytest.mark.usefixtures("nobody_wakes_the_loop")
def test_a_thread_that_cannot_wake_the_loop_is_waited_for_all_the_same(shuffles):
    """What such a thread did was lost: a relay then answered nobody any more."""

    async def main():
        if shuffles:
            spool = SimpleNamespace(rules=Rules(), release=None, put=stored)
            relay = Shuffler(spool, "http://collector", "token", None, pytest.fail)
        else:
            answer = Response(200, {"content-type": RESPONSE_TYPE}, b"sealed")
            relay = Forwarder("http://collector", lambda request: answer, pytest.fail)
        return [(await asyncio.wait_for(relay.deliver(b"message", b"sender"), 10)).status for _ in range(3)]

    assert asyncio.run(main()) == [202 if shuffles else 200] * 3
