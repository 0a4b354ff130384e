"""A fleet of simulated devices: on the client's own path, and a relay that changes nothing of what a device sees."""

import random
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from overstory.client import Client
from overstory.client.session import Session
from overstory.client.state.rows import RowState
from overstory.client.state.secret_file import DeviceSecret, read_secret
from overstory.client.upload import delivery
from overstory.client.upload.delivery import Decision
from overstory.client.upload.http import Response
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.panel import ASKED, Places
from overstory.protocol.metrics.registry import EXAMPLE
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import decode_uploads
from overstory.supervision.answers import refusal
from overstory.trial.fleet import (
    GROUP,
    OUTSIDE,
    Fleet,
    FleetError,
    Holders,
    MemoryState,
    Moment,
    ValueDistribution,
    label_of,
    moments,
)
from support.collector_doubles import CountingCollector, after

NOW = 1_795_254_000.0  # 21 November 2026
REGISTRY = parse_registry(EXAMPLE)
TWO_ROUNDS = parse_registry(
    EXAMPLE.replace('"grr"', '"l-grr"').replace("{epsilon = 1.0}", "{epsilon_permanent = 2.0, epsilon_report = 1.0}")
)
URL = "http://collector.test"


def fleet(collector, registry=REGISTRY, **more):
    return Fleet(registry, URL, collector, **more)


def roots(seed):
    return random.Random(seed).randbytes


def seeded(seed):
    draw = roots(seed)
    return lambda: draw(32)


def test_every_device_reports_once_a_period_in_uploads_of_its_own():
    collector, when = CountingCollector(), moments(REGISTRY.values(), 3, NOW)
    ran, told = fleet(collector), []
    ran.run(([colour] * 3 for colour in ["red", "blue"] * 150), when, told.append)
    outcomes = ran.outcomes["colour"]
    assert (outcomes.made, outcomes.accepted, outcomes.dropped, outcomes.not_made) == (900, 900, {}, {})
    assert sum(told) == 900
    assert Counter(upload.period for upload in collector.counted.values()) == {m.period: 300 for m in when}
    assert len(collector.requests) == 3 * -(-300 // GROUP)


def test_a_simulated_device_sends_what_a_real_one_with_its_secret_sends(tmp_path):
    metric, when = TWO_ROUNDS["colour"], moments(TWO_ROUNDS.values(), 2, NOW)
    sent, clock = CountingCollector(), SimpleNamespace(now=NOW)
    settings = {"environ": {}, "spread": 0, "clock": lambda: clock.now, "transport": sent, "server": URL}
    with Client("themes", registry=TWO_ROUNDS, state=tmp_path / "state", policy=tmp_path / "none", **settings) as real:
        clock.now = when[0].time
        real.consent("on")
        for moment, value in zip(when, ("red", "blue"), strict=True):
            clock.now = moment.time
            assert real.record(metric.id, value) == "recorded"
            assert real.flush().sent.sent == 1
        root = read_secret(real.paths.secret)._nodes[0].key
    simulated = CountingCollector()
    fleet(simulated, TWO_ROUNDS, roots=lambda: root).run([["red", "blue"]], when)
    assert simulated.counted == sent.counted
    assert len(sent.counted) == 2


def test_a_busy_collector_is_left_alone_as_long_as_it_asks_and_counts_nothing_twice():
    busy = Response(429, {"retry-after": "7"}, refusal(Reason.QUEUE_FULL).body)
    full = Response(503, {}, refusal(Reason.STORE).body)
    slept, collector = [], CountingCollector(after(busy, full))
    ran = fleet(collector, sleep=slept.append)
    ran.run([["red"], ["blue"]], moments(REGISTRY.values(), 1, NOW))
    assert (ran.outcomes["colour"].accepted, len(collector.counted), len(collector.requests)) == (2, 2, 3)
    assert slept[0] == 7.0


def test_a_collector_that_stays_busy_is_given_up():
    collector = CountingCollector(after(*[Response(503, {"retry-after": "30"}, b"{}")] * 9))
    with pytest.raises(FleetError, match="http-503; gave up after 60 s"):
        fleet(collector, sleep=lambda _: None).run([["red"]], moments(REGISTRY.values(), 1, NOW))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Response(None, {}, b"", "no connection: refused"), "no connection: refused; is a collector running there"),
        (Response(200, {}, b"<html>Welcome to Hotel WiFi</html>"), "answers, but not as a collector"),
        (Response(404, {}, b"<html>nginx</html>"), "answers, but not as a collector"),
        (
            Response(401, {}, b'{"reason": "no-token", "detail": "No token."}'),
            "No token.; give its token in OVERSTORY_WRITE_TOKEN",
        ),
    ],
)
def test_a_server_that_cannot_take_reports_ends_it_at_once(answer, said):
    with pytest.raises(FleetError) as caught:
        fleet(CountingCollector(after(answer))).run([["red"]], moments(REGISTRY.values(), 1, NOW))
    assert said in str(caught.value)


def test_reports_that_are_refused_are_counted_by_reason():
    def refusing(request):
        uploads = decode_uploads(request.body, 1000)
        results = [{"batch": one.batch.hex(), "accepted": 0, "reason": "wrong-parameters"} for one in uploads]
        return Response(409, {}, refusal(Reason.WRONG_PARAMETERS, results).body)

    ran = fleet(refusing)
    ran.run([["red"], ["red"]], moments(REGISTRY.values(), 1, NOW))
    outcomes = ran.outcomes["colour"]
    assert outcomes.accepted == 0
    assert outcomes.dropped == {"wrong-parameters": 2}


def test_reports_that_would_wait_count_here_by_the_collectors_answer(monkeypatch):
    waits = Decision(RowState.WAITING, "wrong-parameters", due=NOW + 60)
    monkeypatch.setattr(delivery, "decide", lambda *_, **__: waits)
    test_reports_that_are_refused_are_counted_by_reason()
    taken = fleet(CountingCollector())
    taken.run([["red"], ["red"]], moments(REGISTRY.values(), 1, NOW))
    assert (taken.outcomes["colour"].accepted, taken.outcomes["colour"].dropped) == (2, {})


def test_the_same_secrets_report_the_same_and_are_counted_once():
    collector, when = CountingCollector(), moments(TWO_ROUNDS.values(), 1, NOW)
    for _ in range(2):
        fleet(collector, TWO_ROUNDS, roots=seeded(7)).run([["red"], ["blue"]], when)
    assert len(collector.counted) == 2
    fleet(collector, TWO_ROUNDS, roots=seeded(8)).run([["red"], ["blue"]], when)
    assert len(collector.counted) == 4


def test_a_budget_is_kept_and_what_was_not_made_is_counted():
    text = EXAMPLE.replace("[metrics.colour]", "budget = {epsilon = 1.0}\n[metrics.colour]")
    ran = fleet(CountingCollector(), parse_registry(text))
    ran.run([["red"] * 2] * 3, moments(parse_registry(text).values(), 2, NOW))
    assert (ran.outcomes["colour"].made, ran.outcomes["colour"].not_made) == (3, {"spent": 3})


YEARLY = EXAMPLE.replace("[metrics.colour]", 'panel = {cycle = "year"}\n[metrics.colour]')


def test_devices_that_are_not_asked_open_no_session(monkeypatch):
    of, recorded = parse_registry(YEARLY + EXAMPLE.partition("[metrics.colour]")[2].join(["[metrics.tree]", ""])), []
    real = Session.record
    monkeypatch.setattr(Session, "record", lambda *given: recorded.append(given[1].id) or real(*given))
    when, sent = moments(of.values(), 1, NOW, years=2), CountingCollector()
    assert len(when) == 2 * 104
    ran = fleet(sent, of, roots=seeded(5))
    ran.run([["red"] * len(when)] * 60, when)
    assert len(recorded) == sum(outcome.made for outcome in ran.outcomes.values()) == len(sent.counted)
    assert ran.most_in_a_year == 1
    asked = Counter()
    draw = seeded(5)
    for _ in range(60):
        places = Places(DeviceSecret.of_root(draw()).key(ASKED), of)
        asked.update(
            (name, n) for name in of for n in range(when[0].period, when[-1].period + 1) if places.asks(of[name], n)
        )
    assert asked == Counter((upload.metric, upload.period) for upload in sent.counted.values())


def test_years_are_those_of_the_devices_clock():
    metric = REGISTRY["colour"]
    assert [m.period for m in moments([metric], 1, NOW, years=1)] == [
        *range(metric.period.number(NOW) - 51, metric.period.number(NOW) + 1)
    ]
    with pytest.raises(ParameterError, match="--years 11: give a whole number from 1 to 10"):
        moments([metric], 1, NOW, years=11)
    hours = parse_registry(EXAMPLE.replace('"week"', '"hour"'))["colour"]
    with pytest.raises(ParameterError, match="17,568 periods of colour, and 10,000 are simulated at most"):
        moments([hours], 1, NOW, years=2)


def test_the_next_device_in_the_same_memory_knows_nothing_of_the_one_before():
    state, other = MemoryState(DeviceSecret.of_root(bytes(32))), DeviceSecret.of_root(b"\1" * 32)
    session = Session(state, REGISTRY, lambda: NOW)
    people = fleet(CountingCollector())
    session.record(REGISTRY["colour"], "red", NOW, people.now())
    assert session.flush(people, 0.0) == {"queued": 1}
    state.renew(other)
    fresh = MemoryState(other)
    for one in (state, fresh):
        with one.snapshot() as rows:
            assert rows.outbox.tally() == dict.fromkeys(RowState, 0)
            assert (rows.fingerprint, rows.responses(), rows.counts()) == (other.fingerprint, [], {})
    assert list(state._connection.iterdump()) == list(fresh._connection.iterdump())


def test_the_moments_are_the_last_periods_and_only_such_as_a_collector_takes():
    metric = REGISTRY["colour"]
    assert [m.period for m in moments([metric], 2, NOW)] == [metric.period.number(NOW) - 1, metric.period.number(NOW)]
    assert metric.accept_until(moments([metric], 5, NOW)[0].period) > NOW
    with pytest.raises(ParameterError, match="until 30 days after their week, so give at most 5"):
        moments([metric], 6, NOW)
    with pytest.raises(ParameterError, match="metric colour expired on 2027-11-21"):
        moments([metric], 1, NOW + 366 * 86400)
    with pytest.raises(ParameterError, match="--periods 0: give a whole number from 1"):
        moments([metric], 0, time.time())


DOMAINS = {
    '{kind = "categories", names = ["a", "b"], other = "c"}': ["a", "b", "c"],
    '{kind = "integers", min = 1, max = 3, outside = "separate"}': ["below 1", "1", "2", "3", "above 3"],
    '{kind = "bins", min = 0.0, max = 1.0, count = 2}': ["[0.0, 0.5)", "[0.5, 1.0]"],
    '{kind = "bins", min = 0.0, max = 1.0, count = 1, outside = "separate"}': ["below 0.0", "[0.0, 1.0]", "above 1.0"],
}


def with_domain(domain):
    return parse_registry(EXAMPLE.replace('{kind = "categories", names = ["red", "green", "blue"]}', domain))["colour"]


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_population_holds_every_value_of_a_domain(domain):
    metric = with_domain(domain)
    listed = ValueDistribution.of_values(metric)
    population = ValueDistribution(listed.values, listed.labels, [1.0] * len(listed.values))
    assert list(population.labels) == DOMAINS[domain] == list(metric.labels)
    assert [label_of(metric, value) for value in population.values] == DOMAINS[domain]
    assert set(population.weights) == {1.0}


def test_texts_of_a_file_become_values_and_what_does_not_fit_has_a_label():
    metric = with_domain('{kind = "integers", min = 1, max = 3, outside = "reject"}')
    population = ValueDistribution.of_texts(metric, {"1": 5, "9": 2, "many": 1})
    assert list(population.values) == [1, 9, "many"]
    assert list(population.labels) == ["1", OUTSIDE, OUTSIDE]


def test_devices_keep_their_values_unless_they_are_to_change():
    metric = REGISTRY["colour"]
    when = [Moment(metric, n) for n in range(4)]
    populations = {"colour": ValueDistribution.of_values(metric)}
    kept = list(Holders(populations, when, 0.0, random.Random(1)).devices(50))
    assert all(len(set(values)) == 1 for values in kept)
    holders = Holders(populations, when, 1.0, random.Random(1))
    changing = list(holders.devices(50))
    assert any(len(set(values)) > 1 for values in changing)
    assert holders.truth == [Counter(values[n] for values in changing) for n in range(4)]
    with pytest.raises(ParameterError, match="--change 2: give a share from 0 to 1"):
        Holders(populations, when, 2.0, random.Random(1))
