"""Stores of 27 weeks with something to be alarmed by, and without."""

import datetime as dt
from collections.abc import Collection
from pathlib import Path
from typing import Final

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.ingest import Received
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from overstory.protocol.metrics.period import DAY
from support.registry_texts import registry_of
from support.store_samples import received_batch

WEEKS: Final = 27
DEVICES: Final = 4_000
PAGES: Final = tuple(f"https://site-{number:02}.example/" for number in range(20))
TROUBLES: Final = ("step", "drift", "volume", "fit", "refusals", "expiry")

THEMES = {"domain": '{kind = "categories", names = ["light", "dark", "contrast"]}', "parameters": "{epsilon = 4.0}"}
FIT: Final = {
    "domain": '{kind = "strings", candidates = "pages.txt"}',
    "oracle": '"rappor"',
    "parameters": "{num_bits = 64, num_hashes = 2, num_cohorts = 4, f = 0.0, p = 0.25, q = 0.75}",
}


def write_registry(folder: Path, today: dt.date, trouble: Collection[str]) -> Path:
    (folder / "pages.txt").write_text("".join(f"{page}\n" for page in PAGES), "utf-8")
    metrics = {name: {"title": f'"Title of {name}"', **THEMES} for name in ("step", "drift", "volume", "expiry")}
    if "expiry" in trouble:
        metrics["expiry"]["expires"] = str(today + dt.timedelta(20))
    metrics["fit"] = {"title": '"Title of fit"', **FIT}
    expires = str(today + dt.timedelta(400))
    text = registry_of(metrics, version="2026-11-20", period='"week"', grace_days="0", expires=expires)
    (folder / "metrics.toml").write_text(text, "utf-8")
    return folder / "metrics.toml"


def shares_of(name: str, weeks_ago: int, trouble: Collection[str]):
    """Return the shares of a metric's values; of strings with a last one that is not in the list."""
    if name == "fit":
        shares = np.append(1 / np.arange(2, len(PAGES) + 2), 0.0)
        shares /= shares.sum()
        missing = 0.3 if weeks_ago == 1 and "fit" in trouble else 0.0
        return np.append(shares[:-1] * (1 - missing), missing)
    moved = 0.0
    if name == "step" and name in trouble and weeks_ago == 1:
        moved = 0.08
    if name == "drift" and name in trouble:
        moved = 0.004 * (WEEKS - weeks_ago)
    return np.array([0.6 - moved, 0.3 + moved, 0.1])


def make_store(folder: Path, now: float, trouble: Collection[str] = ()) -> tuple[Path, str]:
    """Write a registry and a store whose newest final week is the one before `now`; return their places."""
    today = dt.datetime.fromtimestamp(now, dt.UTC).date()
    file = write_registry(folder, today, trouble)
    url, registry, rng = str(folder / "reports.db"), load_registry(file), np.random.default_rng(4)
    received = []
    for number, name in enumerate(registry):
        for weeks_ago in range(1, WEEKS + 1):
            drop = 0.3 if name == "volume" and name in trouble and weeks_ago == 1 else 1.0
            shares = shares_of(name, weeks_ago, trouble)
            held = rng.choice(len(shares), int(DEVICES * drop), p=shares)
            period = registry[name].period.number(now) - weeks_ago
            received.append(batch_of(registry[name], period, held, rng, bytes([number, weeks_ago])))
    with open_store(url, registry, create=True) as store:
        store.add(received)
        store.compact(now)
        yesterday = int(now // DAY) - 1
        usual = {(None, yesterday - ago, "too late"): 20 for ago in range(10)}
        many = {(None, yesterday, "unknown metric"): 400} if "refusals" in trouble else {}
        store.report_state(None, {**usual, **many})
    return file, url


def batch_of(metric, period: int, held, rng, batch_id: bytes) -> Received:
    strings = [*PAGES, "https://not-in-the-list.example/"] if metric.mechanism.encoding.decoded else None
    batch = FrequencyOracle(metric.mechanism).simulate(held, rng, candidates=strings)
    return received_batch(metric, period, batch)._replace(batch=batch_id.ljust(16, b"\0"))
