"""Weeks of a metric of strings and of one of categories, drawn at the level of counts."""

from dataclasses import replace

import numpy as np

from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.kinds.base import positions_of
from overstory.analysis.reports import SupportCounts
from overstory.protocol.metrics import MetricRegistry, parse_registry
from overstory.queries.counts import PeriodCounts
from support.random_collections import report
from support.registry_texts import registry_of

METRICS = {
    "pages": {
        "domain": '{kind = "strings"}',
        "oracle": '"rappor"',
        "parameters": "{num_bits = 64, num_cohorts = 8, num_hashes = 2, f = 0.0, p = 0.25, q = 0.75}",
    },
    "theme": {
        "domain": '{kind = "categories", names = ["light", "dark", "contrast"]}',
        "parameters": "{epsilon = 4.0}",
    },
}

LAST = 2968


def registry(candidates: int = 30, grace: int = 2) -> MetricRegistry:
    parsed = parse_registry(registry_of(METRICS, period='"week"', grace_days=str(grace), expires="2040-01-01"))
    names = tuple(f"page{number}" for number in range(candidates))
    metrics = {**parsed.metrics, "pages": replace(parsed["pages"], candidates=names)}
    return replace(parsed, metrics=metrics)


def string_counts(metric, rng, shares, reports: int = 5_000) -> SupportCounts:
    encoding, names = metric.mechanism.encoding, list(metric.candidates)
    shelf = CandidateMap(names, positions_of(encoding, names), encoding.num_bits)
    p_star, q_star = float(metric.mechanism.p_star), float(metric.mechanism.q_star)
    counts: SupportCounts = report(rng, shelf, rng.multinomial(reports, shares), p_star, q_star)
    return counts


def category_counts(metric, rng, shares, reports: int = 5_000) -> SupportCounts:
    p_star, q_star = float(metric.mechanism.p_star), float(metric.mechanism.q_star)
    return SupportCounts([reports], [rng.multinomial(reports, q_star + (p_star - q_star) * np.asarray(shares))])


def weeks(metric, number: int, seed: int = 1) -> PeriodCounts:
    rng, size = np.random.default_rng(seed), len(metric.labels)
    shares = 1 / np.arange(1, size + 1)
    draw = string_counts if metric.mechanism.encoding.decoded else category_counts
    periods = range(LAST - number + 1, LAST + 1)
    counts = {period: draw(metric, rng, shares / shares.sum()) for period in periods}
    return PeriodCounts(metric, periods[0], LAST, counts)
