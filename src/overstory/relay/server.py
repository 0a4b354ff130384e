"""The sockets of a relay: what is open at once is bounded, and it ends cleanly.

A connection has one request and its answer, by h11: bounded in size and in time, with few headers.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import h11

from overstory.protocol.wire import parse_digits
from overstory.relay.service import BUSY_SECONDS, Answer, Head, RefusedError, RelayService, problem
from overstory.supervision.log import SparseLog
from overstory.supervision.upkeep import Pulse

MOST_HEAD: Final = 8192
READ_SECONDS: Final = 20.0
"""For a complete request, however slowly it comes."""

WRITE_SECONDS: Final = 10.0
LINGER_SECONDS: Final = 1.0
CHUNK: Final = 1 << 13

MOST_CONNECTIONS: Final = 512
MOST_OF_ONE: Final = 16
"""Connections that are open at once: all together, and of one address."""

HANDSHAKE_SECONDS: Final = 10.0
BACKLOG: Final = 1024
IDLE_SECONDS: Final = 2.0
"""Without a connection, after which accepting begins anew."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a relay."""

    body: int = 1 << 16
    connections: int = MOST_CONNECTIONS
    of_one: int | None = MOST_OF_ONE  # connections of one address; None where a proxy in front opens all of them


class Connection:
    """One connection of a sender."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_body: int) -> None:
        self._reader, self._writer, self._most_body = reader, writer, most_body
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_HEAD)

    async def read(self, judge: Callable[[Head], None]) -> tuple[Head, bytes] | None:
        """Return the request; None when the sender leaves before its end, or is too slow.

        `judge` raises `RefusedError` for what needs no body to be refused.
        """
        try:
            async with asyncio.timeout(READ_SECONDS):
                return await self._read(judge)
        except h11.RemoteProtocolError as error:
            raise RefusedError(problem(error.error_status_hint, "this is no request of HTTP/1.1")) from None
        except (TimeoutError, OSError):
            return None

    async def _read(self, judge: Callable[[Head], None]) -> tuple[Head, bytes] | None:
        head, body = None, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._send(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(CHUNK))
            elif isinstance(event, h11.Request):
                head = _head(event)
                judge(head)
                self._check_size(head.length or 0)
            elif isinstance(event, h11.Data):
                body += event.data
                self._check_size(len(body))
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                return head, bytes(body)
            else:
                return None

    def _check_size(self, size: int) -> None:
        if size > self._most_body:
            raise RefusedError(problem(413, f"a message has at most {self._most_body} bytes"))

    async def write(self, answer: Answer) -> None:
        """Send the answer, and end the connection."""
        headers = [("content-length", str(len(answer.body))), ("connection", "close")]
        if answer.media_type:
            headers.insert(0, ("content-type", answer.media_type))
        if answer.retry_after is not None:
            headers.append(("retry-after", str(answer.retry_after)))
        if answer.allow:
            headers.append(("allow", answer.allow))
        with contextlib.suppress(OSError, TimeoutError, h11.LocalProtocolError):
            async with asyncio.timeout(WRITE_SECONDS):
                await self._send(h11.Response(status_code=answer.status, headers=headers))
                await self._send(h11.Data(data=answer.body))
                await self._send(h11.EndOfMessage())
                await self._linger()

    async def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()

    async def _linger(self) -> None:
        """Read what is left of a refused body, for a moment: a reset would take the answer away from its reader."""
        if self._http.their_state in {h11.DONE, h11.MUST_CLOSE, h11.CLOSED}:
            return
        if self._writer.can_write_eof():
            self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                for _ in range(64):
                    if not await self._reader.read(CHUNK):
                        return


def _head(request: h11.Request) -> Head:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return Head(
        request.method.decode("latin-1"),
        _path(request.target.decode("latin-1")),
        headers.get("content-type", "").partition(";")[0].strip().lower(),
        headers.get("x-forwarded-for", ""),
        parse_digits(headers.get("content-length", "")),
    )


def _path(target: str) -> str:
    """Return the path of a request's target, which names the relay as well where it was sent to a proxy.

    >>> _path("/healthz?now"), _path("http://relay.example.net/"), _path("http://relay.example.net")
    ('/healthz', '/', '/')
    """
    if target.startswith(("http://", "https://")):
        target = "/" + target.split("://", 1)[1].partition("/")[2]
    return target.partition("?")[0]


class RelayServer:
    """Answers one request on each connection, and never writes down who sent it."""

    def __init__(self, service: RelayService, bounds: Bounds, tls: ssl.SSLContext | None = None) -> None:
        self._service, self._bounds, self._tls = service, bounds, tls
        self._open: Counter[bytes] = Counter()  # connections of each sender; `_room` bounds all together
        self._room = asyncio.Semaphore(bounds.connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._accepted = self._seen = 0

    async def serve(self, listener: socket.socket, stopping: asyncio.Event) -> None:
        """Answer requests until `stopping` is set, and then those that have begun."""
        listener.setblocking(False)
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, fault: self._service.troubles.add_unseen(fault))
        pulse = Pulse(loop, partial(self._accept_again, loop, listener), lambda: None, IDLE_SECONDS)
        pulse.start()
        await stopping.wait()
        pulse.stop()
        self._service.closing = True
        if self._accepting is not None:
            self._accepting.cancel()
        loop.remove_reader(listener)
        listener.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept_again(self, loop: asyncio.AbstractEventLoop, listener: socket.socket) -> None:
        """Begin to accept, and begin anew where nothing was accepted for a while.

        Without memory the task may end, or never be woken. Connections wait in the system's queue.
        """
        if self._service.closing or (self._accepting is not None and self._accepted != self._seen):
            self._seen = self._accepted
            return
        if self._accepting is not None:
            self._accepting.cancel()
        loop.remove_reader(listener)
        self._accepting = loop.create_task(self._accept(listener))

    async def _accept(self, listener: socket.socket) -> None:
        """Accept a connection when there is room for it; the others wait in the system's queue."""
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            connected = None
            try:
                connected, address = await loop.sock_accept(listener)
                self._accepted += 1
                task = loop.create_task(self._serve(connected, str(address[0]) if address else ""))
            except asyncio.CancelledError:
                self._room.release()
                raise
            except Exception as error:  # noqa: BLE001 - the next one may be accepted
                self._room.release()
                if connected is not None:
                    connected.close()
                self._service.troubles.add(f"a connection could not be accepted: {SparseLog.sentence(error)}")
                await asyncio.sleep(0.2)
            else:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _serve(self, connected: socket.socket, peer: str) -> None:
        name = self._service.limit.name(peer)
        entered = self._bounds.of_one is None or self._open[name] < self._bounds.of_one
        self._open[name] += entered
        try:
            if entered:
                await self._talk(connected, peer)
            else:
                self._service.counts["closed"] += 1
        except Exception as error:  # noqa: BLE001 - one connection's fault ends no other's
            self._service.troubles.add(f"a connection failed: {type(error).__name__}")
        finally:
            connected.close()
            self._open[name] -= entered
            if not self._open[name]:
                del self._open[name]
            self._room.release()

    async def _talk(self, connected: socket.socket, peer: str) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        seconds = None if self._tls is None else HANDSHAKE_SECONDS
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connected, ssl=self._tls, ssl_handshake_timeout=seconds, ssl_shutdown_timeout=seconds
            )
        except OSError:
            return  # no handshake, or none in time
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            await self._exchange(Connection(reader, writer, self._bounds.body), peer)
        finally:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()
            transport.abort()

    async def _exchange(self, connection: Connection, peer: str) -> None:
        answer: Answer
        try:
            request = await connection.read(lambda head: self._service.judge(peer, head))
            if request is None:
                self._service.counts["closed"] += 1
                return
            answer = await self._service.answer(peer, *request)
        except RefusedError as refused:
            answer = refused.answer
        except Exception as error:  # noqa: BLE001 - the sender learns that the message may come again
            self._service.troubles.add(f"a message could not be taken: {SparseLog.sentence(error)}")
            answer = problem(503, "the relay cannot take messages at the moment", BUSY_SECONDS)
        self._service.count(answer)
        await connection.write(answer)
