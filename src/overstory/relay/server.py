"""The sockets of a relay: what is open at once is bounded, and it ends cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from overstory.protocol.errors import OverstoryError
from overstory.relay.connection import Answer, Connection, RefusedError, problem
from overstory.relay.limits import OpenConnections
from overstory.relay.service import BUSY_SECONDS, RelayService
from overstory.supervision.log import SparseLog
from overstory.supervision.upkeep import Pulse

MOST_CONNECTIONS: Final = 512
MOST_OF_ONE: Final = 16
"""Connections that are open at once: all together, and of one address."""

HANDSHAKE_SECONDS: Final = 10.0
BACKLOG: Final = 1024
IDLE_SECONDS: Final = 2.0
"""Without a connection, after which accepting begins anew."""


class ListeningError(OverstoryError):
    """A relay that cannot listen."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a relay."""

    body: int = 1 << 16
    connections: int = MOST_CONNECTIONS
    of_one: int | None = MOST_OF_ONE  # connections of one address; None where a proxy in front opens all of them


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ListeningError(f"cannot listen on {host}:{port}: {reason}") from error
    listener.setblocking(False)
    return listener


def tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return the context of a server with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except OSError as error:  # an SSLError is one
        raise ListeningError(f"{certificate}: no certificate and key that belong together: {error}") from error
    return context


class RelayServer:
    """Answers one request on each connection, and never writes down who sent it."""

    def __init__(self, service: RelayService, bounds: Bounds, tls: ssl.SSLContext | None = None) -> None:
        self._service, self._bounds, self._tls = service, bounds, tls
        self._open = OpenConnections(bounds.connections, bounds.of_one or bounds.connections)
        self._room = asyncio.Semaphore(bounds.connections)
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepting: asyncio.Task[None] | None = None
        self._accepted = self._seen = 0

    async def serve(self, listener: socket.socket, stopping: asyncio.Event) -> None:
        """Answer requests until `stopping` is set, and then those that have begun."""
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
        entered = self._open.enter(name)
        try:
            if entered:
                await self._talk(connected, peer)
            else:
                self._service.counts["closed"] += 1
        except Exception as error:  # noqa: BLE001 - one connection's fault ends no other's
            self._service.troubles.add(f"a connection failed: {type(error).__name__}")
        finally:
            connected.close()
            if entered:
                self._open.leave(name)
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
