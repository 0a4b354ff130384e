"""A store with a metric of each kind of reading, from devices of their own, for the pages of the console."""

import datetime as dt
from pathlib import Path
from typing import Any, Final

import numpy as np

from overstory.analysis.reports import ReportBatch
from overstory.client import Randomizer
from overstory.collector.store import Store, open_store
from overstory.protocol.metrics import Metric, MetricRegistry, load_registry
from support.console_store import add_batch
from support.registry_texts import registry_of

NOW: Final = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp()
DAY: Final = "2026-11-20"  # the newest day that is over
BEFORE: Final = "2026-11-19"

CRASHES: Final = (
    '{kind = "table", names = ["version", "crash <b>"], of = [{kind = "categories", names = ["1.0", "2.0", "3.0"]}, '
    '{kind = "categories", names = ["no", "yes"]}]}'
)
METRICS: Final[dict[str, dict[str, str]]] = {
    "crashes": {"domain": CRASHES, "oracle": '"grr"', "parameters": "{epsilon = 3.0}"},
    "plugins": {
        "domain": '{kind = "set", of = ["adblock", "grammar", "vpn"], most = 2}',
        "oracle": '"padding-and-sampling"',
        "parameters": "{epsilon = 4.0}",
    },
    "port": {
        "domain": '{kind = "unknown-integers", bits = 16}',
        "oracle": '"prefix-search"',
        "parameters": "{epsilon = 6.0}",
    },
    "start": {
        "domain": '{kind = "interval", min = 0, max = 10}',
        "oracle": '"hybrid"',
        "parameters": "{epsilon = 2.0}",
    },
    "load": {
        "domain": '{kind = "interval", min = 0, max = 10}',
        "oracle": '"square-wave"',
        "parameters": "{epsilon = 2.0}",
    },
    "age": {"domain": '{kind = "integers", min = 0, max = 15}', "oracle": '"ranges"', "parameters": "{epsilon = 3.0}"},
    "colour": {
        "domain": '{kind = "categories", names = ["007", "1e3", "red"]}',
        "oracle": '"grr"',
        "parameters": "{epsilon = 3.0}",
    },
}
NAMES: Final = ("table", "items", "search", "mean", "distribution", "ranges", "shares")
READINGS: Final = dict(zip(METRICS, NAMES, strict=True))
DEVICES: Final = 600
DAYS: Final = 3


def value_of(name: str, rng: np.random.Generator):
    """Draw what a device holds; version 3.0 crashes most of the time."""
    if name == "crashes":
        version = str(rng.choice(["1.0", "2.0", "3.0"]))
        return version, "yes" if rng.random() < (0.8 if version == "3.0" else 0.1) else "no"
    if name == "plugins":
        return [item for item, share in (("adblock", 0.8), ("grammar", 0.3), ("vpn", 0.1)) if rng.random() < share]
    if name == "colour":
        return str(rng.choice(["007", "red"]))
    if name == "port":
        return int(rng.choice([80, 443]))
    return int(rng.integers(16)) if name == "age" else float(rng.beta(2, 5) * 10)


def add_devices(store: Store, metric: Metric, seed: int = 20261121) -> None:
    """Let every device report on each day, as it does: with its permanent response; of a panel, on one day."""
    rng = np.random.default_rng(seed)
    newest = metric.period.number(NOW) - 1
    reports: dict[int, list[Any]] = {}
    for number in range(DEVICES):
        device = Randomizer(metric.mechanism, secret=number.to_bytes(16, "big"), metric=metric.id)
        permanent = device.permanent(metric.encode(value_of(metric.id, rng)))
        for period in range(newest - DAYS + 1, newest + 1):
            once = metric.reading == "search" or metric.panel is not None
            if once and period != newest - number % DAYS:
                continue
            reports.setdefault(period, []).append(device.report_in(period, permanent)[1])
    for period, sent in reports.items():
        add_batch(store, metric, period, ReportBatch.of(metric.mechanism, sent))


def make_reading_store(folder: Path, panel: str = "") -> tuple[MetricRegistry, Store]:
    """Return the registry, with what it says of a panel, and the open store, with the reports of all metrics."""
    file = folder / "metrics.toml"
    text = registry_of(METRICS, expires="2030-01-01", publish='"estimates"', grace_days="1")
    file.write_text(f'opt_out = "Open the settings and switch it off."\n{panel}{text}')
    registry = load_registry(file)
    store = open_store(str(folder / "readings.db"), create=True)
    store.remember(registry)
    for metric in registry.values():
        add_devices(store, metric)
    store.compact(int(NOW))
    return registry, store
