"""A relay as a process: from its start, through signals, to a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from overstory.client.upload.http import Request, Response, Transport, http_transport
from overstory.protocol.oblivious.formats import REQUEST_TYPE, RESPONSE_TYPE
from overstory.protocol.wire import unencrypted_host
from overstory.relay.server import BACKLOG, Bounds, RelayServer
from overstory.relay.service import LOG, PROBLEM, Answer, HourlyLimit, RelayService, Troubles, problem
from overstory.relay.shuffling import Shuffler
from overstory.relay.spool import Rules, Spool
from overstory.supervision.listening import Listening
from overstory.supervision.upkeep import Task, Upkeep, full_pool, result_of


@dataclass(frozen=True, slots=True)
class Shuffling:
    """What a relay needs to gather messages and to release them together."""

    spool: Path
    token: str = field(repr=False)  # the collector's, of the role `relay`
    rules: Rules = field(default_factory=Rules)
    capacity: int = 100_000  # slots of the spool: most messages take one


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
    asyncio.run(_serve(settings, announce))


async def _serve(settings: Settings, announce: Callable[[str], None]) -> None:
    troubles, stopping, upkeep = Troubles(), asyncio.Event(), Upkeep(LOG)
    loop = asyncio.get_running_loop()
    _on_signals(stopping.set)
    async with _delivery(settings, troubles) as delivery:
        service = RelayService(
            delivery.deliver,
            HourlyLimit(settings.per_hour),
            troubles,
            trust_forwarded=settings.trust_forwarded,
            describe=delivery.describe,
            ages=upkeep.ages,
            trouble=lambda: ", ".join(upkeep.troubled),
        )
        tls, listener = settings.listening.check_certificate(), settings.listening.bind(backlog=BACKLOG)
        bounds = Bounds(settings.body, of_one=None) if settings.trust_forwarded else Bounds(settings.body)
        address = settings.listening.address(listener)
        LOG.info("relaying from %s to %s", address, settings.gateway)
        _warn_of_plain_text(settings)
        announce(f"listening on {address}")
        tasks, look = getattr(delivery, "tasks", []), partial(loop.call_soon_threadsafe, service.look)
        upkeep.start([*tasks, Task("log", 60.0, 60.0, needed=False, thread="log", work=look)], first=tasks)
        try:
            await RelayServer(service, bounds, tls).serve(listener, stopping)
        finally:
            await upkeep.stop()
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
    with contextlib.closing(Spool(asked.spool, asked.capacity, asked.rules)) as spool:
        yield Shuffler(spool, settings.gateway, asked.token, transport, troubles.add)


def _on_signals(stop: Callable[[], None]) -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):  # a closed terminal sends the last
        with contextlib.suppress(NotImplementedError, AttributeError):  # Windows
            asyncio.get_running_loop().add_signal_handler(getattr(signal, name), stop)


PATH: Final = "/v1/oblivious"
SECONDS: Final = 30.0
THREADS: Final = 64
"""Messages that are passed on at once; others wait for them."""

PASSED_BACK: Final = (RESPONSE_TYPE, PROBLEM)


class Forwarder:
    """Passes messages on to one gateway, and calls `trouble` with a reason when one could not be."""

    def __init__(self, gateway: str, transport: Transport, trouble: Callable[[str], None]) -> None:
        self._url, self._transport, self._trouble = gateway + PATH, transport, trouble
        self._threads = full_pool(THREADS, "overstory-relay")
        self._under_way = 0

    async def deliver(self, message: bytes, _: bytes = b"") -> Answer:
        request = Request(self._url, message, REQUEST_TYPE, timeout=SECONDS)
        self._under_way += 1
        try:
            response = await result_of(self._threads.submit(self._transport, request))
        finally:
            self._under_way -= 1
        return self._passed_back(response)

    def _passed_back(self, response: Response) -> Answer:
        """Return the class of the status, the media type and the body: nothing else comes from the gateway."""
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        readable = media_type in PASSED_BACK
        if response.status is not None and response.status // 100 == 2 and media_type == RESPONSE_TYPE:
            return Answer(200, media_type, response.body)
        if response.status is not None and response.status // 100 == 4:
            self._trouble(f"the gateway refused a message with {response.status}")
            return Answer(400, media_type if readable else "", response.body if readable else b"")
        self._trouble(response.error or f"the gateway answered with {response.status} {media_type}".rstrip())
        return problem(502, "the gateway does not answer as it should: send the message again later")

    def describe(self) -> dict[str, Any]:
        return {"mode": "pass-through", "under_way": self._under_way}

    def close(self) -> None:
        self._threads.shutdown()
