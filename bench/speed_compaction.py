"""How long compaction takes with and without the sums by which crafted reports are noticed.

    python bench/speed_compaction.py [--reports N] [--rounds R] [--json]

Reports of each oracle wait in a new SQLite store, in batches of 1,000, and are folded: with sums as they are, with sums
of reports past the first 131,072 of a collection (no pairs), and without any. Processor time, the median of the rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from typing import Any
from unittest import mock

import numpy as np

from overstory.analysis.alarms import sums
from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import Received, open_store
from overstory.protocol.metrics import Metric, parse_registry

ORACLES = {
    "grr": "{epsilon = 1.0}",
    "oue": "{epsilon = 1.0}",
    "subset": "{epsilon = 1.0}",
    "hadamard": "{epsilon = 1.0}",
    "linear-hash": "{epsilon = 1.0}",
}
VALUES, BATCH, PERIOD = 100, 1_000, 20_000
REGISTRY = """
registry = "2026-11-23"

[metrics.bins]
title = "T"
description = "D"
owner = "O"
purpose = "https://example.org/issues/7"
domain = {{kind = "bins", min = 0, max = 100, count = 100}}
oracle = "{oracle}"
parameters = {parameters}
period = "day"
expires = 2040-01-01
retention_days = 90
"""


def batches(metric: Metric, reports: int) -> list[Received]:
    """Return batches as the collector hands them over."""
    built, received = metric.mechanism, []
    symbols = np.arange(reports) % VALUES
    whole = FrequencyOracle(metric.oracle).simulate(symbols, 1)
    width = "<u4" if built.num_cohorts > 1 << 16 else "<u2"
    for start in range(0, reports, BATCH):
        rows = slice(start, start + BATCH)
        cohorts, bits = whole.cohorts[rows].astype(width).tobytes(), whole.octets()[rows].tobytes()
        number = len(whole.cohorts[rows])
        shape = built.digest, built.payload_bits, built.num_cohorts, number
        batch = start.to_bytes(16, "big")
        received.append(
            Received(
                metric.id,
                PERIOD,
                batch,
                *shape,
                cohorts,
                bits,
                metric.accept_until(PERIOD),
                metric.period.start(PERIOD + 1),
            )
        )
    return received


def folded(registry: Any, waiting: list[Received]) -> float:
    """Return the processor time of folding these batches in a new store."""
    with tempfile.TemporaryDirectory() as folder, open_store(f"{folder}/store.db", registry, create=True) as store:
        store.add(waiting)
        began = time.process_time()
        done = store.compact((PERIOD + 1) * 86_400)
        took = time.process_time() - began
        assert done.reports == sum(batch.num_reports for batch in waiting)
    return took


def measure(oracle: str, reports: int, rounds: int) -> dict[str, Any]:
    """Return microseconds a report: all sums, none of pairs, none."""
    registry = parse_registry(REGISTRY.format(oracle=oracle, parameters=ORACLES[oracle]))
    metric = registry["bins"]
    waiting = batches(metric, reports)
    folded(registry, waiting)  # loads the kernels
    times: dict[str, list[float]] = {"sums": [], "no pairs": [], "none": []}
    for _ in range(rounds):
        times["sums"].append(folded(registry, waiting))
        with mock.patch.object(sums, "PAIR_REPORTS", 0):
            times["no pairs"].append(folded(registry, waiting))
        with mock.patch.object(sums.Watch, "of", return_value=None):
            times["none"].append(folded(registry, waiting))
    return {name: round(1e6 * statistics.median(of_name) / reports, 2) for name, of_name in times.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    results = {oracle: measure(oracle, args.reports, args.rounds) for oracle in ORACLES}
    if args.json:
        print(json.dumps({"reports": args.reports, "microseconds_a_report": results}, indent=2))
        return
    print(f"{args.reports:,} reports of {VALUES} values; microseconds of processor time a report")
    print(f"{'':10}{'sums':>8}{'past the first 131,072':>26}{'no sums':>10}")
    for oracle, row in results.items():
        print(f"{oracle:10}{row['sums']:8.2f}{row['no pairs']:26.2f}{row['none']:10.2f}")


if __name__ == "__main__":
    main()
