"""How fast linked reports are counted, as a ratio to the matrix product of the same bits, and how fast decoded.

    python bench/speed_linked.py [--reports N] [--bits K] [--cohorts M] [--json]

Pairs of K x K bits are counted by the kernel, and by `numpy`'s product of float32 matrices (exact below 2**24), on one
thread each, in turn; both give the same counts. The other lines decode N reports of 20 x 10 values from their counts,
and count and decode them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from _timing import seconds
from overstory.analysis.association.linked import linked_cells
from overstory.analysis.association.summary import TableSummary
from overstory.analysis.support.linked import count_pairs_slowly
from overstory.analysis.support.registry import SimulatedDevices, count_reports
from overstory.kernels.bits.pairs import count_pairs_by_cohort
from overstory.protocol.mechanisms.joint import joint

if TYPE_CHECKING:
    from collections.abc import Callable

SHARE_OF_PRODUCT = 16
"""The product is timed on one report in so many: it is that much slower."""


def counting(num_reports: int, bits: int, num_cohorts: int, rounds: int) -> dict[str, Any]:
    """Rates of the kernel and of the matrix product."""
    rng = np.random.default_rng(1)
    reports = rng.integers(0, 2**64, (num_reports, -(-2 * bits // 64)), dtype=np.uint64)
    cohorts = rng.integers(0, num_cohorts, num_reports).astype(np.uint16)
    few = num_reports // SHARE_OF_PRODUCT
    shape = num_cohorts, bits, bits
    kernel = lambda: count_pairs_by_cohort(reports, cohorts, *shape, threads=1)  # noqa: E731
    product = lambda: count_pairs_slowly(reports[:few], cohorts[:few], *shape)  # noqa: E731
    assert np.array_equal(count_pairs_by_cohort(reports[:few], cohorts[:few], *shape), product())
    times = [(seconds(kernel), seconds(product)) for _ in range(rounds)]
    return {
        "kernel_million_reports_per_second": round(num_reports / statistics.median(k for k, _ in times) / 1e6, 2),
        "product_million_reports_per_second": round(few / statistics.median(p for _, p in times) / 1e6, 2),
        "ratio_to_product": round(statistics.median(p * SHARE_OF_PRODUCT / k for k, p in times), 1),
    }


def decoding(num_reports: int, rounds: int) -> dict[str, Any]:
    """Seconds of decoding, with the counting and without."""
    oue = {"oracle": "oue", "epsilon": 1.0}
    built = joint(of=[oue, oue], domain_sizes=[20, 10])
    rng = np.random.default_rng(1)
    devices = SimulatedDevices.holding(built, range(200), rng.integers(0, 200, num_reports), rng)
    batch = devices.report()
    counts = count_reports(built, batch)
    labels = [[str(value) for value in range(size)] for size in (20, 10)]

    def table(counted: Any) -> Any:
        estimate = linked_cells(built, counted, ("x", "y"), labels)
        return estimate, estimate.standard_errors

    jobs: dict[str, Callable[[], Any]] = {
        "decode_seconds": lambda: table(counts),
        "count_and_decode_seconds": lambda: table(count_reports(built, batch)),
        "with_test_and_table_to_show_seconds": lambda: TableSummary(table(counts)[0]).to_json(),
    }
    for job in jobs.values():
        job()
    return {name: round(statistics.median(seconds(job) for _ in range(rounds)), 4) for name, job in jobs.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--bits", type=int, default=128)
    parser.add_argument("--cohorts", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = counting(arguments.reports, arguments.bits, arguments.cohorts, arguments.rounds)
    results |= decoding(arguments.reports, arguments.rounds)
    if arguments.json:
        print(json.dumps(vars(arguments) | results))
        return
    print(
        f"{arguments.reports:,} reports, {arguments.bits} x {arguments.bits} pairs of bits, {arguments.cohorts} cohorts"
    )
    for name, figure in results.items():
        print(f"{name.replace('_', ' '):40} {figure}")


if __name__ == "__main__":
    main()
