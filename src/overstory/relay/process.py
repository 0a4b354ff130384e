"""A relay as a process: from its start, through signals, to a clean end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from overstory.client.upload.http import Request, Transport, http_transport
from overstory.client.upload.http import Response as Received
from overstory.protocol.oblivious.formats import REQUEST_TYPE, RESPONSE_TYPE
from overstory.protocol.wire import unencrypted_host
from overstory.relay.server import BACKLOG, LIMITS, MOST_OF_ONE, RelayServer
from overstory.relay.service import LOG, HourlyLimit, RelayService, Troubles, problem
from overstory.relay.shuffling import Shuffler
from overstory.relay.spool import Rules, Spool
from overstory.supervision.answers import PROBLEM, Response
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
THREADS: Final = 64
"""Messages that are passed on at once; others wait for them."""

PASSED_BACK: Final = (RESPONSE_TYPE, PROBLEM)


class Forwarder:
    """Passes messages on to one gateway, and calls `trouble` with a reason when one could not be."""

    tasks: tuple[Task, ...] = ()

    def __init__(self, gateway: str, transport: Transport, trouble: Callable[[str], None]) -> None:
        self._url, self._transport, self._trouble = gateway + PATH, transport, trouble
        self._threads = full_pool(THREADS, "overstory-relay")
        self._under_way = 0

    async def deliver(self, message: bytes, _: bytes = b"") -> Response:
        request = Request(self._url, message, REQUEST_TYPE, timeout=SECONDS)
        self._under_way += 1
        try:
            response = await result_of(self._threads.submit(self._transport, request))
        finally:
            self._under_way -= 1
        return self._passed_back(response)

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
        return {"mode": "pass-through", "under_way": self._under_way}

    def close(self) -> None:
        self._threads.shutdown()
