"""The destinations of a gateway's reports, and how reports get there from the device's outbox.

A sink is a collector, with several reports in a request, or a file that can be sent later. A dispatcher leases the
reports that are due, delivers them to the sink, and saves the decisions. `GatewayError` stops a gateway; a bad line
does not, unless the operator asks for it.
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
from overstory.client.upload.http import Request, Response, Transport, endpoint, parse_object
from overstory.client.upload.retry import Decision, RetryPolicy, Uniform, decide
from overstory.client.upload.sender import (
    CollectorHealth,
    Covers,
    Permit,
    decide_before_sending,
    save_decision,
    save_health,
    switch_collector,
    take_due,
    warn,
)
from overstory.protocol.errors import OverstoryError
from overstory.protocol.metrics import Metric
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import HEADER, MAGIC, MEDIA_TYPE


class GatewayError(OverstoryError):
    """Reports cannot be made, stored or delivered; earlier reports remain stored."""


COLLECTOR: Final = ""
"""The key, among those of the metrics, for all reports to a collector."""

Failures = Mapping[str, int]
"""Consecutive failures of the collector, and consecutive refusals of each metric."""

Allowed = Callable[[], bool]
"""Returns whether reports may still be sent: a person may withdraw consent at any moment."""


class Sink(Protocol):
    """A destination of reports."""

    def deliver(
        self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Allowed
    ) -> dict[int, Decision]:
        """Deliver the bodies of these rows while it is allowed; return the decisions on those delivered, by row id."""
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
    policy
        After how many seconds a failed request is tried again, and how often.
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
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    timeout: float = 30.0
    most_uploads: int = 500
    most_bytes: int = 1 << 20
    uniform: Uniform = field(default_factory=lambda: random.SystemRandom().random)

    def deliver(
        self, rows: Sequence[OutboxRow], now: float, failures: Failures, allowed: Allowed
    ) -> dict[int, Decision]:
        """Send the rows in as many requests as needed; stop at the first failure."""
        return self._deliver_groups(self._groups(rows), now, failures, allowed)

    def _deliver_groups(
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
            decisions |= self._post(rows, now, failures, allowed)
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

    def _post(self, rows: list[OutboxRow], now: float, failures: Failures, allowed: Allowed) -> dict[int, Decision]:
        body = b"".join(row.body for row in rows)
        response = self.transport(Request(endpoint(self.server), body, MEDIA_TYPE, self.token, self.timeout))
        if len(rows) > 1 and _may_split(response):
            half = len(rows) // 2
            return self._deliver_groups((rows[:half], rows[half:]), now, failures, allowed)
        decisions = {row.id: self._decide(row, response, now, failures) for row in rows}
        for decision in decisions.values():
            warn(decision, self.server)
        return decisions

    def _decide(self, row: OutboxRow, response: Response, now: float, failures: Failures) -> Decision:
        return decide(
            row,
            response,
            now=now,
            failures=failures.get(COLLECTOR, 0),
            policy=self.policy,
            uniform=self.uniform,
            metric_failures=failures.get(row.metric, 0),
        )


def _may_split(response: Response) -> bool:
    """Whether a refused request may succeed in halves: one upload in it is damaged, or it is too large."""
    body = parse_object(response) or {}
    return not body.get("results") and (response.status == 413 or body.get("reason") == Reason.DAMAGED)


class FileSink:
    """A file of consecutive uploads, which is the body of a request to a collector. It has each report once.

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
        self._there, self._end = _scan(self.path)
        # Unbuffered, so that nothing waits to be written once a write has failed.
        self._file = self.path.open("r+b" if self.path.exists() else "wb", buffering=0)
        try:
            self._cut()
        except OSError as error:
            self._file.close()
            raise self._unwritable(error) from error

    def deliver(
        self,
        rows: Sequence[OutboxRow],
        now: float,  # noqa: ARG002 - a file is written at once
        failures: Failures,  # noqa: ARG002 - and never refuses
        allowed: Allowed,
    ) -> dict[int, Decision]:
        """Write the rows that the file lacks; they are on the disk when this returns."""
        if not allowed():
            return {}
        new = [row for row in rows if row.batch not in self._there]
        self._append(b"".join(row.body for row in new))
        self._there.update(row.batch for row in new)
        return {row.id: Decision(RowState.SENT, "written") for row in rows}

    def _append(self, content: bytes) -> None:
        """Append and wait for the disk; if that fails, cut off what was written."""
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


def _scan(path: Path) -> tuple[set[bytes], int]:
    """Return the batch ids in a file of uploads, and the end of its last complete upload."""
    if not path.exists():
        return set(), 0
    ids, end, size = set[bytes](), 0, path.stat().st_size
    with path.open("rb") as file:
        while end + HEADER.size <= size:
            file.seek(end)
            magic, _, _, id_length, _, batch, _, length = HEADER.unpack(file.read(HEADER.size))
            if magic != MAGIC:
                raise GatewayError(f"{path}: byte {end} starts no upload: this file is not a gateway's; name another")
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
class DispatchSummary:
    """The result of a run's deliveries."""

    sent: int = 0  # accepted
    dropped: dict[str, int] = field(default_factory=dict)  # refused for good, by reason
    error: str = ""  # why reports still wait, in a few words; empty when nothing failed

    def note(self, decisions: Mapping[int, Decision]) -> None:
        """Count these decisions."""
        for decision in decisions.values():
            if decision.state is RowState.SENT:
                self.sent += 1
                self.error = ""
            elif decision.state is RowState.DROPPED:
                self.dropped[decision.answer] = self.dropped.get(decision.answer, 0) + 1
            else:
                self.error = decision.answer


AT_ONCE: Final = 500
"""Reports taken together, as many as one request carries."""


@dataclass(frozen=True)
class Dispatcher:
    """Delivers the reports that are due to one sink.

    Attributes
    ----------
    state, metrics
        The state with the outbox, and the registry's metrics.
    permit, covers
        Asked before every request; see `overstory.client.upload.sender`.
    lease
        Seconds for which leased reports belong to this process. 0 where time is simulated, in a single process.
    shuffle
        Puts them into an order that carries no information.
    """

    state: State
    metrics: Mapping[str, Metric]
    sink: Sink  # where they go
    permit: Permit
    lease: float = 120.0
    covers: Covers = lambda _: True
    shuffle: Callable[[list[OutboxRow]], None] = field(default_factory=lambda: random.SystemRandom().shuffle)

    def dispatch(self, now: float, summary: DispatchSummary) -> None:
        """Deliver what is due at `now`, until nothing is left or the sink fails; count it in `summary`."""
        while (allowed := self.permit()) is not None:
            health, failures, taken = self._take(now)
            if not taken:
                return
            decisions = self._decide_before_sending(taken, now)
            asked = [row for row in taken if row.id not in decisions]
            answers = self.sink.deliver(asked, now, failures, partial(self._still_allowed, allowed))
            self._save(taken, decisions, answers, health, now)
            summary.note(decisions | answers)
            refused = {row.metric for row in asked if row.id in answers and answers[row.id].of_metric}
            if any(row.id not in answers and row.metric not in refused for row in asked) or _failed(answers):
                return

    def _take(self, now: float) -> tuple[CollectorHealth, Failures, list[OutboxRow]]:
        with self.state.transaction() as rows:
            if isinstance(self.sink, CollectorSink):
                switch_collector(rows, self.sink.server, self.metrics, self.covers)
            # A gateway sends its reports together anyway, so they need no separate random delays.
            health, taken = take_due(rows, now, AT_ONCE, self.lease, lambda: 0.0)
            refused = {metric: CollectorHealth.of(rows, metric).failures for metric in {row.metric for row in taken}}
        self.shuffle(taken)
        return health, {COLLECTOR: health.failures} | refused, taken

    def _still_allowed(self, allowed: object) -> bool:
        return self.permit() == allowed

    def _decide_before_sending(self, taken: Sequence[OutboxRow], now: float) -> dict[int, Decision]:
        decisions = (
            (row.id, decide_before_sending(row, self.metrics.get(row.metric), now, self.covers)) for row in taken
        )
        return {number: decision for number, decision in decisions if decision is not None}

    def _save(
        self,
        taken: Sequence[OutboxRow],
        decisions: Mapping[int, Decision],
        answers: Mapping[int, Decision],
        health: CollectorHealth,
        now: float,
    ) -> None:
        """Save the decisions; rows that were not tried wait as before."""
        asked: dict[str, Decision] = {}
        for row in taken:
            if row.id in answers and (row.metric not in asked or asked[row.metric].resume is None):
                asked[row.metric] = answers[row.id]
        with self.state.transaction() as rows:
            if asked:
                save_health(rows, health, asked, now)
            for row in taken:
                decision = answers.get(row.id) or decisions.get(row.id)
                if decision is None:
                    rows.outbox.postpone(row.id, row.due, row.attempts, row.answer)
                else:
                    save_decision(rows, row, decision, tried=row.id in answers)


def _failed(answers: Mapping[int, Decision]) -> bool:
    """Whether the sink accepts nothing for now."""
    return any(decision.resume is not None and not decision.of_metric for decision in answers.values())
