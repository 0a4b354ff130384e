"""Law 6: accumulating is associative, commutative, order-free; the fast kernel equals the obvious loop."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from contract_cases import TYPICAL_CASES
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.counts import SupportCounts
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch, empty_counts
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Report
from overstory.protocol.wire import decode_batch, encode_reports

ORACLES = [FrequencyOracle(case.build()) for case in TYPICAL_CASES]


def reports_of(encoding):
    one = st.builds(Report, st.integers(0, encoding.num_cohorts - 1), st.integers(0, (1 << encoding.num_bits) - 1))
    return st.lists(one, max_size=40)


collections = st.sampled_from(ORACLES).flatmap(lambda o: st.tuples(st.just(o), reports_of(o.mechanism.encoding)))


def packed(oracle, reports) -> ReportBatch:
    return ReportBatch.from_wire(decode_batch(encode_reports(oracle.mechanism, reports)))


def by_hand(oracle, reports) -> SupportCounts:
    """The obvious way, and none of the package's: one report, one cohort, one bit at a time."""
    encoding = oracle.mechanism.encoding
    totals, ones = [0] * encoding.num_cohorts, [[0] * encoding.num_bits for _ in range(encoding.num_cohorts)]
    for cohort, bits in reports:
        totals[cohort] += 1
        for place, digit in enumerate(reversed(f"{bits:0{encoding.num_bits}b}")):
            ones[cohort][place] += digit == "1"
    return SupportCounts(totals, ones)


@settings(max_examples=60, deadline=None)
@given(collections)
def test_fast_slow_and_by_hand_agree(collection):
    oracle, reports = collection
    expected = by_hand(oracle, reports)
    assert oracle.accumulate(reports) == expected
    assert oracle.accumulate(packed(oracle, reports)) == expected


@settings(max_examples=60, deadline=None)
@given(collections, st.randoms(use_true_random=False), st.lists(st.integers(0, 40), max_size=4))
def test_any_order_any_parts(collection, random, cuts):
    oracle, reports = collection
    whole = oracle.accumulate(packed(oracle, reports))
    shuffled = random.sample(reports, len(reports))
    edges = [0, *sorted(cuts), len(shuffled)]
    parts = [packed(oracle, shuffled[a:b]) for a, b in pairwise(edges)]
    counts = [oracle.accumulate(part) for part in parts]
    random.shuffle(counts)
    nothing = empty_counts(oracle.mechanism.encoding)
    assert reduce(SupportCounts.__add__, counts, nothing) == whole
    assert reduce(lambda a, b: b + a, counts, nothing) == whole


@settings(max_examples=40, deadline=None)
@given(collections, st.integers(0, 40), st.integers(0, 40))
def test_a_commutative_monoid(collection, first, second):
    oracle, reports = collection
    low, high = sorted((first, second))
    a, b, c = (oracle.accumulate(part) for part in (reports[:low], reports[low:high], reports[high:]))
    nothing = empty_counts(oracle.mechanism.encoding)
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert a + nothing == nothing + a == a


@pytest.mark.parametrize("oracle", ORACLES, ids=[str(case) for case in TYPICAL_CASES])
def test_simulated_reports_count_alike_both_ways(oracle):
    encoding = oracle.mechanism.encoding
    symbols = [1] * 150 if encoding.num_cohorts == 1 else ["a"] * 150
    batch = oracle.simulate(symbols, np.random.default_rng(1))
    reports = list(decode_batch(batch.to_wire(oracle.mechanism.digest)))
    assert oracle.accumulate(batch) == oracle.accumulate(reports)


def test_counts_of_another_collection_are_refused():
    with pytest.raises(ParameterError, match="different collections"):
        SupportCounts.empty(1, 3) + SupportCounts.empty(1, 4)
