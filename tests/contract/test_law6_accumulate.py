"""Law 6: accumulating is associative, commutative, order-free; the fast kernel equals the obvious loop."""

from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overstory
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.audit.laws import payloads_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.bits import BitMechanism, Bloom
from overstory.protocol.wire.upload import decode_batch, encode_reports
from support.contract_cases import TYPICAL_CASES, domain_of, is_counted_by_seed, some_values

ORACLES = [FrequencyOracle(case.build()) for case in TYPICAL_CASES]


def reports_of(mechanism):
    sent = sent_by(mechanism)
    return st.lists(st.builds(Report, st.integers(0, mechanism.num_cohorts - 1), sent), max_size=40)


def sent_by(mechanism):
    if isinstance(mechanism, BitMechanism):
        return st.integers(0, (1 << mechanism.payload_bits) - 1)
    return st.sampled_from(payloads_of(mechanism, 0))


collections = st.sampled_from(ORACLES).flatmap(lambda o: st.tuples(st.just(o), reports_of(o.mechanism)))


def packed(oracle, reports):
    return ReportBatch.from_wire(decode_batch(encode_reports(oracle.mechanism, reports)))


def counted(oracle, reports):
    later = isinstance(oracle.mechanism.encoding, Bloom) or is_counted_by_seed(oracle.mechanism)
    named = domain_of(oracle.mechanism) or later
    return oracle.accumulate(reports, None if named else some_values(oracle.mechanism, 5))


def by_hand(oracle, reports):
    """The obvious way, and none of the package's: one report, one cohort, one bit or value at a time."""
    if isinstance(oracle.mechanism, BitMechanism):
        return bits_by_hand(oracle.mechanism.encoding, reports)
    if is_counted_by_seed(oracle.mechanism):
        return seeds_by_hand(oracle.mechanism.encoding, reports)
    values = some_values(oracle.mechanism, domain_of(oracle.mechanism) or 5)
    ones = [sum(oracle.mechanism.supports(report, value) for report in reports) for value in values]
    return SupportCounts([len(reports)], [ones])


def seeds_by_hand(encoding, reports):
    ones = [[0] * encoding.num_symbols for _ in range(encoding.num_cohorts)]
    for seed, symbol in reports:
        ones[seed][symbol] += 1
    return SupportCounts([sum(row) for row in ones], ones)


def bits_by_hand(encoding, reports):
    totals, ones = [0] * encoding.num_cohorts, [[0] * encoding.num_bits for _ in range(encoding.num_cohorts)]
    for cohort, bits in reports:
        totals[cohort] += 1
        for place, digit in enumerate(reversed(f"{bits:0{encoding.num_bits}b}")):
            ones[cohort][place] += digit == "1"
    return SupportCounts(totals, ones)


@settings(max_examples=60)
@given(collections)
def test_fast_slow_and_by_hand_agree(collection):
    oracle, reports = collection
    expected = by_hand(oracle, reports)
    assert counted(oracle, reports) == expected
    assert counted(oracle, packed(oracle, reports)) == expected


@settings(max_examples=60)
@given(collections, st.randoms(use_true_random=False), st.lists(st.integers(0, 40), max_size=4))
def test_any_order_any_parts(collection, random, cuts):
    oracle, reports = collection
    whole = counted(oracle, packed(oracle, reports))
    shuffled = random.sample(reports, len(reports))
    edges = [0, *sorted(cuts), len(shuffled)]
    parts = [packed(oracle, shuffled[a:b]) for a, b in pairwise(edges)]
    counts = [counted(oracle, part) for part in parts]
    random.shuffle(counts)
    nothing = counted(oracle, [])
    assert reduce(SupportCounts.__add__, counts, nothing) == whole
    assert reduce(lambda a, b: b + a, counts, nothing) == whole
    first, *others = counts
    assert first + reduce(SupportCounts.__add__, others, nothing) == whole


@pytest.mark.parametrize(
    ("name", "parameters", "payload"),
    [
        ("grr", {"domain_size": 9}, 9),
        ("olh", {"domain_size": 9, "hash_range": 5}, 5),
        ("projective", {"domain_size": 9}, 13),
    ],
)
def test_a_payload_that_no_device_sends_is_refused(name, parameters, payload):
    oracle = overstory.oracle(name, epsilon=1.0, **parameters)
    with pytest.raises(ParameterError, match=f"below {payload}, not {payload}"):
        oracle.accumulate([Report(0, 0), Report(0, payload)])


def test_what_cannot_be_counted_is_said():
    symbols = overstory.oracle("linear-hash", epsilon=1.0, domain_size=4)
    with pytest.raises(ParameterError, match=r"outside the domain 0 \.\. 3"):
        symbols.accumulate([], [4])
    with pytest.raises(ParameterError, match="give candidates to `estimate`"):
        overstory.oracle("rappor").accumulate([], ["a"])
    with pytest.raises(ParameterError, match="give candidates to `estimate`"):
        overstory.oracle("olh", epsilon=1.0).accumulate([], ["a"])
    with pytest.raises(ParameterError, match="linear-hash reports have 2 bits"):
        symbols.accumulate(ReportBatch.of(overstory.oracle("grr", domain_size=4, epsilon=1.0).mechanism, []))
