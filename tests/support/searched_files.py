"""A metric of unknown values, files of its answers, and the command that searches them."""

from pathlib import Path

import numpy as np

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.reports import ReportBatch
from overstory.files.parquet import Label, write_blocks
from overstory.files.reports import write_packed
from overstory.protocol.metrics import load_registry
from overstory.protocol.search import SearchMechanism
from support.engine_files import pieces


def in_files(folder: Path, search: SearchMechanism) -> list[ReportBatch]:
    """Write the answers of 3 x 1500 devices into files of each layout, and return them."""
    codes = [300, 7, 11 * 8] if search.plan.domain.width == 10 else [search.plan.domain.code(b"ab")] * 3
    batches = []
    for seed in range(3):
        held = np.arange(1500) % 3
        batches.append(SimulatedDevices.holding(search, codes, held, np.random.default_rng(seed)).report())
    label = Label.of(search)
    write_blocks(folder / "a.parquet", batches[:1], label)
    write_blocks(folder / "b.parquet", pieces(batches[1], 400), label)
    write_packed(folder / "c.ovsb", (piece.to_wire(search.digest) for piece in pieces(batches[2], 400)))
    return batches


METRIC = """registry = "1"
[metrics.port]
title = "Port"
description = "The port."
owner = "Net team"
purpose = "https://example.org/7"
domain = {kind = "unknown-integers", bits = 10}
oracle = "prefix-search"
parameters = {epsilon = 4.0, step = 4, beam = 6}
period = "day"
retention_days = 30
expires = 2040-01-01
"""


def searched_files(folder: Path) -> tuple[list[str], SearchMechanism, list[ReportBatch]]:
    """Write the metric, and files of answers into ``reports``; return the command, the search and the answers."""
    registry, reports = folder / "metrics.toml", folder / "reports"
    registry.write_text(METRIC)
    reports.mkdir()
    search = load_registry(registry)["port"].mechanism
    assert isinstance(search, SearchMechanism)
    batches = in_files(reports, search)
    return ["decode", str(reports), "--registry", str(registry), "--metric", "port"], search, batches
