"""Symbols, sets and unary bits: every stated epsilon against the enumeration of real samplers, and of broken ones."""

from decimal import Decimal
from fractions import Fraction

import pytest
from test_epsilons import CASES as BLOOM_CASES

from overstory.privacy import change_leak, epsilon_between, statement, terms_of
from overstory.protocol.channels import SymbolChannel
from overstory.protocol.mechanisms import bits, sets, symbols
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.registry import REGISTRY, mechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.sampling import symbol_sampler
from support.enumerated_tables import (
    TableDevice,
    apart,
    bit_table,
    set_table,
    symbol_table,
    worst_of_changes,
    worst_of_pattern,
    worst_of_reports,
)

NOTHING = "nothing"
LONG = {"epsilon_permanent": 2.0, "epsilon_report": 1.0}
CASES = [
    ("grr", {"domain_size": 3, "epsilon": 1.0}),
    ("grr", {"domain_size": 2, "epsilon": 0.5}),
    ("olh", {"domain_size": 5, "epsilon": 0.7, "hash_range": 3}),
    ("blh", {"domain_size": 4, "epsilon": 1.5}),
    ("linear-hash", {"domain_size": 4, "epsilon": 1.0}),
    ("hadamard", {"domain_size": 4, "epsilon": 1.0}),
    ("random-matrix", {"domain_size": 4, "advantage": 0.25}),
    ("l-grr", {"domain_size": 4, **LONG}),
    ("l-grr", {"domain_size": 3, **LONG, "published": True}),
    ("loloha", {"domain_size": 5, **LONG, "hash_range": 3}),
    ("loloha", {"domain_size": 4, **LONG, "hash_range": 2}),
    ("subset", {"domain_size": 4, "epsilon": 0.5, "subset_size": 2}),
    ("subset", {"domain_size": 3, "epsilon": 1.0, "subset_size": 1}),
    ("projective", {"domain_size": 4, "epsilon": 0.6, "field_size": 2}),
    ("projective", {"domain_size": 4, "epsilon": 1.0, "field_size": 3}),
    ("sue", {"domain_size": 3, "epsilon": 1.0}),
    ("oue", {"domain_size": 3, "epsilon": 1.0}),
    ("wb", {"domain_size": 3, "epsilon": 1.0, "window": 2}),
    ("opt-wb", {"domain_size": 2, "epsilon": 2.0, "window": 3}),
    ("opt-dr", {"domain_size": 3, "epsilon_permanent": 2.0}),
    ("l-sue", {"domain_size": 3, **LONG}),
    ("l-osue", {"domain_size": 3, **LONG}),
    ("l-soue", {"domain_size": 2, **LONG}),
    ("dbitflip", {"domain_size": 5, "epsilon": 1.0, "sampled_bits": 3}),
    ("dbitflip", {"domain_size": 4, "epsilon": 1.0, "sampled_bits": 1}),
]
CASES = [case for case in CASES if case[0] != "dbitflip" or "dbitflip" in REGISTRY]


def made(name, **parameters):
    """Build a mechanism by its function, whether or not it is registered."""
    found = (getattr(module, name.replace("-", "_"), None) for module in (symbols, sets, bits))
    build = next((function for function in found if function), None)
    return build(**parameters) if build else mechanism(name, **parameters)


def device_of(built, **broken):
    """The device with real tables, in a cohort where values are as different as they can be."""
    cohort = spread_cohort(built)
    if isinstance(built, SetMechanism):
        table = set_table(built, range(built.encoding.domain_size))
        outputs = {output for row in table.values() for output in row}
        device = TableDevice(table, {output: {output: 1} for output in outputs})
    elif isinstance(built, SymbolMechanism):
        size = built.encoding.num_symbols
        tables = [symbol_table(symbol_sampler(c), size) for c in (built.rounds.permanent, built.rounds.instantaneous)]
        device = TableDevice(*tables, encode=lambda value: built.encoding.symbol(value, cohort))
    else:
        tables = [bit_table(c, built.encoding.num_bits) for c in (built.rounds.permanent, built.rounds.instantaneous)]
        device = TableDevice(*tables, encode=lambda value: built.encode(value, cohort))
    device.label = lambda value, time: built.response_key(value, cohort)
    vars(device).update(broken)
    return device, cohort


def spread_cohort(built):
    """A cohort in which as many symbols, or bits, as possible occur."""
    if isinstance(built, SetMechanism):
        return 0

    def occurring(cohort):
        if isinstance(built, BitMechanism):
            return len({built.encode(value, cohort) for value in range(built.encoding.domain_size)})
        return len({built.encoding.symbol(value, cohort) for value in range(built.encoding.domain_size)})

    return max(range(min(built.num_cohorts, 50)), key=occurring)


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1].values()))}", scope="module")
def built(request):
    name, parameters = request.param
    return made(name, **parameters)


@pytest.fixture(scope="module")
def device(built):
    return device_of(built)[0]


def holds(stated, exact):
    """Never below what is true, and above it by less than 1e-9."""
    if exact.is_infinite():
        return stated == float("inf")
    return Decimal(stated) >= exact and Decimal(stated) - exact < Decimal("1e-9")


def domain(built):
    return range(built.encoding.domain_size)


def most_reports(built):
    return 2 if built.payload_bits > 3 else 3


def test_every_mechanism_of_the_registry_is_enumerated():
    assert {name for name, _ in (*CASES, *BLOOM_CASES)} >= set(REGISTRY)


@pytest.mark.sampled(12)
def test_the_epsilons_of_reports(built, device):
    said = statement(built, reports=(1, 2, 3), change_reports=())
    assert said.epsilon_report == said.epsilon_n[1]
    for reports in range(1, most_reports(built) + 1):
        assert holds(said.epsilon_n[reports], worst_of_reports(device, domain(built), reports)), reports


@pytest.mark.sampled(12)
def test_the_permanent_epsilon_is_that_of_seeing_the_response(built, device):
    responses = {response for row in device.permanent.values() for response in row}
    seen = TableDevice(device.permanent, {response: {response: 1} for response in responses}, device.encode)
    assert holds(statement(built).epsilon_permanent, worst_of_reports(seen, domain(built), 1))


@pytest.mark.sampled(12)
def test_the_leak_of_a_change(built, device):
    for reports in range(2, most_reports(built) + 1):
        exact = worst_of_changes(*with_nothing(built, device), reports)
        assert holds(change_leak(built, reports), exact), reports


def with_nothing(built, device):
    """Return a device that may have nothing to report as well, and all it may hold."""
    encode, label, permanent = device.encode, device.label, dict(device.permanent)
    nothing = built.encoding.nothing if isinstance(built, BitMechanism) else NOTHING
    if nothing == NOTHING:
        outputs = {response for row in permanent.values() for response in row}
        permanent[NOTHING] = dict.fromkeys(outputs, Fraction(1, len(outputs)))
    able = TableDevice(
        permanent,
        device.instantaneous,
        lambda value: nothing if value == NOTHING else encode(value),
        lambda value, time: NOTHING if value == NOTHING else label(value, time),
    )
    return able, [*domain(built), NOTHING]


@pytest.mark.sampled(12)
def test_distinct_values_of_one_pattern(built, device):
    """(a, b) against (c, d): D values cost D permanent epsilons where one report shows the response, or less."""
    exact = worst_of_pattern(device, one_per_response(built, device), (0, 1))
    stated = statement(built).epsilon_values(2, reports=2)
    assert Decimal(stated) >= exact
    if terms_of(built).fresh or built.epsilon_n(2) == built.epsilon_n(1):
        assert holds(stated, exact)


def one_per_response(built, device):
    """One value for every response: two values with one symbol would be another pattern."""
    return list({device.label(value, 0): value for value in domain(built)}.values())


HISTORIES = [([0], [1]), ([0, 0], [0, 1]), ([0, 1], [2, 2]), ([0, 1], [1, 2]), ([0, 1, 0], [1, 0, 1])]


@pytest.mark.sampled(24)
@pytest.mark.parametrize(("first", "second"), HISTORIES, ids=str)
def test_any_two_histories(built, device, first, second):
    size = built.encoding.domain_size
    first, second = ([value % size for value in history][: most_reports(built)] for history in (first, second))
    assert holds(epsilon_between(built, first, second, cohort=spread_cohort(built)), apart(device, first, second))


@pytest.mark.parametrize("name", ["wb", "opt-wb"])
def test_fresh_noise_adds_up_whatever_the_values(name):
    built = made(name, domain_size=2, epsilon=1.5, window=3)
    device, terms = device_of(built)[0], terms_of(built)
    histories = [[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    exact = max(apart(device, x, y) for x in histories for y in histories)
    assert holds(terms.epsilon_any(3), exact)
    assert terms.epsilon_any(3) <= 1.5


@pytest.mark.parametrize("name", ["l-grr", "subset", "opt-dr"])
def test_a_device_that_draws_again_is_caught(name):
    built = made(name, **next(parameters for known, parameters in CASES if known == name))
    broken, _ = device_of(built, label=lambda value, time: (value, time))
    assert not holds(built.epsilon_n(2), worst_of_reports(broken, domain(built), 2))
    assert not holds(change_leak(built), worst_of_changes(broken, domain(built), 2))


def test_a_device_that_memoizes_values_instead_of_symbols_is_caught():
    """Two values with one symbol: their change must show nothing, and it would."""
    built = made("loloha", domain_size=4, **LONG, hash_range=2)
    (broken, cohort), (sound, _) = device_of(built, label=lambda value, time: value), device_of(built)
    first, second = next((a, b) for a in range(4) for b in range(a) if sound.encode(a) == sound.encode(b))
    stated = epsilon_between(built, [first, first], [first, second], cohort=cohort)
    assert stated == 0
    assert holds(stated, apart(sound, [first, first], [first, second]))
    assert not holds(stated, apart(broken, [first, first], [first, second]))


def test_a_sampler_that_keeps_too_often_is_caught():
    built = made("grr", domain_size=3, epsilon=1.0)
    lazy = SymbolChannel(3, built.rounds.permanent.alpha * 2)
    broken, _ = device_of(built, permanent=symbol_table(symbol_sampler(lazy), 3))
    assert not holds(built.epsilon_report, worst_of_reports(broken, range(3), 1))
    assert not holds(built.epsilon_permanent, worst_of_reports(broken, range(3), 1))


def test_an_epsilon_of_the_published_round_stated_for_the_exact_one_is_caught():
    exact, published = (made("l-grr", domain_size=4, **LONG, published=flag) for flag in (False, True))
    assert not holds(published.epsilon_report, worst_of_reports(device_of(exact)[0], range(4), 1))
