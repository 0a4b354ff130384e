"""Any two histories of values: the formula against the enumeration of a device."""

from decimal import Decimal
from math import inf

import pytest

from overstory.privacy import change_leak, epsilon_between
from overstory.privacy.histories import pairs
from overstory.privacy.histories.pairs import bit_losses
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from support.referee_cases import SIZED, STRINGS, apart_cohort
from support.referee_device import SymbolDevice, device

BASIC = mechanism("basic-rappor", domain_size=3, f=0.5, p=0.5, q=0.75)
GOOGLE = {"num_bits": 3, "num_hashes": 2, "num_cohorts": 1, "hash_family": "google-rappor-python"}
CASES = [
    *SIZED.items(),
    ("loloha", {"domain_size": 4, "epsilon_permanent": 2.0, "epsilon_report": 1.0, "hash_range": 2}),
    *STRINGS.items(),
    ("rappor", GOOGLE),
]
HISTORIES = [
    ([0], [1]),
    ([0, 0], [1, 1]),
    ([0, 0], [0, 1]),
    ([0, 1], [2, 2]),
    ([0, 1], [1, 2]),
    ([0, 1, 0], [0, 1, 2]),
    ([0, 1, 0], [1, 0, 1]),
]


@pytest.mark.parametrize(("first", "second"), HISTORIES, ids=str)
@pytest.mark.parametrize(("name", "given"), CASES, ids=str)
def test_two_histories(name, given, first, second):
    built = mechanism(name, **given)
    if built.domain_size is None:
        first, second = ([f"v{value}" for value in history] for history in (first, second))
    stated = epsilon_between(built, first, second, cohort=apart_cohort(built))
    assert holds(stated, device(built, apart_cohort(built)), first, second)


def holds(stated, real, first, second):
    """Never below what is true, and above it by less than 1e-9."""
    histories = tuple(first), tuple(second)
    exact = max(real.loss(*histories), real.loss(*reversed(histories)))
    return stated == exact == inf or 0 <= Decimal(stated) - exact < Decimal("1e-9")


def test_a_device_that_memoizes_values_instead_of_symbols_is_caught():
    """Two values with one symbol: their change must show nothing, and it would."""

    class Memoizing(SymbolDevice):
        def response(self, value):
            return value

    built = mechanism("loloha", domain_size=4, epsilon_permanent=2.0, epsilon_report=1.0, hash_range=2)
    cohort = apart_cohort(built)
    symbols = [built.encode(value, cohort) for value in range(4)]
    one, other = next((a, b) for a in range(4) for b in range(a) if symbols[a] == symbols[b])
    histories = [one, one], [one, other]
    assert epsilon_between(built, *histories, cohort=cohort) == 0
    assert holds(0, device(built, cohort), *histories)
    assert not holds(0, Memoizing(built, cohort), *histories)


def test_the_leak_of_a_change_grows_with_every_report():
    leaks = [change_leak(BASIC, n) for n in range(2, 9)]
    assert leaks == sorted(leaks)
    assert leaks[-1] > BASIC.epsilon_permanent


def test_the_same_pattern_costs_each_value_once():
    apart = epsilon_between(BASIC, [0, 0, 1, 1], [1, 1, 0, 0])
    assert BASIC.epsilon_n(2) < apart <= 2 * BASIC.epsilon_n(2)


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ([], [], "not empty"),
        ([0], [0, 1], "one length"),
        ([0] * 3, [0, 1, 7], "outside the domain"),
    ],
)
def test_what_cannot_be_compared(first, second, says):
    with pytest.raises(ParameterError, match=says):
        epsilon_between(BASIC, first, second)


def test_what_would_take_too_long():
    with pytest.raises(ParameterError, match="outcomes"):
        bit_losses(BASIC.rounds, [(i, 1) for i in range(20)], [(i, 0) for i in range(20)])
    for reports in (1, 1001):
        with pytest.raises(ParameterError, match="from 2 to 1000"):
            change_leak(BASIC, reports)


def test_after_an_infinite_leak_no_other_change_is_looked_at(monkeypatch):
    """C: `overstory privacy grr` worked out 549 changes, each of them infinite."""
    looked = []
    ratios = pairs.symbol_ratios
    monkeypatch.setattr(pairs, "symbol_ratios", lambda *given: looked.append(given) or ratios(*given))
    assert change_leak(mechanism("grr", domain_size=7, epsilon=1.25), 90) == inf
    assert len(looked) == 1
