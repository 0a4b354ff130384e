"""uvicorn's server as a daemon that lack of memory does not stop: its loop, its ticks and its listener go on."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn

from overstory.supervision.connection import BoundedConnection
from overstory.supervision.listening import Listening, ServingError
from overstory.supervision.log import SparseLog, send_server_errors
from overstory.supervision.upkeep import Task, Upkeep, fill_default_pool

TICK: Final = 0.1  # seconds between two periodic checks
SWEEP: Final = 10  # ticks between two looks at the connections


def server_config(app: Any, listening: Listening, http: type[BoundedConnection], **more: Any) -> uvicorn.Config:
    """Return how uvicorn serves an application at an address, each connection with the bounds of `http`."""
    listening.check_certificate()
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # only a relay and a console look at addresses, and have rules of their own
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.key,
        **more,
    )


class SupervisedServer(uvicorn.Server):
    """A server whose event loop, ticks and listener start again after any error; a second signal ends it at once."""

    def __init__(
        self,
        config: uvicorn.Config,
        log: logging.Logger,
        announce: Callable[[], object],
        look: Callable[[], object] = lambda: None,
        faults: SparseLog | None = None,
    ) -> None:
        super().__init__(config)
        self._log, self._announce, self._look = log, announce, look
        self._faults = SparseLog(log) if faults is None else faults
        send_server_errors(self._faults)
        self._bound: socket.socket | None = None
        self._unaccepted, self._accepted = 0, set[int]()
        self._ticks = 0

    def run(self, sockets: list[socket.socket] | None = None) -> None:
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
                except SystemExit as leaving:
                    name = self._log.name.rpartition(".")[2]
                    raise ServingError(f"the {name} could not start") from leaving

    async def main_loop(self) -> None:
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        upkeep = Upkeep(self._log)
        # Without memory, the loop may have no room for the callback that wakes a task up. The task then waits for a
        # timer that has passed, and nothing reports it. So a thread begins each tick: after a lost one comes the next.
        pulse = Task("pulse", TICK, 0.0, needed=False, thread="pulse", work=partial(self._beat, loop, over))
        await self._tick(over)  # before the first request: its answer has a date
        upkeep.start([pulse])
        try:
            await over
        finally:
            await upkeep.stop()

    def _beat(self, loop: asyncio.AbstractEventLoop, over: asyncio.Future[None]) -> None:
        self._look()
        loop.call_soon_threadsafe(lambda: loop.create_task(self._tick(over)))

    async def _tick(self, over: asyncio.Future[None]) -> None:
        try:
            self._ticks += 1
            if await self.on_tick(self._ticks - 1) and not over.done():
                over.set_result(None)
        except Exception as error:  # noqa: BLE001 - after any error, the next tick may succeed
            self._faults.error("a periodic check failed", error)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            if hasattr(signal, "SIGHUP") and threading.current_thread() is threading.main_thread():
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.hang_up)
            if sockets:
                self._bound = sockets[0].dup()  # the event loop may close the other one
            self._announce()

    def hang_up(self) -> None:
        """End, as at another signal; a closed terminal sends SIGHUP."""
        self.handle_exit(signal.SIGHUP, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; at a second signal, without waiting for answers that are being made."""
        del sig, frame
        self.force_exit = self.should_exit
        self.should_exit = True

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
        """Listen again after three looks at which connections waited: a lack of memory leaves a listener stopped."""
        if self._bound is None or not queued(self._bound):
            self._unaccepted = 0
            return
        before, self._accepted = self._accepted, set(map(id, self.server_state.connections))
        self._unaccepted = self._unaccepted + 1 if self._accepted <= before else 0
        if self._unaccepted < 3:
            return
        config, again = self.config, self._bound.dup()
        self.servers[0].close()
        loop = asyncio.get_running_loop()
        self.servers[0] = await loop.create_server(
            self.make_connection, sock=again, ssl=config.ssl, backlog=config.backlog
        )
        self._unaccepted = 0
        self._log.warning("connections were no longer accepted: listening again")

    def make_connection(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        made: asyncio.Protocol = kind(self.config, self.server_state, self.lifespan.state)
        return made


def queued(listening: socket.socket) -> int:
    """Return the number of connections that wait to be accepted; 0 where the system does not report it."""
    if not sys.platform.startswith("linux"):
        return 0
    # struct tcp_info: 8 bytes, then rto, ato, snd_mss, rcv_mss and unacked, which of a listening socket is its queue.
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    return int.from_bytes(info[24:28], sys.byteorder)
