"""The response to no value: its law, its independence, and what it adds (`test_law1_epsilon` has its privacy)."""

import math

import pytest

from overstory.analysis.alarms.crafted import check_collection
from overstory.analysis.alarms.sums import Watch
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.client import Randomizer
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.sampling import SeededEntropy
from support.contract_cases import TYPICAL_CASES, Case, answers_filters, domain_of, some_values

SECRETS = [number.to_bytes(16, "big") for number in range(3000)]


def frequencies(built, responses):
    """How often each bit is one, or how often each output comes, and the law says."""
    if isinstance(built, BitMechanism):
        size, channel = built.encoding.num_bits, built.rounds.permanent
        true = built.encoding.nothing
        law = [float(channel.keep_one if true >> bit & 1 else channel.raise_zero) for bit in range(size)]
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


DEVICES = 4_000
CROWDED = Case("rappor", {"num_bits": 8, "num_hashes": 6, "num_cohorts": 4, "f": 0.2, "p": 0.3, "q": 0.8})
"""Filters of more than half of the bits: nothing is a filter, too."""


def reports_of(built, values, nothing):
    entropy = SeededEntropy(1)
    for number in range(DEVICES):
        device = Randomizer(built, secret=number.to_bytes(16, "big"), metric="law", entropy=entropy)
        if number % 10 < 10 * nothing:
            yield device.report_in(0, device.nothing())[1]
        else:
            yield device.report(values[number // 10 % len(values)])


@pytest.mark.sampled(20)
@pytest.mark.parametrize("nothing", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("case", [*TYPICAL_CASES, CROWDED], ids=str)
def test_reports_of_nothing_do_not_look_crafted(case, nothing):
    """Each collection has an alarm with a chance of at most .001, all 160 with one of .15; fixed seeds."""
    built = case.build()
    oracle, values = FrequencyOracle(built), some_values(built, 9)
    names = values if domain_of(built) is None else []
    batch = ReportBatch.of(built, reports_of(built, values, nothing))
    counts, watch = oracle.accumulate(batch), Watch.of(built)
    estimate = oracle.estimate(counts, names) if names else oracle.estimate(counts)
    checks = check_collection(built, counts, estimate, sums=watch and watch.sum(batch), labels=names)
    assert checks or built.encoding.decoded
    assert [check.name for check in checks if check.raised] == []
