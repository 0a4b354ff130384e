"""The response to no value: as private against any value as two values are, by enumeration, and what it adds."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import pytest

from overstory.analysis.alarms.crafted import check_collection
from overstory.analysis.alarms.sums import Watch
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.client import Randomizer
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.sampling import SeededEntropy
from support.contract_cases import SMALL_CASES, TYPICAL_CASES, Case, answers_filters, domain_of, some_values
from support.contract_enumeration import (
    COHORTS,
    ONE,
    PRECISE,
    outcomes,
    outcomes_of_bit,
    reachable,
    symbol_chances,
    worst_ratio,
)
from support.contract_views import output_chances

SECRETS = [number.to_bytes(16, "big") for number in range(3000)]


def as_bits(word, size):
    return tuple(word >> place & 1 for place in range(size))


def ratios_of_bits(built, reports, nothing):
    permanent, later = built.rounds.permanent.thresholds, built.rounds.instantaneous.thresholds if reports else (ONE, 0)
    tables = tuple(outcomes_of_bit(bit, permanent, later, max(reports, 1)) for bit in (0, 1))
    none = as_bits(nothing, built.encoding.num_bits)
    return [
        worst_ratio([outcomes(vector, tables), outcomes(none, tables)])
        for vectors in set(reachable(built))
        for vector in vectors
    ]


def ratios_of_symbols(built, reports):
    size = built.encoding.num_symbols
    first = symbol_chances(built.rounds.permanent.alpha, size)
    later = symbol_chances(built.rounds.instantaneous.alpha if reports else Fraction(1), size)

    def row(chances):
        return [
            sum(Fraction(chances[z]) * math.prod(later[z][y] for y in sequence) for z in range(size))
            for sequence in product(range(size), repeat=max(reports, 1))
        ]

    uniform = row([Fraction(sum(first[0]), size)] * size)
    values, cohorts = some_values(built, 40), range(min(built.num_cohorts, COHORTS))
    held = {built.encoding.symbol(value, cohort) for value in values for cohort in cohorts}
    return [worst_ratio([row(first[symbol]), uniform]) for symbol in held]


def exact_epsilon(built, reports, nothing=None):
    """Worst log ratio between nothing and any value, either way; 0 reports: of the permanent response."""
    if isinstance(built, BitMechanism):
        found = ratios_of_bits(built, reports, built.encoding.nothing if nothing is None else nothing)
    elif isinstance(built, SymbolMechanism):
        found = ratios_of_symbols(built, reports)
    else:
        rows = output_chances(built)
        found = [worst_ratio([row, [Fraction(sum(row), len(row))] * len(row)]) for row in rows]
    if None in found:
        return Decimal("Infinity")
    worst = max(found)
    return PRECISE.ln(PRECISE.divide(Decimal(worst.numerator), Decimal(worst.denominator)))


def stated(built, reports):
    return built.epsilon_n(reports) if reports else built.epsilon_permanent


@pytest.mark.sampled(60)
@pytest.mark.parametrize("reports", [1, 2, 3, 0], ids=["eps_1", "eps_2", "eps_3", "eps_infinity"])
@pytest.mark.parametrize("case", SMALL_CASES, ids=str)
def test_epsilon_between_nothing_and_any_value_is_at_most_the_declared_one(case, reports):
    built = case.build()
    exact = exact_epsilon(built, reports)
    assert exact <= Decimal(stated(built, reports)) or stated(built, reports) == math.inf
    assert exact > 0  # something is compared


def test_no_bits_at_all_are_caught_where_filters_are_crowded():
    """h = 3 of k = 4 bits: two filters differ in one bit each way, and an empty one in three from any."""
    built = mechanism("rappor", num_bits=4, num_hashes=3, num_cohorts=2, f=0.5, p=0.5, q=0.75)
    assert exact_epsilon(built, 1) <= Decimal(built.epsilon_report)
    assert exact_epsilon(built, 1, nothing=0) > Decimal(built.epsilon_report)


def frequencies(built, responses):
    """How often each bit is one, or how often each output comes, and the law says."""
    if isinstance(built, BitMechanism):
        size, channel = built.encoding.num_bits, built.rounds.permanent
        true = as_bits(built.encoding.nothing, size)
        law = [float(channel.keep_one if bit else channel.raise_zero) for bit in true]
        return [sum(r >> place & 1 for r in responses) for place in range(size)], law
    size = built.encoding.num_symbols if isinstance(built, SymbolMechanism) else built.encoding.sizes[0]
    outputs = range(size) if max(responses) < size else sorted(set(responses))  # subsets are not numbered
    return [responses.count(output) for output in outputs], [1 / size] * size


def follows(built, responses):
    counts, law = frequencies(built, responses)
    if len(counts) != len(law):
        return False
    spreads = [math.sqrt(max(len(responses) * p * (1 - p), 1e-9)) for p in law]
    return all(abs(n - len(responses) * p) < 5.5 * s for n, p, s in zip(counts, law, spreads, strict=True))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", TYPICAL_CASES, ids=str)
def test_a_devices_response_to_nothing_follows_that_law(case):
    built = case.build()
    if answers_filters(built):
        assert follows(built, [built.nothing(secret, "law", 0) for secret in SECRETS])
        return
    responses = [Randomizer(built, secret=secret, metric="law", cohort=0).nothing() for secret in SECRETS]
    assert follows(built, responses)
    again = [Randomizer(built, secret=secret, metric="law", cohort=0).nothing() for secret in SECRETS[:50]]
    assert again == responses[:50]  # memoized by derivation
    if not (isinstance(built, BitMechanism) and built.rounds.permanent.is_identity):
        assert not follows(built, [responses[0] ^ 1] * len(responses))  # one response for all devices is caught


def agreement(built, responder, value="nothing"):
    """How often the response to nothing and that to a value agree, against chance; in standard deviations."""
    pairs = [(built.nothing(secret, "law", 0), responder(secret)(value)) for secret in SECRETS]
    width, total = built.payload_bits, len(pairs)
    worst = 0.0
    for place in range(min(width, 16)):
        first, second = ([pair[side] >> place & 1 for pair in pairs] for side in (0, 1))
        p, q = sum(first) / total, sum(second) / total
        both = sum(a & b for a, b in zip(first, second, strict=True))
        spread = math.sqrt(max(total * p * (1 - p) * q * (1 - q), 1e-9))
        worst = max(worst, abs(both - total * p * q) / spread)
    return worst


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", [c for c in TYPICAL_CASES if not answers_filters(c.build())], ids=str)
def test_the_response_to_nothing_is_independent_of_the_values(case):
    built = case.build()
    value = some_values(built, 1)[0] if getattr(built.encoding, "domain_size", None) else "nothing"
    assert agreement(built, lambda secret: built.responder(secret, "law", 0), value) < 5.5


def test_a_response_to_nothing_from_a_values_stream_is_caught():
    """The bits of nothing drawn as those of the string "nothing" are: with the same noise."""
    built = mechanism("rappor")
    broken = lambda secret: lambda value: built.nothing(secret, "law", 0)  # noqa: E731
    assert agreement(built, broken) > 5.5


@pytest.mark.parametrize(
    ("name", "parameters", "gain"),
    [
        ("grr", {"domain_size": 5, "epsilon": 1.0}, Fraction(1, 5)),
        ("l-grr", {"domain_size": 5, "epsilon_permanent": 2.0, "epsilon_report": 1.0}, Fraction(1, 5)),
        ("olh", {"domain_size": 5, "epsilon": 1.0}, 0),
        ("loloha", {"domain_size": 5, "epsilon_permanent": 2.0, "epsilon_report": 1.0}, 0),
        ("hadamard", {"domain_size": 5, "epsilon": 1.0}, 0),
        ("subset", {"domain_size": 5, "epsilon": 1.0, "subset_size": 2}, Fraction(1, 5)),
        ("projective", {"domain_size": 5, "epsilon": 1.0, "field_size": 2}, Fraction(1, 7)),
    ],
)
def test_what_a_share_of_nothing_adds_to_each_value_exactly(name, parameters, gain):
    """A uniform output supports a value with c_set/K, a uniform symbol with 1/k; the estimate debiases that."""
    built = mechanism(name, **parameters)
    if isinstance(built, SymbolMechanism):
        supports = Fraction(1, built.encoding.num_symbols)
    else:
        outputs, own, _ = built.encoding.sizes
        supports = Fraction(own, outputs)
    assert (supports - built.q_star) / (built.p_star - built.q_star) == gain


DEVICES = 4_000
CROWDED = Case("rappor", {"num_bits": 8, "num_hashes": 6, "num_cohorts": 4, "f": 0.2, "p": 0.3, "q": 0.8})
"""Filters of more than half of the bits: nothing is a filter, too."""


def reports_of(built, values, nothing):
    """Reports of real devices, of which this share has no value."""
    entropy = SeededEntropy(1)
    for number in range(DEVICES):
        device = Randomizer(built, secret=number.to_bytes(16, "big"), metric="law", entropy=entropy)
        if number % 10 < 10 * nothing:
            yield device.report_of(device.nothing())
        else:
            yield device.report(values[number // 10 % len(values)])


@pytest.mark.sampled(20)
@pytest.mark.parametrize("nothing", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("case", [*TYPICAL_CASES, CROWDED], ids=str)
def test_reports_of_nothing_do_not_look_crafted(case, nothing):
    """Each collection has an alarm with a chance of at most .001, all 160 with one of .15; fixed seeds.

    `dispersion` is left out: it measures a decoder's fit, which nothing disturbs, as strings outside the list do.
    """
    built = case.build()
    oracle, values = FrequencyOracle(built), some_values(built, 9)
    names = values if domain_of(built) is None else []
    batch = ReportBatch.of(built, reports_of(built, values, nothing))
    counts, watch = oracle.accumulate(batch), Watch.of(built)
    estimate = oracle.estimate(counts, names) if names else oracle.estimate(counts)
    checks = check_collection(built, counts, estimate, sums=watch and watch.sum(batch), labels=names)
    assert checks
    assert [check.name for check in checks if check.raised and check.name != "dispersion"] == []
