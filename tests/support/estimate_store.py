"""A registry and a store with reports of simulated devices, as files: what a console and the command line both read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import Store, open_store
from overstory.protocol.metrics import Metric, MetricRegistry, parse_registry
from support.console_store import add_batch
from support.registry_texts import registry_of

LAST_WEEK, LAST_DAY = 2968, 20_778
NOW = 1_795_254_000.0
TREES = ("oak", "elm", "ash", "beech", "birch", "maple", "pine", "yew")
THEMES = ("dark", "light", "system", "contrast", "sepia", "mono", "amber")

FILTERS = "{num_bits = 32, num_cohorts = 8, num_hashes = 2, f = 0.0, p = 0.25, q = 0.75}"
LETTERS = '{kind = "categories", names = ["a", "b", "c"]}'
METRICS = {
    "theme": {
        "domain": f'{{kind = "categories", names = {list(THEMES)}}}',
        "parameters": "{epsilon = 3.0}",
        "period": '"week"',
    },
    "tree": {
        "domain": '{kind = "strings", candidates = "trees.txt"}',
        "oracle": '"rappor"',
        "parameters": FILTERS,
    },
    "word": {"domain": '{kind = "strings"}', "oracle": '"rappor"', "parameters": FILTERS},
    "rare": {"domain": LETTERS, "parameters": "{epsilon = 0.2}"},
    "none": {"domain": LETTERS},
}
TEXT = registry_of(METRICS, retention_days="900", grace_days="2", expires="2040-01-01")


def write_registry(folder: Path) -> MetricRegistry:
    """Write ``metrics.toml`` and its list of trees, and return the registry."""
    (folder / "trees.txt").write_text("".join(f"{tree}\n" for tree in TREES))
    (folder / "metrics.toml").write_text(TEXT)
    return parse_registry(TEXT, folder)


def fill(store: Store, metric: Metric, period: int, values: list[str], seed: int) -> None:
    """Add a report of each value."""
    oracle = FrequencyOracle(metric.mechanism)
    columns = values if metric.domain.size is None else np.array([metric.labels.index(value) for value in values])
    add_batch(store, metric, period, oracle.simulate(columns, rng=seed))


def make_store(folder: Path, registry: MetricRegistry) -> Store:
    """Return a store with six weeks of themes, one of them empty, three days of trees and words, and twelve others."""
    store = open_store(str(folder / "store.db"), registry, create=True)
    rng = np.random.default_rng(20261122)
    shares = [0.4, 0.3, 0.15, 0.1, 0.05, 0.0, 0.0]
    for week in (5, 4, 3, 1, 0):
        fill(store, registry["theme"], LAST_WEEK - week, rng.choice(THEMES, 2_000, p=shares).tolist(), week)
    shares = [0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.0]
    for day in range(3):
        for name in ("tree", "word"):
            fill(store, registry[name], LAST_DAY - day, rng.choice(TREES, 6_000, p=shares).tolist(), 10 + day)
    fill(store, registry["rare"], LAST_DAY, ["a"] * 12, 20)
    return store
