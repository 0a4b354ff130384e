"""What answers in a collector's place ends no report (finding A1), and neither does what an operator can cure."""

import json
import logging
import math
import random

import pytest
from test_sending import begun, put, result, row

from overstory.client.outcomes import WarnsOnce
from overstory.client.person.status import read_status
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.client.upload import delivery
from overstory.client.upload.delivery import Collector, CollectorHealth, Delivery
from overstory.client.upload.http import Response
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import decode_uploads
from overstory.supervision.answers import refusal as refused
from support.collector_doubles import CountingCollector, after, bad_server, http, refusal, replying
from support.devices import DAY, NOON, Clock, device, queue_report, registry

NUMBERS = 'domain = {kind = "integers", min = 0, max = 3}\noracle = "grr"\nparameters = {epsilon = 1.0}\n'
NUMBERS += 'period = "day"\ngrace_days = 30\n'
REGISTRY = registry(colour=NUMBERS, size=NUMBERS)
CODES = [200, 204, 302, 307, 400, 401, 403, 404, 405, 408, 409, 410, 411, 413, 415, 426, 429, 451, 500, 502, 503, 511]
BODIES = {
    "a page": b"<html><body>Welcome to Hotel WiFi</body></html>",
    "empty": b"",
    "text": b"404 page not found\n",
    "JSON": b'{"error": "forbidden", "status": 403}',
    "JSON with a reason": b'{"reason": "period-closed", "message": "..."}',
    "a list": b"[]",
    "another batch": json.dumps({"results": [{"batch": "00" * 16, "accepted": 1}]}).encode(),
    "a page of ours that is no answer to reports": b'{"reason": "not-found", "detail": "There is no such page."}',
    "problem details": b'{"type": "about:blank", "title": "Gone", "status": 410, "detail": "This page is gone."}',
    "problem details with a reason": b'{"type": "about:blank", "title": "Gone", "status": 410, "detail": "...", '
    b'"reason": "period-closed", "results": []}',
    "problem details of another type": b'{"type": "https://example.org/problems/period-closed", "detail": "...", '
    b'"reason": "period-closed", "results": []}',
    "problem details of another reason": b'{"type": "/problems/bits", "detail": "...", "reason": "period-closed", '
    b'"results": []}',
    "our type without a detail": b'{"type": "/problems/period-closed", "reason": "period-closed", "results": []}',
    "no type": b'{"reason": "period-closed", "detail": "...", "results": []}',
    "our type without results": b'{"type": "/problems/period-closed", "reason": "period-closed", "detail": "..."}',
    "no results": b"{}",
    "no list of results": b'{"results": {"batch": 1}}',
    "no entry in the results": b'{"results": [1, null]}',
    "nothing of the batch": result().body,
    "a text for a number": result(accepted="1").body,
    "no reason": result(rejected=[{"index": 0, "reason": "<script>"}]).body,
    "a reason of a later version": result(reason="not-today").body,
    "too deep": b"[" * 60_000,
    "not UTF-8": b"\xff\xfe\xff",
    "our problem details of a page": b'{"type": "/problems/not-found", "title": "Not found", "status": 404, '
    b'"detail": "Not Found", "reason": "not-found"}',
}
ENDS = {"damaged", "too-large", "too-many", "period-closed", "cohort", "bits", "wrong-transport"}


def became(answer):
    """What becomes of a report that is alone in its request, as a device's, and of three together, as a gateway's."""
    states = set()
    for number in (1, 3):
        sender = Collector("https://c.example", lambda request: answer, clock=lambda: NOON, most_uploads=number)
        rows = [row(place) for place in range(1, number + 1)]
        at_work = Delivery(sender, None, REGISTRY, lambda: True, lambda _: True, math.inf, 0.0, _permitted=True)
        states |= {made.state for made in at_work.send(rows).values()}
    return states


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_no_strangers_answer_ends_a_report(body):
    for status in CODES:
        assert became(Response(status, {}, body)) == {RowState.WAITING}, status


@pytest.mark.parametrize("reason", list(Reason))
def test_a_collectors_own_refusal_ends_a_report_only_where_nothing_cures_it(reason):
    made = refused(reason)
    assert became(Response(made.status, {}, made.body)) == {RowState.DROPPED if reason in ENDS else RowState.WAITING}


@pytest.mark.parametrize("reason", [Reason(name) for name in sorted(ENDS)])
def test_a_final_reason_under_another_status_is_nobodys(reason):
    other = 403 if reason.status != 403 else 404
    assert became(Response(other, {}, refused(reason).body)) == {RowState.WAITING}


def test_a_refusal_that_names_other_batches_is_not_of_this_one():
    made = refused(Reason.BITS, [{"batch": "ff" * 16, "accepted": 0, "reason": "bits"}])
    assert became(Response(made.status, {}, made.body)) == {RowState.WAITING}


@pytest.fixture
def warnings(monkeypatch, caplog):
    """The lines of this test's warnings, as if the process had given none before."""
    monkeypatch.setattr(delivery, "_warn_once", WarnsOnce())
    caplog.set_level(logging.WARNING, "overstory.client")
    return lambda: [record.getMessage() for record in caplog.records]


def reporting(folder, transport, clock, **more):
    settings = {"transport": transport, "server": "https://c.example", "spread": 0} | more
    return device(folder, registry=REGISTRY, clock=clock, **settings)


def test_a_page_over_a_real_connection_is_warned_of_once_and_status_says_since_when(tmp_path, warnings):
    page = http(404, b"<html>Welcome to Hotel WiFi</html>", Server="nginx")
    with bad_server(replying(page)) as portal:
        client, clock = device(tmp_path, clock=Clock(), server=portal.url, spread=0), Clock()
        client.record("colour", "red")
        for _ in range(3):
            client.flush()
            client._clock.now += DAY
        assert portal.connections == 3
    assert client.status().outbox["waiting"] == 1
    said = "the answers are not the collector's (http-404, a page) since 2026-11-21"
    assert client.status().problem == said
    lines = list(read_status(client.paths, client.registry, client.effective, now=clock()).words())
    assert f"problem: {said}" in lines
    (warning,) = warnings()
    assert warning.startswith(f"{portal.url} does not answer as a collector does (http-404, a page): reports wait")


LOST, NO_TOKEN, UNKNOWN = Response(None, error="no connection"), refusal(Reason.NO_TOKEN), refusal(Reason.UNKNOWN_TOKEN)


@pytest.mark.parametrize(
    ("answers", "problems", "warned"),
    [
        (  # a lost network does not cure what somebody has to see to; a report that is taken does
            (NO_TOKEN, UNKNOWN, LOST),
            ["(no-token) since 2026-11-21", "(unknown-token) since 2026-11-22", "(unknown-token) since 2026-11-22"],
            ["no-token", "unknown-token"],
        ),
        ((LOST, refusal(Reason.QUEUE_FULL), Response(502)), [None] * 3, []),  # what passes is none
    ],
)
def test_each_refusal_is_warned_of_once_until_reports_are_taken(tmp_path, warnings, answers, problems, warned):
    clock, collector = Clock(), CountingCollector(after(*answers))
    client = reporting(tmp_path, collector, clock)
    client.record("colour", 1)
    for failures, problem in enumerate(problems, 1):
        client.flush()
        says = problem and f"the collector refuses {problem}"
        assert (client.status().problem, client.status().failures) == (says, failures)
        clock.tomorrow()
    client.flush()
    assert (client.status().problem, len(collector.counted)) == (None, 1)
    assert [line.partition(" refuses (")[2].partition(")")[0] for line in warnings()] == warned
    assert not any("colour" in line for line in warnings())


def test_what_an_address_did_goes_with_it(tmp_path, warnings):
    clock, collector = Clock(), CountingCollector()
    client = reporting(tmp_path, lambda _: refusal(Reason.NO_TOKEN), clock)
    queue_report(client, "colour", 1)
    assert (client.status().failures, client.status().outbox["waiting"]) == (1, 1)
    new = "https://new.example"
    moved = device(tmp_path, registry=REGISTRY, clock=clock, transport=collector, server=new, spread=0)
    assert (moved.status().failures, moved.status().problem) == (0, None)
    clock.tomorrow()
    queue_report(moved, "colour", 1)
    told = read_status(moved.paths, moved.registry, moved.effective, now=clock())  # as `overstory status` does
    assert (told.failures, told.problem, told.outbox["sent"]) == (0, None, 1)
    assert len(warnings()) == 1


class Unaware(CountingCollector):
    """A collector whose registry lists no `size`, until it does."""

    def __init__(self, now=lambda: 0.0):
        super().__init__(self.refuse)
        self.knows, self.asked, self.now = {"colour"}, [], now

    def refuse(self, request):
        (upload,) = decode_uploads(request.body, 1)
        self.asked.append((self.now(), upload.metric))
        entry = {"batch": upload.batch.hex(), "accepted": 0, "reason": "unknown-metric", "rejected": []}
        return None if upload.metric in self.knows else refusal(Reason.UNKNOWN_METRIC, [entry])


@pytest.fixture
def state(tmp_path):
    return begun(str(tmp_path))


def tally(state):
    with state.snapshot() as rows:
        return {str(name): number for name, number in rows.outbox.tally().items() if number}


def test_a_metric_that_is_refused_holds_no_other_up_and_asks_with_one_report_at_a_time(state):
    """Twenty reports that came back together, again and again, could be known as one device's."""
    clock, chance = Clock(), random.Random(1)
    collector = Unaware(clock)
    put(state, *(row(number, "size") for number in range(1, 21)), *(row(number) for number in range(21, 26)))
    sender = Collector("https://c.example", collector, clock=clock, uniform=chance.random)
    for _ in range(3 * 24):
        sender.send_due(state, REGISTRY, seconds=10)
        clock.now += 3600
    rounds: dict[float, list[str]] = {}
    for when, metric in collector.asked:
        rounds.setdefault(when, []).append(metric)
    assert rounds[NOON].count("colour") == 5
    assert max(metrics.count("size") for metrics in rounds.values()) == 1
    tries = [when for when, metric in collector.asked if metric == "size"]
    assert 5 < len(tries) < 60, "a few a day, for all of them together"
    assert tally(state) == {"waiting": 20, "sent": 5}
    with state.snapshot() as rows:
        assert CollectorHealth.of(rows) == CollectorHealth()
        assert CollectorHealth.of(rows, "size").problem == "unknown-metric"
    collector.knows.add("size")
    last = clock()
    for _ in range(24):
        sender.send_due(state, REGISTRY, seconds=10)
        clock.now += 3600
    assert tally(state) == {"sent": 25}
    assert len({when for when, _ in collector.asked if when >= last}) > 2, "each at a time of its own"
    with state.snapshot() as rows:
        assert CollectorHealth.of(rows, "size") == CollectorHealth(), "nothing is left of it"


def test_waiting_ends_with_the_grace(state, clock):
    put(state, row(1), row(2, "size"))
    answers = {"colour": Response(404, {}, b"<html>"), "size": refusal(Reason.WRONG_PARAMETERS)}

    def transport(request):
        (upload,) = decode_uploads(request.body, 1)
        return answers[upload.metric]

    sender = Collector("https://c.example", transport, clock=clock)
    for _ in range(30):
        sender.send_due(state, REGISTRY, seconds=10)
        clock.now += DAY
        assert tally(state) == {"waiting": 2}
    clock.now = NOON + 31 * DAY
    for _ in range(2):
        sender.send_due(state, REGISTRY, seconds=10)
        clock.now += DAY
    with state.snapshot() as rows:
        assert rows.counts() == {"dropped: period-closed": 2}


def test_status_names_each_metric_that_is_refused_with_the_day(tmp_path, warnings):
    collector, clock = Unaware(), Clock()
    client = reporting(tmp_path, collector, clock)
    client.record("colour", 1)
    queue_report(client, "size", 2)
    assert client.status().outbox == {"waiting": 1, "sent": 1, "dropped": 0, "local": 0}
    clock.tomorrow()
    client.flush()
    assert client.status().problem == "the collector refuses size (unknown-metric) since 2026-11-21"
    assert client.status().failures == 0
    assert [line.split("; ")[1] for line in warnings()] == ["reports wait until their grace is over"]
    collector.knows.add("size")
    for _ in range(3):
        clock.tomorrow()
        client.flush()
    assert client.status().problem is None
    assert client.status().outbox["sent"] == 2


# --- when what waits is due (finding A17) -----------------------------------------------------------------------------


def test_status_says_when_what_waits_is_due(tmp_path):
    clock = Clock()
    client = reporting(tmp_path, lambda _: Response(503, {"retry-after": "3600"}), clock, spread=DAY / 2)

    def waiting():
        (line,) = (line for line in client.status().words() if line.startswith("waiting: "))
        return line

    assert waiting() == "waiting: 0, sent: 0, kept on this device: 0"
    assert client.status().to_json()["due_in_seconds"] is None
    client.record("colour", 1)
    in_memory = client.status().due
    assert 0 <= in_memory[0] == in_memory[1] <= DAY / 2
    client.flush()
    assert client.status().due == in_memory
    with State(client.paths).transaction() as rows:
        rows.outbox.postpone(1, clock() + 5 * 3600 + 12 * 60)
    assert waiting() == "waiting: 1, due within 5 h 12 min; sent: 0, kept on this device: 0"
    assert client.status().to_json()["due_in_seconds"] == [18720, 18720]
    queue_report(client, "size", 2)
    with State(client.paths).transaction() as rows:
        rows.outbox.postpone(2, clock() - 5)
    assert waiting() == "waiting: 2, the first due now, all within 5 h 12 min; sent: 0, kept on this device: 0"
    client.flush()  # the collector asks for an hour: nothing goes before, and all in as long again
    first, last = client.status().due or (0, 0)
    assert 3600 <= first <= last <= 5 * 3600 + 12 * 60
    clock.tomorrow()
    assert waiting() == "waiting: 2, due now; sent: 0, kept on this device: 0"
    clock.tomorrow(-30)
    assert waiting() == "waiting: 2, due now; sent: 0, kept on this device: 0", "a clock set back delays nothing"


def test_what_a_refused_metric_holds_is_due_when_it_may_be_asked_about_again(tmp_path):
    client = reporting(tmp_path, Unaware(), Clock())
    queue_report(client, "size", 2)
    with State(client.paths).transaction() as rows:
        held = CollectorHealth.of(rows, "size")
        rows.outbox.postpone(1, NOON)
    assert client.status().due == (held.resume + held.pause - NOON,) * 2
