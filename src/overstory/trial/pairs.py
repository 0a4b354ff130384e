"""Two columns of a file: which pair each row holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.association.independence import MOST_CELLS
from overstory.files.columns.layout import Form
from overstory.files.columns.reader import ANY_FORM, NO_NUMBERS, blocks
from overstory.files.io import Advance
from overstory.protocol.errors import ParameterError
from overstory.trial.column import MANY_NUMBERS, all_numbers, round_bins, symbols
from overstory.trial.population import READ_OFF, Population, empty

I64 = NDArray[np.int64]
FEW_BINS: Final = 10
"""Bins of a column of many different numbers."""
MOST_VALUES: Final = 1_000
"""Distinct values of a column of text."""
BETWEEN: Final = " / "


@dataclass(frozen=True, eq=False)
class Pairs:
    """Who takes part, and which pair each row holds: the truth that no collector would see.

    Attributes
    ----------
    counts : ndarray of int64, shape (k_x, k_y)
        How many rows hold each pair.
    """

    names: tuple[str, str]
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    counts: I64
    missing: int = 0  # rows without a value in one of the columns; they send nothing
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def population(self) -> Population:
        """The same as one column of pairs."""
        first, second = self.labels
        cells = tuple(f"{x}{BETWEEN}{y}" for x in first for y in second)
        return Population(cells, self.counts.ravel(), self.missing, notes=self.notes)


def count_pairs(path: str, columns: Sequence[str], *, form: Form = ANY_FORM, advance: Advance | None = None) -> Pairs:
    """Count the rows of every pair of two columns' values, in one pass.

    A column of many different numbers is counted in bins. A row without a value in one of the columns counts as
    missing.

    Raises
    ------
    ParameterError
        When there are no two columns, nothing to count, or too many values.
    """
    if len(columns) != 2 or columns[0] == columns[1]:
        raise ParameterError("give two different columns: --column A --column B")
    numbers: tuple[dict[str, int], dict[str, int]] = {}, {}
    rows_of: dict[tuple[int, int], int] = {}
    missing = 0
    for values in blocks(path, list(columns), form=form, advance=advance):
        codes = [texts.numbered(known) for texts, known in zip(values, numbers, strict=True)]
        there = (codes[0] >= 0) & (codes[1] >= 0)
        missing += int(np.count_nonzero(~there))
        pairs, counts = np.unique(np.stack([code[there] for code in codes]), axis=1, return_counts=True)
        for first, second, count in zip(*pairs.tolist(), counts.tolist(), strict=True):
            rows_of[first, second] = rows_of.get((first, second), 0) + count
    if not rows_of:
        raise empty(path, " and ".join(columns), missing)
    table = np.zeros((len(numbers[0]), len(numbers[1])), np.int64)
    for place, count in rows_of.items():
        table[place] = count
    return arranged(tuple(columns), [list(known) for known in numbers], table, missing)


def arranged(names: Sequence[str], values: Sequence[list[str]], counts: I64, missing: int) -> Pairs:
    """Return the pairs with values in order, and many numbers in bins."""
    labels, notes = [], [READ_OFF]
    for axis, texts in enumerate(values):
        listed, places, note = _places(names[axis], texts)
        counts = _moved(counts, axis, places, len(listed))
        labels.append(listed)
        notes += [note] if note else []
    if counts.size > MOST_CELLS:
        raise ParameterError(
            f"{names[0]} and {names[1]} have {counts.shape[0]} x {counts.shape[1]} pairs of values, more than "
            f"{MOST_CELLS:,}: choose columns of fewer values"
        )
    return Pairs((names[0], names[1]), (labels[0], labels[1]), counts, missing, tuple(notes))


def _places(name: str, texts: list[str]) -> tuple[tuple[str, ...], I64, str]:
    """Return a column's values in order, which of them each text is, and what a reader must know."""
    bare = [text for text in texts if text not in NO_NUMBERS]
    if all_numbers(bare) and len(bare) > MANY_NUMBERS and len(bare) == len(texts):
        figures = np.array(texts, np.float64)
        bins = round_bins(float(figures.min()), float(figures.max()), FEW_BINS)
        note = f"{name}: {len(texts):,} different numbers were counted in {bins.count} bins"
        return bins.labels, symbols(bins, figures), note
    if len(texts) > MOST_VALUES:
        raise ParameterError(f"{name} has {len(texts):,} distinct values, more than {MOST_VALUES:,}")
    if len(texts) < 2:
        raise ParameterError(f"{name} has one value alone, {texts[0]!r}: nothing can depend on it")
    ordered = sorted(texts, key=float if all_numbers(bare) and len(bare) == len(texts) else None)
    rank = {text: place for place, text in enumerate(ordered)}
    return tuple(ordered), np.array([rank[text] for text in texts], np.int64), ""


def _moved(counts: I64, axis: int, places: I64, size: int) -> I64:
    """Add the rows (or the columns) up by their new places."""
    rows = counts if axis == 0 else counts.T
    moved = np.zeros((size, rows.shape[1]), np.int64)
    np.add.at(moved, places, rows)
    return moved if axis == 0 else moved.T
