import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.kinds.linked import count_pairs_slowly
from overstory.kernels.bits import pairs
from overstory.kernels.bits.pairs import count_pairs_by_cohort
from overstory.kernels.threads import at_most


def some_reports(n, bits, seed):
    words = -(-bits // 64)
    reports = np.random.default_rng([n, bits, seed]).integers(0, 2**64, (n, words), dtype=np.uint64)
    if bits % 64:
        reports[:, -1] &= np.uint64((1 << bits % 64) - 1)
    return reports


def twin(reports, cohorts, num_cohorts, first, second):
    """One report and one pair of bits after the other."""
    counts = np.zeros((num_cohorts, first + 1, second + 1), np.int64)
    for words, cohort in zip(reports.tolist(), cohorts.tolist(), strict=True):
        report = sum(word << 64 * place for place, word in enumerate(words))
        x = [report >> i & 1 for i in range(first)] + [1]
        y = [report >> (first + j) & 1 for j in range(second)] + [1]
        for i, own in enumerate(x):
            for j, other in enumerate(y):
                counts[cohort, i, j] += own & other
    return counts


@pytest.mark.parametrize(("first", "second"), [(1, 1), (2, 3), (63, 2), (3, 62), (64, 1), (5, 70), (7, 121)])
@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200])
def test_pairs_of_bits_are_counted_as_one_by_one(n, first, second):
    reports = some_reports(n, first + second, seed=1)
    cohorts = np.random.default_rng(n).integers(0, 3, n).astype(np.uint16)
    expected = twin(reports, cohorts, 3, first, second)
    assert np.array_equal(count_pairs_by_cohort(reports, cohorts, 3, first, second), expected)
    assert np.array_equal(count_pairs_slowly(reports, cohorts, 3, first, second), expected)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([0, 1, 4095, 4096, 4097, 9000]),
    st.integers(1, 130),
    st.integers(1, 130),
    st.integers(1, 20),
    st.sampled_from([1, 2, None]),
)
def test_the_kernel_equals_the_matrix_product(n, first, second, num_cohorts, threads):
    reports = some_reports(n, first + second, seed=2)
    cohorts = np.random.default_rng(n).integers(0, num_cohorts, n).astype(np.uint16)
    with at_most(threads):
        counted = count_pairs_by_cohort(reports, cohorts, num_cohorts, first, second)
    assert counted.dtype == np.int64
    assert np.array_equal(counted, count_pairs_slowly(reports, cohorts, num_cohorts, first, second))


def test_a_block_that_is_full_and_one_more_report_carry_all_ones():
    n = 64 * pairs.GROUPS + 1
    reports, cohorts = np.full((n, 2), 2**64 - 1, np.uint64), np.zeros(n, np.uint16)
    assert (count_pairs_by_cohort(reports, cohorts, 1, 64, 64) == n).all()


def test_a_lost_report_would_be_seen():
    """The comparison above, against a count that forgets the last report of each cohort."""
    reports, cohorts = some_reports(200, 20, seed=3), np.zeros(200, np.uint16)
    lossy = count_pairs_by_cohort(reports[:-1], cohorts[:-1], 1, 10, 10)
    assert not np.array_equal(lossy, twin(reports, cohorts, 1, 10, 10))


@pytest.mark.parametrize(
    ("reports", "cohorts", "first", "second"),
    [
        (np.zeros((2, 1), np.uint64), np.zeros(2, np.uint16), 40, 25),
        (np.zeros((2, 1), np.int64), np.zeros(2, np.uint16), 4, 4),
        (np.zeros((2, 1), np.uint64), np.zeros(3, np.uint16), 4, 4),
        (np.zeros((2, 1), np.uint64), np.array([0, 1], np.uint16), 4, 4),
    ],
)
def test_what_cannot_be_counted_is_refused(reports, cohorts, first, second):
    with pytest.raises(ValueError, match=r"reports must be|cohorts must be"):
        count_pairs_by_cohort(reports, cohorts, 1, first, second)
