"""Digests, or strings as Arrow lays out a column of them, to Bloom positions, millions at a time.

String ``i`` is ``data[offsets[i] : offsets[i + 1]]``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.kernels.compiled import kernel
from overstory.kernels.hash.md5 import google_rows
from overstory.kernels.threads import in_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
LOW_HALF = np.uint64(0xFFFFFFFF)
ONE = np.uint64(1)
SMALLEST = 1 << 12  # strings worth a thread


def _strings(offsets: NDArray[Any], data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Refuse what would read outside ``data``."""
    data = np.require(data, np.uint8, ["C"])
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    if (
        offsets.ndim != 1
        or offsets.size < 1
        or offsets[0] < 0
        or offsets[-1] > data.size
        or (np.diff(offsets) < 0).any()
    ):
        raise ValueError(
            f"offsets must be one column that rises from 0 or more to at most {data.size}, the bytes of data"
        )
    return offsets, data


def _shape(num_bits: int, num_hashes: int, num_cohorts: int, most_hashes: int) -> None:
    if not 1 <= num_bits <= 1 << 16:
        raise ValueError(f"num_bits must be in 1 .. 65536, not {num_bits}")
    if not 1 <= num_hashes <= most_hashes:
        raise ValueError(f"num_hashes must be in 1 .. {most_hashes}, not {num_hashes}")
    if num_cohorts < 1:
        raise ValueError(f"num_cohorts must be at least 1, not {num_cohorts}")


@kernel
def mix(z: Any) -> Any:
    """Splitmix64's finalizer (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@kernel
def v1_rows(digests: Any, start: Any, stop: Any, num_bits: Any, out: Any) -> None:
    """Fill ``out[:, start : stop]``."""
    num_hashes = out.shape[2]
    for cohort in range(out.shape[0]):
        # One SplitMix64 stream for each (digest, cohort): state y, output mix(y), step GOLDEN.
        tweak = mix(np.uint64(cohort + 1) * GOLDEN)
        for row in range(start, stop):
            y = mix(digests[row] + tweak)
            for i in range(num_hashes):
                y += GOLDEN
                u, last = mix(y), num_bits - num_hashes + i
                bound = np.uint64(last + 1)
                # (u * bound) >> 64, from halves: bound has at most 17 bits, so nothing overflows.
                t = ((u >> np.uint64(32)) * bound + (((u & LOW_HALF) * bound) >> np.uint64(32))) >> np.uint64(32)
                # Floyd's sampling: a position drawn before gives way to `last`, which cannot have been drawn yet.
                position = np.int64(t)
                for earlier in range(i):
                    if out[cohort, row, earlier] == position:
                        position = last
                        break
                out[cohort, row, i] = position


def positions_v1(
    digests: NDArray[np.uint64], num_bits: int, num_hashes: int, num_cohorts: int, *, threads: int | None = None
) -> NDArray[np.uint16]:
    """Positions of the family ``overstory-v1``, (cohorts, digests, hashes): ``num_hashes`` *distinct* ones a digest.

    Floyd's sampling (Bentley, Floyd, "A sample of brilliance", CACM 30(9), 1987): the i-th position is drawn from the
    first ``num_bits - num_hashes + i + 1``; if it has been drawn before, the last of them is taken, which cannot have
    been.  Every set of positions is then equally likely (to 2 ** -48, from the multiplication in place of a
    division).
    """
    _shape(num_bits, num_hashes, num_cohorts, num_bits)
    digests = np.require(digests, np.uint64, ["C", "A"])
    out = np.empty((num_cohorts, digests.size, num_hashes), dtype=np.uint16)
    in_parts(lambda start, stop: v1_rows(digests, start, stop, num_bits, out), digests.size, threads, smallest=SMALLEST)
    return out


def positions_google(
    offsets: NDArray[Any],
    data: NDArray[np.uint8],
    num_bits: int,
    num_hashes: int,
    num_cohorts: int,
    *,
    threads: int | None = None,
) -> NDArray[np.uint16]:
    """Positions of the hash family ``google-rappor-python``, (cohorts, strings, hashes); a string's may coincide.

    They are bytes of MD5(cohort, string), modulo ``num_bits``; there are 16 bytes, so ``num_hashes`` is at most 16.
    """
    _shape(num_bits, num_hashes, num_cohorts, 16)
    offsets, data = _strings(offsets, data)
    out = np.empty((num_cohorts, offsets.size - 1, num_hashes), dtype=np.uint16)
    in_parts(
        lambda start, stop: google_rows(offsets, data, start, stop, num_bits, out),
        offsets.size - 1,
        threads,
        smallest=SMALLEST,
    )
    return out
