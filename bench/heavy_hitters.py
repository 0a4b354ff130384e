"""How many of the most frequent values each protocol finds: `python bench/heavy_hitters.py [--quick] [--json]`.

n = 10**6 devices hold 64-bit integers, 200,000 different ones with Zipf 1.1 frequencies. Recall is the share of the
32 most frequent that stand among the 32 listed first ("listed"), and among all that passed the selection rule, 5% false
discoveries over everything tried ("detected"). The reference column is what earlier simulations reached (recall
without a threshold); it is printed, not used.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.oracle import FrequencyOracle, oracle
from overstory.analysis.reports import ReportBatch
from overstory.discovery import Plan, discover, find, simulate

TOP = 32
EPSILONS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Population:
    """Devices' values."""

    num_devices: int
    num_values: int
    exponent: float = 1.1

    def draw(self, seed: int) -> Any:
        """Return a value for each device."""
        rng = np.random.default_rng([seed, 64])
        weights = np.arange(1, self.num_values + 1) ** -self.exponent
        values = rng.integers(0, 1 << 64, self.num_values, dtype=np.uint64)
        return values[rng.choice(self.num_values, self.num_devices, p=weights / weights.sum())]


@dataclass(frozen=True)
class Protocol:
    """A row of the table."""

    name: str
    plan: Callable[[float], Plan] | None  # None: every device is asked for its whole value
    reference: tuple[float, float, float] | None = None


PROTOCOLS = (
    Protocol("PEM, 1 bit a step", lambda e: discover(epsilon=e, levels=range(1, 65)), (0.08, 0.21, 0.54)),
    Protocol("PEM, 4 bits a step", lambda e: discover(epsilon=e, levels=range(4, 65, 4)), (0.14, 0.28, 0.71)),
    Protocol("PEM, 8 bits a step", lambda e: discover(epsilon=e, levels=range(8, 65, 8)), (0.14, 0.32, 0.91)),
    Protocol("PEM, 8 bits, beam 96", lambda e: discover(epsilon=e, levels=range(8, 65, 8), beam=96)),
    Protocol(
        "PEM, groups 24, 44, 64",
        lambda e: discover(epsilon=e, levels=(24, 44, 64), beam=48),
        (0.16, 0.40, 0.95),
    ),
    Protocol("discover (the default)", lambda e: discover(epsilon=e)),
    Protocol("dictionary known (bound)", None, (0.47, 0.82, 0.99)),
)
QUICK = ("Theorem 2, users divided", "PEM, 8 bits a step", "discover (the default)", "dictionary known (bound)")


def judge(protocol: Protocol, epsilon: float, values: Any, seed: int) -> dict[str, float]:
    """Run one collection."""
    present, counts = np.unique(values, return_counts=True)
    wanted = set(present[np.argsort(-counts, kind="stable")[:TOP]].tolist())
    rng, start = np.random.default_rng([seed, 1]), time.perf_counter()
    if protocol.plan is None:
        asked = oracle("olh", epsilon=epsilon)
        index = np.searchsorted(present, values)
        batch = SimulatedDevices.holding(asked.mechanism, [str(value) for value in present], index, rng).report()
        middle = time.perf_counter()
        listed, detected = _looked_up(asked, batch, present)
    else:
        asked = protocol.plan(epsilon)
        reports = simulate(asked, values, rng)
        middle = time.perf_counter()
        found = find(asked, reports)
        listed, detected = list(found.raw_values[:TOP]), set(found.found())
    end = time.perf_counter()
    return {
        "listed": len(wanted & set(listed)) / TOP,
        "detected": len(wanted & detected) / TOP,
        "found": len(detected),
        "false": len(detected - set(present.tolist())),
        "simulate_seconds": middle - start,
        "search_seconds": end - middle,
        "epsilon": asked.epsilon if protocol.plan else asked.mechanism.epsilon_report,
    }


def _looked_up(asked: FrequencyOracle, batch: ReportBatch, present: Any) -> tuple[list[int], set[int]]:
    """Estimate every value there is: who knew all 200,000 values could do no better."""
    candidates = [str(value) for value in present.tolist()]
    estimate = asked.estimate(asked.accumulate(batch), candidates)
    return present[estimate.order()[:TOP]].tolist(), set(present[estimate.detected()].tolist())


def main() -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="four protocols, one seed, a tenth of the devices")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--only", default="", help="a part of the protocol's name")
    parser.add_argument("--epsilon", type=float, nargs="*", default=EPSILONS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seeds = options.seeds or (1 if options.quick else 5)
    population = Population(10**5, 20_000) if options.quick else Population(10**6, 200_000)
    if not options.json:
        _print_header(population, seeds)
    results = []
    for protocol in PROTOCOLS:
        if options.only not in protocol.name or (options.quick and protocol.name not in QUICK):
            continue
        for epsilon in options.epsilon:
            runs = [judge(protocol, epsilon, population.draw(seed), seed) for seed in range(seeds)]
            results.append(_summary(protocol, epsilon, runs))
            if options.quick:
                results[-1]["reference"] = None  # it is that of the whole population
            if not options.json:
                _print(results[-1])
    if options.json:
        about = {"devices": population.num_devices, "values": population.num_values, "top": TOP, "seeds": seeds}
        print(json.dumps({**about, "results": results}, indent=1))


def _print_header(population: Population, seeds: int) -> None:
    held = f"{population.num_devices:,} devices, {population.num_values:,} values, Zipf {population.exponent}"
    print(f"{held}, {seeds} seeds; recall of the {TOP} most frequent")
    names = f"{'listed':>8}{'+-':>6}{'detected':>10}{'found':>7}{'false':>7}{'seconds':>9}"
    print(f"{'protocol':26}{'eps':>5}{names}  reference")


def _summary(protocol: Protocol, epsilon: float, runs: list[dict[str, float]]) -> dict[str, Any]:
    means = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
    spread = float(np.std([run["listed"] for run in runs]) / np.sqrt(max(len(runs) - 1, 1)))
    seconds = means["simulate_seconds"] + means["search_seconds"]
    reference = dict(zip(EPSILONS, protocol.reference or (), strict=False)).get(epsilon)
    return {"protocol": protocol.name, "asked": epsilon, **means, "listed_error": spread, "seconds": seconds,
            "reference": reference}  # fmt: skip


def _print(r: dict[str, Any]) -> None:
    reference = "" if r["reference"] is None else f"{r['reference']:.2f}"
    print(
        f"{r['protocol']:26}{r['asked']:5g}{r['listed']:8.3f}{r['listed_error']:6.3f}{r['detected']:10.3f}"
        f"{r['found']:7.1f}{r['false']:7.1f}{r['seconds']:9.1f}  {reference}",
        flush=True,
    )


if __name__ == "__main__":
    main()
