"""Print every figure of docs/explanation/estimates.md and docs/explanation/numbers.md.

Run `python bench/numeric_accuracy.py [--json] [--quick]`.

Each figure is a mean over collections with different seeds, and its standard error over them.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import Estimate
from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.kinds.numbers import WaveSupport, simulate_payloads
from overstory.analysis.numeric.distribution import GAIN, expectation_maximization, transition_table
from overstory.analysis.numeric.quantities import (
    Quantity,
    estimate_mean,
    estimate_numbers,
    estimate_ranges,
    estimate_wave_mean,
)
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import postprocess
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.protocol.domains import Bins
from overstory.protocol.kinds.bits import oue
from overstory.protocol.numeric import Hybrid, Interval, RangeRandomizer, SquareWave

sys.path.append(str(Path(__file__).parents[1]))  # for the papers
from papers.smart_homes.measurement import (
    jensen_shannon,
    maximum_error,
    mean_squared_error,
    total_variation,
    wasserstein,
)

EPSILON, BINS, LEAVES = 1.0, 100, 1024
Floats = NDArray[np.float64]
Figures = dict[str, tuple[float, float]]


def lognormal(mean: float, sigma: float) -> Callable[[np.random.Generator, int], Floats]:
    """Lognormal values, those above 2 drawn again."""

    def draw(rng: np.random.Generator, size: int) -> Floats:
        values = rng.lognormal(mean, sigma, 3 * size)
        kept = values[values < 2]
        assert kept.size >= size
        return np.asarray(kept[:size])

    return draw


POPULATIONS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "lognormal(-2, 0.8)": lognormal(-2.0, 0.8),  # half hours of a smart meter: median .135 kWh
    "lognormal(-1.5, 0.6)": lognormal(-1.5, 0.6),
    "lognormal(-1, 0.5)": lognormal(-1.0, 0.5),
    "lognormal(0, 0.5)": lognormal(0.0, 0.5),
    "2 beta(5, 2)": lambda rng, size: 2 * rng.beta(5, 2, size),
    "uniform": lambda rng, size: rng.uniform(0, 2, size),
    "a spike of 30% at 0.61": lambda rng, size: np.where(rng.random(size) < 0.3, 0.61, 2 * rng.beta(2, 5, size)),
}


def summarized(runs: list[dict[str, float]], quotients: dict[str, tuple[str, str]] | None = None) -> Figures:
    """Mean and its standard error over the seeds, by name; a quotient is of two means, its error by the jackknife."""
    columns = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    figures = {name: (float(c.mean()), float(c.std(ddof=1) / math.sqrt(c.size))) for name, c in columns.items()}
    for name, (over, under) in (quotients or {}).items():
        above, below = columns[over], columns[under]
        without = (above.sum() - above) / (below.sum() - below)
        figures[name] = (float(above.mean() / below.mean()), float(without.std() * math.sqrt(len(runs) - 1)))
    return figures


def unary_estimate(bins: Floats, size: int, rng: np.random.Generator) -> Estimate:
    """The raw estimate of one OUE collection."""
    oracle = FrequencyOracle(oue(domain_size=size, epsilon=EPSILON))
    devices = oracle.devices(bins, rng)
    counts = [oracle.accumulate(batch) for batch in devices.batches()]
    return oracle.estimate(sum(counts[1:], counts[0]))


def binned(values: Floats, size: int) -> NDArray[np.int64]:
    """Each value's bin on [0, 2], as `Bins` has it."""
    edges = np.array(Bins(0, 2, size).edges)
    return np.minimum(np.searchsorted(edges, values, side="right") - 1, size - 1)


def counts_of(randomizer: Any, values: Floats, rng: np.random.Generator) -> SupportCounts:
    """The counts of a collection of numbers."""
    bits = simulate_payloads(randomizer, values, rng).astype(np.uint64)[:, None]
    batch = ReportBatch(np.zeros(len(bits), np.uint16), bits, randomizer.payload_bits, 1)
    return count_reports(randomizer, batch)


def fitted(wave: SquareWave, counts: SupportCounts, gain: float = GAIN) -> Floats:
    """Shares of bins by expectation maximization, without spikes."""
    table = transition_table(wave.channel, WaveSupport(wave).cells, BINS)
    even = np.full(table.shape[1], 1 / table.shape[1])
    return expectation_maximization(counts.ones.astype(np.float64), table, gain, even)[0][0]


def square_wave(reports: int, seeds: int) -> Iterator[tuple[str, Figures]]:
    """Wasserstein distance (the range counting as 1) of Square Wave and of OUE, d = 100."""
    wave = SquareWave(EPSILON, Interval(0, 2))
    for name, draw in POPULATIONS.items():
        runs = []
        for seed in range(seeds):
            rng = np.random.default_rng([1, seed])
            bins = binned(values := draw(rng, reports), BINS)
            truth = np.bincount(bins, minlength=BINS) / reports
            counts = counts_of(wave, values, rng)
            raw = unary_estimate(bins, BINS, rng)
            shares = {
                "EM": fitted(wave, counts),
                "EM, gain 0.1": fitted(wave, counts, 0.1),
                "EM, gain 0.001": fitted(wave, counts, 0.001),
                "OUE + norm-sub": postprocess(raw, "norm-sub").frequencies,
                "OUE + smooth + norm-sub": postprocess(raw, "smooth", "norm-sub").frequencies,
            }
            run = {kind: wasserstein(found, truth, width=1 / BINS) for kind, found in shares.items()}
            run["MSE x 1e6, EM"] = 1e6 * mean_squared_error(shares["EM"], truth)
            run["MSE x 1e6, OUE + norm-sub"] = 1e6 * mean_squared_error(shares["OUE + norm-sub"], truth)
            runs.append(run)
        yield f"N={reports:,} {name}", summarized(runs, {"(OUE + norm-sub) / EM": ("OUE + norm-sub", "EM")})


def spiked(at: float) -> Callable[[np.random.Generator, int], Floats]:
    """Values of 0 to 100: 30% are `at`, the rest uniform."""
    return lambda rng, size: np.where(rng.random(size) < 0.3, at, rng.uniform(0, 100, size))


def two_humps(rng: np.random.Generator, size: int) -> Floats:
    """Two groups on 0 to 100, of 40% and 60%."""
    return np.where(rng.random(size) < 0.4, rng.normal(25, 7, size), rng.normal(70, 10, size)).clip(0, 100)


HELD: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "uniform": lambda rng, size: rng.uniform(0, 100, size),
    "beta(2, 5)": lambda rng, size: 100 * rng.beta(2, 5, size),
    "two humps": two_humps,
    "30% at 40, the rest uniform": spiked(40),
    "30% at 42, the rest uniform": spiked(42),
    "30% at 0, the rest uniform": spiked(0),
}


def intervals(reports: int, seeds: int) -> Iterator[tuple[str, Figures]]:
    """How often a distribution's 95% intervals hold the truth, epsilon 2: of all rows of a kind, and of the worst."""
    wave = SquareWave(2.0, Interval(0, 100))
    for name, draw in HELD.items():
        everybody = np.sort(draw(np.random.default_rng(1), 4_000_000))
        held: dict[str, list[list[bool]]] = {"share": [], "quantile": []}
        for seed in range(seeds):
            rng = np.random.default_rng([5, seed])
            learned = estimate_numbers(wave, wave.domain, counts_of(wave, draw(rng, reports), rng))
            for kind, runs in held.items():
                rows = [(float(row.low), true_value(row, everybody), float(row.high)) for row in learned.of_kind(kind)]
                runs.append([low <= true <= high for low, true, high in rows])
        figures = {key: figure for kind, runs in held.items() for key, figure in coverage(kind, runs)}
        yield f"N={reports:,} {name}", figures


def true_value(row: Quantity, everybody: Floats) -> float:
    """A share or a quantile of these values of 0 to 100, ascending."""
    if row.start is None or row.stop is None:
        return float(everybody[int(float(row.of) * everybody.size)])
    first, last = np.searchsorted(everybody, [row.start, 101.0 if row.stop == 100 else row.stop])
    return float(last - first) / everybody.size


def coverage(kind: str, held: list[list[bool]]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Coverage of all rows, its error over collections, and of the worst row, its error binomial."""
    hits = np.array(held, np.float64)
    each, worst = hits.mean(axis=1), float(hits.mean(axis=0).min())
    yield f"{kind}s", (float(each.mean()), float(each.std(ddof=1) / math.sqrt(each.size)))
    yield f"worst {kind}", (worst, math.sqrt(worst * (1 - worst) / each.size))


def steps(seeds: int) -> Iterator[tuple[str, Figures]]:
    """Mean squared error (and the other distances) after each step, OUE, d = 100."""
    chains: dict[str, tuple[Any, ...]] = {
        "raw": (),
        "norm-sub": ("norm-sub",),
        "base-cut": ("base-cut",),
        "base-cut + norm-sub": ("base-cut", "norm-sub"),
        "smooth + norm-sub": ("smooth", "norm-sub"),
    }
    for name in ("lognormal(-2, 0.8)", "lognormal(0, 0.5)", "a spike of 30% at 0.61"):
        for reports in (10**4, 10**5, 10**6):
            runs = []
            for seed in range(seeds):
                rng = np.random.default_rng([2, seed])
                bins = binned(POPULATIONS[name](rng, reports), BINS)
                truth = np.bincount(bins, minlength=BINS) / reports
                raw = unary_estimate(bins, BINS, rng)
                done = {chain: postprocess(raw, *parts).frequencies for chain, parts in chains.items()}
                run = {chain: 1e6 * mean_squared_error(found, truth) for chain, found in done.items()}
                run["JSD norm-sub"] = jensen_shannon(done["norm-sub"], truth)
                run["TV norm-sub"] = total_variation(done["norm-sub"], truth)
                run["maximum error norm-sub"] = maximum_error(done["norm-sub"], truth)
                runs.append(run)
            yield f"N={reports:,} {name}", summarized(runs, {})


def means(reports: int, seeds: int) -> Iterator[tuple[str, Figures]]:
    """Mean of 2 beta(2, 5) - 1: n x squared error (of all people's mean, not of the sample's), and as stated."""
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        for kind in (Hybrid, SquareWave):
            built = kind(epsilon, Interval(-1, 1))
            estimate: Any = estimate_wave_mean if isinstance(built, SquareWave) else estimate_mean
            runs = []
            for seed in range(seeds):
                rng = np.random.default_rng([3, seed])
                values = rng.beta(2, 5, reports) * 2 - 1
                mean, spread = estimate(built, counts_of(built, values, rng))
                error, stated = (mean - (4 / 7 - 1)) ** 2, spread**2
                runs.append({"n x squared error": reports * error, "n x stated variance": reports * stated})
            yield f"eps={epsilon} {kind.name}", summarized(runs)


def ranges(reports: int, seeds: int) -> Iterator[tuple[str, Figures]]:
    """Mean squared error x 1e6 over all ranges of 1,024 symbols."""
    for name in ("lognormal(-2, 0.8)", "uniform"):
        runs = []
        for seed in range(seeds):
            rng = np.random.default_rng([4, seed])
            symbols = binned(POPULATIONS[name](rng, reports), LEAVES)
            truth = np.bincount(symbols, minlength=LEAVES) / reports
            raw = unary_estimate(symbols, LEAVES, rng)
            run = {"flat": all_ranges(raw.raw_frequencies - truth)}
            run["flat + norm-sub"] = all_ranges(postprocess(raw, "norm-sub").frequencies - truth)
            for branching in (2, 4, 8, 16):
                built = RangeRandomizer(LEAVES, EPSILON, branching)
                devices = SimulatedDevices.holding(built, range(LEAVES), symbols, rng)
                found = estimate_ranges(built, count_reports(built, devices.report()), interval_kind="reports")
                run[f"tree B={branching}"] = all_ranges(found.levels[-1] - truth)
                if branching == 4:
                    asked = rng.integers(0, LEAVES + 1, (50, 2))
                    stated = [found.range(*sorted(map(int, pair)))[1] ** 2 for pair in asked]
                    run["stated, B=4"] = 1e6 * float(np.mean(stated))
                    run["tree B=4 + norm-sub"] = all_ranges(
                        postprocess(raw_of(found.levels[-1], reports), "norm-sub").frequencies - truth
                    )
            runs.append(run)
        yield f"N={reports:,} {name}", summarized(runs, {"flat / tree B=4": ("flat", "tree B=4")})


def raw_of(shares: Floats, reports: int) -> Estimate:
    """Shares as an estimate, so that a step can be applied to them."""
    counts, names = shares * reports, [str(i) for i in range(shares.size)]
    errors = np.ones(shares.size)
    return Estimate(values=names, counts=counts, raw_counts=counts, standard_errors=errors, num_reports=reports)


def all_ranges(errors: Floats) -> float:
    """Mean over all pairs start <= stop of the squared error of the range's share, times a million."""
    cumulated = np.concatenate(([0.0], np.cumsum(errors)))
    between = cumulated[None, :] - cumulated[:, None]
    return 1e6 * float((between[np.triu_indices(cumulated.size)] ** 2).mean())


def main() -> None:
    """Print all, as text or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--quick", action="store_true", help="fewer reports and seeds")
    chosen = parser.parse_args()
    many, few, collections = (10**5, 3, 10) if chosen.quick else (10**6, 10, 200)
    parts: dict[str, Iterator[tuple[str, Figures]]] = {
        "square-wave": square_wave(many, few),
        "square-wave, few reports": square_wave(10**4, 3 * few),
        "intervals": intervals(20_000, collections),
        "steps": steps(few),
        "means": means(10**4, 40 * few),
        "ranges": ranges(many, 2 * few),
    }
    gathered: dict[str, dict[str, Figures]] = {}
    for part, cases in parts.items():
        if not chosen.json:
            print(f"\n== {part}")
        for case, figures in cases:
            gathered.setdefault(part, {})[case] = figures
            if not chosen.json:
                print(case)
                print(
                    "\n".join(
                        f"    {name:<28} {value:12.5g} +- {error:.2g}" for name, (value, error) in figures.items()
                    )
                )
    if chosen.json:
        print(json.dumps(gathered, indent=1))


if __name__ == "__main__":
    main()
