"""The same bytes, in the same pieces, to a collector with its shortcuts and to one without any: nothing may differ.

Both run in this process, on transports that only gather what is written. The shortcuts are posts answered without a
task, heads that begin as an earlier one did, and bodies that are like an earlier one.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import uvloop
from uvicorn.server import ServerState

from overstory.collector.committer import Committed
from overstory.collector.http.connection import Connection
from overstory.collector.server import Server
from overstory.collector.service import Collector
from overstory.protocol.kinds.base import Report
from overstory.supervision.listening import Listening
from support.collector_in_process import METRICS, NOW, FakeStore, packed, sound, upload
from support.served import post

HOLE = b"\xa5" * 16  # where a batch id goes


class Gathering(asyncio.Transport):  # a transport that keeps what is written to it
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data) -> None:
        self.written += data

    def get_extra_info(self, name: str, default=None):
        return {"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """Nothing is read here."""

    def resume_reading(self) -> None:
        """Nor here."""

    def get_write_buffer_size(self) -> int:
        return 0


class AtOnce:  # a committer without a thread: what is submitted is committed in the loop's next round
    alive, full, hangs, reports, size = True, False, False, 0, 0

    def __init__(self, store: FakeStore, told) -> None:
        self._store, self._told = store, told

    def submit(self, received, reports: int, size: int, done) -> bool:
        def commit() -> None:
            done(self._store.add(received))
            self._told(Committed(1, reports, 0.0, failed=False))

        asyncio.get_running_loop().call_soon(commit)
        return True


class General(Connection):  # a connection that leaves every request to uvicorn and the application
    def _take_repeated(self, data: bytes) -> bool:
        return False

    def _learn(self, data: bytes) -> None:
        """Remember nothing."""

    def _small_post(self) -> None:
        return None


class NoTemplates:  # bodies are never alike
    def recognise(self, *_: object) -> None:
        return None

    def remember(self, *_: object) -> None:
        return None


class Side:
    def __init__(self, *, shortcuts: bool) -> None:
        self.store = FakeStore()
        collector = Collector(METRICS, self.store, open_writes=True, clock=lambda: NOW)
        self.telemetry, endpoint = collector.telemetry, collector.endpoint
        endpoint._committer = AtOnce(self.store, collector.telemetry.committed)  # type: ignore[assignment]
        if not shortcuts:
            endpoint._ingest._templates = NoTemplates()  # type: ignore[assignment]
        self._config = Server(collector, Listening(port=0), lambda: None).config
        self.kind = Connection.for_entrance(collector.reports)
        if not shortcuts:
            self.kind = type("General", (General, self.kind), {})

    async def answer(self, pieces: list[bytes]) -> Answered:
        state = ServerState()
        loop = asyncio.get_running_loop()
        protocol = self.kind(config=self._config, server_state=state, app_state={}, _loop=loop)
        transport = Gathering()
        self.store.kept.clear()
        self.telemetry.requests.clear()
        protocol.connection_made(transport)
        for piece in pieces:
            if not transport.closed:
                protocol.data_received(piece)
            await _quiet(protocol)
        answers = re.split(rb"(?=HTTP/1\.1 \d{3} )", bytes(transport.written))[1:]
        outcome = Answered(
            answers, transport.closed, dict(self.store.kept), +self.telemetry.requests, whole=not protocol._in_request
        )
        protocol.connection_lost(None)
        while state.tasks:  # noqa: ASYNC110 - what is waited for is not ours to set an event in
            await asyncio.sleep(0)
        return outcome


async def _quiet(protocol) -> None:
    """Wait until nothing goes on for a connection but waiting for more bytes."""
    for _ in range(3):
        await asyncio.sleep(0)
    for tried in range(40_000):
        receiving = protocol._in_request and not protocol._in_head and not protocol._parsing_ended
        if protocol._unparsed is None and protocol._unanswered <= receiving:
            break
        # A long body is decided about in another thread, which a busy machine may not run at once.
        await asyncio.sleep(0 if tried < 20_000 else 0.001)
    await asyncio.sleep(0)


@dataclass
class Answered:  # what one connection was sent, and what came of it
    answers: list[bytes]
    closed: bool
    kept: dict[bytes, Any]
    statuses: Counter[int]
    whole: bool

    def like(self, other: Answered) -> bool:
        """Whether nothing differs.

        A request that never arrives whole may be refused by its head at once, or not yet: a shortcut answers a small
        post when it is here.
        """
        if self.kept != other.kept or self.whole != other.whole:
            return False
        if self.whole:
            return (self.answers, self.closed, self.statuses) == (other.answers, other.closed, other.statuses)
        shorter = min(len(self.answers), len(other.answers))
        more = abs(len(self.answers) - len(other.answers))
        return self.answers[:shorter] == other.answers[:shorter] and more <= 1


@dataclass
class Outcome:  # what a run of the fuzzer saw
    requests: int = 0
    connections: int = 0
    unparsed: int = 0
    statuses: Counter[bytes] = field(default_factory=Counter)
    differences: list[tuple[list[bytes], object, object]] = field(default_factory=list)


def _sound() -> list[bytes]:
    return [post(upload(name, count, batch=HOLE)) for name, count in (("bloom", 1), ("colour", 1), ("hashed", 2))] + [
        post(upload("bloom", 1, batch=HOLE), b"User-Agent: curl/8", b"Accept: */*"),
        post(upload("bloom", 1, batch=HOLE), b"Connection: keep-alive"),
    ]


def _others() -> list[bytes]:
    mixed = upload(raw=packed(METRICS["bloom"], [Report(12, 0), *sound(METRICS["bloom"], 2)]), batch=HOLE)
    chunks = upload(batch=HOLE)
    chunked = post(b"", b"Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
    return [
        post(mixed),
        post(upload(batch=b"same" * 4)),
        post(upload("ended", batch=HOLE)),
        post(upload(batch=HOLE, period=1)),
        post(b"nonsense"),
        post(b""),
        post(upload(batch=HOLE)).replace(b"HTTP/1.1", b"HTTP/1.0"),
        post(upload(batch=HOLE), b"Connection: close"),
        post(upload(batch=HOLE), b"Content-Encoding: br"),
        post(upload(batch=HOLE)).replace(b"Host: c\r\n", b""),
        post(upload(batch=HOLE)).replace(b"/v1/reports ", b"/v1/reports?a=b "),
        post(upload("bloom", 3_000, batch=HOLE)),
        chunked + b"%x\r\n%b\r\n0\r\n\r\n" % (len(chunks), chunks),
        chunked + b"%x\r\n%b\r\n0\r\nx: y\r\n\r\n" % (len(chunks), chunks),
        b"GET /healthz HTTP/1.1\r\nHost: c\r\n\r\n",
        b"GET /v1/reports HTTP/1.1\r\nHost: c\r\n\r\n",
        b"PUT /v1/reports HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nhi",
        b"HEAD /v1/metrics/nope HTTP/1.1\r\nHost: c\r\n\r\n",
        b"nonsense\r\n\r\n",
    ]


class Requests:  # connections' bytes, by chance
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._sound, self._others = _sound(), _others()

    def connection(self) -> tuple[int, list[bytes]]:
        """How many requests, and the pieces that they come in."""
        rng = self._rng
        requests = [self._request() for _ in range(rng.randint(1, 12))]
        how = rng.random()
        if how < 0.6:
            return len(requests), requests
        raw = b"".join(requests)
        if how < 0.7:
            return len(requests), [raw]
        cuts = sorted({0, len(raw), *(rng.randrange(len(raw) + 1) for _ in range(rng.randint(1, 6)))})
        return len(requests), [raw[one:two] for one, two in itertools.pairwise(cuts)]

    def _request(self) -> bytes:
        rng = self._rng
        request = rng.choice(self._sound if rng.random() < 0.85 else self._others)
        request = request.replace(HOLE, rng.randbytes(16))
        return self._mutated(request) if rng.random() < 0.08 else request

    def _mutated(self, request: bytes) -> bytes:
        rng = self._rng
        raw = bytearray(request)
        at = rng.randrange(len(raw))
        kind = rng.randrange(4)
        if kind == 0:
            raw[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del raw[at : at + rng.randint(1, 8)]
        elif kind == 2:
            raw[at:at] = rng.choice([b"\r\n", b"\0", b" ", b"a: b\r\n", b"Content-Length: 5\r\n", rng.randbytes(3)])
        else:
            raw[at:at] = raw[at : at + 20]
        return bytes(raw)


def fuzz(requests: int, seed: int, *, seconds: float = float("inf"), sides: tuple[Side, Side] | None = None) -> Outcome:
    """Compare until so many requests were sent, or so much time is over."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        both = sides or (Side(shortcuts=True), Side(shortcuts=False))
        return runner.run(_fuzz(requests, seed, seconds, both))


async def _fuzz(requests: int, seed: int, seconds: float, sides: tuple[Side, Side]) -> Outcome:
    outcome, made = Outcome(), Requests(seed)
    fast, plain = sides
    heads = fast.kind.header_cache
    split = heads.split

    def noted(data: bytes):
        found = split(data)
        outcome.unparsed += found is not None
        return found

    heads.split = noted
    ends = time.monotonic() + seconds
    while outcome.requests < requests and time.monotonic() < ends and len(outcome.differences) < 10:
        count, pieces = made.connection()
        outcome.requests += count
        outcome.connections += 1
        one, two = await fast.answer(pieces), await plain.answer(pieces)
        outcome.statuses.update(answer[9:12] for answer in one.answers)
        if not one.like(two):
            outcome.differences.append((pieces, one, two))
        for side in sides:
            side.store.calls.clear()
    return outcome
