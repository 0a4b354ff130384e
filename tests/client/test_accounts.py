"""A metric's accounts: under other parameters, or another meaning of its symbols, a device's responses are others."""

from datetime import UTC, date, datetime
from itertools import permutations

import pytest

from overstory.client import Outcome
from overstory.client.budget import ledger_of
from overstory.client.consent import choose
from overstory.client.person.view import asked_of, question
from overstory.client.randomizer import randomizer_of
from overstory.client.session import MetricRecorder
from overstory.client.state.state import State
from overstory.presentation.document import Paragraph
from overstory.privacy.terms import terms_of
from support.devices import DAY, Clock, device, registry
from support.referee_device import device as referee_of

NAMES = 'domain = {{kind = "categories", names = [{}]}}\nperiod = "day"\n'
ABC, BAC = NAMES.format('"a", "b", "c"'), NAMES.format('"b", "a", "c"')
OTHER = ABC.replace("]}", '], other = "another"}')
NUMBERS = 'domain = {{kind = "integers", min = 0, max = 4, outside = "{}"}}\nperiod = "day"\n'
TEXTS = 'domain = {kind = "strings"}\nperiod = "day"\n'
WORDS = 'domain = {{kind = "unknown-strings", max_bytes = 4{}}}\nperiod = "day"\noracle = "prefix-search"\n'
THREE = "parameters = {epsilon = 3.0}\n"
BASIC = 'oracle = "basic-rappor"\n'
CHAIN = 'oracle = "l-grr"\nparameters = {epsilon_permanent = 2.0, epsilon_report = 1.0}\n'
RAPPOR = 'oracle = "rappor"\nparameters = {{num_bits = 32, num_hashes = 2, num_cohorts = {}{}}}\n'
OLH = 'oracle = "olh"\nparameters = {{epsilon = 2.0, num_seeds = {}}}\n'

CHANGES = {
    "reordered categories": (ABC + BASIC, BAC + BASIC),
    "reordered categories, a chain": (ABC + CHAIN, BAC + CHAIN),
    "another category": (ABC + BASIC, NAMES.format('"a", "b", "d"') + BASIC),
    "other was added": (NAMES.format('"a", "b", "c", "d"') + CHAIN, OTHER + CHAIN),
    "clamp, then reject": (NUMBERS.format("clamp") + CHAIN, NUMBERS.format("reject") + CHAIN),
    "reject, then clamp": (NUMBERS.format("reject") + CHAIN, NUMBERS.format("clamp") + CHAIN),
    "fewer cohorts": (TEXTS + RAPPOR.format(16, ""), TEXTS + RAPPOR.format(8, "")),
    "another hash key": (TEXTS + RAPPOR.format(4, ""), TEXTS + RAPPOR.format(4, ', hash_key = "again"')),
    "fewer seeds": (ABC + OLH.format(128), ABC + OLH.format(64)),
    "another alphabet": (WORDS.format(', alphabet = "abcdef"') + THREE, WORDS.format(', alphabet = "abcdxy"') + THREE),
    "other known words": (WORDS.format(', known = ["abc"]') + THREE, WORDS.format(', known = ["abd"]') + THREE),
    "another oracle": (ABC + BASIC, ABC + CHAIN),
}
VALUES = {'domain = {kind = "integers"': (3, 1, 0), 'domain = {kind = "categories"': ("a", "b")}


def of(rest, version="1", budget=None):
    return registry(version=version, m=rest, more="" if budget is None else f"[budget]\n{budget}\n")


def values_of(rest):
    return next((values for start, values in VALUES.items() if rest.startswith(start)), ("abc", "abcd"))


def lived(folder, parts, value, days):
    """Report one value by each registry in turn; return the last client, before it is closed."""
    clock = Clock()
    for version, rest in enumerate(parts):
        with device(folder, clock=clock, registry=of(rest, str(version))) as client:
            once = client.registry["m"].mechanism.once
            for day in range(days):
                outcome = client.record("m", value)
                assert outcome is (Outcome.ALREADY if once and day else Outcome.RECORDED)
                clock.tomorrow()
            client.flush()
    return client


KEYS = [number.to_bytes(32, "big") for number in range(400)]


@pytest.mark.parametrize("change", [name for name, (rest, _) in CHANGES.items() if "prefix-search" not in rest])
def test_under_another_account_every_response_is_drawn_again(change):
    """Of a value whose symbol stays, too, and of nothing; the keys are fixed, so this passes always or never.

    Were the second draw independent of the first, as claimed, a set of keys would fail 6 times in 10 million (5 sigma).
    Devices of a search are asked different questions, so theirs are not compared.
    """
    before, after = (of(rest)["m"] for rest in CHANGES[change])
    assert before.account != after.account
    devices = [(randomizer_of(before, key), randomizer_of(after, key)) for key in KEYS]
    assert all(one.report_in(7, 0)[0] != other.report_in(7, 0)[0] for one, other in devices), "batch ids"
    draws = {"nothing": [[device.nothing() for device in pair] for pair in devices]}
    for value in values_of(CHANGES[change][0]):
        symbols = [metric.encode(value) for metric in (before, after)]
        draws[value] = [[own.permanent(held) for own, held in zip(pair, symbols, strict=True)] for pair in devices]
    for value, pairs in draws.items():
        firsts, seconds = zip(*pairs, strict=True)
        shares = [[seen.count(each) / len(KEYS) for each in {*firsts, *seconds}] for seen in (firsts, seconds)]
        chance = sum(p * q for p, q in zip(*shares, strict=True))
        agree = sum(one == other for one, other in pairs)
        assert abs(agree - len(KEYS) * chance) <= 5 * (len(KEYS) * chance * (1 - chance)) ** 0.5 + 1, value


def test_responses_that_follow_from_the_metrics_key_alone_are_caught():
    """What the test above is worth: the mechanism is the same before and after, and so would each response be."""
    before, after = (of(rest)["m"] for rest in CHANGES["reordered categories"])
    assert before.mechanism.digest == after.mechanism.digest
    respond = [metric.mechanism.responder(KEYS[7], "m", 0) for metric in (before, after)]
    assert respond[0](before.encode("c")) == respond[1](after.encode("c"))


def test_who_returns_to_an_account_goes_on_in_it(tmp_path):
    client = lived(tmp_path, (ABC + BASIC, BAC + BASIC, ABC + BASIC), "a", 2)
    with State(client.paths).snapshot() as rows:
        responses, ledger = rows.responses("m"), ledger_of(rows)
        sent = [row.body[24:] for row in rows.outbox.rows("m")]  # some have lost their batch ids
    assert [(one.number, one.reports) for one in responses] == [(0, 4), (1, 2)]
    assert sorted(account.reports for account in ledger.accounts) == [2, 4]
    key = State(client.paths).begin().key("m")
    periods = [int(Clock().now // DAY) + day for day in range(6)]
    metrics = [of(rest)["m"] for rest in (ABC + BASIC, BAC + BASIC, ABC + BASIC) for _ in range(2)]
    again = [MetricRecorder(one, key).make("a", period).body[24:] for one, period in zip(metrics, periods, strict=True)]
    assert sent == again, "the same bytes for the same key, metric, parameters, period and response"


def lines_of(client):
    (spent,) = client.status().spent
    return spent


def test_the_question_counts_what_was_reported_before_the_change(tmp_path):
    """Before agreeing: the reports so far under the earlier parameters, and the response that is to come."""
    before, after = CHANGES["fewer cohorts"]
    client = lived(tmp_path, (before,), "abc", 10)
    asked = asked_of(client.paths, of(after, "2"), None, date(2026, 12, 24))
    cost = asked.costs["m"]
    assert cost.line("unchanged").amount == "epsilon 4.3"
    assert cost.line("permanent").amount == "epsilon 8.79"
    assert cost.line("report").about == "one report, by the parameters in force"
    spoken = [block.text for block in question(asked) if isinstance(block, Paragraph)]
    assert "What your 10 reports so far can have told of you:" in spoken
    choose(client.paths, asked.registry, "on", datetime(2026, 12, 24, tzinfo=UTC).date())
    assert lines_of(device(tmp_path, registry=asked.registry, choice=None)) == cost


SIX = NAMES.format(", ".join(f'"{name}"' for name in "abcdef")) + BASIC


@pytest.mark.parametrize("values", [("a", "b"), ("a", "no value"), ("no value", "no value"), ("no value", "a")])
def test_nothing_is_one_of_the_responses_and_no_value_more(tmp_path, values, clock):
    """Of six values and nothing, two reports: 1.3959 by enumeration, whatever was held."""
    with device(tmp_path, registry=of(SIX), clock=clock) as client:
        for value in values:
            client.record("m", value)
            clock.tomorrow()
        client.flush()
        headline = lines_of(client).headline
    mechanism = of(SIX)["m"].mechanism
    assert headline.amount == "epsilon 1.4"
    assert headline.epsilon == terms_of(mechanism).epsilon_any(2)
    real = referee_of(mechanism, 0)
    worst = max(real.loss(*pair) for pair in permutations([(0, 1), (2, 3), (2, 2), (1, 0), (0, 0), (1, 1)], 2))
    assert float(worst) == pytest.approx(1.3959, abs=5e-5)
