"""How fast each engine counts reports from files, as ratios to merely decoding the same files.

    python bench/scale.py [--reports N] [--workers N] [--engines NAME ...] [--folder DIR] [--rounds N]

Writes N reports of 128 bits in 16 cohorts (RAPPOR) in blocks, a part in each file, and counts them
with every engine that is installed. The yardstick reads the same Parquet files, mapped into memory,
with as many threads, and looks at nothing. CPU seconds are of the engine's processes together and hold on a busy
machine; ratios of wall seconds want a quiet one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.cli.main import whole_number
from overstory.engines.clusters import DaskEngine, SparkEngine
from overstory.engines.driver import LocalEngine, count
from overstory.engines.places import find_places, open_place
from overstory.engines.units import Job, read_contents, unit_bytes, units_of
from overstory.files.labels import Label
from overstory.files.parquet import opened, write_blocks
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BUILT = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
PART = 10_000_000
ROWS = 1 << 17


def drawn(reports: int, seed: int) -> Iterator[ReportBatch]:
    """Yield random bits in random cohorts."""
    rng = np.random.default_rng(seed)
    for start in range(0, reports, ROWS):
        size = min(ROWS, reports - start)
        bits = np.frombuffer(rng.bytes(16 * size), np.uint64).reshape(size, 2)
        yield ReportBatch(rng.integers(0, 16, size, np.uint16), bits, 128, 16)


def write(folder: Path, reports: int) -> None:
    """Write the files."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, start in enumerate(range(0, reports, PART)):
        write_blocks(folder / f"{part:04}.parquet", drawn(min(PART, reports - start), part), Label.of(BUILT))


def decode_only(paths: list[Path], workers: int) -> None:
    """Decode every column that counting needs, and look at nothing."""

    def read(path: Path) -> None:
        with open_place(str(path)) as raw, opened(raw, str(path)) as file:
            names = [name for name in file.schema_arrow.names if name in {"cohort", "num_reports", "blob"}]
            for group in range(file.metadata.num_row_groups):
                file.read_row_group(group, columns=names, use_threads=False)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(read, paths))


class Watch:
    """Wall and CPU seconds and the peak of memory of this process and all below it, sampled."""

    def __init__(self) -> None:
        self.cpu: dict[int, float] = {}
        self.peak = 0

    def __call__(self, job: Callable[[], Any]) -> tuple[float, float, Any]:
        """Run; return wall seconds, CPU seconds and the result."""
        before, started = dict(self.sample()), time.perf_counter()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(job)
            while not running.done():
                self.sample()
                time.sleep(0.02)
        wall = time.perf_counter() - started
        self.sample()
        spent = sum(seconds - before.get(pid, 0.0) for pid, seconds in self.cpu.items())
        return wall, spent, running.result()

    def sample(self) -> dict[int, float]:
        """Look at all processes."""
        total = 0
        me = psutil.Process()
        for process in (me, *me.children(recursive=True)):
            try:
                times = process.cpu_times()
                self.cpu[process.pid] = times.user + times.system
                total += process.memory_full_info().pss
            except psutil.Error:
                continue
        self.peak = max(self.peak, total)
        return self.cpu


def engines(names: list[str], workers: int) -> Iterator[tuple[str, Any]]:
    """Yield the engines that are installed."""
    makers: dict[str, Callable[[], Any]] = {
        "local": lambda: LocalEngine(workers),
        "dask": lambda: DaskEngine(workers=workers),
        "spark": lambda: SparkEngine(workers=workers),
    }
    for name in names:
        try:
            yield name, makers[name]()
        except ParameterError as error:
            print(f"{name}: {error}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--reports", type=whole_number, default=1_000_000)
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--engines", nargs="+", default=["local", "dask"], choices=["local", "dask", "spark"])
    parser.add_argument("--folder", type=Path, help="where the files are, or will be, written")
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (given.folder or Path(temporary)) / "blocks"
        print(f"{given.reports:,} reports of 128 bits, {given.workers} workers; CPU s per 10^8 reports")
        print("engine      CPU s   wall s   CPU/decode  wall/decode  wall/local  peak MB")
        if not folder.exists():
            write(folder, given.reports)
        measure(given, folder)


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Count by each engine, and compare the counts with those of the engines before."""
    expected: SupportCounts | None = None
    contents = read_contents(find_places([str(folder)]))
    units = units_of(contents, unit_bytes(contents, given.workers))
    paths, per = sorted(folder.iterdir()), 1e8 / given.reports
    decode_only(paths, given.workers)
    base = median([Watch()(lambda: decode_only(paths, given.workers))[:2] for _ in range(given.rounds)])
    print(f"{'decode':8} {base[1] * per:8.2f} {base[0]:8.2f}")
    local = None
    next(LocalEngine(1).map(Job.of(BUILT), units[:1]))  # the kernels are compiled once, and kept
    for name, engine in engines(given.engines, given.workers):
        watch, taken = Watch(), []
        for _ in range(given.rounds):
            wall, cpu, run = watch(lambda engine=engine: count(engine, Job.of(BUILT), units))
            taken.append((wall, cpu))
            if expected is not None and run.counts != expected:
                sys.exit(f"{name} counts differently")
            expected = run.counts
        wall, cpu = median(taken)
        local = wall if name == "local" else local
        ratios = [cpu / base[1], wall / base[0]]
        ratios.append(wall / local if local else float("nan"))
        shown = " ".join(f"{ratio:11.2f}" for ratio in ratios)
        print(f"{name:8} {cpu * per:8.2f} {wall:8.2f} {shown} {watch.peak / 1e6:8.0f}", flush=True)


def median(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the medians of both."""
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


if __name__ == "__main__":
    main()
