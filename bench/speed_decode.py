"""Decoding speed in one warm process: `python bench/speed_decode.py [--json]`.

The whole path (counts and positions to results) for 8,616 and a million candidates on 4,096 rows, and our Lasso beside
scikit-learn's at one penalty, with the largest difference of their coefficients.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from decode_accuracy import Channel, positions
from overstory.analysis.decoding import decode
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.decoding.sparse import lasso, penalty
from overstory.analysis.reports import SupportCounts

sys.path.append(str(Path(__file__).parents[1]))  # for the papers
from papers.rappor.collections import heavy_homepages

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

CHANNEL = Channel(f=0.75, p=0.5, q=0.75, num_cohorts=32)
NUM_REPORTS = 14_000_000


def collection(num_candidates: int) -> tuple[SupportCounts, list[str], NDArray[np.uint8]]:
    """43 heavy strings hold 85% of 14 million reports; the rest is spread over the bits."""
    rng = np.random.default_rng(num_candidates)
    bits = positions(rng, CHANNEL, num_candidates)
    shares = heavy_homepages()
    size = NUM_REPORTS // CHANNEL.num_cohorts
    truly = np.full((CHANNEL.num_cohorts, CHANNEL.num_bits), 0.15 * CHANNEL.num_hashes / CHANNEL.num_bits)
    for j in range(CHANNEL.num_cohorts):
        for h in range(CHANNEL.num_hashes):
            np.add.at(truly[j], bits[j, : shares.size, h], shares)
    rates = CHANNEL.q_star + (CHANNEL.p_star - CHANNEL.q_star) * truly
    totals = np.full(CHANNEL.num_cohorts, size)
    names = [f"string-{index}" for index in range(num_candidates)]
    return SupportCounts(totals, rng.binomial(size, rates)), names, bits


def fastest(run: Callable[[], Any], repeats: int) -> float:
    """Best wall time, the first run (compilation, caches) left out."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def whole_path(num_candidates: int, method: str, repeats: int) -> float:
    """Seconds from positions and counts to estimates, p-values, q-values and detections."""
    counts, names, bits = collection(num_candidates)

    def run() -> None:
        shelf = CandidateMap(names, bits, CHANNEL.num_bits)
        decode(counts, shelf, p_star=CHANNEL.p_star, q_star=CHANNEL.q_star, method=method).detected()

    return fastest(run, repeats)


def lasso_duel(num_candidates: int, repeats: int) -> dict[str, float]:
    """Ours against scikit-learn's at the same penalty; both non-negative, no intercept."""
    from scipy.sparse import csc_matrix
    from sklearn.linear_model import Lasso

    counts, names, bits = collection(num_candidates)
    y = ((counts.ones / counts.totals[:, None] - CHANNEL.q_star) / (CHANNEL.p_star - CHANNEL.q_star)).ravel()
    shelf = CandidateMap(names, bits, CHANNEL.num_bits)
    noise = np.sqrt(CHANNEL.q_star * (1 - CHANNEL.q_star) / counts.totals[0]) / (CHANNEL.p_star - CHANNEL.q_star)
    level = penalty(shelf, float(noise))
    ours = fastest(lambda: lasso(CandidateMap(names, bits, CHANNEL.num_bits), y, level), repeats)
    rows = bits.astype(np.int32) + (np.arange(CHANNEL.num_cohorts, dtype=np.int32) * CHANNEL.num_bits)[:, None, None]
    indices = np.sort(rows.transpose(1, 0, 2).reshape(num_candidates, -1), axis=1).ravel()
    per_column = CHANNEL.num_cohorts * CHANNEL.num_hashes
    pointers = np.arange(num_candidates + 1, dtype=np.int32) * per_column
    matrix = csc_matrix((np.ones(indices.size), indices, pointers), shape=(y.size, num_candidates))
    found = lasso(shelf, y, level)
    figures = {"ours": ours, "picked": int(np.count_nonzero(found))}
    for name, tolerance in (("default tolerance", 1e-4), ("tolerance 1e-6", 1e-6)):
        theirs = Lasso(alpha=level / y.size, positive=True, fit_intercept=False, tol=tolerance, max_iter=100_000)
        start = time.perf_counter()
        theirs.fit(matrix, y)
        seconds = time.perf_counter() - start
        figures[f"scikit-learn, {name}"] = seconds
        figures[f"ratio, {name}"] = seconds / ours
        figures[f"largest difference, {name}"] = float(np.abs(found - theirs.coef_).max())
    return figures


def main() -> None:
    """Print the figures, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures: dict[str, Any] = {}
    for size in (8_616, 1_000_000):
        for method in ("gls", "lasso"):
            figures[f"decode {method}, M = {size:,}"] = {"seconds": whole_path(size, method, options.repeats)}
    figures["peak memory of decoding"] = {"gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}
    for size in (8_616, 1_000_000):
        figures[f"lasso, M = {size:,}"] = lasso_duel(size, options.repeats)
    if options.json:
        print(json.dumps(figures, indent=1))
        return
    for name, values in figures.items():
        print(f"{name:28} " + ", ".join(f"{key} {value:.4g}" for key, value in values.items()))


if __name__ == "__main__":
    main()
