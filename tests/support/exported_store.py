"""Stores with closed periods to export, and a process that is killed on its way through an export."""

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import reduce
from operator import add as plus
from pathlib import Path

import pytest

from overstory.analysis.reports import SupportCounts
from overstory.collector.store import Store, open_store
from overstory.collector.store.copies import export
from overstory.collector.store.copies.export import Exported
from overstory.collector.store.databases.sqlite import SqliteDatabase
from overstory.engines.driver import count_unit, decode_counts
from overstory.engines.folders import Folder
from overstory.engines.places import find_places, find_sets
from overstory.engines.units import Job, read_contents, units_of
from overstory.protocol.metrics import Metric, MetricRegistry, parse_registry
from support.registry_texts import registry_of
from support.store_samples import ABOUT, received, reports, sample_metrics

PERIOD = 20_000
PERIODS = (PERIOD, PERIOD + 1)
LATER = (PERIOD + 60) * 86_400.0  # after the grace, before the retention ends


def registry() -> MetricRegistry:
    """Return metrics of bits by cohort, of symbols in groups, and of symbols under public seeds."""
    return parse_registry(registry_toml())


def registry_toml() -> str:
    metrics = sample_metrics()
    metrics["size"]["oracle"] = '"hadamard"'
    about = {**ABOUT, "retention_days": "90", "grace_days": "30", "period": '"day"'}
    return registry_of(metrics, **about)


def fill(url: str, metrics: MetricRegistry, size: int = 90, seed: int = 1) -> None:
    """Make a store with reports of two days in several batches."""
    rng = random.Random(seed)
    with open_store(url, metrics, create=True) as store:
        for metric in metrics.values():
            for period in PERIODS:
                add(store, metric, period, size, rng)
        store.compact(LATER, forgetting=False)


def add(store: Store, metric: Metric, period: int, size: int, rng: random.Random) -> None:
    """Add reports, in groups where the metric has them."""
    groups = ["north", "south", ""] if metric.id == "colour" else [""]
    for group in groups:
        batch = received(metric, period, reports(metric, size, rng))
        store.add([batch._replace(group=group)])


def export_all(url: str, metrics: MetricRegistry, folder: Path | str, now: float = LATER) -> Exported:
    with open_store(url, metrics) as store:
        return store.export_closed(metrics, Folder(str(folder)), now=now)


def counts_of(url: str, metrics: MetricRegistry):
    with open_store(url, metrics) as store:
        return {metric.id: store.counts(metric, 0, 1 << 20) for metric in metrics.values()}


def sum_folder(metric: Metric, *inputs: Path | str) -> SupportCounts:
    """Count files of reports as `overstory sum` does, in this process."""
    contents = read_contents(find_places(list(map(str, inputs))))
    job = Job.of(metric.mechanism)
    return reduce(plus, (decode_counts(count_unit(job, unit))[0] for unit in units_of(contents, 1)))


def listed_parts(folder: Path) -> set[str]:
    return {part.file for one in find_sets(str(folder)) for part in one.manifest.parts}


def parts_there(folder: Path) -> set[str]:
    """Return the names of all parts, in manifests or not, and of what is left of one."""
    return {path.name for path in folder.rglob("*") if path.is_file() and ".json" not in path.name}


def small_parts(set_to):
    """Make chunks, parts and row groups so small that a few hundred reports are several of each."""
    from overstory.collector.store import counts
    from overstory.files import parquet as blocks

    set_to(counts, "CHUNK_BYTES", 80)
    set_to(export, "TOGETHER", 160)
    set_to(export, "PART_BYTES", 200)
    for name, size in {"BLOCK": 10, "SEEDED_BLOCK": 12, "GROUP_BYTES": 100, "SORTED_BYTES": 300}.items():
        set_to(blocks, name, size)


class Ended(BaseException):
    """In place of the end of a process: from then on every step raises it, so that nothing is cleaned up."""


class Killer:
    """Ends its process at the n-th step; a step is a file synchronized, renamed or removed, a batch read, a commit.

    With a patch, which undoes what is installed, a step raises `Ended`; without one the process is killed.
    """

    def __init__(self, at: int, patch=None) -> None:
        self.left, self._patch = at, patch
        self.steps = 0

    def step(self):
        self.steps += 1
        self.left -= 1
        if self.left < 0:
            if self._patch is not None:
                raise Ended
            os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, function):
        def stepped(*args, **kwargs):
            self.step()
            result = function(*args, **kwargs)
            self.step()
            return result

        return stepped

    def _between(self, read):
        def stepped(*args):
            for batch in read(*args):
                self.step()
                yield batch

        return stepped

    def install(self):
        """Step around whatever leaves a trace."""
        set_to = setattr if self._patch is None else self._patch.setattr
        for owner, names in (
            (os, ("fsync",)),
            (Path, ("replace", "unlink", "rename")),
            (SqliteDatabase, ("write",)),
            (Folder, ("remove",)),
        ):
            for name in names:
                set_to(owner, name, self._around(getattr(owner, name)))
        set_to(export.Export, "_read", self._between(export.Export._read))


def ended(work: Callable[[], object], at: int) -> bool:
    """Run `work` until a step, as if the process ended there; False when the work ended before."""
    with pytest.MonkeyPatch.context() as patch:
        Killer(at, patch).install()
        try:
            work()
        except Ended:
            return True
    return False


def killed(url: str, folder: Path, at: int) -> bool:
    """Export in a process that is killed at a step; False when it ended before."""
    command = [sys.executable, "-m", "support.exported_store", url, str(folder), str(at)]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], timeout=300, check=False)
    assert done.returncode in {0, -signal.SIGKILL}
    return done.returncode != 0


if __name__ == "__main__":
    _, url, folder, at = sys.argv
    small_parts(setattr)
    Killer(int(at)).install()
    export_all(url, registry(), Path(folder))
