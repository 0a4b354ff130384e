"""How fast oracles count: seconds for the support of all values, beside a NumPy count of one value after another.

    python bench/speed_oracles.py [--reports N] [--values D] [--rounds R] [--json]

Every job is timed in turn with its yardstick, on a part of the work, whose time is scaled up in proportion.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from _timing import seconds
from overstory.analysis.kinds.symbols import count_plane_support
from overstory.kernels.devices import StreamKey, assign_cohorts
from overstory.kernels.popcount import count_bits_grouped
from overstory.kernels.small_hashes import count_hadamard_support
from overstory.kernels.threads import cores
from overstory.protocol.kinds.registry import mechanism

KEY, RNG = StreamKey(bytes(range(32))), np.random.default_rng(1)
Job = Callable[[], Any]
# A job, its yardstick, and how many times the yardstick's work the job does.
Duel = tuple[Job, Job, float]


def counting(n: int, d: int) -> dict[str, Duel]:
    """Support of d values among n reports; a report's content does not matter to the time."""
    seeds, signs = assign_cohorts(KEY, 1 << 31, n), RNG.integers(0, 2, n).astype(np.uint32)
    few, some = max(1, n // 10), range(0, d, max(1, d // 20))
    share = n / few * d / len(some)
    order = 1 << (d - 1).bit_length()
    rows = seeds % np.uint32(order)
    plane: Any = mechanism("projective", domain_size=d, epsilon=1)
    size = plane.encoding.field_size
    points = RNG.integers(0, plane.encoding.sizes[0], n)
    table = np.array([plane.encoding.coordinates(point) for point in range(plane.encoding.sizes[0])])
    reports = RNG.integers(0, 1 << 63, (n, 2)).astype(np.uint64)

    def histogram() -> np.ndarray:
        return np.bincount(points, minlength=len(table))

    def on_planes() -> Any:
        seen = histogram()
        return [seen[table @ table[v] % size == 0].sum() for v in some]

    return {
        "hadamard": (
            lambda: count_hadamard_support(rows, signs, d),
            lambda: [np.count_nonzero((np.bitwise_count(rows[:few] & np.uint32(v)) & 1) == signs[:few]) for v in some],
            share,
        ),
        f"projective q={size}": (
            lambda: count_plane_support(histogram(), plane.encoding),
            on_planes,
            d / len(some),
        ),
        "subset, first 128 values": (
            lambda: count_bits_grouped(reports, np.array([0, len(reports)])),
            lambda: np.unpackbits(reports[:few].view(np.uint8), axis=1).sum(axis=0),
            n / few,
        ),
    }


def duel(job: Job, yardstick: Job, scale: float, rounds: int) -> dict[str, float]:
    """Best time of a job, and the median ratio of its yardstick's, scaled, to it."""
    job()
    yardstick()
    pairs = [(seconds(job), seconds(yardstick) * scale) for _ in range(rounds)]
    best = min(own for own, _ in pairs)
    return {"seconds": best, "times_numpy": round(statistics.median(other / own for own, other in pairs), 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    counted = {
        name: duel(*pair, arguments.rounds) for name, pair in counting(arguments.reports, arguments.values).items()
    }
    if arguments.json:
        print(json.dumps(vars(arguments) | {"threads": cores(None), "count": counted}))
        return
    print(f"support of {arguments.values:,} values among {arguments.reports:,} reports")
    for name, found in counted.items():
        print(f"  {name:<34}{found['seconds'] * 1e3:>9.1f} ms    x {found['times_numpy']} of numpy, scaled")


if __name__ == "__main__":
    main()
