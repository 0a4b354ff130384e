"""A collector as a process: uvicorn around the application, from its start to a clean end."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Final

from overstory import __version__
from overstory.collector.app import build_app
from overstory.collector.http.connection import Connection
from overstory.collector.service import Collector
from overstory.collector.store import Store
from overstory.collector.telemetry import LOG
from overstory.presentation.formats import plural
from overstory.protocol.errors import OverstoryError
from overstory.protocol.metrics import MetricRegistry
from overstory.supervision.listening import Listening
from overstory.supervision.server import SWEEP, SupervisedServer, server_config
from overstory.supervision.upkeep import in_thread

if TYPE_CHECKING:
    from overstory.collector.oblivious.opening import KeyRing

KEEP_ALIVE: Final = 30  # seconds that a connection may be idle between two requests
PATIENCE: Final = 30  # seconds that unfinished requests have when the process ends

BACKLOG: Final = 2048


class Server(SupervisedServer):
    """The server of a collector: it refuses posts before it stops, and reads its files again at SIGHUP."""

    def __init__(
        self,
        collector: Collector,
        listening: Listening,
        announce: Callable[[], object],
        reread: Callable[[], MetricRegistry] | None = None,
        reread_keys: Callable[[], KeyRing] | None = None,
    ) -> None:
        config = server_config(
            build_app(collector),
            listening,
            Connection.for_entrance(collector.reports),
            lifespan="on",
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE,
            timeout_graceful_shutdown=PATIENCE,
        )
        config.load()
        super().__init__(config, LOG, announce, collector.endpoint.reserve.look)
        self._collector, self._listening, self._reread, self._reread_keys = collector, listening, reread, reread_keys
        self._ends_at = float("inf")
        self._reloading = asyncio.Lock()
        self._reloads: set[asyncio.Task[None]] = set()
        self._closing_logged = False
        self._memory_was_short = False

    def hang_up(self) -> None:
        if not self._collector.endpoint.closing:
            task = asyncio.get_running_loop().create_task(self.reload())
            self._reloads.add(task)
            task.add_done_callback(self._reloads.discard)

    async def reload(self) -> None:
        """Read registry, certificate, tokens and keys again; what cannot be used replaces nothing, and is logged."""
        async with self._reloading:
            for name, work in (
                ("registry", self._reload_registry),
                ("certificate", self._reload_certificate),
                ("tokens", partial(in_thread, self._collector.tokens.refresh)),
                ("keys", self._reload_keys),
            ):
                try:
                    await work()
                except Exception as error:  # noqa: BLE001 - where a new file has any fault, the old one stays in use
                    LOG.error(
                        "reload: the %s is unchanged: %s",
                        name,
                        error if isinstance(error, OverstoryError | OSError) else f"{type(error).__name__}: {error}",
                    )

    async def _reload_registry(self) -> None:
        if self._reread is None:
            return
        registry = await in_thread(self._reread)
        before = self._collector.registry.digest
        await in_thread(self._collector.renew, registry)
        changed = "as before" if registry.digest == before else "changed"
        LOG.info("reloaded: %s, %s", _described(registry), changed)

    async def _reload_keys(self) -> None:
        if self._reread_keys is not None:
            self._collector.oblivious.ring = ring = await in_thread(self._reread_keys)
            ids = ", ".join(str(key.key_id) for key in ring.keys)
            LOG.info("reloaded: keys %s of Oblivious HTTP", ids)

    async def _reload_certificate(self) -> None:
        if self._listening.certificate is None or self.config.ssl is None:
            return
        await in_thread(self._listening.check_certificate)
        # Within the loop: a handshake between the new certificate and its key would fail.
        self.config.ssl.load_cert_chain(self._listening.certificate, self._listening.key)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse posts from now on, stop listening after the grace; at a second signal, at once."""
        del sig, frame
        self._ends_at = 0.0 if self._collector.endpoint.closing else time.monotonic() + self._listening.grace
        self._collector.endpoint.closing = True

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end; look at the memory and at the commit. Called ten times a second."""
        if self._collector.endpoint.closing and not self._closing_logged:
            self._closing_logged = True
            LOG.info("stopping: reports are refused; listening ends in %g s", self._listening.grace)
        self._log_memory()
        if counter % SWEEP == 0:
            self._collector.committer.look()
        return await super().on_tick(counter) or time.monotonic() >= self._ends_at

    def _log_memory(self) -> None:
        short = self._collector.endpoint.reserve.short
        if short and not self._memory_was_short:
            LOG.error("memory is low: reports are refused with 503 until more is free; senders will retry")
        elif self._memory_was_short and not short:
            LOG.warning("enough memory is free again: reports are taken")
        self._memory_was_short = short


def _described(registry: MetricRegistry) -> str:
    return f"registry {registry.version} (digest {registry.digest.hex()}), {plural(len(registry), 'metric')}"


def serve(
    collector: Collector,
    listening: Listening,
    announce: Callable[[str], None] = print,
    reread: Callable[[], MetricRegistry] | None = None,
    reread_keys: Callable[[], KeyRing] | None = None,
) -> None:
    """Serve until a signal, then commit what is queued and close the store."""
    collector.tokens.refresh()  # a store that does not answer is reported before anything listens
    with listening.bind(collector.limits.taking_seconds) as bound:
        started = partial(_announce, collector, listening.address(bound), announce)
        server = Server(collector, listening, started, reread, reread_keys)
        # Permanent objects take no part in garbage collection, which would look through all of them again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        server.run(sockets=[bound])
    _log_stop(collector.store)


def _announce(collector: Collector, address: str, announce: Callable[[str], None]) -> None:
    about = _described(collector.registry)
    LOG.info("overstory %s serves %s: %s, store %s", __version__, address, about, collector.store.url)
    announce(f"listening on {address}")


def _log_stop(store: Store) -> None:
    if store.in_place():
        LOG.info("stopped: everything that was acknowledged is in the store")
        return
    LOG.error(
        "stopped: reports that were acknowledged are missing from the store: %s was deleted, moved or replaced while "
        "the collector ran",
        store.url,
    )
