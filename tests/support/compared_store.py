"""Stores of a week of days, whose devices are other people every day, for comparisons of ranges."""

from pathlib import Path

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import open_store
from overstory.protocol.metrics import MetricRegistry, load_registry
from support.registry_texts import registry_of
from support.store_samples import received_batch

THEMES = '{kind = "categories", names = ["dark", "light", "auto", "=high()", "none"]}'
MONDAY = 20_773  # 2026-11-16
SAME = (0.45, 0.30, 0.20, 0.05, 0.0)
MOVED = (0.52, 0.25, 0.18, 0.05, 0.0)


def write_registry(folder: Path, epsilon: float, oracle: str = "grr") -> MetricRegistry:
    path = folder / f"metrics-{epsilon:g}.toml"
    theme = {"title": '"Theme"', "oracle": f'"{oracle}"', "parameters": f"{{epsilon = {epsilon}}}", "domain": THEMES}
    path.write_text(registry_of({"theme": theme}, version="2026-11-21", expires="2040-01-01"))
    return load_registry(path)


def fill(store, metric, days: dict[int, tuple[float, ...]], devices: int, seed: int) -> None:
    """Add one report of each of other devices on each day, from a population with the day's shares."""
    oracle, batches = FrequencyOracle(metric.mechanism), []
    for number, (day, shares) in enumerate(days.items()):
        rng = np.random.default_rng((seed, number))
        sent = oracle.simulate(rng.choice(len(shares), devices, p=shares), rng)
        batches.append(received_batch(metric, day, sent)._replace(batch=rng.bytes(16)))
    store.add(batches)


def make(folder: Path, *, epsilon: float = 2.0, devices: int = 4_000, seed: int = 1, moved: bool = True) -> Path:
    """Return the path of a store: Monday to Wednesday with the shares SAME, Thursday to Saturday with MOVED."""
    registry, path = write_registry(folder, epsilon), folder / f"reports-{epsilon:g}-{seed}.db"
    days = {MONDAY + day: MOVED if moved and day >= 3 else SAME for day in range(6)}
    with open_store(str(path), registry, create=True) as store:
        fill(store, registry["theme"], days, devices, seed)
    return path
