"""The bulk half of the oracles in plain NumPy: obvious, and slow; the kernels of the same names replace them."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

U64 = NDArray[np.uint64]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(word: U64) -> U64:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def _uniform(key: bytes, purpose: str, *columns: NDArray[Any] | int) -> U64:
    """64 random bits that are a function of the key, the purpose and the columns."""
    digest = hashlib.blake2b(purpose.encode(), key=key, digest_size=8).digest()
    state = np.asarray(int.from_bytes(digest, "little"), np.uint64).reshape(1)
    for column in columns:
        added = np.asarray(column).astype(np.uint64)
        state = _mix(_mix(state + _GOLDEN) ^ (np.atleast_1d(added) * _GOLDEN + np.uint64(1)))
    return state


def _below(bits: U64, bound: int) -> NDArray[np.int64]:
    """A number below `bound` from the upper 32 of 64 bits, to a bias of bound / 2**32."""
    return ((bits >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)


def hash_words(words: U64, seeds: NDArray[Any]) -> U64:
    """`overstory.protocol.symbol_encodings.hash_word` of many."""
    mask, words = np.uint64(0xFFFFFFFF), words.astype(np.uint64)
    mixed = (words & mask) ^ mix32(seeds.astype(np.uint64))
    mixed = ((mixed ^ (mixed >> np.uint64(16))) * np.uint64(0x21F0AAAD) + (words >> np.uint64(32))) & mask
    return (mixed ^ (mixed >> np.uint64(15))) * np.uint64(0x735A2D97) & mask


def mix32(word: U64) -> U64:
    """`overstory.protocol.symbol_encodings.mix32` of many."""
    mask = np.uint64(0xFFFFFFFF)
    word = (word ^ (word >> np.uint64(16))) * np.uint64(0x21F0AAAD) & mask
    word = (word ^ (word >> np.uint64(15))) * np.uint64(0x735A2D97) & mask
    return word ^ (word >> np.uint64(15))


def encode_signs(words: U64, symbols: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.uint32]:
    """Return each device's sign in the public matrix."""
    return _signs(words[symbols], rows)


def _signs(words: U64, rows: NDArray[Any]) -> NDArray[np.uint32]:
    numbers = rows.astype(np.uint64)
    mixed = hash_words(words, numbers >> np.uint64(5))
    signs: U64 = np.bitwise_and((mixed ^ (mixed >> np.uint64(16))) >> (numbers & np.uint64(31)), np.uint64(1))
    return signs.astype(np.uint32)


def count_sign_support(rows: NDArray[Any], reported: NDArray[Any], words: U64) -> NDArray[np.int64]:
    """Return how many reports are each word's sign."""
    return np.array([np.count_nonzero(_signs(word, rows) == reported) for word in words.reshape(-1, 1)], np.int64)


def encode_hadamard(symbols: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.uint32]:
    """Return each device's sign in the Hadamard matrix."""
    shared: NDArray[np.uint8] = np.bitwise_count(symbols.astype(np.uint64) & rows.astype(np.uint64))
    return (shared & np.uint8(1)).astype(np.uint32)


def count_hadamard_support(rows: NDArray[Any], reported: NDArray[Any], domain_size: int) -> NDArray[np.int64]:
    """Return how many reports are each value's sign: (n + the transform of signed rows) / 2."""
    order = 1 << (domain_size - 1).bit_length()
    signs = np.bincount(rows, weights=1.0 - 2.0 * reported, minlength=order)
    step = 1
    while step < order:
        pairs = signs.reshape(-1, 2, step)
        signs = np.stack((pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]), axis=1).reshape(-1)
        step *= 2
    return (len(rows) + np.rint(signs[:domain_size]).astype(np.int64)) // 2


def simulate_subsets(
    symbols: NDArray[Any], domain_size: int, subset_size: int, inside: int, key: bytes, *, first_device: int = 0
) -> U64:
    """Return each device's subset, packed."""
    device = np.arange(first_device, first_device + len(symbols))
    held = _uniform(key, "inside", device, symbols) >> np.uint64(32) < np.uint64(inside)
    order = _uniform(key, "order", device[:, None], symbols[:, None], np.arange(domain_size)[None, :])
    rows = np.arange(len(symbols))
    order[rows, symbols] = np.where(held, np.uint64(0), np.uint64(2**64 - 1))
    members = np.zeros((len(symbols), 64 * -(-domain_size // 64)), np.uint8)
    np.put_along_axis(members, np.argpartition(order, subset_size - 1, axis=1)[:, :subset_size], 1, axis=1)
    return np.packbits(members, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def simulate_points(
    symbols: NDArray[Any], field_size: int, dimension: int, inside: int, key: bytes, *, first_device: int = 0
) -> NDArray[np.int64]:
    """Return each device's point."""
    device = np.arange(first_device, first_device + len(symbols))
    held = _uniform(key, "inside", device, symbols) >> np.uint64(32) < np.uint64(inside)
    normal = coordinates(symbols, field_size, dimension)
    pivot, rows, drawn = (normal != 0).argmax(axis=1), np.arange(len(symbols)), np.zeros_like(normal)
    for attempt in range(64):
        empty = ~drawn.any(axis=1)
        if not empty.any():
            break
        about = (device[:, None], symbols[:, None], np.arange(dimension)[None, :], attempt)
        fresh = _below(_uniform(key, "point", *about), field_size)
        fresh[rows, pivot] = 0
        product = np.where(held, 0, 1 + _below(_uniform(key, "product", device, symbols, attempt), field_size - 1))
        fresh[rows, pivot] = (product - (fresh * normal).sum(axis=1)) % field_size
        drawn[empty] = fresh[empty]
    return numbers(drawn, field_size)


def coordinates(points: NDArray[Any], field_size: int, dimension: int) -> NDArray[np.int64]:
    """Return the coordinates of points, (n, t)."""
    out = np.zeros((len(points), dimension), np.int64)
    starts = [(field_size**tail - 1) // (field_size - 1) for tail in range(dimension + 1)]
    tails = np.searchsorted(starts, points, side="right") - 1
    for tail in range(dimension):
        rows = np.flatnonzero(tails == tail)
        rest = points[rows].astype(np.int64) - starts[tail]
        out[rows, dimension - 1 - tail] = 1
        for place in range(tail):
            out[rows, dimension - 1 - place] = rest // field_size**place % field_size
    return out


def numbers(vectors: NDArray[np.int64], field_size: int) -> NDArray[np.int64]:
    """Return the numbers of the points with these coordinates."""
    dimension = vectors.shape[1]
    inverses = np.array([0, *(pow(x, -1, field_size) for x in range(1, field_size))])
    pivot, rows = (vectors != 0).argmax(axis=1), np.arange(len(vectors))
    scaled = vectors * inverses[vectors[rows, pivot]][:, None] % field_size
    value = scaled @ field_size ** np.arange(dimension - 1, -1, -1)
    tail = dimension - 1 - pivot
    out: NDArray[np.int64] = value - field_size**tail + (field_size**tail - 1) // (field_size - 1)
    return out


def count_plane_support(
    histogram: NDArray[np.int64], field_size: int, dimension: int, domain_size: int
) -> NDArray[np.int64]:
    """Return how many points lie on each value's hyperplane."""
    seen = np.flatnonzero(histogram)
    points, weights = coordinates(seen, field_size, dimension), histogram[seen]
    values = coordinates(np.arange(domain_size), field_size, dimension)
    return np.array([weights[points @ value % field_size == 0].sum() for value in values], np.int64)
