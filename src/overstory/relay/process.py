"""A relay as a process: from its start, through signals, to a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import ssl
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from overstory.client.upload.http import http_transport
from overstory.relay.forwarding import Forwarder
from overstory.relay.limits import HourlyLimit
from overstory.relay.server import Bounds, RelayServer, listen
from overstory.relay.service import LOG, RelayService, Troubles, is_loopback
from overstory.relay.shuffling import Rules, Shuffler
from overstory.relay.spool import Spool


@dataclass(frozen=True, slots=True)
class Shuffling:
    """What a relay needs to gather messages and to release them together.

    Attributes
    ----------
    token
        The collector's token of the role `relay`.
    capacity
        Slots of the spool: most messages take one.
    """

    spool: Path
    token: str = field(repr=False)
    rules: Rules = field(default_factory=Rules)
    capacity: int = 100_000


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one relay.

    Attributes
    ----------
    gateway
        The address of the collector, without a path of its own.
    per_hour
        Messages that one address may send in any hour.
    trust_forwarded
        Whether a proxy in front of the relay names the sender in X-Forwarded-For.
    shuffling
        None: each message is passed on at once.
    """

    gateway: str
    host: str = "127.0.0.1"
    port: int = 8100
    per_hour: int = 50
    trust_forwarded: bool = False
    body: int = 1 << 16
    shuffling: Shuffling | None = None
    tls: ssl.SSLContext | None = None


def serve(settings: Settings, announce: Callable[[str], None] = print) -> None:
    """Serve until a signal; then answer what has begun, finish the part that is being sent, and end."""
    asyncio.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[str], None]) -> None:
    troubles, stopping = Troubles(), asyncio.Event()
    _on_signals(stopping.set)
    async with _delivery(settings, troubles) as delivery:
        service = RelayService(
            delivery.deliver,
            HourlyLimit(settings.per_hour),
            troubles,
            trust_forwarded=settings.trust_forwarded,
            describe=delivery.describe,
        )
        listener = listen(settings.host, settings.port)
        bounds = Bounds(settings.body, of_one=None) if settings.trust_forwarded else Bounds(settings.body)
        host, port = listener.getsockname()[:2]
        scheme = "http" if settings.tls is None else "https"
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        LOG.info("relaying from %s to %s", address, settings.gateway)
        _warn_of_plain_text(settings)
        announce(f"listening on {address}")
        await RelayServer(service, bounds, settings.tls).serve(listener, stopping)
    service.look()
    LOG.info("stopped")


def _warn_of_plain_text(settings: Settings) -> None:
    """Warn where sealed messages cross a network as they are: they are the same bytes on both sides of the relay."""
    gateway = urlsplit(settings.gateway)
    sides = {
        f"{settings.host} can be reached from other machines without TLS": settings.tls is None
        and not is_loopback(settings.host),
        "the gateway is reached without TLS": gateway.scheme == "http" and not is_loopback(gateway.hostname or ""),
    }
    for side, plain in sides.items():
        if plain:
            LOG.warning("%s: who watches both sides of the relay can match messages by their bytes", side)


@asynccontextmanager
async def _delivery(settings: Settings, troubles: Troubles) -> AsyncIterator[Forwarder | Shuffler]:
    transport = http_transport()
    if settings.shuffling is None:
        forwarder = Forwarder(settings.gateway, transport, troubles.add)
        try:
            yield forwarder
        finally:
            forwarder.close()
        return
    asked = settings.shuffling
    with contextlib.closing(Spool(asked.spool, asked.capacity)) as spool:
        shuffler = Shuffler(spool, asked.rules, settings.gateway, asked.token, transport, troubles.add)
        releasing = asyncio.create_task(shuffler.run())
        try:
            yield shuffler
        finally:
            shuffler.stop()
            await releasing


def begin_log() -> None:
    """Write what the relay logs to standard error, each line with its time in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    line = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    line.converter = time.gmtime
    handler.setFormatter(line)
    logging.raiseExceptions = False  # a line that cannot be written is lost, and nothing else
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    LOG.setLevel(logging.INFO)


def _on_signals(stop: Callable[[], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # a closed terminal sends the last
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), stop)
