"""uvicorn's server as a daemon that lack of memory does not stop: its loop, its ticks and its listener go on."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import uvicorn

from overstory.collector.http.bounded_connection import BoundedConnection
from overstory.supervision.log import SparseLog, log_server_errors_sparsely
from overstory.supervision.upkeep import Pulse, fill_default_pool

TICK: Final = 0.1
"""Seconds between two periodic checks."""

SWEEP: Final = 10
"""Ticks between two looks at the connections."""


class SupervisedServer(uvicorn.Server):
    """A server whose event loop, ticks and listener start again after any error; `look` is called in a thread."""

    def __init__(self, config: uvicorn.Config, log: logging.Logger, look: Callable[[], object] = lambda: None) -> None:
        super().__init__(config)
        self._log, self._look = log, look
        log_server_errors_sparsely(log)
        self._bound: socket.socket | None = None
        self._unaccepted, self._accepted = 0, set[int]()
        self._ticks, self._faults = 0, SparseLog(log)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the end; an event loop that stops without memory is run again."""
        with asyncio.Runner(loop_factory=self.config.get_loop_factory()) as runner:
            loop = runner.get_loop()
            fill_default_pool(loop)
            serving = loop.create_task(self.serve(sockets))
            while not serving.done():
                try:
                    loop.run_until_complete(serving)
                except MemoryError:
                    if serving.done():
                        raise

    async def main_loop(self) -> None:
        """Tick until the end, however often a tick is lost or fails."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        pulse = Pulse(loop, partial(self._begin_tick, over), self._look, TICK)
        await self._tick(over)  # before the first request: its answer has a date
        pulse.start()
        try:
            await over
        finally:
            pulse.stop()

    def _begin_tick(self, over: asyncio.Future[None]) -> None:
        asyncio.get_running_loop().create_task(self._tick(over))

    async def _tick(self, over: asyncio.Future[None]) -> None:
        try:
            self._ticks += 1
            if await self.on_tick(self._ticks - 1) and not over.done():
                over.set_result(None)
        except Exception as error:  # noqa: BLE001 - after any error, the next tick may succeed
            self._faults.error("a periodic check failed", error)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and sockets:
            self._bound = sockets[0].dup()  # the event loop may close the other one

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end; disconnect who does not read, listen again where nothing is accepted any more."""
        if counter % SWEEP == 0:
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedConnection):
                    connection.sweep(time.monotonic())
            try:
                await self._listen_again_if_stopped()
            except (OSError, MemoryError) as error:
                self._log.error("cannot listen again: %s", error)  # the next look tries again
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._bound is not None:
            self._bound.close()
            self._bound = None
        await super().shutdown(sockets)

    async def _listen_again_if_stopped(self) -> None:
        """Listen again on the same socket when connections waited at three looks in a row and none was accepted.

        A callback that fails without memory leaves the event loop's listener stopped, and nothing starts it again.
        Connections in the socket's queue stay there.
        """
        if self._bound is None or not queued(self._bound):
            self._unaccepted = 0
            return
        before, self._accepted = self._accepted, set(map(id, self.server_state.connections))
        self._unaccepted = self._unaccepted + 1 if self._accepted <= before else 0
        if self._unaccepted < 3:
            return
        config, again = self.config, self._bound.dup()
        self.servers[0].close()
        kind: Any = config.http_protocol_class
        made = partial(kind, config=config, server_state=self.server_state, app_state=self.lifespan.state)
        loop = asyncio.get_running_loop()
        self.servers[0] = await loop.create_server(made, sock=again, ssl=config.ssl, backlog=config.backlog)
        self._unaccepted = 0
        self._log.warning("connections were no longer accepted: listening again")


def queued(listening: socket.socket) -> int:
    """Return the number of connections that wait to be accepted; 0 where the system does not report it."""
    if not sys.platform.startswith("linux"):
        return 0
    # struct tcp_info: 8 bytes, then rto, ato, snd_mss, rcv_mss and unacked, which of a listening socket is its queue.
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    return int.from_bytes(info[24:28], sys.byteorder)
