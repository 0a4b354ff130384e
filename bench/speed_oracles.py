"""How fast the oracles' two bulk halves are: reports randomized a second, and seconds to count support.

    python bench/speed_oracles.py [--reports N] [--values D] [--rounds R] [--json]

Every job is timed in turn with its yardstick, a NumPy implementation of the same thing on a part of the work, whose
time is scaled up in proportion: one uniform number per bit or symbol without a cryptographic stream, and one value
after another compared with all reports at once. Last, from reports to estimates: OLH whose reports are counted by 256
public seeds, beside OLH of a seed for each device, where every report is looked at for every value.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from _timing import seconds
from overstory.analysis.kinds.sets import count_plane_support, simulate_points
from overstory.kernels.bits.popcount import count_bits_grouped
from overstory.kernels.devices import StreamKey, assign_cohorts, simulate_bits, simulate_subsets, simulate_symbols
from overstory.kernels.small_hashes import count_hadamard_support, encode_hadamard, encode_hash, value_words
from overstory.kernels.threads import cores
from overstory.protocol.kinds.registry import mechanism

KEY, ONE = StreamKey(bytes(range(32))), 1 << 32
RNG = np.random.default_rng(1)
Job = Callable[[], Any]
# A job, its yardstick, and how many times the yardstick's work the job does.
Duel = tuple[Job, Job, float]


def numpy_hash(words: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    """`overstory.protocol.kinds.hashes.hash_word`."""
    mixed = np.asarray(seeds).astype(np.uint32)
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    mixed ^= mixed >> np.uint32(15)
    mixed ^= words.astype(np.uint32)
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x21F0AAAD) + (words >> np.uint64(32)).astype(np.uint32)
    return (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x735A2D97)


def numpy_symbols(symbols: np.ndarray, size: int, alpha: int) -> np.ndarray:
    """Keep or draw uniformly."""
    kept = RNG.random(symbols.size) < alpha / ONE
    return np.where(kept, symbols, RNG.integers(0, size, symbols.size))


def numpy_bits(symbols: np.ndarray, size: int, keep: int, raised: int) -> np.ndarray:
    """One uniform number per bit of a one-hot vector."""
    bits = np.zeros((symbols.size, size), dtype=bool)
    bits[np.arange(symbols.size), symbols] = True
    return np.packbits(RNG.random(bits.shape, dtype=np.float32) < np.where(bits, keep / ONE, raised / ONE), axis=1)


def numpy_subsets(symbols: np.ndarray, domain_size: int, subset_size: int, inside: int) -> np.ndarray:
    """The least of random keys, the device's own value being made first or last."""
    keys = RNG.random((symbols.size, domain_size))
    keys[np.arange(symbols.size), symbols] = np.where(RNG.random(symbols.size) < inside / ONE, -1.0, 2.0)
    return np.argpartition(keys, subset_size, axis=1)[:, :subset_size]


def numpy_points(symbols: np.ndarray, table: np.ndarray, inside: int) -> np.ndarray:
    """Draw any point, until it is of the wanted kind."""
    out = np.full(symbols.size, -1)
    wanted = RNG.random(symbols.size) < inside / ONE
    size = int(table.max()) + 1
    while (rows := np.flatnonzero(out < 0)).size:
        drawn = RNG.integers(0, len(table), rows.size)
        held = (table[drawn] * table[symbols[rows]]).sum(axis=1) % size == 0
        out[rows] = np.where(held == wanted[rows], drawn, -1)
    return out


def coordinates(system: Any) -> np.ndarray:
    """Every point's coordinates."""
    return np.array([system.coordinates(point) for point in range(system.sizes[0])])


def alphas(name: str, **parameters: Any) -> tuple[int, int]:
    """Size of the alphabet, and alpha over 2 ** 32."""
    made: Any = mechanism(name, **parameters)
    return made.encoding.num_symbols, int(made.rounds.permanent.alpha * ONE)


def bit_duel(name: str, n: int, num_bits: int, positions: np.ndarray, cohorts: np.ndarray, **parameters: Any) -> Duel:
    """Mechanisms that report bits."""
    made: Any = mechanism(name, **parameters)
    rounds = [None if c.is_identity else c.thresholds for c in (made.rounds.permanent, made.rounds.instantaneous)]
    symbols, few = RNG.integers(0, positions.shape[1], n).astype(np.int32), max(1, n // 1000)
    return (
        lambda: simulate_bits(positions, symbols, cohorts, rounds[0], rounds[1], KEY, num_bits=num_bits),
        lambda: [numpy_bits(symbols[:few] % num_bits, num_bits, *c) for c in rounds if c],
        n / few,
    )


def sign_duels(n: int, d: int, few: int) -> dict[str, tuple[int, Duel]]:
    """Mechanisms that report a symbol: the whole path of public seed, encoding, channel."""
    symbols, words = RNG.integers(0, d, n).astype(np.int32), value_words(range(d))
    some, nobody, order = symbols[:few], np.zeros(n, np.uint32), 1 << (d - 1).bit_length()
    direct, sign = alphas("grr", domain_size=d, epsilon=1), alphas("blh", epsilon=1)
    hashed = alphas("olh", epsilon=1)

    def olh() -> Any:
        seeds = assign_cohorts(KEY, 1 << 31, n)
        return simulate_symbols(encode_hash(words, symbols, seeds, hashed[0]), seeds, *hashed, None, KEY)

    def olh_numpy() -> Any:
        own = numpy_hash(words[some], RNG.integers(0, 1 << 31, few)).astype(np.uint64)
        return numpy_symbols(own * np.uint64(hashed[0]) >> np.uint64(32), *hashed)

    def hadamard() -> Any:
        rows = assign_cohorts(KEY, order, n)
        return simulate_symbols(encode_hadamard(symbols, rows), rows, *sign, None, KEY)

    def hadamard_numpy() -> Any:
        return numpy_symbols(np.bitwise_count(some & RNG.integers(0, order, few)) & 1, *sign)

    jobs: dict[str, tuple[Job, Job]] = {
        f"grr d={d}": (
            lambda: simulate_symbols(symbols, nobody, *direct, None, KEY),
            lambda: numpy_symbols(some, *direct),
        ),
        f"olh g={hashed[0]}": (olh, olh_numpy),
        f"hadamard d={d}": (hadamard, hadamard_numpy),
    }
    return {name: (n, (*pair, n / few)) for name, pair in jobs.items()}


def set_duels(n: int, d: int, few: int) -> dict[str, tuple[int, Duel]]:
    """Mechanisms that report an output of a set system."""
    symbols = RNG.integers(0, d, n).astype(np.int32)
    subset: Any = mechanism("subset", domain_size=d, epsilon=1)
    plane: Any = mechanism("projective", domain_size=d, epsilon=1)
    shape = d, subset.encoding.subset_size, int(subset.inside * ONE)
    space, inside = (plane.encoding.field_size, plane.encoding.dimension), int(plane.inside * ONE)
    table = coordinates(plane.encoding)
    jobs: dict[str, tuple[Job, Job]] = {
        f"subset d={d} w={shape[1]}": (
            lambda: simulate_subsets(symbols, *shape, KEY),
            lambda: numpy_subsets(symbols[:few], *shape),
        ),
        f"projective d={d} q={space[0]} t={space[1]}": (
            lambda: simulate_points(symbols, plane.encoding, inside, KEY),
            lambda: numpy_points(symbols[:few], table, inside),
        ),
    }
    return {name: (n, (*pair, n / few)) for name, pair in jobs.items()}


def randomizing(n: int, d: int = 100) -> dict[str, tuple[int, Duel]]:
    """Jobs, and how many reports each makes."""
    fewer, wide = max(1, n // 10), np.arange(1024, dtype=np.uint16).reshape(1, 1024, 1)
    bloom, nobody = RNG.integers(0, 128, (16, d, 2)).astype(np.uint16), np.zeros(fewer, np.uint16)
    oue = bit_duel("oue", fewer, 1024, wide, nobody, domain_size=1024, epsilon=1)
    rappor = bit_duel("rappor", n, 128, bloom, assign_cohorts(KEY, 16, n), f=0.5, p=0.5, q=0.75)
    bits = {"oue d=1024": (fewer, oue), "rappor k=128 h=2": (n, rappor)}
    return sign_duels(n, d, max(1, n // 50)) | set_duels(n, d, max(1, n // 50)) | bits


def counting(n: int, d: int) -> dict[str, Duel]:
    """Support of d values among n reports; a report's content does not matter to the time."""
    seeds, signs = assign_cohorts(KEY, 1 << 31, n), RNG.integers(0, 2, n).astype(np.uint32)
    few, some = max(1, n // 10), range(0, d, max(1, d // 20))
    share = n / few * d / len(some)
    order = 1 << (d - 1).bit_length()
    rows = seeds % np.uint32(order)
    plane: Any = mechanism("projective", domain_size=d, epsilon=1)
    space = plane.encoding.field_size, plane.encoding.dimension
    table, points = coordinates(plane.encoding), RNG.integers(0, plane.encoding.sizes[0], n)
    reports = RNG.integers(0, 1 << 63, (n, 2)).astype(np.uint64)

    def histogram() -> np.ndarray:
        return np.bincount(points, minlength=len(table))

    def on_planes() -> Any:
        seen = histogram()
        return [seen[table @ table[v] % space[0] == 0].sum() for v in some]

    return {
        "hadamard": (
            lambda: count_hadamard_support(rows, signs, d),
            lambda: [np.count_nonzero((np.bitwise_count(rows[:few] & np.uint32(v)) & 1) == signs[:few]) for v in some],
            share,
        ),
        f"projective q={space[0]}": (
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
    randomized, counted = {}, {}
    for name, (n, pair) in randomizing(arguments.reports).items():
        found = duel(*pair, arguments.rounds)
        randomized[name] = found | {"million_reports_per_second": round(n / found["seconds"] / 1e6, 2)}
    for name, pair in counting(arguments.reports, arguments.values).items():
        counted[name] = duel(*pair, arguments.rounds)
    if arguments.json:
        found = {"threads": cores(None), "randomize": randomized, "count": counted}
        print(json.dumps(vars(arguments) | found))
        return
    print(f"randomized in bulk, {cores(None)} threads, public seeds and encoding included, epsilon 1")
    for name, found in randomized.items():
        print(f"  {name:<34}{found['million_reports_per_second']:>9} M/s   x {found['times_numpy']} of numpy")
    print(f"support of {arguments.values:,} values among {arguments.reports:,} reports")
    for name, found in counted.items():
        print(f"  {name:<34}{found['seconds'] * 1e3:>9.1f} ms    x {found['times_numpy']} of numpy, scaled")


if __name__ == "__main__":
    main()
