"""Codes and prefixes of many values at once: rows of big-endian bytes, the last one filled up with zero bits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.domains.codes import END, CodedDomain
from overstory.protocol.errors import NoCodeError, ParameterError
from overstory.protocol.search import prefix_bytes

Rows = NDArray[np.uint8]


def code_rows(codes: Iterable[int], width: int) -> Rows:
    """Return codes of `width` bits, one a row."""
    raw = b"".join(prefix_bytes(code, width, width) for code in codes)
    return np.frombuffer(raw, np.uint8).reshape(-1, -(-width // 8))


def integer_rows(values: NDArray[Any], bits: int) -> Rows:
    """Return the codes of integers of `bits` bits, one a row."""
    if values.size and (values.min() < 0 or int(values.max()) >> bits):
        raise ParameterError(f"a value is outside the domain: integers from 0 to 2**{bits} - 1")
    shifted = values.astype(np.uint64) << np.uint64(-bits % 8)
    octets: Rows = shifted.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - -(-bits // 8) :]
    return octets


def distinct(domain: CodedDomain, values: Any) -> tuple[Rows, NDArray[np.int64], NDArray[np.bool_]]:
    """Return the different values' codes, which of them is each value's own, and which are strings without one."""
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ParameterError(f"values must be a column, one for each device, not an array of shape {values.shape}")
    if domain.is_numeric and isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        different, index = np.unique(values, return_inverse=True)
        return integer_rows(different, domain.width), index.astype(np.int64), np.zeros(len(different), np.bool_)
    places: dict[Any, int] = {}
    index = np.fromiter((places.setdefault(value, len(places)) for value in values), np.int64)
    codes: list[int | None] = []
    for value in places:
        try:
            codes.append(domain.code(value))
        except NoCodeError:
            if domain.is_numeric:
                raise
            codes.append(None)
    rows = code_rows((code or 0 for code in codes), domain.width)
    return rows, index, np.array([code is None for code in codes], np.bool_)


def prefixes(rows: Rows, num_bits: int) -> Rows:
    """Return the first `num_bits` bits of each row."""
    cut = rows[:, : -(-num_bits // 8)].copy()
    if num_bits % 8:
        cut[:, -1] &= 0xFF << (-num_bits % 8) & 0xFF
    return cut


def extensions(parents: Rows, num_bits: int, step: int, places: NDArray[np.int64] | None = None) -> Rows:
    """Return the extensions of each row's `num_bits` bits by `step` more; those of one row follow each other."""
    places = np.arange(len(parents) << step) if places is None else places
    total = num_bits + step
    octets = -(-total // 8)
    wide = max(octets, 8)
    children = np.zeros((len(places), wide), np.uint8)
    children[:, wide - octets : wide - octets + parents.shape[1]] = parents[places >> step]
    suffixes = (places & ((1 << step) - 1)).astype(np.uint64) << np.uint64(-total % 8)
    children[:, wide - 8 :] |= suffixes.astype(">u8").view(np.uint8).reshape(-1, 8)
    return children[:, wide - octets :]


def byte_strings(rows: Rows) -> list[bytes]:
    """Return each row as bytes."""
    raw, width = np.ascontiguousarray(rows).tobytes(), rows.shape[1]
    return [raw[at : at + width] for at in range(0, len(raw), width)] if width else [b""] * len(rows)


def number_of(raw: bytes, num_bits: int) -> int:
    """Return the bits of a prefix's bytes as one number."""
    return int.from_bytes(raw, "big") >> (-num_bits % 8)


def may_go_on(domain: CodedDomain, parents: Rows, num_bits: int, step: int) -> NDArray[np.bool_]:
    """Return which `step`-bit extensions of each row may begin a value's code; `CodedDomain.holds` knows more."""
    if not domain.block_bits:
        if num_bits + step < domain.width or not domain.has_end_marker:
            return np.ones(len(parents) << step, np.bool_)
        backwards = extensions(parents, num_bits, step)[:, ::-1]
        return np.asarray(backwards[np.arange(len(backwards)), (backwards != 0).argmax(axis=1)] == END)
    total, suffixes = num_bits + step, np.arange(1 << step)
    possible = np.ones((len(parents), 1 << step), np.bool_)
    ended = np.zeros_like(possible)
    for block in range(num_bits // domain.block_bits, -(-total // domain.block_bits)):
        first = block * domain.block_bits
        end = min(first + domain.block_bits, total)
        begun = max(num_bits - first, 0)  # bits of the block that the parents have
        number = suffixes >> total - end & (1 << end - first - begun) - 1
        if begun:
            raw = byte_strings(parents)
            had = np.array([number_of(prefix, num_bits) & (1 << begun) - 1 for prefix in raw], np.int64)
            number = had[:, None] << end - first - begun | number
        begins, ends = _block_beginnings(domain, block, end - first)
        possible &= begins[number] & ~(ended & (number != 0))
        ended |= ends[number]
    return possible.ravel()


@lru_cache(maxsize=256)
def _block_beginnings(domain: Any, block: int, num_bits: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which numbers begin some string's block of this place, and after which all ends; zeros follow an end."""
    numbers = np.arange(1 << domain.block_bits)
    possible = numbers < domain.block_values
    ended = np.zeros(numbers.size, np.bool_)
    for place in range(domain.block):
        digit = numbers // domain.base ** (domain.block - 1 - place) % domain.base
        ended |= (digit == 0) | (block * domain.block + place >= domain.longest)
        possible &= (digit == 0) | ~ended
    begun = (1 << num_bits, -1)
    may_begin, must_end = np.any(possible.reshape(begun), axis=1), np.all((ended | ~possible).reshape(begun), axis=1)
    return np.asarray(may_begin), np.asarray(must_end)
