"""POST /v1/oblivious and /v1/oblivious/release: sealed requests, one by one or released together by a relay.

Until a message is open, errors are plain; after that its response is sealed, and about one report all are as long.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

from overstory.collector.auth import RELAY, TokenTable
from overstory.collector.http.endpoint import LONG, MESSAGE_PATH, PATH, RELEASE_PATH, Entrance, Head, read_head
from overstory.collector.ingest import Decision, Released
from overstory.collector.oblivious.keys import UNKNOWN_KEY, KeyRing
from overstory.protocol.errors import WireError
from overstory.protocol.oblivious import formats
from overstory.protocol.oblivious.formats import RELEASE_TYPE, REQUEST_TYPE, RESPONSE_TYPE, read_release
from overstory.protocol.wire.reasons import KEY_PROBLEM, Reason
from overstory.supervision.answers import Response, dumped, error_response, refusal
from overstory.supervision.upkeep import in_thread

Item = TypeVar("Item")
Result = TypeVar("Result")

MOST_MESSAGES: Final = 10_000  # messages in one part of a release
SLICE: Final = 64
SLICE_BYTES: Final = 1 << 20
"""Messages of a part that are opened and committed at a time, and their bytes, unless one alone has more: memory does
not grow with the part."""
TURN: Final = 16
PAUSE: Final = 1e-4
"""A pause for the event loop, in seconds, after each `TURN` messages: direct posts are answered meanwhile."""

MOST_FAULTED: Final = 10_000  # messages that the collector failed on and remembers, by their hashes

NO_KEYS: Final = (
    "This collector opens no messages of Oblivious HTTP: it was started without oblivious_keys. Reports come to "
    f"{PATH}."
)


def key_problem(error: WireError) -> Response:
    """Return the answer to a message that cannot be opened."""
    answer = error_response(400, error.reason, f"The message cannot be opened: {error}.")
    if error.reason != UNKNOWN_KEY:
        return answer
    about = {"type": KEY_PROBLEM, "title": "Oblivious HTTP key configuration not acceptable"}
    return Response(400, dumped(json.loads(answer.body) | about))


class Inner(NamedTuple):
    """The post of reports in a message."""

    head: Head
    body: bytes


def read_inner(message: bytes) -> Inner | Response:
    """Return head and body of the post in a message, of whatever authority, or the answer to anything else."""
    try:
        request = formats.read_request(message)
    except WireError as error:
        return refusal(Reason.DAMAGED, where=str(error))
    if request.path != PATH:
        return error_response(404, "not-found", f"Only {PATH} takes sealed requests.")
    if request.method != "POST":
        return error_response(405, "method", f"{PATH} takes only POST.")
    fields = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.fields]
    return Inner(read_head(fields)._replace(length=len(request.body)), request.body)


def slices(messages: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Yield the messages of a part in order, some at a time, with the place of the first."""
    start = size = 0
    for place, message in enumerate(messages):
        if place > start and (place - start == SLICE or size + len(message) > SLICE_BYTES):
            yield start, messages[start:place]
            start, size = place, 0
        size += len(message)
    if messages:
        yield start, messages[start:]


def write_inner(answer: Response) -> bytes:
    """Return an answer as a binary response, filled up with zeros: every answer to one report has one length."""
    fields = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in answer.headers)
    return formats.Response(answer.status, fields, answer.body).encode(formats.RESPONSES_PADDED_TO)


class ObliviousEndpoint:
    """Opens messages and posts what is in them; without keys, it answers that there are none."""

    def __init__(
        self,
        reports: Entrance,
        tokens: TokenTable,
        ring: KeyRing | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.endpoint, self.ring = reports.endpoint, ring
        self._reports, self._tokens, self._clock = reports, tokens, clock
        self.entrances = {
            MESSAGE_PATH: Entrance(self.endpoint, self._judge_message, self.answer_message),
            RELEASE_PATH: Entrance(self.endpoint, self._judge_release, self.answer_release),
        }
        self._opening = asyncio.Semaphore(1)
        self._faulted: OrderedDict[bytes, None] = OrderedDict()

    def _judge_message(self, head: Head, content_type: str = REQUEST_TYPE) -> Reason | Response | None:
        if self.ring is None:
            return error_response(404, "not-found", NO_KEYS)
        if head.content_type != content_type:
            return error_response(Reason.WRONG_TYPE.status, Reason.WRONG_TYPE, f"Send {content_type}.")
        return Reason.TOO_LARGE if self.endpoint.too_large(head) else self.endpoint.unavailable()

    def _judge_release(self, head: Head) -> Reason | Response | None:
        refused = self._judge_message(head, RELEASE_TYPE)
        if refused is not None:
            return refused
        reason = self._tokens.refuse(head.authorization, RELAY, self._clock())
        if reason is None:
            return None
        detail = "A release needs a valid token of the role relay: send it as Authorization: Bearer."
        return error_response(reason.status, reason, detail)

    async def answer_message(self, _: Head, body: bytes) -> Response:
        """Open one message, of a relay that passes on what comes, and post what is in it; the answer is sealed."""
        assert self.ring is not None
        work = partial(self.ring.open, body)
        try:
            opened = await self.endpoint.bodies.in_thread(body, work) if len(body) > LONG else work()
        except WireError as error:
            self._count(body, error.reason)
            return key_problem(error)
        self._count(body)
        try:
            answer = await self._posted(opened.message)
        except Exception as error:  # noqa: BLE001 - any error is the collector's, and the reports may come again
            answer = self.endpoint.fault(error)
        return Response(200, opened.seal(write_inner(answer)), media_type=RESPONSE_TYPE)

    def _count(self, message: bytes, reason: str = "") -> None:
        telemetry = self.endpoint.telemetry
        if reason:
            telemetry.unopened[reason] += 1
        else:
            telemetry.opened[str(message[0])] += 1

    async def _posted(self, message: bytes) -> Response:
        inner = read_inner(message)
        if isinstance(inner, Response):
            return inner
        refused = self._reports.refuse(inner.head)
        return refused if refused is not None else await self.endpoint.post(*inner, oblivious=True)

    async def answer_release(self, _: Head, body: bytes) -> Response:
        """Post what is in a part of a shuffling relay's release; if nothing can be judged now, answer that."""
        try:
            release = read_release(body)
        except WireError as error:
            return refusal(Reason.DAMAGED, where=str(error))
        if len(release.messages) > MOST_MESSAGES:
            return error_response(413, Reason.TOO_MANY, f"A part of a release has at most {MOST_MESSAGES:,} messages.")
        refused: Counter[str] = Counter()
        again: list[int] = []
        faulted = 0
        with self.endpoint.bodies.holding(len(body)):
            for start, messages in slices(release.messages):
                outcomes = await self._post_slice(release.id, start, messages)
                refused.update(outcome for outcome in outcomes if outcome not in {None, AGAIN, FAULTED})
                again += [start + place for place, outcome in enumerate(outcomes) if outcome in {AGAIN, FAULTED}]
                faulted += outcomes.count(FAULTED)
        if again and len(again) == len(release.messages) and not faulted:
            return refusal(self.endpoint.unavailable() or Reason.STORE)
        taken = len(release.messages) - refused.total() - len(again)
        counted = {"taken": taken, "refused": dict(sorted(refused.items())), "again": again}
        return Response(200, dumped(counted))

    async def _post_slice(self, release: bytes, start: int, messages: Sequence[bytes]) -> list[str | None]:
        """Return what became of each message: None for taken, `AGAIN`, or why it is refused."""
        async with self._opening:  # of several parts, one at a time: each takes a processor
            judged = await in_thread(with_pauses, self._judged, messages)
        for message, each in zip(messages, judged, strict=True):
            self._count(message, each.reason if isinstance(each, WireError) else "")
        commits = (self._commit(each, Released(release, place)) for place, each in enumerate(judged, start))
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        return [
            self._after_fault(message, outcome) if isinstance(outcome, BaseException) else outcome
            for message, outcome in zip(messages, outcomes, strict=True)
        ]

    def _judged(self, message: bytes) -> Decision | Refused:
        """Open a message and decide about it, in a thread; whatever fails stops no other message."""
        assert self.ring is not None
        try:
            inner = read_inner(self.ring.open(message).message)
            if isinstance(inner, Response):
                return inner
            return self.endpoint.admit(inner.head) or self.endpoint.decide(*inner, oblivious=True)
        except Exception as error:  # noqa: BLE001 - see above
            return error

    async def _commit(self, judged: Decision | Refused, released: Released) -> str | None:
        match judged:
            case Reason():
                self.endpoint.refuse(judged)
                return AGAIN if judged.passing else judged
            case WireError():
                return judged.reason
            case Response():
                return str(json.loads(judged.body)["reason"])
            case Exception():
                raise judged
        judged.received[:] = [batch._replace(released=released) for batch in judged.received]
        answer = await self.endpoint.taken(judged)
        if answer.status == 200:
            return None
        if answer.status in PASSING:
            return AGAIN
        return judged.refused or next(result.reason for result in judged.results if result.reason is not None)

    def _after_fault(self, message: bytes, error: BaseException) -> str:
        """Count and log a fault of ours: the message may come again, and is refused after the second one."""
        # A fault that depends on the bytes would keep the release from an end; the system's depend on the moment.
        self.endpoint.fault(error)
        if isinstance(error, OSError | MemoryError):
            return AGAIN
        digest = blake2b(message, digest_size=16).digest()
        if digest in self._faulted:
            return Reason.FAULT
        self._faulted[digest] = None
        if len(self._faulted) > MOST_FAULTED:
            self._faulted.popitem(last=False)
        return FAULTED


AGAIN: Final = "again"  # the outcome of a message that cannot be judged at the moment: the relay is to send it again
FAULTED: Final = "faulted"
"""The outcome of a message that the collector failed on for the first time: the relay is to send it again, too."""
PASSING: Final = frozenset(reason.status for reason in Reason if reason.passing)


Refused = Reason | Response | Exception  # why nothing is decided about a message


def with_pauses(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Do so in another thread, with pauses: without them the event loop would wait for each switch of threads."""
    done = []
    for place, item in enumerate(items):
        if place % TURN == 0:
            time.sleep(PAUSE)
        done.append(work(item))
    return done
