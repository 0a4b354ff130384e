"""What the client costs the program around it, each figure beside what the machine needs for the bare minimum.

    python bench/speed_client.py [--rounds N] [--json]

- importing `overstory.client`, and its `Client`, in a fresh interpreter, beside importing `typing`;
- `record` of a value whose permanent response is known, at k=128 h=2 (a stat of two files, a keyed hash, fresh noise,
  two envelopes), beside `os.urandom` for the bytes that it draws;
- a client of 1,000 metrics, beside the parser of TOML alone, and a flush of a report of each, beside that of a hundred
  of one metric;
- the first record of a process, on a new folder (a secret and a database, synced) and on one that is there;
- a flush of one report, and of a hundred, beside writing 4 KiB to a file and waiting for the disk.

The best and the median of the rounds are printed; only medians enter ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from _timing import seconds
from overstory.client import Client
from overstory.protocol.metrics import parse_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.protocol.metrics import MetricRegistry

VERSION = 'registry = "2026-11-21"\n'
METRIC = """
[metrics.engine{}]
title = "Search engine"
description = "The page that searches start on."
owner = "Search"
purpose = "https://example.org/issues/1"
domain = {{kind = "strings"}}
oracle = "rappor"
parameters = {{num_bits = 128, num_hashes = 2, num_cohorts = 16, f = 0.5, p = 0.5, q = 0.75}}
period = "hour"
retention_days = 90
expires = 2099-01-01
"""
REGISTRY = parse_registry(VERSION + METRIC.format(""))
MANY_METRICS = VERSION + "".join(map(METRIC.format, range(1000)))
DRAWN = 128 * 2 // 8  # two binary digits a bit
MANY = 100


class Device:
    """A client on a folder, whose clock moves by a period with every record."""

    def __init__(self, folder: Path, registry: MetricRegistry = REGISTRY) -> None:
        self.now = 1_795_262_400.0
        self.client = Client(
            "bench",
            registry=registry,
            state=folder / "state",
            environ={},
            policy=folder / "policy.json",
            clock=lambda: self.now,
        )
        self.client.consent("on")

    def next(self) -> None:
        """Record in the next period."""
        self.now += 3600
        for name in self.client.registry:
            assert self.client.record(name, "example.org") == "recorded"


def importing(statement: str) -> float:
    """Time of an import in a fresh interpreter."""
    script = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)


def durable_write(folder: Path) -> None:
    """Write 4 KiB, and wait for the disk."""
    handle = os.open(folder / "file", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(handle, bytes(4096))
    os.fsync(handle)
    os.close(handle)


def one_round(folder: Path) -> Iterator[tuple[str, float]]:
    """Measure everything once."""
    yield "import_typing", importing("import typing")
    yield "import_package", importing("import overstory.client")
    yield "import_client", importing("from overstory.client import Client")
    device = Device(folder)
    yield "first_record_new", seconds(device.next)
    yield "flush_1", seconds(device.client.flush)
    yield "record_known", seconds(device.next, MANY)
    yield "flush_100", seconds(device.client.flush)
    yield "urandom", seconds(lambda: os.urandom(DRAWN), 1000)
    yield "durable_write", seconds(lambda: durable_write(folder), 10)
    device.client.close()
    again = Device(folder)
    again.now = device.now
    yield "first_record_again", seconds(again.next)
    again.client.close()
    yield "toml_metrics", seconds(lambda: tomllib.loads(MANY_METRICS))
    yield "read_metrics", seconds(lambda: parse_registry(MANY_METRICS))
    several = Device(folder / "several", parse_registry(MANY_METRICS))
    for _ in range(2):
        several.next()
        flushed = seconds(several.client.flush)
    yield "flush_metrics", flushed


BESIDE = {
    "import_package": "import_typing",
    "import_client": "import_typing",
    "record_known": "urandom",
    "read_metrics": "toml_metrics",
    "flush_metrics": "flush_100",
    "first_record_new": "durable_write",
    "first_record_again": "durable_write",
    "flush_1": "durable_write",
    "flush_100": "durable_write",
}
TARGETS = {"import_package": 0.05, "record_known": 100e-6}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            for name, value in one_round(Path(folder)):
                found.setdefault(name, []).append(value)
    median = {name: statistics.median(values) for name, values in found.items()}
    if arguments.json:
        ratios = {name: median[name] / median[other] for name, other in BESIDE.items()}
        print(json.dumps({"best": {n: min(v) for n, v in found.items()}, "median": median, "ratios": ratios}))
        return
    for name, other in BESIDE.items():
        target = f"   target {TARGETS[name] * 1e6:,.0f} us" if name in TARGETS else ""
        print(
            f"{name:<20}best {min(found[name]) * 1e6:>9,.1f} us   median {median[name] * 1e6:>9,.1f} us   "
            f"{median[name] / median[other]:>7.1f} x {other}{target}"
        )


if __name__ == "__main__":
    main()
