"""Sends reports to one collector: a request with the bytes of one or more, and the decisions that follow from it.

Reports of an oblivious metric travel by Oblivious HTTP (RFC 9458): encrypted for the collector, and posted to a relay.
The relay learns from which address a message comes, when, and how long it is, a multiple of 512 bytes apart from its
head. The collector learns what is inside. A message has nothing of the device: each has a key of its own. Every device
takes the same cipher, because a relay can read which one it is.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import urlsplit

from overstory.client.outcomes import Round, WarnsOnce
from overstory.client.state.outbox import OutboxRow
from overstory.client.state.rows import Rows
from overstory.client.state.state import State
from overstory.client.upload.delivery import COLLECTOR, Delivery, Failures, Permit
from overstory.client.upload.http import Request, Response, Transport, endpoint
from overstory.client.upload.retry import (
    NO_KEY,
    RELAY,
    UNOPENED,
    Covers,
    Decision,
    RetryPolicy,
    Uniform,
    decide,
    parse_reason,
    problem_words,
)
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.metrics.metric import Metric
from overstory.protocol.wire.upload import MEDIA_TYPE

if TYPE_CHECKING:
    from overstory.protocol.metrics.tables import ObliviousRoute
    from overstory.protocol.oblivious.messages import SealedRequest


@dataclass(frozen=True)
class Collector:
    """A collector over HTTP."""

    server: str  # its address
    transport: Transport  # how requests travel
    token: str = field(default="", repr=False)  # the application's write token
    policy: RetryPolicy = field(default_factory=RetryPolicy)  # when to send again
    timeout: float = 30.0  # seconds for one request, at most
    uniform: Uniform = field(default_factory=lambda: random.SystemRandom().random)  # draws delays, and the order
    metrics: Mapping[str, Metric] = field(default_factory=dict, repr=False)  # a registry may name several collectors

    def __post_init__(self) -> None:
        endpoint(self.server)

    def relayed(self, route: ObliviousRoute) -> Self:
        """Return the same collector, reached through a relay that cannot read what is sent."""
        return replace(self, transport=oblivious_transport(route, self.transport))

    def address(self, row: OutboxRow) -> str:
        """Return where a row is posted: every time to the same shard's path, where the registry has shards."""
        shards, metric = getattr(self.metrics, "shards", None), self.metrics.get(row.metric)
        if shards is None or metric is None:
            return endpoint(self.server)
        return endpoint(self.server) + str(shards.suffix(metric, row.period, row.batch))

    def post(self, rows: Sequence[OutboxRow], timeout: float) -> Response:
        """Send the bytes of these rows, which have one address, in one request."""
        body = b"".join(row.body for row in rows)
        return self.transport(Request(self.address(rows[0]), body, MEDIA_TYPE, self.token, timeout))

    def decide(
        self, rows: Sequence[OutboxRow], response: Response, now: float, failures: Failures
    ) -> dict[int, Decision]:
        """Return the decision on each row that follows from the response, by row id, and warn of what is wrong."""
        decisions = {
            row.id: decide(
                row,
                response,
                now=now,
                failures=failures.get(COLLECTOR, 0),
                policy=self.policy,
                uniform=self.uniform,
                metric_failures=failures.get(row.metric, 0),
            )
            for row in rows
        }
        for decision in decisions.values():
            warn(decision, self.server)
        return decisions


@dataclass(frozen=True)
class ReportSender(Collector):
    """Sends a device's reports, one in a request."""

    clock: Callable[[], float] = time.time  # the time of day, in unix seconds

    def send(
        self,
        rows: Sequence[OutboxRow],
        now: float,  # noqa: ARG002 - a response is judged by the time at which it came
        failures: Failures,
        allowed: Callable[[], bool],  # noqa: ARG002 - it is asked before each request
        *,
        seconds: Callable[[], float],
    ) -> Mapping[int, Decision]:
        """Send rows in one request, within the time that is left."""
        response = self.post(rows, min(seconds(), self.timeout))
        return self.decide(rows, response, self.clock(), failures)

    def deliver(
        self,
        state: State,
        metrics: Mapping[str, Metric],
        *,
        seconds: float,
        permit: Permit = lambda: True,
        covers: Covers = lambda _: True,
        prepare: Callable[[Rows], object] = lambda _: None,
    ) -> Round:
        """Send the reports that are due, within a time limit, and return the result."""
        until = time.monotonic() + seconds
        sender = replace(self, metrics=metrics)

        def left() -> float:
            return until - time.monotonic()

        return Delivery(
            state,
            metrics,
            partial(sender.send, seconds=left),
            permit,
            covers,
            clock=self.clock,
            until=until,
            lease=self.policy.lease + max(seconds, 0.0),
            server=self.server,
            through=lambda route: partial(sender.relayed(route).send, seconds=left),
            prepare=prepare,
            order=self.uniform,
            spread=self.uniform,
        ).run()


def warn(decision: Decision, server: str) -> None:
    """Warn once per process of an answer that needs action; not of a passing problem."""
    reason = parse_reason(decision.answer)
    if problem_words(decision.answer) is None:
        return
    if decision.answer.startswith(RELAY):
        message = "%s: %s; reports wait, and are never sent another way"
        _warn_once(decision.answer, message, server, problem_words(decision.answer))
    elif reason is None:
        message = "%s does not answer as a collector does (%s): reports wait; is the address right, or a proxy between?"
        _warn_once(decision.answer, message, server, decision.answer)
    else:
        ends = "it was dropped" if reason.final else "reports wait until their grace is over"
        _warn_once(decision.answer, "%s refuses (%s): %s; %s", server, reason, reason.detail.rstrip("."), ends)


_warn_once: Final = WarnsOnce()


def oblivious_transport(route: ObliviousRoute, over: Transport) -> Transport:
    """Return the transport that encrypts each request anew for the collector and posts it to the relay."""
    from overstory.protocol.oblivious import formats
    from overstory.protocol.oblivious.formats import PADDED_TO, REQUEST_TYPE
    from overstory.protocol.oblivious.messages import seal_request, usable_key

    def send(request: Request) -> Response:
        began, parts = time.monotonic(), urlsplit(request.url)
        fields = tuple((name, value) for name, value in request.headers().items() if name != "Connection")
        try:
            inner = formats.Request("POST", parts.scheme, parts.netloc, parts.path, fields, request.body)
            sealed = seal_request(inner.encode(PADDED_TO), usable_key(route.keys))
        except (WireError, ParameterError):
            return Response(None, error=NO_KEY, relay=True)
        left = max(request.timeout - (time.monotonic() - began), 0.001)
        return opened(over(Request(route.relay, sealed.body, REQUEST_TYPE, timeout=left)), sealed)

    return send


def opened(answer: Response, sealed: SealedRequest) -> Response:
    """Return the collector's response in a relay's answer; the answer itself where there is none in it."""
    from overstory.protocol.oblivious.formats import RESPONSE_TYPE, read_response

    encrypted = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == RESPONSE_TYPE
    if answer.status != 200 or not encrypted:
        return replace(answer, relay=True)
    try:
        inner = read_response(sealed.open(answer.body))
    except (ParameterError, WireError):
        return Response(None, error=UNOPENED, relay=True)
    return Response(inner.status, {name.lower(): value for name, value in inner.fields}, inner.body)
