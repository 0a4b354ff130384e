"""How fast packed reports are summed, as a ratio to merely reading them.

    python bench/speed_accumulate.py [--reports N] [--bits K] [--cohorts M] [--json]

The yardstick is an exclusive or over the same bytes with the same threads; every job is timed in turn, several times
over, and the median of the ratios of neighbours is printed, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from _timing import seconds
from overstory.kernels.bits.popcount import count_bits, count_bits_by_cohort, count_bits_grouped
from overstory.kernels.threads import cores, in_parts

if TYPE_CHECKING:
    from collections.abc import Callable


@njit(nogil=True, cache=True)
def xor_words(flat: Any, start: Any, stop: Any) -> Any:
    """Read every word."""
    total = np.uint64(0)
    for i in range(start, stop):
        total ^= flat[i]
    return total


def measure(reports: np.ndarray, cohorts: np.ndarray, num_cohorts: int, threads: int, rounds: int) -> dict[str, Any]:
    """Rates and ratios to a pure read with the same threads."""
    flat, n = reports.reshape(-1), len(reports)
    offsets = np.linspace(0, n, num_cohorts + 1).astype(np.int64)
    jobs: dict[str, Callable[[], Any]] = {
        "read": lambda: in_parts(lambda a, b: xor_words(flat, a, b), flat.size, threads, smallest=1 << 15),
        "count": lambda: count_bits(reports, threads=threads),
        "grouped": lambda: count_bits_grouped(reports, offsets, threads=threads),
        "arrival_order": lambda: count_bits_by_cohort(reports, cohorts, num_cohorts, threads=threads),
    }
    for job in jobs.values():
        job()
    times = [{name: seconds(job) for name, job in jobs.items()} for _ in range(rounds)]
    return {
        name: {
            "million_reports_per_second": round(n / statistics.median(t[name] for t in times) / 1e6, 1),
            "ratio_to_read": round(statistics.median(t["read"] / t[name] for t in times), 3),
        }
        for name in jobs
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--reports", type=int, default=8_000_000)
    parser.add_argument("--bits", type=int, default=128)
    parser.add_argument("--cohorts", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    reports = rng.integers(0, 2**64, (arguments.reports, -(-arguments.bits // 64)), dtype=np.uint64)
    cohorts = rng.integers(0, arguments.cohorts, arguments.reports).astype(np.uint16)
    results = {
        f"threads_{threads}": measure(reports, cohorts, arguments.cohorts, threads, arguments.rounds)
        for threads in sorted({1, cores(None)})
    }
    if arguments.json:
        print(json.dumps(vars(arguments) | results))
        return
    print(f"{arguments.reports:,} reports of {arguments.bits} bits, {arguments.cohorts} cohorts")
    for threads, jobs in results.items():
        for name, figures in jobs.items():
            rate, ratio = figures["million_reports_per_second"], figures["ratio_to_read"]
            print(f"{threads:<12}{name:<16}{rate:>9} M/s   x {ratio} of a pure read")


if __name__ == "__main__":
    main()
