"""Where a gateway's reports go: to a collector, several in a request, or into a file that can be sent later.

From the device's outbox to a sink: what is due is taken under a lease, handed over, and written down.

What stops a gateway; a bad line does not, unless it is told to.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from overstory.client.state.outbox import OutboxRow, RowState
from overstory.client.state.state import State
from overstory.client.upload.http import Answer, Request, Transport, endpoint, said
from overstory.client.upload.retry import Decision, Pace, Uniform, decide
from overstory.client.upload.sender import (
    Covers,
    Health,
    Permit,
    keep_health,
    settle,
    take_due,
    turn_to,
    warn,
    without_asking,
)
from overstory.protocol.errors import OverstoryError
from overstory.protocol.metrics import Metric
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import HEADER, MAGIC, MEDIA_TYPE


class GatewayError(OverstoryError):
    """Reports cannot be made, kept or handed over; what was reported so far is kept."""


COLLECTOR: Final = ""
"""The name, among those of metrics, of all that goes to a collector."""

Failures = Mapping[str, int]
"""How often in a row the collector has failed, and how often it has refused each metric."""

Allowed = Callable[[], bool]
"""Answers whether reports may still leave: a person may withdraw consent at any moment."""


class Sink(Protocol):
    """Takes reports."""

    def hand(self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Allowed) -> dict[int, Decision]:
        """Take the bodies of these rows while it is allowed, and say by row id what became of those that were taken."""
        ...


@dataclass(frozen=True)
class CollectorSink:
    """A collector over HTTP.

    Several periods travel in one request, so the collector can tell that they are of one device; see
    docs/how-to/gateway.md.

    Attributes
    ----------
    server, token, transport
        Where, with which write token, and how.
    pace
        After how many seconds a failed request is tried again.
    timeout
        How long to wait for an answer, in seconds.
    most_uploads, most_bytes
        The most uploads, and the most bytes, of one request.
    uniform
        Draws a number from 0 to 1, for the random part of a retry's delay.
    """

    server: str
    transport: Transport
    token: str = field(default="", repr=False)
    pace: Pace = field(default_factory=Pace)
    timeout: float = 30.0
    most_uploads: int = 500
    most_bytes: int = 1 << 20
    uniform: Uniform = field(default_factory=lambda: random.SystemRandom().random)

    def hand(self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Allowed) -> dict[int, Decision]:
        """Send the rows, in as many requests as it takes; the first failure is the last request."""
        return self._in_turn(self._groups(rows), now, failures, allowed)

    def _in_turn(
        self, groups: Iterable[list[OutboxRow]], now: float, failures: Failures, allowed: Allowed
    ) -> dict[int, Decision]:
        decisions: dict[int, Decision] = {}
        refused: set[str] = set()
        for group in groups:
            rows = [row for row in group if row.metric not in refused]
            if not rows:
                continue
            if not allowed() or any(made.resume is not None and not made.of_metric for made in decisions.values()):
                break
            decisions |= self._sent(rows, now, failures, allowed)
            refused |= {row.metric for row in rows if row.id in decisions and decisions[row.id].of_metric}
        return decisions

    def _groups(self, rows: Sequence[OutboxRow]) -> Iterator[list[OutboxRow]]:
        group: list[OutboxRow] = []
        size = 0
        for row in rows:
            if group and (len(group) == self.most_uploads or size + len(row.body) > self.most_bytes):
                yield group
                group, size = [], 0
            group.append(row)
            size += len(row.body)
        if group:
            yield group

    def _sent(self, rows: list[OutboxRow], now: float, failures: Failures, allowed: Allowed) -> dict[int, Decision]:
        body = b"".join(row.body for row in rows)
        answer = self.transport(Request(endpoint(self.server), body, MEDIA_TYPE, self.token, self.timeout))
        if len(rows) > 1 and _splits(answer):
            half = len(rows) // 2
            return self._in_turn((rows[:half], rows[half:]), now, failures, allowed)
        decisions = {row.id: self._decided(row, answer, now, failures) for row in rows}
        for decision in decisions.values():
            warn(decision, self.server)
        return decisions

    def _decided(self, row: OutboxRow, answer: Answer, now: float, failures: Failures) -> Decision:
        return decide(
            row,
            answer,
            now=now,
            failures=failures.get(COLLECTOR, 0),
            pace=self.pace,
            uniform=self.uniform,
            metric_failures=failures.get(row.metric, 0),
        )


def _splits(answer: Answer) -> bool:
    """Whether a refusal of a whole request may be about one upload in it, or about its size, whoever answered so."""
    body = said(answer) or {}
    return not body.get("results") and (answer.status == 413 or body.get("reason") == Reason.DAMAGED)


class FileSink:
    """A file of uploads back to back, the body of a request to a collector. Each report stands in it once.

    A file that is there is continued. What a run that was killed had half written is cut off, and what it had written
    without remembering so is not written again.

    Parameters
    ----------
    path
        The file; it is made when it does not exist, and continued when it does.

    Raises
    ------
    GatewayError
        When the file cannot be written, or holds something else than uploads.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = FileSink(f"{folder}/reports.ovsu")
    ...     sink.path.name, sink.path.stat().st_size
    ...     sink.close()
    ('reports.ovsu', 0)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._there, self._end = _scanned(self.path)
        # Unbuffered, so that nothing waits to be written once a write has failed.
        self._file = self.path.open("r+b" if self.path.exists() else "wb", buffering=0)
        try:
            self._cut()
        except OSError as error:
            self._file.close()
            raise self._unwritable(error) from error

    def hand(self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Allowed) -> dict[int, Decision]:  # noqa: ARG002 - a file needs neither time nor patience
        """Write the rows that are not there yet; they are on the disk when this returns."""
        if not allowed():
            return {}
        new = [row for row in rows if row.batch not in self._there]
        self._append(b"".join(row.body for row in new))
        self._there.update(row.batch for row in new)
        return {row.id: Decision(RowState.SENT, "written") for row in rows}

    def _append(self, content: bytes) -> None:
        """Write to the end and wait for the disk, or take back what was written of it."""
        left = memoryview(content)
        try:
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):
                self._cut()
            raise self._unwritable(error) from error
        self._end += len(content)

    def _cut(self) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _unwritable(self, error: OSError) -> GatewayError:
        return GatewayError(f"{self.path}: reports cannot be written there: {error.strerror or error}")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _scanned(path: Path) -> tuple[set[bytes], int]:
    """Return the batch ids in a file of uploads, and where its last whole upload ends."""
    if not path.exists():
        return set(), 0
    ids, end, size = set[bytes](), 0, path.stat().st_size
    with path.open("rb") as file:
        while end + HEADER.size <= size:
            file.seek(end)
            magic, _, _, id_length, _, batch, _, length = HEADER.unpack(file.read(HEADER.size))
            if magic != MAGIC:
                raise GatewayError(f"{path}: byte {end} begins no upload: this file is not a gateway's; name another")
            after = end + HEADER.size + id_length + length
            if after > size:
                break
            ids.add(batch)
            end = after
    if end == 0 and size > 0 and not _could_be_cut(path):
        raise GatewayError(f"{path}: this file is not a gateway's; name another")
    return ids, end


def _could_be_cut(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC[: path.stat().st_size]


@dataclass
class Handed:
    """What became of reports that were handed over, in one run."""

    sent: int = 0  # taken
    dropped: dict[str, int] = field(default_factory=dict)  # refused for good, by reason
    trouble: str = ""  # why reports still wait, in a few words; empty when nothing failed

    def note(self, decisions: Mapping[int, Decision]) -> None:
        """Count what was decided."""
        for decision in decisions.values():
            if decision.state is RowState.SENT:
                self.sent += 1
                self.trouble = ""
            elif decision.state is RowState.DROPPED:
                self.dropped[decision.answer] = self.dropped.get(decision.answer, 0) + 1
            else:
                self.trouble = decision.answer


AT_ONCE: Final = 500
"""Reports taken together, as many as one request carries."""


@dataclass(frozen=True)
class Hand:
    """Whoever hands reports over.

    Attributes
    ----------
    state, metrics
        Where reports wait, and the registry's metrics.
    permit, covers
        Asked before every request; see `overstory.client.upload.sender`.
    lease
        Seconds for which reports that were taken belong to this process. 0 where time is simulated: one process then.
    shuffle
        Puts them into an order that says nothing.
    """

    state: State
    metrics: Mapping[str, Metric]
    sink: Sink  # where they go
    permit: Permit
    lease: float = 120.0
    covers: Covers = lambda _: True
    shuffle: Callable[[list[OutboxRow]], None] = field(default_factory=lambda: random.SystemRandom().shuffle)

    def over(self, now: float, handed: Handed) -> None:
        """Hand over what is due at `now`, until nothing is, or the sink fails; count it in `handed`."""
        while (allowed := self.permit()) is not None:
            health, failures, taken = self._take(now)
            if not taken:
                return
            decisions = self._without_asking(taken, now)
            asked = [row for row in taken if row.id not in decisions]
            answers = self.sink.hand(asked, now, failures, partial(self._still, allowed))
            self._settle(taken, decisions, answers, health, now)
            handed.note(decisions | answers)
            refused = {row.metric for row in asked if row.id in answers and answers[row.id].of_metric}
            if any(row.id not in answers and row.metric not in refused for row in asked) or _failed(answers):
                return

    def _take(self, now: float) -> tuple[Health, Failures, list[OutboxRow]]:
        with self.state.transaction() as rows:
            if isinstance(self.sink, CollectorSink):
                turn_to(rows, self.sink.server, self.metrics, self.covers)
            # What a gateway sends travels together anyhow, so what has to wait comes back together.
            health, taken = take_due(rows, now, AT_ONCE, self.lease, lambda: 0.0)
            refused = {metric: Health.of(rows, metric).failures for metric in {row.metric for row in taken}}
        self.shuffle(taken)
        return health, {COLLECTOR: health.failures} | refused, taken

    def _still(self, allowed: object) -> bool:
        return self.permit() == allowed

    def _without_asking(self, taken: Sequence[OutboxRow], now: float) -> dict[int, Decision]:
        found = ((row.id, without_asking(row, self.metrics.get(row.metric), now, self.covers)) for row in taken)
        return {number: decision for number, decision in found if decision is not None}

    def _settle(
        self,
        taken: Sequence[OutboxRow],
        decisions: Mapping[int, Decision],
        answers: Mapping[int, Decision],
        health: Health,
        now: float,
    ) -> None:
        """Write down what became of the rows; those that were not tried wait as before."""
        asked: dict[str, Decision] = {}
        for row in taken:
            if row.id in answers and (row.metric not in asked or asked[row.metric].resume is None):
                asked[row.metric] = answers[row.id]
        with self.state.transaction() as rows:
            if asked:
                keep_health(rows, health, asked, now)
            for row in taken:
                decision = answers.get(row.id) or decisions.get(row.id)
                if decision is None:
                    rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)
                else:
                    settle(rows, row, decision, tried=row.id in answers)


def _failed(answers: Mapping[int, Decision]) -> bool:
    """Whether the sink takes nothing at all for now."""
    return any(decision.resume is not None and not decision.of_metric for decision in answers.values())
