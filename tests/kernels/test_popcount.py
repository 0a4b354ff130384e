import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis import reports as by_numpy
from overstory.kernels.popcount import count_bits_by_cohort, count_bits_grouped
from overstory.kernels.threads import at_most

SIZES = [0, 1, 15, 16, 17, 24, 25, 255, 256, 257, 1023, 1024, 1025, 4096, 5000]


def some_reports(n, words, seed=0):
    return np.random.default_rng([n, words, seed]).integers(0, 2**64, (n, words), dtype=np.uint64)


def twin_by_cohort(reports, cohorts, num_cohorts):
    """By NumPy alone, as few reports are counted: some rows at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_numpy, "ROWS", 90)
        return by_numpy.count_slowly(reports, cohorts, num_cohorts)


def twin(reports):
    return twin_by_cohort(reports, np.zeros(len(reports), np.uint16), 1)[1][0]


def assert_same(got, expected):
    assert got[0].dtype == got[1].dtype == np.int64
    assert np.array_equal(got[0], expected[0])
    assert np.array_equal(got[1], expected[1])


def count_bits(reports):
    return count_bits_grouped(reports, np.array([0, len(reports)]))[1][0]


@pytest.mark.parametrize("words", [1, 2, 3])
def test_all_ones_carry_all_the_way(words):
    reports = np.full((70_001, words), 2**64 - 1, dtype=np.uint64)
    for threads in (1, 2, 3):
        with at_most(threads):
            assert (count_bits(reports) == 70_001).all()


@settings(max_examples=60)
@given(
    st.sampled_from(SIZES),
    st.integers(1, 5) | st.just(16),
    st.integers(1, 40),
    st.integers(0, 2**32),
    st.sampled_from([1, 2, None]),
)
def test_cohorts_in_any_order_and_in_groups(n, words, num_cohorts, seed, threads):
    reports = some_reports(n, words, seed)
    cohorts = np.random.default_rng(seed).integers(0, num_cohorts, n).astype(np.uint16)
    expected = twin_by_cohort(reports, cohorts, num_cohorts)
    with at_most(threads):
        assert_same(count_bits_by_cohort(reports, cohorts, num_cohorts), expected)
    offsets = np.concatenate([[0], np.cumsum(expected[0])])
    grouped = reports[np.argsort(cohorts, kind="stable")]
    with at_most(threads):
        assert_same(count_bits_grouped(grouped, offsets), expected)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_change_nothing(threads):
    n, num_cohorts = 150_011, 16
    reports = some_reports(n, 2)
    cohorts = np.random.default_rng(1).integers(0, num_cohorts, n).astype(np.uint16)
    offsets = np.array([0, 10, 10, 90_000, 149_000])  # an empty cohort; rows past the last belong to none
    with at_most(threads):
        counted = count_bits_by_cohort(reports, cohorts, num_cohorts)
        totals, ones = count_bits_grouped(reports, offsets)
    assert_same(counted, twin_by_cohort(reports, cohorts, num_cohorts))
    assert totals.tolist() == [10, 0, 89_990, 59_000]
    for cohort in range(4):
        assert np.array_equal(ones[cohort], twin(reports[offsets[cohort] : offsets[cohort + 1]]))


def test_many_cohorts():
    reports, cohorts = some_reports(30_000, 2), np.random.default_rng(1).integers(0, 65_535, 30_000).astype(np.uint16)
    totals, ones = count_bits_by_cohort(reports, cohorts, 65_535)
    assert np.array_equal(totals, np.bincount(cohorts, minlength=65_535))
    assert np.array_equal(ones.sum(axis=0), twin(reports))
    assert np.array_equal(ones[cohorts[5]], twin(reports[cohorts == cohorts[5]]))


def test_reports_that_are_views_or_read_only():
    reports = some_reports(1000, 4)
    assert np.array_equal(count_bits(reports[::3]), twin(reports[::3]))
    assert np.array_equal(count_bits(reports[:, 1:3]), twin(np.ascontiguousarray(reports[:, 1:3])))
    unaligned = np.frombuffer(b"x" + reports.tobytes(), dtype=np.uint64, count=4000, offset=1).reshape(1000, 4)
    assert np.array_equal(count_bits(unaligned), twin(reports))


def test_a_cohort_that_does_not_exist_is_named():
    reports, cohorts = some_reports(3, 1), np.array([0, 7, 1], dtype=np.uint16)
    with pytest.raises(ValueError, match=r"cohorts\[1\] is 7; there are 7 cohorts"):
        count_bits_by_cohort(reports, cohorts, 7)


@pytest.mark.parametrize("offsets", [[-1, 2], [0, 4], [0, 2, 1, 3], []])
def test_offsets_that_leave_the_rows_are_refused(offsets):
    with pytest.raises(ValueError, match="offsets"):
        count_bits_grouped(some_reports(3, 1), np.array(offsets, dtype=np.int64))


@pytest.mark.parametrize("reports", [np.zeros(3, np.uint64), np.zeros((3, 1), np.int64), np.zeros((3, 0), np.uint64)])
def test_other_shapes_and_types_are_refused(reports):
    with pytest.raises(ValueError, match="reports must be uint64"):
        count_bits(reports)
