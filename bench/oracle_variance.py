"""Measured variance of every one-round oracle beside its exact one: n Var of the frequency of a value nobody has.

    python bench/oracle_variance.py                     d = 100, epsilon 1, 2, 4, two million devices for each figure
    python bench/oracle_variance.py --devices 400000    quicker, and coarser

A figure rests on (d - 1) values in devices / 1000 collections; its own error is about sqrt(2 / that). `olh` and
`loloha` are not here: public seeds that are fitted do better than their formula where all devices hold one value, as
these do.
"""

from __future__ import annotations

import argparse
import math
import sys

import numpy as np

import overstory
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch

ORACLES = ("grr", "sue", "oue", "blh", "hadamard", "random-matrix", "subset", "projective", "dbitflip")
EPSILONS = (1.0, 2.0, 4.0)
CHAINS = ((2.0, 1.0), (4.0, 2.0))
COLLECTION = 1000  # devices


def measured(oracle: FrequencyOracle, devices: int, seed: int) -> float:
    """n Var over collections of devices that all hold value 0, for the other values."""
    reports = oracle.simulate(np.zeros(devices, np.int64), np.random.default_rng(seed))
    shape, raw = (reports.num_bits, reports.num_cohorts), []
    for start in range(0, devices, COLLECTION):
        rows = slice(start, start + COLLECTION)
        counts = oracle.accumulate(ReportBatch(reports.cohorts[rows], reports.bits[rows], *shape))
        raw.append(oracle.estimate(counts).raw_frequencies[1:])
    return float(np.mean(np.square(raw))) * COLLECTION


def figures(oracle: FrequencyOracle, devices: int, seed: int) -> tuple[float, float]:
    """Return (exact, measured)."""
    return oracle.variance(1), measured(oracle, devices, seed)


def show(name: str, pairs: list[tuple[float, float]]) -> float:
    """Print a line; return the largest relative difference."""
    cells = [f"{exact:10.4g} {seen:10.4g} {seen / exact - 1:+7.2%}" for exact, seen in pairs]
    print(f"{name:15}", *cells, sep="  ", flush=True)
    return max(abs(seen / exact - 1) for exact, seen in pairs)


def main() -> int:
    """Print both tables; fail where a measured variance is more than 2% from the exact one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=2_000_000, help="for each figure (default 2,000,000)")
    parser.add_argument("--domain-size", type=int, default=100, help="d (default 100)")
    args = parser.parse_args()
    size, worst = {"domain_size": args.domain_size}, []
    print(f"n Var at frequency 0, d = {args.domain_size}: exact, measured, difference")
    print(f"{'epsilon':15}", *(f"{epsilon:>29g}" for epsilon in EPSILONS), sep="  ")
    for name in ORACLES:
        oracles = [overstory.oracle(name, epsilon=epsilon, **size) for epsilon in EPSILONS]
        worst.append(show(name, [figures(oracle, args.devices, seed) for seed, oracle in enumerate(oracles)]))
    print(f"\n{'(ever, report)':15}", *(f"{chain!s:>29}" for chain in CHAINS), sep="  ")
    chains = [{"epsilon_permanent": ever, "epsilon_report": once} | size for ever, once in CHAINS]
    for name in ("l-osue", "l-soue", "l-sue", "l-grr"):
        oracles = [overstory.oracle(name, **chain) for chain in chains]
        worst.append(show(name, [figures(oracle, args.devices, seed) for seed, oracle in enumerate(oracles)]))
    own = math.sqrt(2 * COLLECTION / (args.devices * (args.domain_size - 1)))
    print(f"\nlargest difference {max(worst):.2%}; a figure's own standard error is about {own:.2%}")
    return int(max(worst) > 0.02 + 4 * own)


if __name__ == "__main__":
    sys.exit(main())
