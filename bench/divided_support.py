"""How hashing oracles are counted over many candidates: engines against one worker, and what a transform saves.

    python bench/divided_support.py [--reports N] [--values D] [--bits B] [--engines NAME ...] [--rounds R]

OLH with a seed of each device's own compares every report with every value, so a unit counts a range of the values of
some row groups. The ratio is of wall seconds to one worker of the local engine. Then linear hashing over 2^B values,
which one transform counts, on ten times as many reports: its ratio is of seconds for each report and value.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import overstory
from overstory.cli.parser import whole_number
from overstory.engines.dask_cluster import DaskEngine
from overstory.engines.driver import count
from overstory.engines.local import LocalEngine
from overstory.engines.places import find_places
from overstory.engines.units import Job, divide_values, read_contents, unit_bytes, units_of
from overstory.files.blocks import write_blocks
from overstory.files.labels import Label

ENGINES = {"local": lambda: LocalEngine(2, small=0), "dask": lambda: DaskEngine(workers=2)}


def write(path: Path, oracle: Any, num_reports: int) -> None:
    """Write reports of values that are equally frequent."""
    size = oracle.mechanism.domain_size
    pieces = range(0, num_reports, 1 << 20)
    batches = (oracle.simulate(np.arange(at, min(at + (1 << 20), num_reports)) % size, at) for at in pieces)
    write_blocks(path, batches, Label.of(oracle.mechanism))


def counted(engine: Any, mechanism: Any, path: Path, workers: int) -> tuple[float, Any]:
    """Return the seconds of a run that divides the values, and the counts."""
    contents = read_contents(find_places([str(path)]))
    job = Job.of(mechanism)
    units = divide_values(job, units_of(contents, unit_bytes(contents, workers)), workers)
    start = time.perf_counter()
    run = count(engine, job, units)
    return time.perf_counter() - start, run.counts


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=whole_number, default=1_000_000, help="of OLH")
    parser.add_argument("--values", type=whole_number, default=100_000, help="of OLH's domain")
    parser.add_argument("--bits", type=whole_number, default=20, help="linear hashing has 2^bits values")
    parser.add_argument("--engines", nargs="+", choices=sorted(ENGINES), default=["local", "dask"])
    parser.add_argument("--rounds", type=whole_number, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        hashed = overstory.oracle("olh", epsilon=1.0, domain_size=args.values, num_seeds=1 << 31)
        path = Path(folder) / "olh.parquet"
        write(path, hashed, args.reports)
        seconds: dict[str, list[float]] = {"one worker": [], **{name: [] for name in args.engines}}
        for _ in range(args.rounds):
            first, expected = counted(LocalEngine(1, small=0), hashed.mechanism, path, 1)
            seconds["one worker"].append(first)
            for name in args.engines:
                taken, counts = counted(ENGINES[name](), hashed.mechanism, path, 2)
                if counts != expected:
                    sys.exit(f"{name} counted otherwise than one worker")
                seconds[name].append(taken)
        one = statistics.median(seconds["one worker"])
        print(f"OLH, {args.reports:,} reports x {args.values:,} values: {one:.1f} s by one worker")
        for name in args.engines:
            print(f"  {name} with two workers: {one / statistics.median(seconds[name]):.2f} times as fast")
        linear = overstory.oracle("linear-hash", epsilon=1.0, domain_size=2**args.bits)
        path, many = Path(folder) / "linear.parquet", 10 * args.reports
        write(path, linear, many)
        taken = statistics.median(counted(LocalEngine(2), linear.mechanism, path, 2)[0] for _ in range(args.rounds))
        each = one / args.reports / args.values
        print(
            f"linear-hash, {many:,} reports x {2**args.bits:,} values: {taken:.1f} s; "
            f"{each / (taken / many / 2**args.bits):,.0f} times as many reports and values a second as OLH"
        )


if __name__ == "__main__":
    main()
