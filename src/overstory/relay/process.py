"""A relay as a process: it counts a connection before its handshake, and logs no fault by itself, with its time."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from overstory.client.upload.http import Request, Transport, http_transport
from overstory.client.upload.http import Response as Received
from overstory.protocol.oblivious.formats import REQUEST_TYPE, RESPONSE_TYPE
from overstory.protocol.wire import unencrypted_host
from overstory.relay.service import LOG, HourlyLimit, RelayService, Troubles, problem
from overstory.relay.shuffling import Shuffler, Shuffling
from overstory.relay.spool import Spool
from overstory.supervision.answers import PROBLEM, Response
from overstory.supervision.connection import BoundedConnection
from overstory.supervision.listening import ConnectionLimits, Listening
from overstory.supervision.server import SupervisedServer, server_config
from overstory.supervision.upkeep import Task, Upkeep, full_pool, result_of

LIMITS: Final = ConnectionLimits(reading_seconds=20.0, taking_seconds=10.0, head_bytes=8192)
MOST_CONNECTIONS: Final = 512
MOST_OF_ONE: Final = 16  # connections that are open at once: all together, and of one address

HANDSHAKE_SECONDS: Final = 10.0
GOODBYE_SECONDS: Final = 1.0  # for TLS to begin and to end

BACKLOG: Final = 1024
LOOK: Final = 20
"""Ticks after which connections are looked for again: without memory, the event loop may have lost its listener."""


class RelayConnection(BoundedConnection):
    """One connection of a sender."""

    limits = LIMITS
    service: ClassVar[RelayService]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.over = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._is_seen() and self._final_response is None:
            self.service.counts["closed"] += 1
        self.over.set()

    def _is_seen(self) -> bool:
        cycle: Any = self.cycle
        return cycle is not None

    def _refused_head(self) -> Response | None:
        if self.url.startswith((b"http://", b"https://")) and self.url.count(b"/") == 2:
            self.url += b"/"  # a sender that takes the relay for a proxy names it, and may leave out the path
        return super()._refused_head()

    def _write(self, answer: Response, *, bodiless: bool = False) -> None:
        if not self._is_seen():
            self.service.counts[str(answer.status)] += 1
        super()._write(answer, bodiless=bodiless)


class RelayServer(SupervisedServer):
    """Answers a request per connection, and never writes down who sent it; `of_one` bounds those of an address."""

    def __init__(
        self,
        service: RelayService,
        listening: Listening,
        announce: Callable[[], object],
        *,
        connections: int = MOST_CONNECTIONS,
        of_one: int | None = MOST_OF_ONE,
    ) -> None:
        made = type("RelayConnection", (RelayConnection,), {"service": service, "_faults": service.troubles})
        config = server_config(service, listening, made, lifespan="off", loop="asyncio", date_header=False)
        super().__init__(config, LOG, announce, faults=service.troubles)
        self._service, self._of_one = service, of_one
        self._open: Counter[bytes] = Counter()  # connections of each sender
        self._most, self._num_open = connections, 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: self._service.troubles.add_unseen(fault))
        self._listener = sockets[0]
        self._listener.setblocking(False)
        await super().startup([])

    async def on_tick(self, counter: int) -> bool:
        if counter % LOOK == 0:
            self._accept_again()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.closing = True
        self._accept_no_more()
        await super().shutdown(sockets)

    def _accept_no_more(self) -> None:
        assert self._listener is not None
        asyncio.get_running_loop().remove_reader(self._listener)

    def _accept_again(self) -> None:
        """Look for connections while there is room for them; the others wait in the system's queue."""
        assert self._listener is not None
        if self._num_open < self._most and not self._service.closing:
            asyncio.get_running_loop().add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        loop, connected = asyncio.get_running_loop(), None
        assert self._listener is not None
        try:
            connected, address = self._listener.accept()
            task = loop.create_task(self._hold(connected, str(address[0]) if address else ""))
            self._num_open += 1
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        except BlockingIOError:
            return
        except Exception as error:  # noqa: BLE001 - the next one may be accepted
            if connected is not None:
                connected.close()
            self._service.troubles.error("a connection could not be accepted", error)
            self._accept_no_more()
            loop.call_later(0.2, self._accept_again)
        if self._num_open >= self._most:
            self._accept_no_more()

    async def _hold(self, connected: socket.socket, peer: str) -> None:
        name, entered = b"", False
        try:
            name = self._service.limit.name(peer)
            entered = self._of_one is None or self._open[name] < self._of_one
            self._open[name] += entered
            if entered:
                await self._talk(connected)
            else:
                self._service.counts["closed"] += 1
        except Exception as error:  # noqa: BLE001 - one connection's fault ends no other's
            self._service.troubles.add(f"a connection failed: {type(error).__name__}")
        finally:
            connected.close()
            self._num_open -= 1
            self._open[name] -= entered
            if not self._open[name]:
                del self._open[name]
            self._accept_again()

    async def _talk(self, connected: socket.socket) -> None:
        tls = self.config.ssl
        with contextlib.suppress(OSError):  # no handshake, or none in time
            transport, connection = await asyncio.get_running_loop().connect_accepted_socket(
                self.make_connection,
                connected,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=None if tls is None else GOODBYE_SECONDS,
            )
            assert isinstance(connection, RelayConnection)
            try:
                await connection.over.wait()
            finally:
                transport.abort()


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one relay."""

    gateway: str  # the collector's address, without a path
    listening: Listening
    per_hour: int = 50  # messages that one address may send in any hour
    trust_forwarded: bool = False  # a proxy in front names the sender in X-Forwarded-For
    body: int = 1 << 16
    shuffling: Shuffling | None = None  # None: each message is passed on at once


def serve(settings: Settings, announce: Callable[[str], None] = print) -> None:
    """Serve until a signal; then answer what has begun, finish the part that is being sent, and end."""
    listening, troubles, upkeep = settings.listening, Troubles(), Upkeep(LOG)
    with _delivery(settings, troubles) as delivery, listening.bind(LIMITS.taking_seconds, BACKLOG) as bound:
        service = RelayService(
            delivery.deliver,
            HourlyLimit(settings.per_hour),
            troubles,
            settings.body,
            trust_forwarded=settings.trust_forwarded,
            describe=delivery.describe,
            ages=upkeep.ages,
            trouble=lambda: ", ".join(upkeep.troubled),
        )

        def begin() -> None:
            address = listening.address(bound)
            LOG.info("relaying from %s to %s", address, settings.gateway)
            _warn_of_plain_text(settings)
            announce(f"listening on {address}")
            look = partial(asyncio.get_running_loop().call_soon_threadsafe, service.look)
            log = Task("log", 60.0, 60.0, needed=False, thread="log", work=look)
            upkeep.start([*delivery.tasks, log], first=delivery.tasks)

        server = RelayServer(service, listening, begin, of_one=None if settings.trust_forwarded else MOST_OF_ONE)
        try:
            server.run([bound])
        finally:
            asyncio.run(upkeep.stop())
    service.look()
    LOG.info("stopped")


def _warn_of_plain_text(settings: Settings) -> None:
    """Warn where sealed messages cross a network as they are: they are the same bytes on both sides of the relay."""
    sides = {
        f"{settings.listening.host} can be reached from other machines without TLS": settings.listening.exposed,
        "the gateway is reached without TLS": unencrypted_host(settings.gateway) is not None,
    }
    for side, plain in sides.items():
        if plain:
            LOG.warning("%s: who watches both sides of the relay can match messages by their bytes", side)


@contextmanager
def _delivery(settings: Settings, troubles: Troubles) -> Iterator[Forwarder | Shuffler]:
    transport = http_transport()
    if settings.shuffling is None:
        with closing(Forwarder(settings.gateway, transport, troubles.add)) as forwarder:
            yield forwarder
        return
    asked = settings.shuffling
    with closing(Spool(asked.spool, asked.capacity, asked.rules)) as spool:
        yield Shuffler(spool, settings.gateway, asked.token, transport, troubles.add)


PATH: Final = "/v1/oblivious"
SECONDS: Final = 30.0
THREADS: Final = 64  # messages that are passed on at once; others wait for them

PASSED_BACK: Final = (RESPONSE_TYPE, PROBLEM)


class Forwarder:
    """Passes messages on to one gateway, and calls `trouble` with a reason when one could not be."""

    tasks: tuple[Task, ...] = ()

    def __init__(self, gateway: str, transport: Transport, trouble: Callable[[str], None]) -> None:
        self._url, self._transport, self._trouble = gateway + PATH, transport, trouble
        self._threads = full_pool(THREADS, "overstory-relay")

    async def deliver(self, message: bytes, _: bytes = b"") -> Response:
        request = Request(self._url, message, REQUEST_TYPE, timeout=SECONDS)
        return self._passed_back(await result_of(self._threads.submit(self._transport, request)))

    def _passed_back(self, response: Received) -> Response:
        """Return the class of the status, the media type and the body: nothing else comes from the gateway."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        readable = media_type in PASSED_BACK
        if response.status is not None and response.status // 100 == 2 and media_type == RESPONSE_TYPE:
            return Response(200, response.body, media_type=media_type)
        if response.status is not None and response.status // 100 == 4:
            self._trouble(f"the gateway refused a message with {response.status}")
            return Response(400, response.body, media_type=media_type) if readable else Response(400, b"")
        self._trouble(response.error or f"the gateway answered with {response.status} {media_type}".rstrip())
        return problem(502, "the gateway does not answer as it should: send the message again later")

    def describe(self) -> dict[str, Any]:
        return {"mode": "pass-through"}

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)
