"""A store with reports of simulated devices for the console: five metrics that differ in all that a page shows."""

import datetime as dt
from pathlib import Path
from typing import Final

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.collector.store import Store, open_store
from overstory.collector.store.operations import CollectorState
from overstory.protocol.metrics import Metric, MetricRegistry, load_registry
from support.registry_texts import registry_of
from support.store_samples import received_batch

NOW: Final = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC).timestamp()
"""A Saturday: the clock of every console in the tests of its screens."""

WORDS: Final = tuple(f"https://site-{number:02}.example/" for number in range(40))
"""What devices hold; the last two are in no list of candidates."""

HOSTILE: Final = "=cmd()<script>alert(1)</script>\u202egnp"  # a candidate that nobody holds, and that no page may obey

METRICS: Final[dict[str, dict[str, str]]] = {
    "theme": {
        "title": '"Colour theme"',
        "description": '"Which of the built-in themes is in use."',
        "owner": '"Design team"',
        "purpose": '"https://example.org/issues/2"',
        "domain": '{kind = "categories", names = ["light", "dark", "system", "contrast"]}',
        "grace_days": "3",
        "publish": '"estimates"',
    },
    "start": {
        "title": '"Time to start"',
        "domain": '{kind = "categories", names = ["below 1 s", "1 to 3 s", "above 3 s"]}',
        "oracle": '"oue"',
        "parameters": "{epsilon = 2.0}",
        "period": '"30 minutes"',
        "window": "10",
        "retention_days": "30",
    },
    "home": {
        "title": '"Home page <script>alert(1)</script>"',
        "domain": '{kind = "strings", candidates = "pages.txt"}',
        "oracle": '"rappor"',
        "parameters": "{num_bits = 128, num_hashes = 2, num_cohorts = 16, f = 0.25, p = 0.25, q = 0.75}",
        "grace_days": "3",
        "publish": '"estimates"',
    },
    "over": {
        "title": '"A metric that has ended"',
        "domain": '{kind = "categories", names = ["old", "new"]}',
        "expires": "2026-10-01",
    },
    "quiet": {"title": '"A metric without reports"', "domain": '{kind = "categories", names = ["shown", "hidden"]}'},
}
OPT_OUT: Final = "Open Settings, Privacy, and switch off <b>Send statistics</b>."
TEXT: Final = f'opt_out = "{OPT_OUT}"\n' + registry_of(
    METRICS, version="2026-11-20", period='"week"', expires="2027-06-01"
)


def write_registry(folder: Path, text: str = TEXT) -> Path:
    (folder / "pages.txt").write_text("".join(f"{word}\n" for word in (*WORDS[:-2], HOSTILE)), "utf-8")
    file = folder / "metrics.toml"
    file.write_text(text, "utf-8")
    return file


def add_reports(store: Store, metric: Metric, period: int, symbols, rng: np.random.Generator) -> None:
    """Let one device report each of these symbols, in `period`."""
    candidates = WORDS if metric.id == "home" else None
    held = symbols if metric.labels is None or candidates else np.asarray(metric.labels, object)[symbols]
    oracle = FrequencyOracle(metric.mechanism) if candidates else FrequencyOracle(metric.mechanism, metric.labels)
    add_batch(store, metric, period, oracle.simulate(held, rng, candidates=candidates))


def add_batch(store: Store, metric: Metric, period: int, batch: ReportBatch) -> None:
    store.add([received_batch(metric, period, batch)])


def fill(store: Store, registry: MetricRegistry, seed: int = 20261121) -> None:
    """Add the reports: 16 weeks of a metric with a change in the middle, two days of half-hours, 3 weeks of strings."""
    rng = np.random.default_rng(seed)
    theme, start, home, over = (registry[name] for name in ("theme", "start", "home", "over"))
    this_week = theme.period.number(NOW)
    for weeks_ago in range(16):
        shares = (0.5, 0.3, 0.15, 0.05) if weeks_ago >= 6 else (0.42, 0.38, 0.15, 0.05)
        add_reports(store, theme, this_week - weeks_ago, rng.choice(4, 8_000 if weeks_ago else 3_000, p=shares), rng)
    for number in range(96):
        period = start.period.number(NOW) - number
        add_reports(store, start, period, rng.choice(3, 400, p=(0.7, 0.2, 0.1)), rng)
    shares = 1 / np.arange(1, len(WORDS) + 1)
    shares[-2:] = shares[4]
    for weeks_ago in range(3):
        add_reports(store, home, this_week - weeks_ago, rng.choice(len(WORDS), 30_000, p=shares / shares.sum()), rng)
    for weeks_ago in range(10, 14):
        add_reports(store, over, this_week - weeks_ago, rng.choice(2, 2_000, p=(0.8, 0.2)), rng)
    store.compact(int(NOW))
    add_operations(store, registry)


def add_operations(store: Store, registry: MetricRegistry) -> None:
    """Add refusals, a collector that answers, one that is silent, and notes."""
    day, week = int(NOW) // 86_400, registry["theme"].period.number(NOW)
    store.report_state(
        CollectorState("5f3a9c0112345678", "0.2.0", int(NOW) - 7200, int(NOW) - 5, 17),
        {
            (None, day, "period-closed"): 1_204,
            (None, day, "damaged"): 3,
            (None, day - 1, "no-token"): 41,
            (None, day - 90, "bits"): 7,
            ("theme", week, "period-closed"): 1_204,
        },
    )
    store.report_state(CollectorState("00aa9c0112345678", "0.1.9", int(NOW) - 90_000, int(NOW) - 3600, 0), {})
    store.add_note("Version 3.1 <script>alert(2)</script>", day - 40, "release", "theme")


def make_store(folder: Path, text: str = TEXT) -> tuple[MetricRegistry, Store]:
    registry = load_registry(write_registry(folder, text))
    store = open_store(str(folder / "reports.db"), create=True)
    store.remember(registry)
    fill(store, registry)
    return registry, store
