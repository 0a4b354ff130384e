"""Files of reports, and their counts by the slow way."""

from collections.abc import Iterator
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

import overstory
from overstory.analysis.kinds.base import count_reports
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.engines.places import find_places
from overstory.engines.units import Job, Unit, read_contents, units_of
from overstory.files.parquet import Label, write_blocks
from support import exported_store

RAPPOR: dict[str, Any] = {"num_bits": 20, "num_hashes": 2, "num_cohorts": 5, "f": 0.5, "p": 0.25, "q": 0.75}
OLH: dict[str, Any] = {"epsilon": 1.0, "domain_size": 9}
ORACLES: list[tuple[str, dict[str, Any]]] = [
    ("rappor", RAPPOR),
    ("olh", OLH),
    ("grr", {"epsilon": 1.0, "domain_size": 9}),
    ("hadamard", {"epsilon": 1.0, "domain_size": 100_000}),
]
"""An oracle for each way to count."""

ONE = {"epsilon": 1.0}
EVERY_ORACLE: list[tuple[str, dict[str, Any]]] = [
    ("rappor", RAPPOR),
    ("rappor", RAPPOR | {"num_bits": 128}),
    ("basic-rappor", {"domain_size": 9, "f": 0.5, "p": 0.25, "q": 0.75}),
    *((name, ONE | {"domain_size": 9}) for name in ("grr", "oue", "sue", "olh")),
    ("olh", OLH),
    ("olh", ONE),
    ("loloha", {"epsilon_permanent": 2.0, "epsilon_report": 1.0, "domain_size": 9}),
    ("random-matrix", OLH),
    ("hadamard", ONE | {"domain_size": 100_000}),
    *((name, ONE | {"domain_size": 90}) for name in ("hadamard", "dbitflip", "subset", "projective", "linear-hash")),
]


class Collection:  # three files of reports of one mechanism, and what they count to
    def __init__(self, folder: Path, name: str, parameters: dict[str, Any], size: int = 900) -> None:
        oracle = overstory.oracle(name, **parameters)
        self.folder, self.mechanism = folder, oracle.mechanism
        self.asked = ["a", "b", "c"] if self.mechanism.domain_size is None else None
        values = np.arange(size) % (3 if self.asked else 9)
        self.batches = [oracle.simulate(values, seed, candidates=self.asked) for seed in range(3)]
        label = Label.of(self.mechanism)
        rows = 100
        write_blocks(folder / "a.parquet", self.batches[:1], label)
        write_blocks(folder / "b.parquet", pieces(self.batches[1], rows), label)
        write_blocks(folder / "c.parquet", pieces(self.batches[2], rows), label)

    def units(self, largest: int = 1) -> list[Unit]:
        return units_of(read_contents(find_places([str(self.folder)])), largest)

    def job(self, **options) -> Job:
        return Job.of(self.mechanism, **options)

    @property
    def counts(self) -> SupportCounts:
        """Count without units, files and engines."""
        parts = [count_reports(self.mechanism, batch) for batch in self.batches]
        return sum(parts[1:], parts[0])


def pieces(batch: ReportBatch, rows: int) -> list[ReportBatch]:
    return [
        ReportBatch(batch.cohorts[at : at + rows], batch.bits[at : at + rows], batch.num_bits, batch.num_cohorts)
        for at in range(0, len(batch), rows)
    ]


def exported_counts(place: Path) -> Iterator[tuple[Job, list[Unit], SupportCounts]]:
    """Export a store of several metrics, and yield the job and the units of each, and what the store has counted."""
    metrics, url, folder = exported_store.registry(), f"sqlite:///{place}/store.db", place / "exported"
    exported_store.fill(url, metrics)
    exported_store.export_all(url, metrics, folder)
    for name, stored in exported_store.counts_of(url, metrics).items():
        units = units_of(read_contents(find_places([str(folder / f"metric={name}")])), 1)
        assert len(units) > 1
        yield Job.of(metrics[name].mechanism), units, reduce(add, stored.values())
