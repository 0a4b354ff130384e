"""What the console's estimates and alarms cost: for the first time, and again with estimates in the cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.reports import SupportCounts
from overstory.analysis.support.positions import positions_of
from overstory.collector.store import open_store
from overstory.collector.store.counts import pack_counts
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.metrics import StoredMetric
from overstory.collector.store.schema import COUNTS
from overstory.console.alarms import find_alarms, read_history
from overstory.console.data import ConsoleData
from overstory.console.estimates.estimates import Estimates
from overstory.protocol.metrics import Metric, parse_registry
from overstory.queries.counts import PeriodCounts

ABOUT = """title = "t"
description = "d"
owner = "o"
purpose = "https://example.org/issues/7"
retention_days = 90
expires = 2040-01-01
"""
REGISTRY = f"""registry = "1"
[metrics.pages]
{ABOUT}
period = "week"
domain = {{kind = "strings"}}
oracle = "rappor"
parameters = {{num_bits = 128, num_cohorts = 16, num_hashes = 2, f = 0.0, p = 0.25, q = 0.75}}
[metrics.theme]
{ABOUT}
period = "30 minutes"
domain = {{kind = "categories", names = [{", ".join(f'"v{number}"' for number in range(100))}]}}
oracle = "oue"
parameters = {{epsilon = 4.0}}
"""


def strings(metric: Metric, periods: int, rng: np.random.Generator) -> PeriodCounts:
    """Return weeks of 20,000 reports each; candidates have Zipf shares."""
    encoding: Any = metric.mechanism.encoding
    names = list(metric.labels)
    dense = CandidateMap(names, positions_of(encoding, names), encoding.num_bits).dense()
    shares = 1 / np.arange(1, len(names) + 1)
    truly = (dense @ (shares / shares.sum())).reshape(encoding.num_cohorts, encoding.num_bits)
    chance = float(metric.mechanism.q_star) + float(metric.mechanism.p_star - metric.mechanism.q_star) * truly
    totals = [np.full(encoding.num_cohorts, 20_000 // encoding.num_cohorts)] * periods
    counts = {2_800 + week: SupportCounts(n, rng.binomial(n[:, None], chance)) for week, n in enumerate(totals)}
    return PeriodCounts(metric, 2_800, 2_800 + periods - 1, counts)


def half_hours(metric: Metric, periods: int, rng: np.random.Generator) -> PeriodCounts:
    """Return half-hours of 500 reports each."""
    first, ones = 980_000, rng.binomial(500, 0.1, (periods, 1, len(metric.labels)))
    counts = {first + number: SupportCounts([500], row) for number, row in enumerate(ones)}
    return PeriodCounts(metric, first, first + periods - 1, counts)


def columns(counted: PeriodCounts, most: int = 400) -> list[PeriodCounts]:
    """Return the counts of at most so many stretches: counts add up."""
    step = -(-len(counted.periods) // most)
    stretches = []
    for start in range(0, len(counted.periods), step):
        own = counted.periods[start : start + step]
        counts = {period: counted.counts[period] for period in own}
        stretches.append(PeriodCounts(counted.metric, own[0], own[-1], counts))
    return stretches


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def alarms(counted: PeriodCounts) -> tuple[float, float, set[int]]:
    """Return the seconds that the alarms of one metric take at first and again, and the periods that they compare."""
    metric = counted.metric
    digests = {"digest": metric.mechanism.digest, "counts_digest": StoredMetric.of(metric).counts_digest}
    rows = [
        {"metric": metric.id, **digests, "period": period, "num_reports": own.num_reports, "counts": pack_counts(own)}
        for period, own in counted.counts.items()
    ]
    registry = replace(parse_registry(REGISTRY), metrics={metric.id: metric})
    now = float(metric.accept_until(counted.periods[-1]))
    with TemporaryDirectory() as folder, open_store(f"{folder}/store.db", registry, create=True) as store:
        database = connect(store.url)
        database.write(lambda connection: connection.execute(COUNTS.insert(), rows))
        database.close()
        data = ConsoleData(registry, store, lambda: now)
        first, again = (timed(lambda: find_alarms(data)) for _ in range(2))
        return first, again, set(read_history(data, metric).estimates)


def main() -> None:
    """Print the times."""
    rng, registry = np.random.default_rng(1), parse_registry(REGISTRY)
    estimates = Estimates(patience=None)
    pages = replace(registry["pages"], candidates=tuple(f"page{number}" for number in range(300)))
    counted = strings(pages, 104, rng)
    cold, warm = (timed(lambda: estimates.read(counted, "per-period")) for _ in range(2))
    print(f"104 weeks, 300 candidates: cold {cold:.2f} s, warm {warm:.3f} s; cache {estimates.cache.size / 1e6:.1f} MB")
    longer = strings(pages, 1, rng)
    counts = {**counted.counts, 2_904: longer.counts[2_800]}
    week = replace(counted, last=2_904, counts=counts)
    print(f"  and one more week: {timed(lambda: estimates.read(week, 'per-period')):.3f} s")
    year = half_hours(registry["theme"], 17_520, rng)
    cold, warm = (timed(lambda: estimates.read_all(columns(year))) for _ in range(2))
    print(f"17,520 half-hours, 100 values, in 400 columns: cold {cold:.2f} s, warm {warm:.3f} s")
    cold, warm = (timed(lambda: estimates.read(year, "per-period")) for _ in range(2))
    print(f"  each by itself: cold {cold:.2f} s, warm {warm:.3f} s; cache {estimates.cache.size / 1e6:.1f} MB")
    estimates.close()
    cold, warm, compared = alarms(year)
    _, alone, _ = alarms(replace(year, counts={period: year.counts[period] for period in compared}))
    print(f"alarms of 17,520 half-hours: cold {cold:.2f} s, warm {warm:.3f} s")
    print(f"  {warm / alone:.1f} times as long as where the store has only the {len(compared)} half-hours compared")


if __name__ == "__main__":
    main()
