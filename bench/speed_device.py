"""How fast one device randomizes, beside what the operating system's randomness alone costs.

    python bench/speed_device.py [--rounds N] [--json]

Full reports (a fresh value each time: filter, permanent response, report) and reports of a value whose permanent
response is in memory, at k=128 h=2, with thresholds of two binary digits (f=.5 p=.5 q=.75) and of 32 (f=.3 p=.35
q=.65). Every job is timed beside calls of `os.urandom` for as many bytes as a report draws; the best and the median
rate of the rounds and the median of the ratios of neighbours are printed, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

from overstory.client import Randomizer
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.sampling import ChannelSampler

if TYPE_CHECKING:
    from collections.abc import Callable

SETTINGS = {
    "two_digits": {"f": 0.5, "p": 0.5, "q": 0.75},
    "all_digits": {"f": 0.3, "p": 0.35, "q": 0.65},
}
TARGETS = {("two_digits", "fresh"): 100_000, ("two_digits", "in_memory"): 600_000}
CALLS = 20_000


def seconds_each(job: Callable[[Any], Any], arguments: list[Any]) -> float:
    """Time of one call, over all the arguments."""
    start = time.perf_counter()
    for argument in arguments:
        job(argument)
    return (time.perf_counter() - start) / len(arguments)


def measure(noise: dict[str, float], kind: str, rounds: int) -> dict[str, float]:
    """Reports per second, and the ratio of a report's time to that of the randomness it draws."""
    rappor = mechanism("rappor", **noise)
    drawn = len(ChannelSampler.of(rappor.rounds.instantaneous).digits) * rappor.encoding.num_bits // 8
    values = [f"value-{i}" for i in range(CALLS)] if kind == "fresh" else ["value"] * CALLS
    reports, system = [], []
    for number in range(rounds):
        device = Randomizer(rappor, secret=number.to_bytes(32, "big"), metric="bench")
        reports.append(seconds_each(device.report, values))
        system.append(seconds_each(os.urandom, [drawn] * CALLS))
    return {
        "best_per_second": round(1 / min(reports)),
        "median_per_second": round(1 / statistics.median(reports)),
        "random_bytes": drawn,
        "urandom_per_second": round(1 / statistics.median(system)),
        "ratio_to_urandom": round(statistics.median(r / s for r, s in zip(reports, system, strict=True)), 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {
        name: {kind: measure(noise, kind, arguments.rounds) for kind in ("fresh", "in_memory")}
        for name, noise in SETTINGS.items()
    }
    if arguments.json:
        print(json.dumps(results))
        return
    print("reports a second of one device, k=128 h=2")
    for name, kinds in results.items():
        for kind, found in kinds.items():
            target = f"   target {TARGETS[name, kind]:,}" if (name, kind) in TARGETS else ""
            print(
                f"{name:<12}{kind:<11}best {found['best_per_second']:>9,}   median {found['median_per_second']:>9,}   "
                f"{found['ratio_to_urandom']:>5} x os.urandom({found['random_bytes']}){target}"
            )


if __name__ == "__main__":
    main()
