"""What a relay answers to each request, and what it counts: nothing of a sender."""

from __future__ import annotations

import ipaddress
import json
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from overstory.protocol.oblivious.messages import REQUEST_TYPE
from overstory.relay.connection import Answer, Head, RefusedError, problem
from overstory.relay.limits import HourlyLimit, forwarded_address

LOG: Final = logging.getLogger("overstory.relay")
LEAST_BODY: Final = 7 + 32 + 16
"""Bytes of the shortest encapsulated request: its header, an X25519 key, and the tag of an empty message."""

HEALTH: Final = "/healthz"
BUSY_SECONDS: Final = 30


class Troubles:
    """Faults by their reasons, logged once a minute: a line for each would be a time at which a message came.

    Examples
    --------
    >>> troubles = Troubles()
    >>> troubles.add("no connection"); troubles.add("no connection")
    >>> troubles.lines()
    ['2 times in the last minute: no connection']
    >>> troubles.lines()
    []
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        """Count a fault."""
        self._counts[reason if reason in self._counts or len(self._counts) < 20 else "other faults"] += 1

    def lines(self) -> list[str]:
        """Return what has happened since the last call."""
        counts, self._counts = self._counts, Counter()
        return [f"{_times(n)} in the last minute: {reason}" for reason, n in sorted(counts.items())]


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


class RelayService:
    """The answers of a relay.

    Parameters
    ----------
    deliver
        Passes one message on, or stores it, and returns the answer to its sender. It does not raise.
    limit
        What each address may send.
    trust_forwarded
        Whether a proxy in front of the relay names the sender in X-Forwarded-For.
    describe
        Further facts of ``/healthz``, without addresses.

    Attributes
    ----------
    closing
        Set when the relay is about to end: messages are refused.
    """

    def __init__(
        self,
        deliver: Callable[[bytes], Awaitable[Answer]],
        limit: HourlyLimit,
        troubles: Troubles,
        *,
        trust_forwarded: bool = False,
        describe: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self._deliver, self._describe = deliver, describe
        self.limit, self.troubles, self._trust_forwarded = limit, troubles, trust_forwarded
        self.counts: Counter[str] = Counter()
        self.closing = False

    def judge(self, peer: str, head: Head) -> None:
        """Raise `RefusedError` for a request that needs no body to be refused."""
        if head.path == HEALTH:
            if head.method != "GET":
                raise RefusedError(problem(405, "this page is for GET", allow="GET"))
        elif head.path != "/":
            raise RefusedError(problem(404, "there is no such page: POST messages to /"))
        elif head.method != "POST":
            raise RefusedError(problem(405, "messages are sent by POST", allow="POST"))
        elif head.media_type != REQUEST_TYPE:
            raise RefusedError(problem(415, f"the Content-Type of a message is {REQUEST_TYPE}"))
        elif self.closing:
            raise RefusedError(problem(503, "the relay is about to stop", BUSY_SECONDS))
        else:
            self._check_limit(peer, head)

    def _check_limit(self, peer: str, head: Head) -> None:
        seconds = self.limit.take(self._sender(peer, head))
        if seconds:
            raise RefusedError(problem(429, "this address has sent enough for now", math.ceil(seconds)))

    def _sender(self, peer: str, head: Head) -> str:
        return forwarded_address(head.forwarded, peer) if self._trust_forwarded else peer

    async def answer(self, peer: str, head: Head, body: bytes) -> Answer:
        """Return the answer to a complete request."""
        if head.path == HEALTH:
            return self._health(self._sender(peer, head))
        if len(body) < LEAST_BODY:
            return problem(400, "this is no encapsulated request")
        return await self._deliver(body)

    def _health(self, sender: str) -> Answer:
        """Return counts for this machine alone: how many messages wait would help whoever floods a release."""
        facts: dict[str, Any] = {"status": "stopping" if self.closing else "ok"}
        if is_loopback(sender):
            facts |= {**self._describe(), "answers": dict(sorted(self.counts.items())), "addresses": len(self.limit)}
        return Answer(200, "application/json", json.dumps(facts).encode())

    def count(self, answer: Answer) -> None:
        """Count an answer, by its status."""
        self.counts[str(answer.status)] += 1

    def look(self) -> None:
        """Log what went wrong in the last minute, and forget addresses that have sent nothing for an hour."""
        self.limit.forget()
        for line in self.troubles.lines():
            LOG.warning("%s", line)


def is_loopback(address: str) -> bool:
    """Whether an address, or the name of one, is this machine's own."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return address == "localhost"
