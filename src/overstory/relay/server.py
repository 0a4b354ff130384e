"""The sockets of a relay: what is open at once is bounded, and a connection has one request and its answer.

It is the server of collector and console, but for two things: it counts a connection before its handshake, and no
fault has a line of its own in the log, which would tell when a message came.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar, Final

from overstory.relay.service import LOG, RelayService
from overstory.supervision.answers import Response
from overstory.supervision.connection import BoundedConnection
from overstory.supervision.listening import ConnectionLimits, Listening
from overstory.supervision.server import SupervisedServer, server_config

LIMITS: Final = ConnectionLimits(reading_seconds=20.0, taking_seconds=10.0, head_bytes=8192)
MOST_CONNECTIONS: Final = 512
MOST_OF_ONE: Final = 16
"""Connections that are open at once: all together, and of one address."""

HANDSHAKE_SECONDS: Final = 10.0
GOODBYE_SECONDS: Final = 1.0
"""For TLS to begin and to end."""

BACKLOG: Final = 1024
IDLE_TICKS: Final = 20
"""Without a connection, after which accepting begins anew."""


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
        """Whether the service has seen the request."""
        cycle: Any = self.cycle
        return cycle is not None

    def _refused_head(self) -> Response | None:
        if self.url.startswith((b"http://", b"https://")) and self.url.count(b"/") == 2:
            self.url += b"/"  # a sender that takes the relay for a proxy names it, and may leave out the path
        return super()._refused_head()

    def _write(self, answer: Response) -> None:
        if not self._is_seen():
            self.service.counts[str(answer.status)] += 1
        super()._write(answer)


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
        self._open: Counter[bytes] = Counter()  # connections of each sender; `_room` bounds all together
        self._room = asyncio.Semaphore(connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._num_accepted = self._num_seen = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: self._service.troubles.add_unseen(fault))
        self._listener = sockets[0]
        self._listener.setblocking(False)
        await super().startup([])

    async def on_tick(self, counter: int) -> bool:
        if counter % IDLE_TICKS == 0:
            self._accept_again()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.closing = True
        self._accept_no_more()
        await super().shutdown(sockets)

    def _accept_no_more(self) -> None:
        assert self._listener is not None
        if self._accepting is not None:
            self._accepting.cancel()
        asyncio.get_running_loop().remove_reader(self._listener)

    def _accept_again(self) -> None:
        """Begin anew where nothing was accepted for a while: without memory the task may end, or never be woken."""
        if self._accepting is not None and self._num_accepted != self._num_seen:
            self._num_seen = self._num_accepted
            return
        self._accept_no_more()
        assert self._listener is not None
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self._listener))

    async def _accept(self, listener: socket.socket) -> None:
        """Accept a connection when there is room for it; the others wait in the system's queue."""
        loop = asyncio.get_running_loop()
        while True:
            await self._room.acquire()
            connected = None
            try:
                connected, address = await loop.sock_accept(listener)
                self._num_accepted += 1
                task = loop.create_task(self._hold(connected, str(address[0]) if address else ""))
            except asyncio.CancelledError:
                self._room.release()
                raise
            except Exception as error:  # noqa: BLE001 - the next one may be accepted
                self._room.release()
                if connected is not None:
                    connected.close()
                self._service.troubles.error("a connection could not be accepted", error)
                await asyncio.sleep(0.2)
            else:
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _hold(self, connected: socket.socket, peer: str) -> None:
        name = self._service.limit.name(peer)
        entered = self._of_one is None or self._open[name] < self._of_one
        self._open[name] += entered
        try:
            if entered:
                await self._talk(connected)
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
