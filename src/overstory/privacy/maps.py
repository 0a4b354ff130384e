"""What a known candidate map spares: two candidates' filters overlap, and then fewer bits tell them apart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, product

from overstory.protocol.channels import Differences
from overstory.protocol.encodings import Encoding
from overstory.protocol.errors import ParameterError

# Bit positions, indexed by cohort, candidate, hash: nested sequences, or an array of that shape.
Positions = Sequence[Sequence[Sequence[int]]]


def map_differences(positions: Positions, encoding: Encoding) -> Differences:
    """Return the worst pairs (ones lowered, zeros raised) that two candidates of a fixed map really show.

    Every epsilon grows with both numbers, so the pairs that no other pair exceeds in both are enough: given to
    `Rounds.epsilon` they make the exact maximum over pairs of candidates, for any number of reports. Pairs are
    looked at from the most different weights down, and no longer than something worse can still be found.

    Parameters
    ----------
    positions
        Bit positions by cohort, candidate and hash; a map made elsewhere is taken as it is.
    encoding
        The encoding they are of.

    Raises
    ------
    ParameterError
        When the map does not fit the encoding, or has fewer than two candidates.

    Examples
    --------
    >>> from overstory.protocol.encodings import Bloom
    >>> map_differences([[[0, 1], [1, 2], [2, 0]]], Bloom(128, 2, 1))
    ((1, 1),)
    """
    if len(positions) != encoding.num_cohorts:
        raise ParameterError(f"the map has {len(positions)} cohorts, the mechanism {encoding.num_cohorts}")
    front: set[tuple[int, int]] = set()
    for cohort in positions:
        if len(cohort) < 2:
            raise ParameterError(f"the map has {len(cohort)} candidates: a comparison needs at least two")
        front = _extend(front, _filters(cohort, encoding.num_bits), encoding.num_bits)
    return tuple(sorted(front)) or ((0, 0),)


def _filters(cohort: Iterable[Iterable[int]], num_bits: int) -> set[int]:
    """Return the distinct filters of a cohort as integers."""
    filters = set()
    for candidate in cohort:
        bits = 0
        for position in candidate:
            if not 0 <= position < num_bits:
                raise ParameterError(f"the map names bit {position}: bits are 0 .. {num_bits - 1}")
            bits |= 1 << int(position)
        filters.add(bits)
    return filters


def _extend(front: set[tuple[int, int]], filters: set[int], num_bits: int) -> set[tuple[int, int]]:
    """Return the front with all pairs of `filters` taken in, skipping those that cannot change it."""
    weights: dict[int, list[int]] = {}
    for bits in filters:
        weights.setdefault(bits.bit_count(), []).append(bits)
    for first, second in sorted(_weight_pairs(weights), key=sum, reverse=True):
        overlap = max(0, first + second - num_bits)
        bound = first - overlap, second - overlap
        for a, b in _pairs(weights, first, second):
            if _covered(bound, front):
                break
            shared = (a & b).bit_count()
            front = _insert(front, (first - shared, second - shared))
            front = _insert(front, (second - shared, first - shared))
    return front


def _weight_pairs(weights: dict[int, list[int]]) -> Iterator[tuple[int, int]]:
    yield from ((x, y) for x in weights for y in weights if x <= y)


def _pairs(weights: dict[int, list[int]], first: int, second: int) -> Iterator[tuple[int, int]]:
    if first == second:
        return combinations(weights[first], 2)
    return product(weights[first], weights[second])


def _covered(pair: tuple[int, int], front: set[tuple[int, int]]) -> bool:
    """Whether `pair` and its mirror image are each exceeded, or equalled, in both numbers."""
    return all(any(a <= x and b <= y for x, y in front) for a, b in (pair, pair[::-1]))


def _insert(front: set[tuple[int, int]], pair: tuple[int, int]) -> set[tuple[int, int]]:
    if any(pair[0] <= x and pair[1] <= y for x, y in front):
        return front
    return {other for other in front if not (other[0] <= pair[0] and other[1] <= pair[1])} | {pair}
