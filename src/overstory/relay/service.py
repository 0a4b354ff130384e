"""What a relay answers to each request, and what it counts: nothing of a sender, but in memory for an hour."""

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
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from overstory.protocol.oblivious.formats import REQUEST_TYPE
from overstory.protocol.wire import is_loopback, parse_digits
from overstory.protocol.wire.reasons import Reason
from overstory.supervision.answers import Bodies, DisconnectedError, Receive, Response, Send, send_answer
from overstory.supervision.log import SparseLog

LOG: Final = logging.getLogger("overstory.relay")
LEAST_BODY: Final = 7 + 32 + 16
"""Bytes of the shortest encapsulated request: its header, an X25519 key, and the tag of an empty message."""

HEALTH: Final = "/healthz"
READY: Final = "/readyz"
BUSY_SECONDS: Final = 30
MOST_UNDER_WAY: Final = 512  # messages that wait for their answer at once, their senders still there or gone
FAILED_SECONDS: Final = 60.0  # how long the relay is not ready after it could take no message
READING_BYTES: Final = 1 << 27  # of all messages that are being received
MINUTE: Final = 60.0  # seconds
MINUTES: Final = 60
MOST_ADDRESSES: Final = 100_000


class Head(NamedTuple):
    """What decides over a request before its body is read."""

    method: str
    path: str
    media_type: str
    length: int | None


def problem(status: int, detail: str, retry_after: int | None = None, allow: str = "") -> Response:
    """Return an error of the relay's own, as problem details (RFC 9457)."""
    return Response(status, json.dumps({"status": status, "detail": detail}).encode(), retry_after, allow=allow)


def network_of(address: str) -> str:
    """Return what is counted as one sender: an IPv4 address, or the /64 of an IPv6 address."""
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
    """Return the address that the nearest proxy has added to X-Forwarded-For; the peer's where there is none."""
    last = header.rpartition(",")[2].strip()
    return last if network_of(last) else peer


class HourlyLimit:
    """Takes `per_hour` messages of an address in any hour; it is hashed by a key that ends with the process."""

    def __init__(self, per_hour: int, most: int = MOST_ADDRESSES, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_hour, self._most, self._clock = per_hour, most, clock
        self._key = secrets.token_bytes(32)
        # Of each address: minute, messages, minute, messages, ...; the address that sent last is the last entry.
        self._sent: OrderedDict[bytes, array[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sent)

    def name(self, address: str) -> bytes:
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
        minute = int(self._clock() // MINUTE)
        while self._sent:
            name, sent = next(iter(self._sent.items()))
            if sent[-2] + MINUTES >= minute:
                return
            del self._sent[name]


class Troubles(SparseLog):
    """Faults by their reasons, logged once a minute: a line for each would be a time at which a message came."""

    def __init__(self) -> None:
        super().__init__(LOG)
        self._counts: Counter[str] = Counter()

    def line(self, what: str, kind: type[BaseException], message: str, trace: BaseException | None = None) -> bool:
        del what, kind, trace
        self.add(message)
        return False

    def add(self, reason: str) -> None:
        self._counts[reason if reason in self._counts or len(self._counts) < 20 else "other faults"] += 1

    def add_unseen(self, fault: Mapping[str, Any]) -> None:
        """Count a fault that no one awaits, of which asyncio would write a line with a traceback."""
        error = fault.get("exception")
        with suppress(Exception):  # without memory, the next one may be counted
            self.add(fault["message"] if error is None else f"{fault['message']}: {self.sentence(error)}")

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
        deliver: Callable[[bytes, bytes], Awaitable[Response]],
        limit: HourlyLimit,  # what each address may send
        troubles: Troubles,
        most_bytes: int = 1 << 16,  # of one message
        *,
        trust_forwarded: bool = False,  # a proxy in front names the sender in X-Forwarded-For
        describe: Callable[[], Mapping[str, Any]] = dict,  # further facts of /healthz, without addresses
        trouble: Callable[[], str] = str,  # why /readyz is 503; nothing: it is 200
        ages: Callable[[], Mapping[str, float]] = dict,  # seconds since the last success of each task
    ) -> None:
        self._deliver, self._describe, self._trouble, self._ages = deliver, describe, trouble, ages
        self.limit, self.troubles, self._trust_forwarded = limit, troubles, trust_forwarded
        self._most, self._bodies = most_bytes, Bodies(READING_BYTES)
        self.counts: Counter[str] = Counter()
        self.closing, self._failed_at, self._under_way = False, -math.inf, 0

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request (ASGI 3), and end its connection."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        peer: str = scope["client"][0] if scope["client"] else ""
        sender = forwarded_address(headers.get(b"x-forwarded-for", ""), peer) if self._trust_forwarded else peer
        media_type = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        head = Head(scope["method"], scope["path"], media_type, parse_digits(headers.get(b"content-length", "")))
        try:
            answer = self.judge(sender, head) or await self._read_and_answer(sender, head, receive)
        except DisconnectedError:
            self.counts["closed"] += 1
            return
        except Exception as error:  # noqa: BLE001 - the sender learns that the message may come again
            self.troubles.error("a message could not be taken", error)
            answer = problem(503, "the relay cannot take messages at the moment", BUSY_SECONDS)
        self.counts[str(answer.status)] += 1
        await send_answer(scope, send, answer._replace(close=True))

    def judge(self, sender: str, head: Head) -> Response | None:
        answer = None
        if head.path in {HEALTH, READY}:
            if head.method != "GET":
                answer = problem(405, "this page is for GET", allow="GET")
        elif head.path != "/":
            answer = problem(404, "there is no such page: POST messages to /")
        elif head.method != "POST":
            answer = problem(405, "messages are sent by POST", allow="POST")
        elif head.media_type != REQUEST_TYPE:
            answer = problem(415, f"the Content-Type of a message is {REQUEST_TYPE}")
        elif self.closing:
            answer = problem(503, "the relay is about to stop", BUSY_SECONDS)
        elif seconds := self.limit.take(sender):
            answer = problem(429, "this address has sent enough for now", math.ceil(seconds))
        elif (head.length or 0) > self._most:
            answer = self._too_large()
        return answer

    async def _read_and_answer(self, sender: str, head: Head, receive: Receive) -> Response:
        body = await self._bodies.read(receive, self._most)
        if isinstance(body, bytes):
            return await self.answer(sender, head, body)
        if body is Reason.TOO_LARGE:
            return self._too_large()
        self.troubles.add("too many messages arrive at once")
        return problem(503, "the relay is busy", BUSY_SECONDS)

    def _too_large(self) -> Response:
        return problem(413, f"a message has at most {self._most} bytes")

    async def answer(self, sender: str, head: Head, body: bytes) -> Response:
        if head.path == HEALTH:
            return self._health(sender)
        if head.path == READY:
            return self._ready(sender)
        if len(body) < LEAST_BODY:
            return problem(400, "this is no encapsulated request")
        if self._under_way >= MOST_UNDER_WAY:  # also of senders that have hung up, and hold no connection
            self.troubles.add("too many messages are under way")
            return problem(503, "the relay is busy", BUSY_SECONDS)
        self._under_way += 1
        try:
            answer = await self._deliver(body, self.limit.name(sender))
        finally:
            self._under_way -= 1
        if answer.status // 100 in {2, 5}:
            self._failed_at = time.monotonic() if answer.status >= 500 else -math.inf
        return answer

    def _health(self, sender: str) -> Response:
        """Return counts for this machine alone: how many messages wait would help whoever floods a release."""
        facts: dict[str, Any] = {"status": "stopping" if self.closing else "ok"}
        if is_loopback(sender):
            facts |= {
                **self._describe(),
                "under_way": self._under_way,
                "answers": dict(sorted(self.counts.items())),
                "addresses": len(self.limit),
            }
        return Response(200, json.dumps(facts).encode())

    def _ready(self, sender: str) -> Response:
        """Return whether messages are taken and passed on; for this machine, when each task succeeded last."""
        failed = time.monotonic() - self._failed_at < FAILED_SECONDS
        why = "the relay is about to stop" if self.closing else self._trouble() or "no message could be taken" * failed
        if why:
            return problem(503, why, BUSY_SECONDS)
        ages = {name: round(age, 1) for name, age in self._ages().items()}
        facts = {"ready": True} | ({"seconds_since_success": ages} if is_loopback(sender) else {})
        return Response(200, json.dumps(facts).encode())

    def look(self) -> None:
        """Log what went wrong in the last minute, and forget addresses that have sent nothing for an hour."""
        self.limit.forget()
        for line in self.troubles.lines():
            LOG.warning("%s", line)
