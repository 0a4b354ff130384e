"""A column of numbers in equal bins, given or chosen, counted in a stream."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.files.columns.layout import Form
from overstory.files.columns.reader import ANY_FORM, BLOCK, blocks
from overstory.files.io import Advance
from overstory.protocol.domains import Bins
from overstory.trial.population import I64, Population, empty

SAMPLE: Final = 100_000
"""Numbers that bins are chosen by."""
USUAL_BINS: Final = 20
TAILS: Final = (0.01, 0.99)
"""Between these quantiles of the column the bins are chosen."""

F64 = NDArray[np.float64]


def count_bins(
    path: str,
    column: str,
    bins: Bins,
    *,
    chosen: bool = False,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> Population:
    """Count the rows in every bin; numbers outside go to the nearest bin, what is no finite number is missing."""
    counts, missing, outside = np.zeros(bins.count, np.int64), 0, 0
    for (values,) in blocks(path, [column], numbers=True, form=form, advance=advance, block=block):
        numbers = values[np.isfinite(values)]
        missing += len(values) - len(numbers)
        outside += int(np.count_nonzero((numbers < bins.minimum) | (numbers > bins.maximum)))
        counts += np.bincount(symbols(bins, numbers), minlength=bins.count)
    if not counts.sum():
        raise empty(path, column, missing)
    return Population(bins.labels, counts, missing, edges=bins.edges, notes=tuple(_notes(chosen, outside)))


def symbols(bins: Bins, numbers: F64) -> I64:
    """Return each number's bin, by the domain's own edges.

    Examples
    --------
    >>> symbols(Bins(0, 1, 10), np.array([-1.0, 0.0, 0.29999, 0.3, 1.0, 7.0])).tolist()
    [0, 0, 2, 3, 9, 9]
    """
    return np.searchsorted(np.array(bins.edges[1:-1]), numbers, side="right").astype(np.int64)


def _notes(chosen: bool, outside: int) -> list[str]:  # noqa: FBT001 - one of two sources
    notes = []
    if chosen:
        notes.append(
            f"the bins were chosen by your file's own numbers ({TAILS[0]:.0%} to {TAILS[1]:.0%} quantile); a real "
            "collection must fix them beforehand: --bins MIN MAX COUNT"
        )
    if outside:
        notes.append(f"{outside:,} numbers lie outside the bins and count in the nearest")
    return notes


def chosen_bins(
    path: str,
    column: str,
    rng: np.random.Generator,
    *,
    count: int = USUAL_BINS,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> Bins:
    """Choose round bins, about `count` of them, between the column's extreme quantiles, by a uniform sample."""
    read = blocks(path, [column], numbers=True, form=form, advance=advance, block=block)
    sample, missing = _sampled(read, rng)
    if not sample.size:
        raise empty(path, column, missing)
    low, high = np.quantile(sample, TAILS).tolist()
    return round_bins(low, high, count)


def _sampled(read: Iterable[tuple[Any, ...]], rng: np.random.Generator) -> tuple[F64, int]:
    """Return the numbers with the smallest random keys: a uniform sample, the same however the file is cut."""
    kept, keys, missing = np.empty(0), np.empty(0), 0
    for (values,) in read:
        numbers = values[np.isfinite(values)]
        missing += len(values) - len(numbers)
        kept, keys = np.append(kept, numbers), np.append(keys, rng.random(len(numbers)))
        if len(kept) > SAMPLE:
            first = np.argpartition(keys, SAMPLE)[:SAMPLE]
            kept, keys = kept[first], keys[first]
    return kept, missing


def round_bins(low: float, high: float, count: int) -> Bins:
    """Return bins of a round width (1, 2 or 5 times a power of ten) that cover ``low .. high``.

    Examples
    --------
    >>> bins = round_bins(0.13, 9.7, 20)
    >>> bins.minimum, bins.maximum, bins.count
    (0.0, 10.0, 20)
    >>> round_bins(7.0, 7.0, 20).labels
    ('[6.5, 7.5)', '[7.5, 8.5]')
    """
    if high <= low:
        return Bins(low - 0.5, low + 1.5, 2)
    least = (high - low) / count
    power = math.floor(math.log10(least))
    step = next(factor for factor in (1, 2, 5, 10) if factor * 10.0**power >= least * (1 - 1e-9))
    first, last = math.floor(low / (step * 10.0**power)), math.ceil(high / (step * 10.0**power))
    return Bins(_scaled(first * step, power), _scaled(last * step, power), max(last - first, 2))


def _scaled(whole: int, power: int) -> float:
    """Return whole * 10**power as the nearest float, so that limits are what they are written as."""
    return float(f"{whole}e{power}")


def quantile(edges: tuple[float, ...], counts: NDArray[np.float64], share: float) -> float:
    """Return where that share of the counts lies below, numbers being spread evenly over their bin.

    Examples
    --------
    >>> quantile((0.0, 1.0, 2.0), np.array([10.0, 30.0]), 0.5)
    1.3333333333333333
    """
    below = np.append(0.0, np.cumsum(counts))
    return float(np.interp(share * below[-1], below, edges))
