"""Support counts refuse what no reports could give; bits are counted by NumPy or by kernels, whichever pays."""

import os
import subprocess
import sys

import numpy as np
import pytest

from overstory.analysis import reports as bit_counts
from overstory.analysis.reports import SupportCounts
from overstory.kernels import columns
from overstory.protocol.errors import ParameterError


def test_arrays_are_copies_and_cannot_be_changed():
    ones = np.array([[1, 2]])
    counts = SupportCounts([3], ones)
    ones[0, 0] = 3
    assert counts.ones[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        counts.ones[0, 0] = 2


@pytest.mark.parametrize(
    ("totals", "ones", "says"),
    [
        ([3], [[4]], "cohort 0, bit 0: 4 ones in 3 reports"),
        ([3, 3], [[1, 1], [2, -1]], "cohort 1, bit 1: -1 ones"),
        ([3, 3], [[1]], "2 totals, but 1 rows"),
        ([[3]], [[1]], "totals must have 1 dimension"),
        ([3], [1], "ones must have 2 dimension"),
        ([3], [[0.5]], "whole numbers"),
        ([], np.zeros((0, 3), int), "a cohort and a bit"),
        (np.array([2**63], np.uint64), [[0]], "below"),
    ],
)
def test_impossible_counts_are_refused(totals, ones, says):
    with pytest.raises(ParameterError, match=says):
        SupportCounts(totals, ones)


def test_merging_other_shapes_is_refused():
    with pytest.raises(ParameterError, match="different collections"):
        SupportCounts.empty(2, 8) + SupportCounts.empty(2, 9)
    with pytest.raises(TypeError):
        SupportCounts.empty(2, 8) + 1


def test_many_reports_load_the_kernels(tmp_path):
    """In batches, too: a stream of small ones is counted by the kernels once it has grown long."""
    code = """
import sys, numpy as np
from overstory.analysis import reports as bit_counts
from overstory.kernels import columns
columns.PATIENCE, columns.is_compiled = 1000 // bit_counts.TOGETHER, lambda kernels: True
for batch in range(4):
    bit_counts.count_bits(np.zeros((300, 1), np.uint64), np.zeros(300, np.uint16), 1)
    print(batch, "overstory.kernels.popcount" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "1", "False", "2", "False", "3", "True"]


@pytest.mark.parametrize(("compiled", "few"), [(False, [True, True, False]), (True, [False, False, True])])
def test_nothing_is_compiled_where_counting_is_quicker(compiled, few, monkeypatch):
    """The first `sum` of 10^6 reports of 128 bits took 14.1 s, for compiling what NumPy counts in .3 s."""
    monkeypatch.setattr(columns, "COMPILER", "not loaded")
    monkeypatch.setattr(columns, "is_compiled", lambda kernels: compiled)
    monkeypatch.setattr(columns, "_done_slowly", 0)
    most, each = bit_counts.TOGETHER * columns.COMPILING, bit_counts.TOGETHER
    batches = (4_000_000, most - 4_000_000, each)
    assert [bit_counts.are_few(np.broadcast_to(np.uint64(0), (words, 1))) for words in batches] == few


@pytest.mark.parametrize(("loaded", "compiled", "few"), [(True, True, False), (True, False, True), (False, True, True)])
def test_a_loaded_compiler_compiles_nothing_for_few(loaded, compiled, few, monkeypatch):
    """Whatever else loaded it: `decode` of a small collection compiled for ten seconds what NumPy does in one."""
    monkeypatch.setattr(columns, "COMPILER", "sys" if loaded else "not loaded")
    monkeypatch.setattr(columns, "is_compiled", lambda kernels: compiled)
    monkeypatch.setattr(columns, "_done_slowly", 0)
    assert columns.are_few(1, "hashing") == few
    assert not columns.are_few(columns.PATIENCE + 1, "hashing"), "NumPy would hold it all at once"


def test_what_starts_to_count_compiles_nothing_that_it_may_never_need(tmp_path):
    """A collector's start took 9 CPU s of a first `make demo`, for what counts its 50,000 reports in .1 s."""
    code = "from overstory.analysis import reports; reports.load_kernels()"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert not [*tmp_path.rglob("*.nbi")]


def test_compiled_code_counts_until_a_source_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    ask = columns.is_compiled.__wrapped__
    assert not ask("popcount")
    kept = tmp_path / "bits_0" / "popcount.count-1.py311.nbi"
    kept.parent.mkdir()
    kept.touch()
    assert ask("popcount")
    assert not ask("hashing")
    os.utime(kept, (0, 0))
    assert not ask("popcount")


@pytest.mark.parametrize("n", [0, 1, 1000])
@pytest.mark.parametrize(("words", "cohorts"), [(1, 1), (2, 16), (3, 700)])
@pytest.mark.parametrize("few", [True, False])
def test_reports_are_sorted_by_cohort_as_numpy_sorts_them(n, words, cohorts, few, monkeypatch):
    drawn = np.random.default_rng(n + words)
    rows, column = drawn.integers(0, 1 << 63, (n, words), np.uint64), drawn.integers(0, cohorts, n).astype(np.uint16)
    monkeypatch.setattr(bit_counts, "are_few", lambda _: few)
    grouped, offsets = bit_counts.group_by_cohort(rows, column, cohorts)
    assert (grouped.dtype, offsets.dtype) == (np.uint64, np.int64)
    assert np.array_equal(grouped, rows[np.argsort(column, kind="stable")])
    assert np.array_equal(np.diff(offsets), np.bincount(column, minlength=cohorts))


def test_a_cohort_too_large_is_refused():
    with pytest.raises(ValueError, match="below 3"):
        bit_counts.group_by_cohort(np.zeros((2, 1), np.uint64), np.array([0, 3], np.uint16), 3)
