"""How often intervals of detected values hold the truth: `python bench/detected_coverage.py [--collections 40]`.

Three populations, each asked in five ways, are simulated at the level of counts. Of the values that each collection
detects, the intervals are compared with the truth: plain, and with the false coverage rate. The last column is how far
an estimate is above the truth on average, in standard errors.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.difference import difference
from overstory.analysis.estimate import debias
from overstory.analysis.reports import SupportCounts
from overstory.discovery import CodedIntegers, discover, find, simulate
from overstory.protocol.kinds.registry import mechanism

sys.path.append(str(Path(__file__).parents[1]))  # for the papers
from papers.rappor.collections import collect_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.difference import Difference
    from overstory.analysis.estimate import Estimate
    from overstory.discovery import Discovered

    F64 = NDArray[np.float64]

REPORTS: Final = 100_000
SPREAD: Final = 163
"""What a search looks for: multiples of it."""
ADJUSTMENTS: Final = ("none", "fcr")


def _shares(weights: F64) -> F64:
    return weights / weights.sum()


def populations() -> dict[str, F64]:
    """Return the shares of 400 values in each population; some are of nobody."""
    rng = np.random.default_rng(20051)
    absent = np.zeros(200)
    edge = np.concatenate([np.geomspace(0.008, 0.03, 30), absent, np.full(170, 1e-4)])
    return {
        "Zipf": _shares(1.0 / np.arange(1.0, 401.0)),
        "lognormal, half absent": _shares(np.concatenate([rng.lognormal(0.0, 1.5, 200), absent])),
        "most near the threshold": np.concatenate([[1.0 - edge[1:].sum()], edge[1:]]),
    }


@dataclass(frozen=True)
class Sample:
    """Detected (or changed) values of one collection."""

    false: float  # share of them that nobody has (or that did not change); 0 where nothing was detected
    number: int
    held: dict[str, int]  # by adjustment: intervals that hold the truth
    excess: float  # sum of errors, in standard errors


def judge(estimate: Estimate | Discovered, truth: F64) -> Sample:
    """Compare an estimate's intervals of detected values with the true counts."""
    chosen, errors = estimate.detected(), estimate.errors()
    shown = (estimate.interval(adjusted=False), estimate.interval())
    return _sample(chosen, truth, shown, (estimate.raw_counts - truth) / errors)


def judge_difference(both: Difference, truth: F64) -> Sample:
    """Compare the intervals of changed values with the true changes; an excess is one of size."""
    chosen, sign = both.changed(), np.sign(both.differences)
    shown = (both.confidence_interval(), both.interval())
    return _sample(chosen, truth, shown, sign * (both.differences - truth) / both.standard_errors)


def _sample(chosen: NDArray[np.bool_], truth: F64, intervals: tuple[tuple[F64, F64], ...], errors: F64) -> Sample:
    held = {
        name: int(((low <= truth) & (truth <= high))[chosen].sum())
        for name, (low, high) in zip(ADJUSTMENTS, intervals, strict=True)
    }
    number = int(chosen.sum())
    return Sample(float((truth[chosen] == 0).mean()) if number else 0.0, number, held, float(errors[chosen].sum()))


def one_hot(shares: F64, rng: np.random.Generator) -> tuple[Estimate, NDArray[np.int64]]:
    """Collect one-hot bits (OUE, epsilon 1) as counts; return the estimate and who held what."""
    built = mechanism("oue", domain_size=shares.size, epsilon=1.0)
    held = rng.multinomial(REPORTS, shares)
    p, q = float(built.p_star), float(built.q_star)
    ones = rng.binomial(held, p) + rng.binomial(REPORTS - held, q)
    values = [str(number) for number in range(shares.size)]
    return debias(SupportCounts([REPORTS], [ones]), p, q, values), held


def bits(shares: F64, rng: np.random.Generator) -> Sample:
    """Return detected values of one-hot bits, of these reports."""
    estimate, held = one_hot(shares, rng)
    return judge(estimate, held.astype(float))


def bits_population(shares: F64, rng: np.random.Generator) -> Sample:
    """Return detected values of one-hot bits, of all devices like these."""
    estimate, _ = one_hot(shares, rng)
    return judge(replace(estimate, interval_kind="population"), shares * REPORTS)


def bloom(shares: F64, rng: np.random.Generator) -> Sample:
    """Return detected strings of Bloom filters; those of nobody are candidates too."""
    built = mechanism("rappor", num_bits=128, num_hashes=1, num_cohorts=16, f=0.2, p=0.22, q=0.53)
    names = [f"string {number}" for number in range(shares.size)]
    collection = collect_counts(built, names, shares, REPORTS, rng)  # type: ignore[arg-type]
    return judge(collection.decoded(built), collection.held.astype(float))  # type: ignore[arg-type]


def changes(shares: F64, rng: np.random.Generator) -> Sample:
    """Return changed values of two collections; every tenth value's share moves to its neighbour."""
    later = shares.copy()
    later[::10], later[1::10] = shares[1::10], shares[::10]
    (a, _), (b, _) = one_hot(later, rng), one_hot(shares, rng)
    return judge_difference(difference(a, b), later - shares)


def search(shares: F64, rng: np.random.Generator) -> Sample:
    """Return the values that a search of 65,536 integers detects; half as many devices, at epsilon 3."""
    plan = discover(epsilon=3.0, domain=CodedIntegers(16))
    held = rng.multinomial(REPORTS // 2, shares)
    codes = SPREAD * np.arange(shares.size)
    discovered = find(plan, simulate(plan, np.repeat(codes, held), rng))
    truth = dict(zip(codes.tolist(), held.tolist(), strict=True))
    return judge(discovered, np.array([truth.get(value, 0) for value in discovered.raw_values], float))


WORKLOADS: Final[dict[str, Callable[[F64, np.random.Generator], Sample]]] = {
    "one-hot bits": bits,
    "one-hot bits, population": bits_population,
    "Bloom filters": bloom,
    "differences": changes,
    "search": search,
}


def summary(samples: list[Sample]) -> dict[str, Any]:
    """Return rates over all detected values of several collections."""
    number = sum(sample.number for sample in samples)
    return {
        "detected": number,
        "fdr": float(np.mean([sample.false for sample in samples])),
        "coverage": {name: sum(sample.held[name] for sample in samples) / max(number, 1) for name in ADJUSTMENTS},
        "excess": sum(sample.excess for sample in samples) / max(number, 1),
    }


def measure(collections: int, workload: str, population: str, seed: int = 13) -> dict[str, Any]:
    """Return `summary` of so many collections."""
    rng = np.random.default_rng([seed, list(WORKLOADS).index(workload)])
    shares = populations()[population]
    return summary([WORKLOADS[workload](shares, rng) for _ in range(collections)])


def measured(collections: int, only: str = "") -> Iterator[dict[str, Any]]:
    """Yield a row for each population and workload."""
    for population in populations():
        for workload in (name for name in WORKLOADS if only in name):
            yield {"population": population, "workload": workload, **measure(collections, workload, population)}


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collections", type=int, default=40)
    parser.add_argument("--only", help="a part of the workload's name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.json:
        print(
            json.dumps(
                {"collections": options.collections, "rows": list(measured(options.collections, options.only or ""))},
                indent=1,
            )
        )
        return
    print(f"{'population':25}{'asked by':26}{'detected':>9}{'FDR':>7}{'plain':>8}{'FCR':>8}  above")
    for row in measured(options.collections, options.only or ""):
        shares = "".join(f"{row['coverage'][name]:8.1%}" for name in ADJUSTMENTS)
        about = f"{row['population']:25}{row['workload']:26}{row['detected']:9,}{row['fdr']:7.3f}"
        print(f"{about}{shares}  {row['excess']:+.2f}", flush=True)


if __name__ == "__main__":
    main()
