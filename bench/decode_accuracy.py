"""How many strings the decoder finds, how falsely, how exactly: `python bench/decode_accuracy.py [--seeds 50]`.

Collections are simulated at the level of counts (`papers.rappor.collections`), which is exact while each
person sends one report per permanent response. Bloom positions are drawn at random, distinct within a (cohort,
candidate): an ideal hash family.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.decoding import decode
from overstory.analysis.decoding.candidates import CandidateMap

sys.path.append(str(Path(__file__).parents[1]))  # for the papers
from papers.rappor.collections import (
    HEAVY_HOMEPAGES,
    HOMEPAGES,
    count_reports,
    exponential,
    heavy_homepages,
    homepages,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from overstory.analysis.decoding import Decoded
    from overstory.analysis.reports import SupportCounts


@dataclass(frozen=True)
class Channel:
    """RAPPOR's f, p, q and its filters."""

    f: float
    p: float
    q: float
    num_bits: int = 128
    num_hashes: int = 2
    num_cohorts: int = 16

    @property
    def q_star(self) -> float:
        """P(report bit 1 | Bloom bit 0): the paper's p*."""
        return 0.5 * self.f * (self.p + self.q) + (1 - self.f) * self.p

    @property
    def p_star(self) -> float:
        """P(report bit 1 | Bloom bit 1): the paper's q*."""
        return 0.5 * self.f * (self.p + self.q) + (1 - self.f) * self.q


@dataclass(frozen=True)
class Workload:
    """A population over strings, of which ``listed`` are candidates."""

    name: str
    says: str
    channel: Channel
    num_reports: int
    shares: NDArray[np.float64]
    missing: int = 0


PAPER = Channel(f=0.5, p=0.5, q=0.75)
PLANNED = {"f": 0.2, "p": 0.2239, "q": 0.5307, "num_hashes": 1}


def listed_or_not(*, tail_listed: bool) -> Workload:
    """Section 5.4 as a simulation: the rare strings among the candidates, or outside the list."""
    heavy = heavy_homepages()
    rest = HOMEPAGES - HEAVY_HOMEPAGES
    shares = np.concatenate((heavy, np.full(rest, 0.15 / rest))) if tail_listed else homepages()
    where = "the other 8,573 candidates" if tail_listed else "8,573 strings outside the list"
    return Workload(
        "homepages, tail listed" if tail_listed else "homepages, tail outside",
        f"43 of 8,616 candidates hold 85% ({heavy[-1]:.2%} to {heavy[0]:.2%} each), {where} the rest",
        Channel(f=0.75, p=0.5, q=0.75, num_cohorts=32),
        14_000_000,
        shares,
        missing=0 if tail_listed else -rest,
    )


def workloads() -> list[Workload]:
    """The collections that the decoder is judged on."""
    section = "100 strings with exponential shares, 100 that nobody has, 10^6 reports"
    shares = exponential()
    return [
        Workload("section 5.2", section, PAPER, 10**6, shares),
        Workload("30 missing", section + "; 30 of the 100, at random, are not in the list", PAPER, 10**6, shares, 30),
        listed_or_not(tail_listed=False),
        listed_or_not(tail_listed=True),
        Workload("planned, k=128", section + "; h=1, f=.2, p=.2239, q=.5307", Channel(**PLANNED), 10**6, shares),
        Workload("planned, k=256", "the same with 256 bits", Channel(**PLANNED, num_bits=256), 10**6, shares),
    ]


def positions(rng: np.random.Generator, channel: Channel, strings: int) -> NDArray[np.uint8]:
    """Draw distinct bit positions for each (cohort, string)."""
    shape = (channel.num_cohorts, strings)
    drawn = np.empty((*shape, channel.num_hashes), np.int64)
    for h in range(channel.num_hashes):
        pick = rng.integers(0, channel.num_bits - h, shape)
        for taken in np.moveaxis(np.sort(drawn[:, :, :h], axis=2), 2, 0):
            pick += pick >= taken
        drawn[:, :, h] = pick
    return drawn.astype(np.uint8)


def simulate(workload: Workload, seed: int) -> tuple[SupportCounts, CandidateMap, NDArray[np.int64]]:
    """Return one collection: its counts, the candidates, and how many people truly hold each candidate."""
    rng = np.random.default_rng((seed, 20140))
    channel, strings = workload.channel, workload.shares.size
    everyone = CandidateMap(range(strings), positions(rng, channel, strings), channel.num_bits)
    drawn = count_reports(
        everyone, workload.shares, workload.num_reports, rng, p_star=channel.p_star, q_star=channel.q_star
    )
    listed = np.arange(strings)
    if workload.missing > 0:
        present = np.flatnonzero(workload.shares)
        listed = np.setdiff1d(listed, rng.choice(present, workload.missing, replace=False))
    elif workload.missing < 0:
        listed = listed[: workload.missing]
    return drawn.counts, everyone.take(listed), drawn.held[listed]


def heavy(workload: Workload, truth: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which candidates count as true finds: any that somebody has; among homepages only the heavy ones."""
    return truth > (0.001 * workload.num_reports if workload.name.startswith("homepages") else 0)


def judge(workload: Workload, decoder: Callable[..., Decoded], seeds: int) -> dict[str, Any]:
    """Run one decoder over the seeds."""
    found, false, fdr, squares, covered = [], [], [], [], {"frequent": [], "rare": [], "absent": []}
    for seed in range(seeds):
        counts, candidates, truth = simulate(workload, seed)
        channel = workload.channel
        decoded = decoder(counts, candidates, p_star=channel.p_star, q_star=channel.q_star)
        detected, true = decoded.detected(), heavy(workload, truth)
        found.append(int((detected & true).sum()))
        false.append(int((detected & ~true).sum()))
        fdr.append(false[-1] / max(1, int(detected.sum())))
        squares.append(float(((decoded.counts - truth) ** 2).mean()))
        low, high = decoded.confidence_interval(0.95)
        inside = (low <= truth) & (truth <= high)
        limit = 0.01 * workload.num_reports
        for name, chosen in (
            ("frequent", truth >= limit),
            ("rare", (truth > 0) & (truth < limit)),
            ("absent", truth == 0),
        ):
            covered[name].extend(inside[chosen].tolist())
    return {
        "true": float(np.mean(found)),
        "false": float(np.mean(false)),
        "fdr": float(np.mean(fdr)),
        "fdr_standard_error": float(np.std(fdr) / np.sqrt(seeds)),
        "rmse": float(np.sqrt(np.mean(squares))),
        "standard_error": float(np.median(decoded.standard_errors[np.isfinite(decoded.standard_errors)])),
        "coverage": {name: float(np.mean(hits)) for name, hits in covered.items() if hits},
    }


DECODERS = {
    "default": decode,
    "default, complete": partial(decode, complete=True),
    "paper, bonferroni": partial(decode, method="lasso", correction="bonferroni"),
    "paper, fdr": partial(decode, method="lasso", correction="fdr"),
}


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--only", help="a part of the workload's name")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    results: dict[str, dict[str, Any]] = {}
    for workload in workloads():
        if options.only and options.only not in workload.name:
            continue
        results[workload.name] = {"says": workload.says}
        if not options.json:
            print(f"\n{workload.name}: {workload.says}")
            print(f"{'decoder':22}{'true':>7}{'false':>7}{'FDR':>8}{'+-':>7}{'RMSE':>8}{'std err':>9}  coverage of 95%")
        for name, decoder in DECODERS.items():
            result = judge(workload, decoder, options.seeds)
            results[workload.name][name] = result
            if not options.json:
                _print(name, result)
    if options.json:
        print(json.dumps({"seeds": options.seeds, "workloads": results}, indent=1))


def _print(name: str, r: dict[str, Any]) -> None:
    cover = ", ".join(f"{kind} {share:.1%}" for kind, share in r["coverage"].items())
    print(
        f"{name:22}{r['true']:7.2f}{r['false']:7.2f}{r['fdr']:8.3f}{r['fdr_standard_error']:7.3f}"
        f"{r['rmse']:8.0f}{r['standard_error']:9.0f}  {cover}",
        flush=True,
    )


if __name__ == "__main__":
    main()
