"""POST /v1/reports without a web framework: a head and a body in, one answer out, after the commit."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from overstory.collector.access import WRITE, Access
from overstory.collector.answers import Answer, answer_to, refusal
from overstory.collector.committer import Committer
from overstory.collector.ingest import JSON, Decision, Ingest
from overstory.collector.meters import Meters
from overstory.collector.reserve import Reserve
from overstory.collector.sparse_log import SparseLog
from overstory.protocol.reasons import Reason
from overstory.protocol.upload import MEDIA_TYPE

PATH: Final = "/v1/reports"
_TYPES: Final = {MEDIA_TYPE.encode(): MEDIA_TYPE, JSON.encode(): JSON}

_log: Final = logging.getLogger("overstory.collector")

Answered = Callable[[Answer], None]


class Head(NamedTuple):
    """What a request's headers say about its sender's right to post, and about its body."""

    authorization: bytes = b""
    content_type: str = ""
    encoding: str = ""
    length: int | None = None


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """Read the headers of a post.

    Parameters
    ----------
    headers
        Names in lower case, as ASGI has them.

    Examples
    --------
    >>> read_head([(b"content-type", b"Application/JSON; charset=utf-8"), (b"content-length", b"2")])
    Head(authorization=b'', content_type='application/json', encoding='', length=2)
    """
    authorization = kind = encoding = b""
    length: int | None = None
    for name, value in headers:
        if name == b"authorization":
            authorization = value
        elif name == b"content-type":
            kind = value
        elif name == b"content-length":
            length = int(value) if value.isdigit() else None
        elif name == b"content-encoding":
            encoding = value
    return Head(authorization, _media_type(kind), encoding.strip().lower().decode("latin-1"), length)


class Intake:
    """Admits a request by its head, judges its body, and answers once what is sound is committed.

    Everything is called on the event loop.

    Parameters
    ----------
    ingest, committer, access, meters
        The parts.
    clock
        Unix time in seconds.
    """

    def __init__(
        self,
        ingest: Ingest,
        committer: Committer,
        access: Access,
        meters: Meters,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._ingest, self._committer, self._access = ingest, committer, access
        self.limits, self.meters, self._clock = ingest.limits, meters, clock
        self.closing = False
        self.reserve = Reserve()
        self._faults = SparseLog(_log)

    def judge_by(self, ingest: Ingest) -> None:
        """Judge what arrives from now on by another registry; what was judged before is committed as it was."""
        self._ingest = ingest

    def admit(self, head: Head) -> Reason | None:
        """Say why a request is refused before its body is read, or None."""
        if self.closing:
            return Reason.CLOSING
        reason = self._access.refuse(head.authorization, WRITE, self._clock())
        if reason is not None:
            return reason
        if head.content_type not in {MEDIA_TYPE, JSON}:
            return Reason.WRONG_TYPE
        if head.length is not None and self.too_large(head, head.length):
            return Reason.TOO_LARGE
        return self._no_room()

    def _no_room(self) -> Reason | None:
        """Say why nothing is taken at the moment, or None."""
        if not self._committer.alive:
            return Reason.STORE
        if self.reserve.short:
            return Reason.FAULT
        return Reason.QUEUE_FULL if self._committer.full else None

    def too_large(self, head: Head, size: int) -> bool:
        """Whether a body of that kind may not have that many bytes."""
        return size > (self.limits.json_bytes if head.content_type == JSON else self.limits.body_bytes)

    def refuse(self, reason: Reason, *, close: bool = False) -> Answer:
        """Return the answer that refuses a request for one reason, and count it."""
        self.meters.rejected[reason] += 1
        return self._counted(refusal(reason, close=close))

    def fault(self, error: BaseException, *, close: bool = False) -> Answer:
        """Return the answer to a request that something of ours failed on; log and count it."""
        self.meters.faults += 1
        self._faults.error("a request failed by a fault of ours", error, trace=True)
        return self.refuse(Reason.FAULT, close=close)

    def decide(self, head: Head, body: bytes) -> Decision:
        """Judge a body; this alone may run in another thread."""
        return self._ingest.decide(body, head.content_type, self._clock(), encoding=head.encoding)

    def take(self, decision: Decision, answered: Answered) -> None:
        """Have what was decided committed; `answered` is called once, at once or after the commit."""
        self.meters.decided(decision)
        if decision.refused is not None:
            answered(self._counted(refusal(decision.refused, where=decision.where)))
        elif not decision.received:
            answered(self._counted(answer_to(decision, ())))
        else:
            done = partial(self._committed, decision, answered)
            if not self._committer.submit(decision.received, decision.num_reports, decision.num_bytes, done):
                answered(self.refuse(Reason.QUEUE_FULL))

    def _committed(self, decision: Decision, answered: Answered, new: Sequence[bool] | None) -> None:
        if new is None:
            answered(self.refuse(Reason.STORE))
            return
        self.meters.stored(decision, new)
        answered(self._counted(answer_to(decision, new)))

    def _counted(self, answer: Answer) -> Answer:
        self.meters.requests[answer.status] += 1
        return answer


def _media_type(value: bytes) -> str:
    """Return a content type's media type, without parameters, in lower case."""
    known = _TYPES.get(value)
    return known or value.partition(b";")[0].strip().lower().decode("latin-1")
