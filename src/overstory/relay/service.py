"""What a relay answers to each request, and what it counts: nothing of a sender.

How much one address may send is in memory alone, of a bounded number of addresses, and forgotten after the hour.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import secrets
import time
from array import array
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from overstory.protocol.oblivious.formats import REQUEST_TYPE
from overstory.protocol.wire import is_loopback
from overstory.supervision.log import SparseLog

LOG: Final = logging.getLogger("overstory.relay")
LEAST_BODY: Final = 7 + 32 + 16
"""Bytes of the shortest encapsulated request: its header, an X25519 key, and the tag of an empty message."""

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
BUSY_SECONDS: Final = 30
FAILED_SECONDS: Final = 60.0
"""How long the relay is not ready after it could take no message."""

JSON: Final = "application/json"


PROBLEM: Final = "application/problem+json"
MINUTE: Final = 60.0  # seconds
MINUTES: Final = 60
MOST_ADDRESSES: Final = 100_000


class Answer(NamedTuple):
    """What is sent back; nothing else is."""

    status: int
    media_type: str = ""
    body: bytes = b""
    retry_after: int | None = None  # seconds
    allow: str = ""  # the methods of the page, where another was used


@dataclass(frozen=True, slots=True)
class Head:
    """What decides over a request before its body is read."""

    method: str
    path: str
    media_type: str
    forwarded: str  # X-Forwarded-For, which a proxy in front may have added
    length: int | None


def problem(status: int, detail: str, retry_after: int | None = None, allow: str = "") -> Answer:
    """Return an error of the relay's own, as problem details (RFC 9457)."""
    return Answer(status, PROBLEM, json.dumps({"status": status, "detail": detail}).encode(), retry_after, allow)


class RefusedError(Exception):
    """A request that gets an answer without its body having been read to the end."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.status)


def network_of(address: str) -> str:
    """Return what is counted as one sender: an IPv4 address, or the /64 of an IPv6 address.

    >>> network_of("192.0.2.7"), network_of("::ffff:192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6%eth0")
    ('192.0.2.7', '192.0.2.7', '2001:db8:1:2::')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket, or no address: all of these are counted together
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)).network_address)
    return str(parsed)


def forwarded_address(header: str, peer: str) -> str:
    """Return the address that the nearest proxy has added to X-Forwarded-For; the peer's where there is none.

    >>> forwarded_address("198.51.100.9, 192.0.2.7", "127.0.0.1"), forwarded_address("unknown", "127.0.0.1")
    ('192.0.2.7', '127.0.0.1')
    """
    last = header.rpartition(",")[2].strip()
    return last if network_of(last) else peer


class HourlyLimit:
    """Takes at most `per_hour` messages of each address in any hour: all at once, or apart.

    What is in memory is a keyed hash of each address, with a key that ends with the process, and how many messages it
    sent in which minute. A message counts until the 60 minutes after its own are over; an address of which none counts
    any more is removed.
    """

    def __init__(self, per_hour: int, most: int = MOST_ADDRESSES, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_hour, self._most, self._clock = per_hour, most, clock
        self._key = secrets.token_bytes(32)
        # Of each address: minute, messages, minute, messages, ...; the address that sent last is the last entry.
        self._sent: OrderedDict[bytes, array[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sent)

    def name(self, address: str) -> bytes:
        """Return the keyed hash under which an address is counted."""
        return blake2b(network_of(address).encode(), digest_size=16, key=self._key).digest()

    def take(self, address: str) -> float:
        """Count a message, and return 0; if it would be one too many, return the seconds until one more is taken."""
        self.forget()
        now, name = self._clock(), self.name(address)
        minute = int(now // MINUTE)
        sent = self._sent.get(name, array("I"))
        while sent and sent[0] + MINUTES < minute:
            del sent[:2]
        if sum(sent[1::2]) >= self._per_hour:
            return (sent[0] + MINUTES + 1) * MINUTE - now
        if sent and sent[-2] == minute:
            sent[-1] += 1
        else:
            sent.extend((minute, 1))
        self._sent[name] = sent
        self._sent.move_to_end(name)
        while len(self._sent) > self._most:
            self._sent.popitem(last=False)
        return 0.0

    def forget(self) -> None:
        """Remove every address of which no message counts any more."""
        minute = int(self._clock() // MINUTE)
        while self._sent:
            name, sent = next(iter(self._sent.items()))
            if sent[-2] + MINUTES >= minute:
                return
            del self._sent[name]


class Troubles:
    """Faults by their reasons, logged once a minute: a line for each would be a time at which a message came.

    >>> troubles = Troubles()
    >>> troubles.add("no connection"); troubles.add("no connection")
    >>> troubles.lines(), troubles.lines()
    (['2 times in the last minute: no connection'], [])
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, reason: str) -> None:
        self._counts[reason if reason in self._counts or len(self._counts) < 20 else "other faults"] += 1

    def add_unseen(self, fault: Mapping[str, Any]) -> None:
        """Count a fault that no one awaits, of which asyncio would write a line with a traceback."""
        error = fault.get("exception")
        with suppress(Exception):  # without memory, the next one may be counted
            self.add(fault["message"] if error is None else f"{fault['message']}: {SparseLog.sentence(error)}")

    def lines(self) -> list[str]:
        counts, self._counts = self._counts, Counter()
        return [
            f"{'once' if n == 1 else f'{n:,} times'} in the last minute: {reason}"
            for reason, n in sorted(counts.items())
        ]


class RelayService:
    """The answers of a relay; messages are refused once `closing` is set."""

    def __init__(
        self,
        # passes a message with its sender's hash on, or stores it; never raises
        deliver: Callable[[bytes, bytes], Awaitable[Answer]],
        limit: HourlyLimit,  # what each address may send
        troubles: Troubles,
        *,
        trust_forwarded: bool = False,  # a proxy in front names the sender in X-Forwarded-For
        describe: Callable[[], Mapping[str, Any]] = dict,  # further facts of /healthz, without addresses
        trouble: Callable[[], str] = str,  # why /readyz is 503; nothing: it is 200
        ages: Callable[[], Mapping[str, float]] = dict,  # seconds since the last success of each task
    ) -> None:
        self._deliver, self._describe, self._trouble, self._ages = deliver, describe, trouble, ages
        self.limit, self.troubles, self._trust_forwarded = limit, troubles, trust_forwarded
        self.counts: Counter[str] = Counter()
        self.closing, self._failed_at = False, -math.inf

    def judge(self, peer: str, head: Head) -> None:
        """Raise `RefusedError` for a request that needs no body to be refused."""
        if head.path in {HEALTH, READY}:
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
        elif seconds := self.limit.take(self._sender(peer, head)):
            raise RefusedError(problem(429, "this address has sent enough for now", math.ceil(seconds)))

    def _sender(self, peer: str, head: Head) -> str:
        return forwarded_address(head.forwarded, peer) if self._trust_forwarded else peer

    async def answer(self, peer: str, head: Head, body: bytes) -> Answer:
        if head.path == HEALTH:
            return self._health(self._sender(peer, head))
        if head.path == READY:
            return self._ready(self._sender(peer, head))
        if len(body) < LEAST_BODY:
            return problem(400, "this is no encapsulated request")
        answer = await self._deliver(body, self.limit.name(self._sender(peer, head)))
        if answer.status // 100 in {2, 5}:
            self._failed_at = time.monotonic() if answer.status >= 500 else -math.inf
        return answer

    def _health(self, sender: str) -> Answer:
        """Return counts for this machine alone: how many messages wait would help whoever floods a release."""
        facts: dict[str, Any] = {"status": "stopping" if self.closing else "ok"}
        if is_loopback(sender):
            facts |= {**self._describe(), "answers": dict(sorted(self.counts.items())), "addresses": len(self.limit)}
        return Answer(200, JSON, json.dumps(facts).encode())

    def _ready(self, sender: str) -> Answer:
        """Return whether messages are taken and passed on; for this machine, when each task succeeded last."""
        failed = time.monotonic() - self._failed_at < FAILED_SECONDS
        why = "the relay is about to stop" if self.closing else self._trouble() or "no message could be taken" * failed
        if why:
            return problem(503, why, BUSY_SECONDS)
        ages = {name: round(age, 1) for name, age in self._ages().items()}
        facts = {"ready": True} | ({"seconds_since_success": ages} if is_loopback(sender) else {})
        return Answer(200, JSON, json.dumps(facts).encode())

    def count(self, answer: Answer) -> None:
        self.counts[str(answer.status)] += 1

    def look(self) -> None:
        """Log what went wrong in the last minute, and forget addresses that have sent nothing for an hour."""
        self.limit.forget()
        for line in self.troubles.lines():
            LOG.warning("%s", line)
