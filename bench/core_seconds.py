"""How far the core-seconds that `overstory compare` states are from those of this machine: measured over predicted.

    python bench/core_seconds.py [--reports N] [--values D] [--epsilon E]

Processor time, of all threads, of counting the reports of N devices and estimating D values by each oracle, the second
time that it is done: a machine that is busy with other work prints nearly the same.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import overstory
from overstory.analysis.comparison import Choice, rank
from overstory.analysis.kinds.base import support_of


def measured(choice: Choice, num_reports: int, num_values: int) -> tuple[float, float]:
    """Return the seconds of counting and those of estimating."""
    oracle, rng = overstory.oracle(choice.name, **choice.parameters), np.random.default_rng(1)
    reports = oracle.simulate(rng.integers(0, num_values, num_reports), rng)
    oracle.estimate(oracle.accumulate(reports))
    start = time.process_time()
    counts = oracle.accumulate(reports)
    counted = time.process_time()
    oracle.estimate(counts)
    return counted - start, time.process_time() - counted


def main() -> None:
    """Print a line for each oracle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=400_000)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    given = parser.parse_args()
    print(f"{'oracle':14} {'counting':>9} {'estimating':>11} {'predicted':>10} {'ratio':>6}")
    for choice in rank(given.values, given.epsilon, given.reports):
        built = overstory.oracle(choice.name, **choice.parameters).mechanism
        predicted = support_of(built).core_seconds(given.reports, given.values)
        counting, estimating = measured(choice, given.reports, given.values)
        ratio = (counting + estimating) / predicted
        print(f"{choice.name:14} {counting:9.3f} {estimating:11.3f} {predicted:10.3f} {ratio:6.2f}")


if __name__ == "__main__":
    main()
