"""Simulated devices that follow a plan, to see what would be found in one's own values; codes of many values at once.

Codes and prefixes are rows of big-endian bytes, the last one filled up with zero bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Rng, SimulatedDevices, generator, support_of
from overstory.analysis.reports import ReportBatch
from overstory.protocol.domains.codes import END, CodedDomain
from overstory.protocol.errors import NoCodeError, ParameterError
from overstory.protocol.search import DICTIONARY, Plan, prefix_bytes

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
        if num_bits + step < domain.width or domain.is_numeric:
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


Progress = Callable[[str, float], object]  # told what is being done, and how much of it all is done, from 0 to 1


def simulate(plan: Plan, values: Any, rng: Rng = None, *, progress: Progress | None = None) -> tuple[ReportBatch, ...]:
    """Return what a device for each of `values` would send: the answers to each question of the plan.

    Groups are drawn as devices draw theirs, from uniform 32-bit numbers and the plan's thresholds; reports come from
    the mechanism's own bulk kernels.

    Parameters
    ----------
    plan
        The plan that the simulated devices follow.
    values
        One value a device; an integer array for `CodedIntegers` is fastest.
    rng
        Where all randomness comes from: a seed, a generator, or None for a fresh one.
    progress
        Called with the progress after every group.

    Raises
    ------
    ParameterError
        When a value is of the wrong kind, or an integer outside the domain; a string without a code is "elsewhere".

    Examples
    --------
    >>> from overstory.discovery import CodedIntegers, discover
    >>> plan = discover(epsilon=4.0, domain=CodedIntegers(16), levels=(8, 16))
    >>> reports = simulate(plan, np.array([7] * 600 + [4711] * 400), rng=1)
    >>> len(reports), sum(map(len, reports))
    (2, 1000)
    """
    rows, index, is_elsewhere = distinct(plan.domain, values)
    rng = generator(rng)
    drawn = rng.integers(0, 1 << 32, len(index), dtype=np.uint64)
    bounds = np.array([question.threshold for question in plan.questions], np.uint64)
    groups = np.searchsorted(bounds, drawn, side="right")
    dictionary = set(byte_strings(code_rows(plan.known, plan.domain.width)))
    is_known = np.array([raw in dictionary for raw in byte_strings(rows)] if dictionary else np.zeros(len(rows)), bool)
    support = support_of(plan.mechanism)
    reports = []
    for number, question in enumerate(plan.questions):
        if progress:
            progress("devices report", number / len(plan.questions))
        mine = index[groups == number]
        is_present = np.bincount(mine, minlength=len(rows)) > 0  # by `np.unique`, NumPy loads its masked arrays
        present, symbols = np.flatnonzero(is_present), (np.cumsum(is_present) - 1)[mine]
        asked = ~is_elsewhere[present]
        if plan.known:
            asked &= is_known[present] == (question.name == DICTIONARY)
        key = rng.bytes(32)
        cohorts = support.assign_cohorts(key, len(symbols))
        # As `Plan.held` says, "elsewhere" for those that are not asked about.
        held = zip(byte_strings(prefixes(rows[present], question.num_bits)), asked.tolist(), strict=True)
        table = support.table([question.word(raw if is_asked else b"") for raw, is_asked in held])
        devices = SimulatedDevices(plan.mechanism, table, symbols.astype(np.int32), cohorts, key)
        reports.append(devices.report())
    return tuple(reports)
