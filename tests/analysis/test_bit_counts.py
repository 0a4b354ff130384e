"""Counting bits: NumPy's way and the kernels' are equal, and each is taken when it pays."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis import reports as bit_counts
from overstory.kernels.bits.popcount import count_bits_by_cohort


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 300), st.integers(1, 3), st.integers(1, 40), st.integers(0, 2**32), st.integers(1, 90))
def test_both_ways_are_equal(reports, words, cohorts, seed, rows):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**64, (reports, words), dtype=np.uint64)
    whose = rng.integers(0, cohorts, reports).astype(np.uint16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bit_counts, "ROWS", rows)
        slow = bit_counts.count_slowly(bits, whose, cohorts)
    for one, other in zip(slow, count_bits_by_cohort(bits, whose, cohorts), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


LOADED = """
import sys
from overstory.cli.main import main
status = main({arguments!r})
print(status, sorted(name for name in ("numba", "scipy", "pyarrow") if name in sys.modules))
"""


def loaded(folder: Path, *arguments: str) -> str:
    code = LOADED.format(arguments=[*arguments])
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


def test_a_small_sum_loads_no_compiler(tmp_path):
    """C: `sum` of 8,000 reports took 85 times `python -c pass`: numba was loaded for what NumPy does in no time."""
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n64,2,8,0.25,0.75,0.25\n")
    (tmp_path / "reports.csv").write_text("cohort,irr\n" + "".join(f"{i % 8},{i:064b}\n" for i in range(8_000)))
    arguments = ("sum", "--params", "params.csv", "--reports", "reports.csv", "-o", "counts.csv")
    assert loaded(tmp_path, *arguments) == "0 []"
    counts = [list(map(int, line.split(","))) for line in (tmp_path / "counts.csv").read_text().splitlines()]
    for cohort, row in enumerate(counts):
        mine = range(cohort, 8_000, 8)
        assert row == [len(mine), *(sum(i >> bit & 1 for i in mine) for bit in range(64))]


def test_many_reports_load_the_kernels(tmp_path):
    """In batches, too: a stream of small ones is counted by the kernels once it has grown long."""
    code = """
import sys, numpy as np
from overstory.analysis import reports as bit_counts
bit_counts.PATIENCE = 1000
for batch in range(4):
    bit_counts.count_bits(np.zeros((300, 1), np.uint64), np.zeros(300, np.uint16), 1)
    print(batch, bit_counts.KERNELS in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False", "1", "False", "2", "False", "3", "True"]
