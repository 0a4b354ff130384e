"""The ledger: n at once is n in a row, for every event; it states the enumerated truth and forgets nothing."""

import dataclasses
import json
import math
from decimal import Decimal
from fractions import Fraction
from functools import cache
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.privacy import Event, Ledger, OverspentError, Spend, across_devices, across_people, statement, terms_of
from overstory.privacy.accounts import Account
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms import bits, sets, symbols
from overstory.protocol.mechanisms import bits as unary
from overstory.protocol.sampling import symbol_sampler
from support.enumerated_tables import TableDevice, log_worst, symbol_table, worst_of_pattern

CHAIN = symbols.l_grr(domain_size=3, epsilon_permanent=2.0, epsilon_report=1.0)
MECHANISMS = {
    "bits": unary.opt_dr(domain_size=5, epsilon_permanent=2.0),
    "symbols": CHAIN,
    "sets": sets.subset(domain_size=5, epsilon=1.0),
    "fresh": unary.opt_wb(domain_size=5, epsilon=1.0, window=3),
    "strings": bits.rappor(),
}
spends = st.builds(
    lambda kind, event, reports, number: Spend.of(
        kind, MECHANISMS[kind], event, reports=reports, number=number if event is Event.VALUE else None
    ),
    st.sampled_from(sorted(MECHANISMS)),
    st.sampled_from(sorted(Event)),
    st.integers(1, 4),
    st.integers(0, 3),
)


@cache
def started(budget=math.inf):
    """A ledger in which every metric has a value to refer to."""
    ledger = Ledger("someone", budget=budget)
    for kind, built in MECHANISMS.items():
        ledger = ledger.commit(Spend.of(kind, built, Event.NEW_VALUE))
    return ledger


def spend(built=CHAIN, event=Event.VALUE, reports=1, number=0):
    return Spend.of("m", built, event, reports=reports, number=number if event is Event.VALUE else None)


@pytest.mark.parametrize("kind", sorted(MECHANISMS))
@pytest.mark.parametrize("event", sorted(Event))
@settings(deadline=None, max_examples=15)
@given(st.integers(1, 9), st.integers(1, 3))
def test_n_at_once_is_n_in_a_row(kind, event, times, reports):
    one = Spend.of(kind, MECHANISMS[kind], event, reports=reports, number=0 if event is Event.VALUE else None)
    in_a_row = started()
    for _ in range(times):
        in_a_row = in_a_row.commit(one)
    at_once = started().commit(one, times=times)
    assert at_once == in_a_row
    assert at_once.epsilon == in_a_row.epsilon >= started().epsilon
    assert at_once.change_leak == in_a_row.change_leak
    if event is not Event.NEW_VALUE:
        assert at_once == started().commit(dataclasses.replace(one, reports=reports * times))


def test_a_ledger_that_forgets_how_often_is_caught():
    """dp_accounting had a branch that composed an event n times as one."""
    real = Account.after
    with mock.patch.object(Account, "after", lambda self, spend, times=1: real(self, spend)):
        at_once = started().commit(spend(event=Event.NEW_VALUE), times=3)
    in_a_row = started()
    for _ in range(3):
        in_a_row = in_a_row.commit(spend(event=Event.NEW_VALUE))
    assert at_once != in_a_row
    assert at_once.epsilon < in_a_row.epsilon


@settings(deadline=None, max_examples=30)
@given(st.lists(spends, max_size=8), st.randoms())
def test_the_order_does_not_matter_and_nothing_is_free(made, random):
    shuffled = sorted(made, key=lambda _: random.random())
    one, other = started(), started()
    for item in made:
        after = one.commit(item)
        assert after.epsilon >= one.epsilon
        assert after.change_leak >= one.change_leak
        one = after
    for item in shuffled:
        other = other.commit(item)
    assert one == other
    assert one.digest == other.digest


@settings(deadline=None, max_examples=30)
@given(st.lists(spends, max_size=8), st.one_of(st.just(math.inf), st.floats(10.0, 1e6)))
def test_it_is_read_back_as_it_was(made, budget):
    ledger = started(budget)
    for item in made:
        ledger = ledger.after(item)
        assert Spend.from_json(json.loads(json.dumps(item.to_json()))) == item
    read = Ledger.from_json(json.loads(json.dumps(ledger.to_json(), allow_nan=False)))
    assert read == ledger
    assert (read.epsilon, read.digest) == (ledger.epsilon, ledger.digest)


@settings(deadline=None, max_examples=30)
@given(st.lists(spends, max_size=12), st.floats(5.0, 40.0))
def test_the_budget_is_never_exceeded_and_the_dry_run_is_right(made, budget):
    ledger = Ledger("someone", budget=budget)
    for item in made:
        if item.event is Event.KNOWN_VALUES:
            continue
        quote = ledger.dry_run(item)
        assert quote.before == ledger.epsilon
        try:
            after = ledger.commit(item)
        except OverspentError:
            assert not quote.allowed
            assert quote.remaining < 0
            continue
        assert quote.allowed
        assert (quote.after, quote.remaining) == (after.epsilon, after.remaining)
        assert Fraction(quote.before) + Fraction(quote.cost) >= Fraction(quote.after)
        assert 0 <= Fraction(after.remaining) <= Fraction(budget) - Fraction(after.epsilon)
        ledger = after
    assert ledger.epsilon <= budget


def device():
    rounds = CHAIN.rounds
    return TableDevice(*(symbol_table(symbol_sampler(c), 3) for c in (rounds.permanent, rounds.instantaneous)))


def close(stated, exact):
    return Decimal(stated) >= exact and Decimal(stated) - exact < Decimal("1e-9")


@pytest.mark.parametrize("pattern", [(0,), (0, 0), (0, 1), (0, 0, 1), (0, 1, 0), (0, 1, 2), (0, 0, 0)])
def test_numbered_values_cost_what_enumeration_says(pattern):
    """Every output of every pair of histories with this pattern."""
    ledger = Ledger("someone")
    for number in pattern:
        ledger = ledger.commit(spend(number=number))
    exact = worst_of_pattern(device(), range(3), pattern)
    assert close(ledger.epsilon, exact)
    redrawn = TableDevice(device().permanent, device().instantaneous, label=lambda value, time: (value, time))
    assert close(ledger.epsilon, worst_of_pattern(redrawn, range(3), pattern)) == (len(set(pattern)) == len(pattern))


@pytest.mark.parametrize("pattern", [(0, 0, 1), (0, 1, 1), (0, 1, 0)])
def test_what_is_not_remembered_is_never_charged_less(pattern):
    exact = worst_of_pattern(device(), range(3), pattern)
    new, known = spend(event=Event.NEW_VALUE), spend(event=Event.KNOWN_VALUES)
    unnumbered = Ledger("someone").commit(new, times=2).commit(known)
    mixed = Ledger("someone").commit(spend(number=0)).commit(new).commit(known)
    unknown = Ledger("someone").commit(spend(event=Event.ANY_VALUES, reports=3))
    assert Decimal(unknown.epsilon) >= Decimal(unnumbered.epsilon) >= exact
    assert mixed.epsilon == unnumbered.epsilon


def test_two_metrics_add_up():
    """The joint outcomes of two independent devices, enumerated."""
    first, second = (device().reports([value]) for value in (0, 1))
    joint = [{(a, b): p * q for a, p in one.items() for b, q in one.items()} for one in (first, second)]
    ledger = Ledger("someone").commit(Spend.of("one", CHAIN, Event.NEW_VALUE))
    ledger = ledger.commit(Spend.of("two", CHAIN, Event.NEW_VALUE))
    assert close(ledger.epsilon, log_worst(*joint))
    assert ledger.epsilon_of("one") == CHAIN.epsilon_report


def test_fresh_noise_is_counted_in_reports_whatever_the_values():
    built = MECHANISMS["fresh"]
    by_value = Ledger("x").commit(spend(built, number=0), times=4).commit(spend(built, number=1))
    unknown = Ledger("x").commit(spend(built, Event.ANY_VALUES), times=5)
    assert by_value.epsilon == unknown.epsilon == built.epsilon_n(5)
    assert unknown.epsilon_window(3) <= 1.0 < unknown.epsilon
    assert unknown.epsilon_window(100) == unknown.epsilon
    huge = unknown.commit(spend(built, Event.ANY_VALUES, reports=10**6))
    assert huge.epsilon == pytest.approx(1_000_005 * built.epsilon_report)
    assert huge.change_leak == pytest.approx(1_000_004 * built.epsilon_report)


def test_memoized_values_reach_their_ceiling_and_windows_spare_nothing():
    ledger = Ledger("x").commit(spend(), times=10**6)
    assert ledger.epsilon == CHAIN.epsilon_permanent == ledger.epsilon_window(1)
    assert ledger.change_leak == ledger.epsilon_any == terms_of(CHAIN).epsilon_any(10**6) < math.inf
    assert Ledger("x").commit(spend()).change_leak == 0
    many = Ledger("x").commit(spend(event=Event.NEW_VALUE, reports=10**5), times=1000)
    assert many.epsilon == statement(CHAIN).epsilon_values(1000) == statement(CHAIN).epsilon_values(3)


def test_people_compose_in_parallel_and_nobody_else():
    one = Ledger("ann", "phone").commit(spend())
    other = Ledger("bob", "phone").commit(spend(), times=5)
    assert across_people([one, other]) == other.epsilon
    assert across_people([]) == 0
    with pytest.raises(ParameterError, match="one person"):
        across_people([one, Ledger("ann", "laptop")])
    laptop = Ledger("ann", "laptop").commit(spend())
    assert across_devices([one, laptop]) == pytest.approx(2 * one.epsilon)
    for wrong in ([one, other], [one, one]):
        with pytest.raises(ParameterError, match="one person's different devices"):
            across_devices(wrong)


def test_it_is_frozen():
    ledger = started()
    with pytest.raises(dataclasses.FrozenInstanceError):
        ledger.accounts = ()
    assert ledger.dry_run(spend()).before == ledger.epsilon == started().epsilon


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: spend(reports=0), "reports = 0"),
        (lambda: spend(number=None), "has one"),
        (lambda: spend(number=-1), "number = -1"),
        (lambda: dataclasses.replace(spend(event=Event.NEW_VALUE), number=1), "no other has"),
        (lambda: dataclasses.replace(spend(), metric=3), "two texts"),
        (lambda: Ledger("x").commit(spend(), times=0), "times = 0"),
        (lambda: Ledger("x").commit(spend(event=Event.KNOWN_VALUES)), "no value was reported before"),
        (lambda: Ledger("x", budget=0), "budget = 0"),
        (lambda: Ledger("x", budget=math.nan), "budget = nan"),
        (lambda: Ledger(3), "two texts"),
        (lambda: Ledger("x", accounts=started().accounts * 2), "comes twice"),
        (
            lambda: started().commit(
                dataclasses.replace(spend(), metric="sets", mechanism=MECHANISMS["sets"].digest.hex())
            ),
            "other terms",
        ),
    ],
)
def test_what_cannot_be(make, says):
    with pytest.raises(ParameterError, match=says):
        make()


def changed(path, value):
    """The JSON of a ledger with one thing changed."""
    read = started(50.0).commit(spend()).to_json()
    *to, last = path
    inner = read
    for step in to:
        inner = inner[step]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return read


@pytest.mark.parametrize(
    "path",
    [("ledger",), ("person",), ("budget",), ("accounts",), ("accounts", 0, "terms"), ("accounts", 0, "terms", "kind")],
)
def test_what_is_missing_is_one_clear_error(path):
    with pytest.raises(FormatError):
        Ledger.from_json(changed(path, None))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("ledger",), 2),
        (("budget",), "much"),
        (("budget",), -1.0),
        (("accounts",), 5),
        (("accounts", 0, "known"), -1),
        (("accounts", 0, "known"), 1.5),
        (("accounts", 0, "unnumbered"), [[1, 0]]),
        (("accounts", 0, "unnumbered"), [[1]]),
        (("accounts", 0, "numbered"), [["a", 1]]),
        (("accounts", 0, "terms"), {"kind": "bits"}),
        (("accounts", 0, "terms"), []),
        (("accounts", 0, "terms", "kind"), "words"),
        (("accounts", 0, "terms", "most_values"), 0),
        (("accounts", 0, "terms", "permanent"), "many"),
        (("accounts", 0, "terms", "permanent"), [-1, 2**33]),
        (("accounts", 0, "terms", "shapes"), []),
        (("accounts", 0, "terms", "differences"), []),
    ],
)
def test_what_is_wrong_is_one_clear_error(path, value):
    with pytest.raises(FormatError):
        Ledger.from_json(changed(path, value))
    with pytest.raises(FormatError):
        Spend.from_json({"event": "theft", "terms": started().accounts[0].terms.canonical()})
