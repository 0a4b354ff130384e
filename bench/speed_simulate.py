"""How fast devices are simulated: reports a second, and the ratio to what existing ways reach on this machine.

    python bench/speed_simulate.py [--devices N] [--json]

Yardsticks, timed in turn with the kernels: a NumPy version that draws one uniform number per bit (no cryptographic
stream), and a pure Python loop that draws each bit from the operating system's randomness, as the published Python
clients do.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from _timing import seconds
from overstory.kernels.devices import assign_cohorts, simulate_bits
from overstory.kernels.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable

KEY, NUM_BITS, NUM_HASHES, NUM_COHORTS, NUM_SYMBOLS = bytes(range(32)), 128, 2, 16, 100
CHANNELS = {
    "f=.5 p=.5 q=.75": ((3 << 30, 1 << 30), (3 << 30, 1 << 31)),  # two digits each
    "32 digits": ((0xD9999999, 0x26666667), (0x87DCA7F1, 0x395182A9)),  # as a planner gives them
}


def with_numpy(positions: np.ndarray, symbols: np.ndarray, cohorts: np.ndarray, channels: Any) -> np.ndarray:
    """Booleans, one uniform number per bit and channel."""
    rng = np.random.default_rng(1)
    bits = np.zeros((len(symbols), NUM_BITS), dtype=bool)
    np.put_along_axis(bits, positions[cohorts, symbols].astype(np.int64), values=True, axis=1)
    for keep_one, raise_zero in channels:
        uniform = rng.random(bits.shape, dtype=np.float32)
        bits = uniform < np.where(bits, np.float32(keep_one / 2**32), np.float32(raise_zero / 2**32))
    return np.packbits(bits, axis=1)


def with_python(positions: np.ndarray, symbols: np.ndarray, cohorts: np.ndarray, channels: Any) -> None:
    """One device after another, one bit after another."""
    for symbol, cohort in zip(symbols, cohorts, strict=True):
        mine = set(positions[cohort, symbol].tolist())
        bits = [place in mine for place in range(NUM_BITS)]
        for keep_one, raise_zero in channels:
            bits = [secrets.randbits(32) < (keep_one if bit else raise_zero) for bit in bits]


def measure(devices: int, threads: int, rounds: int) -> dict[str, Any]:
    """Median rates, and median ratios of neighbours in time."""
    rng = np.random.default_rng(1)
    positions = rng.integers(0, NUM_BITS, (NUM_COHORTS, NUM_SYMBOLS, NUM_HASHES)).astype(np.uint16)
    symbols, cohorts = rng.integers(0, NUM_SYMBOLS, devices).astype(np.int32), assign_cohorts(KEY, NUM_COHORTS, devices)
    out = np.empty((devices, NUM_BITS // 64), dtype=np.uint64)
    few, fewer = devices // 100, max(10, devices // 20_000)

    def job(channels: Any) -> Callable[[], Any]:
        return lambda: simulate_bits(
            positions, symbols, cohorts, *channels, KEY, num_bits=NUM_BITS, threads=threads, out=out
        )

    plain = CHANNELS["f=.5 p=.5 q=.75"]
    jobs: dict[str, tuple[int, Callable[[], Any]]] = {
        "python": (fewer, lambda: with_python(positions, symbols[:fewer], cohorts[:fewer], plain)),
        "numpy": (few, lambda: with_numpy(positions, symbols[:few], cohorts[:few], plain)),
        "no channel": (devices, job((None, None))),
    } | {name: (devices, job(channels)) for name, channels in CHANNELS.items()}
    for _, each in jobs.values():
        each()
    rates = [{name: count / seconds(each) for name, (count, each) in jobs.items()} for _ in range(rounds)]
    return {
        name: {
            "million_reports_per_second": round(statistics.median(r[name] for r in rates) / 1e6, 4),
            "ratio_to_numpy": round(statistics.median(r[name] / r["numpy"] for r in rates), 3),
            "ratio_to_python": round(statistics.median(r[name] / r["python"] for r in rates)),
        }
        for name in jobs
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--devices", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {
        f"threads_{threads}": measure(arguments.devices, threads, arguments.rounds)
        for threads in sorted({1, cores(None)})
    }
    if arguments.json:
        print(json.dumps(vars(arguments) | results))
        return
    print(f"{arguments.devices:,} devices, {NUM_BITS} bits, {NUM_HASHES} hashes, {NUM_COHORTS} cohorts, both channels")
    for threads, jobs in results.items():
        for name, figures in jobs.items():
            rate, numpy, python = (
                figures[key] for key in ("million_reports_per_second", "ratio_to_numpy", "ratio_to_python")
            )
            print(f"{threads:<12}{name:<18}{rate:>10} M/s   x {numpy} of numpy   x {python} of python")


if __name__ == "__main__":
    main()
