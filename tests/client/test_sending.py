"""What becomes of a queued report: decisions one by one, and a whole outbox against a collector that misbehaves."""

import datetime as dt
import json
import math
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from email.utils import format_datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from overstory.client.outcomes import Round
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import LONGEST_DELAY, OutboxRow, RowState
from overstory.client.state.state import State
from overstory.client.upload.delivery import (
    ASKED,
    FIRST_BACKOFF,
    LONGEST_ASKED,
    LONGEST_BACKOFF,
    Collector,
    CollectorHealth,
    Decision,
    backoff,
    decide,
    decide_before_sending,
    retry_after,
)
from overstory.client.upload.http import Request, Response
from overstory.gateway.gateway import Gateway, Settings
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import Upload, decode_uploads, encode_upload
from support.collector_doubles import CountingCollector, after, refusal
from support.devices import DAY, REGISTRY
from support.gateway_samples import fed, registry_text

NOW = 20778 * DAY + 9 * 3600.0
COLOUR = REGISTRY["colour"]
shares = st.floats(0, 1, exclude_max=True)


def row(number=1, metric="colour", period=20778, **changed):
    batch = number.to_bytes(16, "big")
    body = encode_upload(Upload(batch, metric, period, b"a packed batch"))
    return replace(OutboxRow(number, batch, metric, period, body, 0.0, 0, RowState.WAITING, None, bytes(16)), **changed)


def decided(answer, *, of=None, failures=0, uniform=0.5):
    return decide(of or row(), answer, now=NOW, failures={"": failures}, uniform=lambda: uniform)


def result(**said):
    entry = {"batch": row().batch.hex(), "accepted": 0, "duplicate": False, "reason": None, "rejected": []} | said
    return Response(200, {}, json.dumps({"results": [entry]}).encode())


@pytest.mark.parametrize(
    ("answer", "became"),
    [
        (result(rejected=[{"index": 0, "reason": "cohort"}]), (RowState.DROPPED, "cohort", False)),
        (result(reason="period-closed"), (RowState.DROPPED, "period-closed", False)),
        (result(reason="queue-full"), (RowState.WAITING, "queue-full", False)),
        (result(reason="unknown-metric"), (RowState.WAITING, "unknown-metric", True)),
    ],
)
def test_a_report_refused_within_a_success_is_dropped_unless_that_can_change(answer, became):
    decision = decided(answer)
    assert (decision.state, decision.answer, decision.of_metric) == became


@pytest.mark.parametrize("reason", [reason for reason in Reason if not reason.final])
def test_a_refusal_that_is_not_final_waits(reason):
    decision = decided(refusal(reason))
    assert (decision.state, decision.answer, decision.due) == (RowState.WAITING, reason, NOW + 30)
    of_metric = {"unknown-metric", "wrong-parameters", "metric-expired", "unknown-group"}
    assert decision.of_metric == (reason in of_metric)
    own = reason == "period-future"
    assert (decision.resume is None) == own, "this says nothing of other reports"


def test_the_failures_of_a_metric_are_its_own():
    refused = refusal(Reason.UNKNOWN_METRIC)
    decision = decide(row(), refused, now=NOW, failures={"": 9, "colour": 2}, uniform=lambda: 0.5)
    assert (decision.due, decision.resume, decision.pause) == (NOW + 120, NOW + 120, 120)


def test_a_reason_that_is_none_is_not_written_to_the_disk():
    for reason in ("x" * 33, "A", "", "a b", None, 7, "\x1b[31m"):
        assert decided(Response(400, {}, json.dumps({"reason": reason}).encode())).answer == "http-400, JSON"


@given(status=st.none() | st.integers(0, 999), body=st.binary(max_size=200), attempts=st.integers(0, 100), share=shares)
def test_any_answer_ends_a_row_or_leaves_it_waiting_within_bounds(status, body, attempts, share):
    decision = decided(Response(status, {}, body), of=row(attempts=attempts), uniform=share)
    assert decision.state is RowState.WAITING, "bytes by chance are no collector's answer"
    assert NOW <= decision.due <= NOW + LONGEST_BACKOFF + LONGEST_ASKED < NOW + LONGEST_DELAY
    assert decision.resume is not None
    if attempts == 0:
        assert decision.due == decision.resume == NOW + FIRST_BACKOFF * share


@given(failures=st.integers(0, 5000), share=shares)
def test_backoff_is_full_jitter_below_a_bound_that_doubles(failures, share):
    most = backoff(failures, lambda: 1.0)
    assert backoff(failures, lambda: share) == share * most
    assert backoff(failures, lambda: 0.0) == 0.0
    assert most == min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** max(failures - 1, 0) if failures < 60 else math.inf)


@given(attempts=st.integers(0, 40), failures=st.integers(0, 40), share=shares)
def test_a_row_waits_for_the_longer_of_its_own_failures_and_the_collectors(attempts, failures, share):
    decision = decided(Response(500), of=row(attempts=attempts), failures=failures, uniform=share)
    assert decision.due == NOW + backoff(max(attempts, failures) + 1, lambda: share)
    assert decision.resume == NOW + backoff(failures + 1, lambda: share)


def date(seconds):
    return format_datetime(dt.datetime.fromtimestamp(seconds, dt.UTC), usegmt=True)


NO_SECONDS = ["0", "-5", "1e3", "9" * 5000, "soon", date(NOW - 600)]
NO_SECONDS += ["Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 99999999999 08:49:37 GMT"]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        *(({"retry-after": none}, 0) for none in NO_SECONDS),
        ({"retry-after": " 90 "}, 90),
        ({"retry-after": "999999999"}, LONGEST_ASKED),
        ({"retry-after": date(NOW + 600)}, 600),
        ({"retry-after": date(NOW + 1e6)}, LONGEST_ASKED),
        ({"retry-after": date(5e8 + 600), "date": date(5e8)}, 600),
        ({"retry-after": date(NOW + 600), "date": "yesterday"}, 600),
    ],
)
def test_retry_after_is_read_in_both_forms_and_bounded(headers, seconds):
    assert retry_after(Response(429, headers), NOW) == seconds


@given(asked=st.text(max_size=60), date_said=st.text(max_size=60))
def test_no_header_makes_it_fail(asked, date_said):
    assert 0 <= retry_after(Response(503, {"retry-after": asked, "date": date_said}), NOW) <= LONGEST_ASKED


def test_retry_after_comes_before_the_jitter():
    decision = decided(Response(429, {"retry-after": "3600"}), uniform=0.0)
    assert decision.due == decision.resume == NOW + 3600
    later = decided(Response(429, {"retry-after": "3600"}), uniform=0.5)
    assert (later.due, later.resume, later.pause) == (NOW + 5400 + 30, NOW + 3630, 3630)


CLOSES, ENDS = COLOUR.accept_until(20778), COLOUR.expires_at
LAST = COLOUR.period.number(ENDS - 1)
CLOSED, FUTURE = Decision(RowState.DROPPED, Reason.PERIOD_CLOSED), Reason.PERIOD_FUTURE


@pytest.mark.parametrize(
    ("metric", "period", "now", "became"),
    [
        (COLOUR, 20778, CLOSES - 1, None),
        (COLOUR, 20778, CLOSES, CLOSED),
        (None, 20778, NOW, Decision(RowState.DROPPED, Reason.UNKNOWN_METRIC)),
        (COLOUR, LAST, ENDS, None),  # a report of before the end is sent all the same
        (COLOUR, LAST, COLOUR.accept_until(LAST) - 1, None),
        (COLOUR, LAST + 1, ENDS, Decision(RowState.DROPPED, Reason.METRIC_EXPIRED)),
        (COLOUR, 20779, NOW, Decision(RowState.WAITING, FUTURE, 20779 * DAY)),
        (COLOUR, 30000, NOW, Decision(RowState.WAITING, FUTURE, NOW + DAY)),  # looked at within the longest delay
    ],
)
def test_what_the_collector_would_not_take_now_is_not_sent(metric, period, now, became):
    assert decide_before_sending(row(period=period), metric, now) == became


METRICS = replace(REGISTRY, metrics={"colour": COLOUR})
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a disk that need not be waited for


@pytest.fixture
def state():
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield begun(folder)


def begun(folder):
    state = State(StatePaths(Path(folder) / "state"), timeout=5.0)
    state.begin()
    return state


def put(state, *rows):
    with state.transaction() as open_state:
        for one in rows:
            named = {"account": one.account, "due": one.due, "state": one.state}
            open_state.outbox.add(one.batch, one.metric, one.period, one.body, **named)


def filled(state, count):
    put(state, *(row(number) for number in range(1, count + 1)))
    return state


def now_in(state):
    with state.snapshot() as rows:
        # A settled row has lost its batch id: rows are put in by number, from 1.
        found = rows.outbox.rows()
    return {int.from_bytes(one.batch, "big") if len(one.batch) == 16 else one.id: one for one in found}


def states(state):
    return {number: (one.state.value, one.answer) for number, one in now_in(state).items()}


def health(state):
    with state.snapshot() as rows:
        return CollectorHealth.of(rows)


def counts(state):
    with state.snapshot() as rows:
        return rows.counts()


def report_sender(transport, **changed):
    return Collector(**({"server": "https://c.example", "transport": transport, "clock": lambda: NOW} | changed))


def test_a_round_sends_all_that_is_due_in_requests_of_their_own_and_keeps_no_time_finer_than_the_period(state):
    collector = CountingCollector()
    put(filled(state, 100), row(101, due=NOW + 5))
    assert report_sender(collector).send_due(state, METRICS, seconds=10) == Round(sent=100)
    assert len(collector.bodies) == len(collector.counted) == 100
    left = {number: one for number, one in now_in(state).items() if one.state is RowState.WAITING or one.due}
    assert {number: one.due for number, one in left.items()} == {101: NOW + 5}
    with state.snapshot() as rows:
        assert rows.recall("sent colour") == 20778
    assert counts(state) == {"sent": 100}


def test_the_order_says_nothing_about_when_reports_were_made(state):
    orders = set()
    for share in range(3):
        put(state, *(row(20 * share + number) for number in range(20)))
        collector = CountingCollector()
        report_sender(collector).send_due(state, METRICS, seconds=10)
        orders.add(tuple(decode_uploads(body, 1)[0].batch[-1] - 20 * share for body in collector.bodies))
    assert len(orders) == 3, "two equal orders of twenty have a chance below 1e-17"


def test_a_collector_that_fails_is_left_alone_until_it_may_be_well_again(state):
    clock = [NOW]
    calls: list[Request] = []

    def failing(request):
        calls.append(request)
        return Response(503, {"retry-after": "100"})

    filled(state, 5)
    sender = report_sender(failing, clock=lambda: clock[0], uniform=lambda: 0.5)
    assert sender.send_due(state, METRICS, seconds=10) == Round(put_off=1, error="http-503")
    assert health(state) == CollectorHealth(1, NOW + 130, 130)
    assert sorted(one.attempts for one in now_in(state).values()) == [0, 0, 0, 0, 1], "the others are given back"
    clock[0] = NOW + 129
    assert sender.send_due(state, METRICS, seconds=10) == Round()
    clock[0] = NOW + 130
    assert sender.send_due(state, METRICS, seconds=10) == Round(), "each has a time of its own after that"
    clock[0] = NOW + 195
    assert sender.send_due(state, METRICS, seconds=10).put_off == 1
    assert health(state) == CollectorHealth(2, NOW + 195 + 160, 160)
    assert len(calls) == 2
    clock[0] = NOW + DAY
    well = replace(sender, transport=CountingCollector())
    assert well.send_due(state, METRICS, seconds=10) == Round(sent=5)
    assert health(state) == CollectorHealth()


@pytest.mark.parametrize(("most_uploads", "due"), [(1, NOW + 30 + 0.5 * 30), (5, NOW + 30)])
def test_only_reports_in_requests_of_their_own_wait_at_random_for_a_collector(state, most_uploads, due):
    sender = report_sender(lambda _: Response(503), uniform=lambda: 0.5, most_uploads=most_uploads)
    assert sender.send_due(filled(state, 8), METRICS, seconds=10).put_off == most_uploads
    assert sender.send_due(state, METRICS, seconds=10) == Round()
    assert {one.due for one in now_in(state).values() if not one.attempts} == {due}


@pytest.mark.parametrize(("answer", "sent"), [(Response(503), 4), (refusal(Reason.UNKNOWN_METRIC), 0)])
def test_a_move_to_another_address_ends_a_backoff(state, answer, sent):
    """What was refused keeps its own time, and so do all the reports of a refused metric."""
    sender = report_sender(lambda _: answer, uniform=lambda: 0.5)
    assert sender.send_due(filled(state, 5), METRICS, seconds=10).put_off == 1
    moved = replace(sender, server="https://d.example", transport=CountingCollector())
    assert moved.send_due(state, METRICS, seconds=10) == Round(sent=sent)
    with state.snapshot() as rows:
        assert [CollectorHealth.of(rows, metric) for metric in ("", "colour")] == [CollectorHealth()] * 2


@pytest.mark.parametrize(
    ("seconds", "most_uploads", "lease", "leased"), [(math.inf, 1, 120, 64), (10, 1, 130, 64), (10, 100, 160, 65)]
)
def test_a_round_leases_64_reports_or_a_whole_request_for_as_long_as_it_may_last(
    state, seconds, most_uploads, lease, leased
):
    seen = []

    def transport(_):
        seen.append(Counter(one.due for one in now_in(state).values()))
        return Response(503)

    report_sender(transport, most_uploads=most_uploads).send_due(filled(state, 65), METRICS, seconds=seconds)
    assert seen == [Counter({NOW + lease: leased, 0.0: 65 - leased})]


def test_a_pause_from_before_the_clock_was_set_back_is_not_kept(state):
    with filled(state, 1).transaction() as rows:
        rows.remember(ASKED, "https://c.example")
        CollectorHealth(3, NOW + 2 * LONGEST_DELAY).save(rows)
    assert report_sender(CountingCollector()).send_due(state, METRICS, seconds=10) == Round(sent=1)


def test_a_round_ends_when_its_time_is_over_and_a_request_gets_no_more_than_it_has(state):
    collector, given_time = CountingCollector(), []
    assert report_sender(collector).send_due(filled(state, 3), METRICS, seconds=0) == Round()
    assert report_sender(collector).send_due(state, METRICS, seconds=10) == Round(sent=3), "nothing stayed leased"

    def transport(request):
        given_time.append(request.timeout)
        return Response(None, error="no answer in time")

    put(state, row(4))
    report_sender(transport).send_due(state, METRICS, seconds=1.5)
    assert 1.0 < given_time[0] <= 1.5


def test_a_row_that_another_process_has_is_left_to_it(state):
    """The other process sends while this one has the row, and dies before it writes the answer down."""
    collector, other = CountingCollector(), CountingCollector()

    def dying(request):
        assert report_sender(other).send_due(state, METRICS, seconds=10) == Round()
        collector(request)
        raise KilledError

    with pytest.raises(KilledError):
        report_sender(dying).send_due(filled(state, 5), METRICS, seconds=10)
    assert report_sender(other).send_due(state, METRICS, seconds=10) == Round()
    late = report_sender(collector, clock=lambda: NOW + 120 + 11)
    assert late.send_due(state, METRICS, seconds=10) == Round(sent=5), "a crash costs a lease, no report"
    assert (len(collector.bodies), len(collector.counted)) == (6, 5)
    assert not other.bodies


MOODS = ["well", "lost answer", "no answer", "busy", "refused", "unknown", "revoked", "proxy", "dies"]


class Deliveries(RuleBasedStateMachine):
    """An outbox on disk; answers are lost, late and wrong, processes die, and clocks jump."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.mkdtemp(dir=MEMORY)
        self.state, self.collector = begun(self.folder), CountingCollector()
        self.now = NOW
        self.originals: dict[int, bytes] = {}
        self.settled: dict[int, tuple[str, str | None]] = {}
        self.plan: list[str] = []

    @rule(count=st.integers(1, 3))
    def record(self, count):
        for _ in range(count):
            fresh = row(len(self.originals) + 1, due=self.now + 30)
            self.originals[fresh.id] = fresh.body
            put(self.state, fresh)

    @rule(seconds=st.sampled_from([1.0, 60.0, 121.0, 3600.0, 7 * 3600.0, -3600.0]))
    def wait(self, seconds):
        self.now = max(self.now + seconds, NOW)

    @rule(plan=st.lists(st.sampled_from(MOODS), max_size=4), share=shares)
    def deliver(self, plan, share):
        self.plan, before = list(plan), self.ended()
        sender = report_sender(self.transport, clock=lambda: self.now, uniform=lambda: share)
        try:
            done = sender.send_due(self.state, METRICS, seconds=10)
        except KilledError:
            return
        ended = [end for number, end in self.ended().items() if number not in before]
        assert done.sent == sum(name == "sent" for name, _ in ended)
        assert sum(done.dropped.values()) == len(ended) - done.sent

    def transport(self, request):
        mood = self.plan.pop(0) if self.plan else "well"
        if mood == "dies":
            raise KilledError
        if mood in {"well", "lost answer"}:
            answer = self.collector(request)
            return answer if mood == "well" else Response(None, error="no answer in time")
        self.collector.requests.append(request)
        return {
            "no answer": Response(None, error="no connection"),
            "busy": Response(429, {"retry-after": "30"}),
            "refused": refusal(Reason.COHORT),
            "unknown": refusal(Reason.UNKNOWN_METRIC),
            "revoked": refusal(Reason.UNKNOWN_TOKEN),
            "proxy": Response(403, {}, b"<html>"),
        }[mood]

    def ended(self):
        return {number: end for number, end in states(self.state).items() if end[0] != "waiting"}

    @invariant()
    def every_row_ends_at_most_once(self):
        ended = self.ended()
        for number, end in self.settled.items():
            assert ended[number] == end
        self.settled = ended

    @invariant()
    def a_retry_sends_the_very_same_bytes(self):
        assert set(self.collector.bodies) <= set(self.originals.values())

    @invariant()
    def what_is_sent_was_counted_once_under_its_own_id(self):
        for number, (name, _) in self.ended().items():
            if name == "sent":
                assert encode_upload(self.collector.counted[row(number).batch]) == self.originals[number]
        assert set(map(encode_upload, self.collector.counted.values())) <= set(self.originals.values())

    def teardown(self):
        """However it went: with a well collector and enough time, every row ends."""
        self.plan = []
        for _ in range(3):
            self.now += LONGEST_BACKOFF + LONGEST_ASKED
            report_sender(self.transport, clock=lambda: self.now).send_due(self.state, METRICS, seconds=60)
        assert set(self.ended()) == set(self.originals)
        self.every_row_ends_at_most_once()
        self.what_is_sent_was_counted_once_under_its_own_id()
        shutil.rmtree(self.folder)


class KilledError(Exception):
    """The process dies in the middle of a request."""


TestDeliveries = Deliveries.TestCase
TestDeliveries.settings = settings(max_examples=40, stateful_step_count=15)


SERVER = "https://c.example/here"


def test_after_a_failure_a_gateway_sends_no_further_request_in_the_round(tmp_path):
    collector = CountingCollector(after(Response(503)))
    to = Collector(SERVER, collector, most_uploads=10)
    gateway = Gateway(parse_registry(registry_text()), Settings("energy", tmp_path, agree="on"), to, environ={})
    fed(gateway, 40)
    (request,) = collector.requests
    assert request.url == f"{SERVER}/v1/reports"
    assert len(decode_uploads(request.body, 99)) == 10
