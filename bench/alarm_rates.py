"""How often alarms about shares are false, and what they find: the figures of docs/explanation/alarms.md.

Reports are drawn at the level of counts: a device keeps its permanent response while it stays, so its answer stays too.
`python bench/alarm_rates.py` takes about a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import overstory
from overstory.analysis.alarms.alarm import DRIFT_PERIODS, Comparison, find_changes
from overstory.analysis.decoding import decode
from overstory.analysis.decoding.candidates import CandidateMap
from overstory.analysis.estimate import Estimate
from overstory.analysis.reports import SupportCounts

Weeks = Iterator[Estimate]
STEADY = 0.0


def symbols(
    rng: np.random.Generator, epsilon: float, devices: int = 20_000, stay: float = 0.0, shift: float = STEADY
) -> Weeks:
    """Yield weeks of generalized randomized response over 5 values; `shift` moves to the second value every week."""
    oracle = overstory.oracle("grr", epsilon=epsilon, domain_size=5)
    p_star, q_star = float(oracle.mechanism.p_star), float(oracle.mechanism.q_star)
    shares, answers = np.array([0.4, 0.3, 0.15, 0.1, 0.05]), np.zeros(5, np.int64)
    while True:
        remain = rng.binomial(answers, stay)
        answers = remain + rng.multinomial(devices - remain.sum(), q_star + (p_star - q_star) * shares)
        yield oracle.estimate(SupportCounts([devices], [answers]))
        shares = shares + shift * np.array([-1, 1, 0, 0, 0])


def strings(
    rng: np.random.Generator, epsilon: float, candidates: int = 50, listed: float = 1.0, devices: int = 20_000
) -> Weeks:
    """Yield weeks of Bloom filters with two hashes, decoded; half of the candidates are absent.

    Of the reports, `listed` hold strings of the list.
    """
    cohorts, bits, q_star = 8, 32, 1 / (np.exp(epsilon / 2) + 1)
    positions = rng.random((cohorts, candidates + 1, bits)).argsort(axis=2)[:, :, :2]
    everything = CandidateMap([f"v{i}" for i in range(candidates + 1)], positions, bits)
    known = CandidateMap(everything.candidates[:-1], positions[:, :-1], bits)
    shares = np.where(np.arange(candidates) < candidates / 2, 1 / np.arange(1, candidates + 1), 0.0)
    shares = np.append(shares / shares.sum() * listed, 1 - listed)
    dense = everything.dense().reshape(cohorts, bits, -1)
    while True:
        held = rng.multinomial(devices, shares)
        parts = np.stack([rng.multinomial(number, np.full(cohorts, 1 / cohorts)) for number in held])
        totals, truly = parts.sum(axis=0), np.einsum("jis,sj->ji", dense, parts).round().astype(np.int64)
        ones = rng.binomial(truly, 0.5) + rng.binomial(totals[:, None] - truly, q_star)
        yield decode(SupportCounts(totals, ones), known, p_star=0.5, q_star=q_star)


def without_sampling(weeks: Weeks) -> Weeks:
    """Yield the weeks with the noise of randomization alone: 'population' is made to add nothing. Wrong on purpose."""
    for week in weeks:
        yield replace(_Noise.of(week))


class _Noise(Estimate):
    @classmethod
    def of(cls, week: Estimate) -> _Noise:
        names = ("values", "counts", "raw_counts", "standard_errors", "num_reports")
        return cls(**{name: getattr(week, name) for name in names})

    def errors(self, _kind: Any = None) -> Any:
        return self.standard_errors


def compared(metrics: list[Weeks], weeks: int, after: int = 1, before: int = 8) -> Iterator[list[Comparison]]:
    """Yield the comparisons of each week: of every metric's newest periods with those before."""
    seen = [[next(metric) for _ in range(after + before - 1)] for metric in metrics]
    for _ in range(weeks):
        for history, metric in zip(seen, metrics, strict=True):
            history.append(next(metric))
        yield [
            Comparison(f"m{number}", "", history[-after:], history[-after - before : -after])
            for number, history in enumerate(seen)
        ]


def false_alarms(metrics: list[Weeks], weeks: int, alpha: float, *, least: bool = False) -> int:
    """Return in how many weeks some metric, none of which changes, raises a step alarm."""
    return sum(bool(find_changes(run, alpha=alpha, least=least)) for run in compared(metrics, weeks))


def spread(comparisons: Iterator[list[Comparison]]) -> float:
    """Return the standard deviation of z, which is 1 where the stated errors are right, and lower if they are safe."""
    changes = [change for run in comparisons for change in find_changes(run, alpha=1 - 1e-12, least=False)]
    return float(np.sqrt(np.mean([(change.change / change.standard_error) ** 2 for change in changes])))


def power(step: float, devices: int, alpha: float, runs: int, rng: np.random.Generator) -> float:
    """Return how often a step of the first value, which is all that changes, is found at epsilon 1."""
    hits = 0
    for _ in range(runs):
        moved = symbols(rng, 1.0, devices, shift=step)
        start = [next(symbols(rng, 1.0, devices)) for _ in range(8)]
        next(moved)
        found = find_changes([Comparison("m", "", [next(moved)], start)], alpha=alpha, least=False)
        hits += any(change.value in {"0", "1"} for change in found)
    return hits / runs


def drift_found(devices: int, stay: float, runs: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return how often .1 point a week is found within two years, and the median week."""
    first = []
    for _ in range(runs):
        weeks = symbols(rng, 1.0, devices, stay, shift=0.001)
        history = [next(weeks) for _ in range(104)]
        ends = range(2 * DRIFT_PERIODS, 105, DRIFT_PERIODS)
        pairs = ((end, history[end - 13 : end], history[end - 26 : end - 13]) for end in ends)
        found = (end for end, after, before in pairs if find_changes([Comparison("m", "", after, before)]))
        first.append(next(found, np.inf))
    return float(np.isfinite(first).mean()), float(np.median(first))


MAKERS: dict[str, Callable[..., Weeks]] = {
    "randomized response": symbols,
    "Bloom, 50 strings": strings,
    "Bloom, 400 strings": lambda rng, epsilon: strings(rng, epsilon, 400),
    "Bloom, 9 of 10 listed": lambda rng, epsilon: strings(rng, epsilon, listed=0.9),
}


def main() -> None:
    """Print all figures."""
    rng = np.random.default_rng(12)
    print("false alarms: weeks in which one of 10 metrics, none of which changes, raises one (q <= .05; as shipped)")
    for name, make in MAKERS.items():
        weeks = 300 if make is symbols else 12 if "400" in name else 50
        for epsilon in (1.0, 4.0):
            rates = [
                false_alarms([make(rng, epsilon) for _ in range(10)], weeks, alpha, least=least) / weeks
                for alpha, least in ((0.05, False), (0.01, True))
            ]
            spreads = spread(compared([make(rng, epsilon)], weeks))
            print(f"  {name:<22} epsilon {epsilon:g}: {rates[0]:6.1%} {rates[1]:6.1%}   z spreads by {spreads:.2f}")
    naive = [without_sampling(symbols(rng, 4.0)) for _ in range(10)]
    print(f"  without the sampling of people, epsilon 4: {false_alarms(naive, 100, 0.05) / 100:.0%}")
    print("devices that stay from week to week, and keep their answers: spread of z of a step; of a drift")
    for stay in (0.0, 0.5, 0.7, 0.86, 0.95, 0.99):
        step = spread(compared([symbols(rng, 1.0, stay=stay)], 1_000))
        drift = spread(compared([symbols(rng, 1.0, stay=stay)], 1_000, 13, 13))
        print(f"  {stay:4.0%}: {step:.2f}; {drift:.2f}")
    print("steps that are found in the week they happen (5 values, epsilon 1; q <= .05 and q <= .01)")
    for devices, step in ((20_000, 0.02), (20_000, 0.04), (200_000, 0.01), (200_000, 0.02)):
        found = [power(step, devices, alpha, 200, rng) for alpha in (0.05, 0.01)]
        print(f"  {100 * step:g} points, {devices:,} devices: {found[0]:.0%}, {found[1]:.0%}")
    print("a drift of .1 point a week, found within 104 weeks, and the median week")
    for devices in (20_000, 200_000):
        for stay in (0.0, 0.5, 0.86):
            share, week = drift_found(devices, stay, 30, rng)
            print(f"  {devices:,} devices, {stay:.0%} stay: {share:.0%}, {week:g}")


if __name__ == "__main__":
    sys.exit(main())
