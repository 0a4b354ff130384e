"""A collection of two columns of a file, or of a data frame: each row reports its pair, and only pairs are counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.association.independence import MOST_CELLS
from overstory.analysis.association.summary import ROW, TableSummary
from overstory.analysis.association.table import TableEstimate, pair_table
from overstory.analysis.kinds.base import Rng
from overstory.analysis.tables.columns import read_column
from overstory.analysis.tables.output import label_text
from overstory.files.columns import ANY_FORM, NO_NUMBERS, blocks
from overstory.files.io import Advance
from overstory.files.recognition import look_alikes, recognize_all
from overstory.presentation.document import Block, Column
from overstory.presentation.svg import Picture
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind
from overstory.trial.population import (
    MANY_NUMBERS,
    OF_COLUMN,
    ONE_SPELLING,
    READ_OFF,
    People,
    Population,
    all_numbers,
    empty,
    round_bins,
    symbols,
)
from overstory.trial.run import Trial, TrialBudget, seed_of
from overstory.trial.values import ValueTrial, collect

I64 = NDArray[np.int64]
FEW_BINS: Final = 10  # bins of a column of many different numbers
MOST_VALUES: Final = 1_000  # distinct values of a column of text


@dataclass(frozen=True, eq=False)
class Pairs(People):
    """People that hold a pair of values each."""

    names: tuple[str, str]
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    counts: I64  # how many rows hold each pair, shape (k_x, k_y)

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def population(self) -> Population:
        first, second = self.labels
        cells = tuple(f"{x} / {y}" for x in first for y in second)
        return Population(cells, self.counts.ravel(), missing=self.missing)


def count_pairs(path: str, columns: Sequence[str], **how: Any) -> Pairs:
    """Count the rows of every pair of two columns' values, in one pass; a row without one of them counts as missing."""
    if len(columns) != 2 or columns[0] == columns[1]:
        raise ParameterError("give two different columns: --column A --column B")
    numbers: tuple[dict[str, int], dict[str, int]] = {}, {}
    rows_of: dict[tuple[int, int], int] = {}
    missing = 0
    for values in blocks(path, list(columns), **how):
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
    rows = [dict(zip(known, table.sum(axis=1 - axis).tolist(), strict=True)) for axis, known in enumerate(numbers)]
    found = recognize_all(dict(zip(columns, rows, strict=True)), how.get("form", ANY_FORM))
    notes = [READ_OFF, *(note for each in found for note in each.notes)]
    return arranged(tuple(columns), [list(each.labels) for each in found], table, notes, missing)


def arranged(
    names: Sequence[str], values: Sequence[list[str]], counts: I64, notes: list[str], missing: int = 0
) -> Pairs:
    """Return the pairs with values in order, and many numbers in bins; notes are what a reader must know of them."""
    labels = []
    for axis, texts in enumerate(values):
        listed, places, note = _places(names[axis], texts)
        rows = counts if axis == 0 else counts.T
        added = np.zeros((len(listed), rows.shape[1]), np.int64)  # by their new places
        np.add.at(added, places, rows)
        counts = added if axis == 0 else added.T
        labels.append(listed)
        notes = [*notes, note] if note else notes
    if counts.size > MOST_CELLS:
        raise ParameterError(
            f"{names[0]} and {names[1]} have {counts.shape[0]} x {counts.shape[1]} pairs of values, more than "
            f"{MOST_CELLS:,}: choose columns of fewer values"
        )
    pairs = Pairs((names[0], names[1]), (labels[0], labels[1]), counts, missing=missing, notes=tuple(notes))
    return pairs.absent_noted("no value in one of the columns")


def _places(name: str, texts: list[str]) -> tuple[tuple[str, ...], I64, str]:
    """Return a column's values in order, which of them each text is, and what a reader must know."""
    are_numbers = all_numbers(texts) and NO_NUMBERS.isdisjoint(texts)
    if are_numbers and len(texts) > MANY_NUMBERS:
        figures = np.array(texts, np.float64)
        bins = round_bins(float(figures.min()), float(figures.max()), FEW_BINS)
        note = f"{name}: {len(texts):,} different numbers were counted in {bins.count} bins"
        return bins.labels, symbols(bins, figures), note
    ordered = sorted(set(texts), key=float if are_numbers else None)
    if len(ordered) > MOST_VALUES:
        raise ParameterError(f"{name} has {len(ordered):,} distinct values, more than {MOST_VALUES:,}")
    if len(ordered) < 2:
        raise ParameterError(f"{name} has one value alone, {texts[0]!r}: nothing can depend on it")
    rank = {text: place for place, text in enumerate(ordered)}
    return tuple(ordered), np.array([rank[text] for text in texts], np.int64), ""


@dataclass(frozen=True, eq=False, repr=False)
class TableTrial(Trial):
    """What a collection of two columns learned, next to the truth.

    Attributes
    ----------
    people : Pairs
        How many rows hold each pair of values: the truth that no collector would see.
    result : ValueTrial
        The oracle that every row randomized with, and the estimate of each pair's count.
    estimate : TableEstimate
        The estimated shares of the pairs of values, with their standard errors.
    """

    columns: ClassVar[Sequence[Column]] = (
        *map(Column, ("row", "column", "true_share", "true_share_in_row")),
        *map(Column, ROW[2:]),
    )

    of: ClassVar[str] = "pair"

    people: Pairs
    result: ValueTrial
    estimate: TableEstimate

    @cached_property
    def summary(self) -> TableSummary:
        """Shares, intervals, the test of independence and Cramer's V of the two columns."""
        return TableSummary(self.estimate)

    @property
    def kind(self) -> Kind:
        return self.result.kind

    @property
    def who(self) -> str:
        return f"{len(self.people):,} rows, one report of its pair each; {self.truth.size:,} pairs of values"

    def _headline(self) -> str:
        detected = sum(row["detected"] for row in self.summary.rows())
        pairs = f"{self.truth.size:,} pairs of values, {detected:,} detected"
        return f"{len(self.people):,} rows, {' and '.join(self.people.names)}, {pairs}, {self.result.kind.name}"

    @property
    def truth(self) -> NDArray[np.float64]:
        """The true shares of the pairs."""
        return np.asarray(self.people.counts / len(self.people))

    def rows(self) -> Iterator[dict[str, Any]]:
        shares = self.people.counts / np.maximum(self.people.counts.sum(axis=1, keepdims=True), 1)
        for row, true, share in zip(self.summary.rows(), self.truth.ravel(), shares.ravel(), strict=True):
            yield {**row, "true_share": float(true), "true_share_in_row": float(share)}

    @property
    def true_v(self) -> float:
        """Cramer's V of the rows themselves, of the values that the estimate is of."""
        cells = self.truth
        for axis, left_out in enumerate(((), ()) if self.summary.v is None else self.summary.v.left_out):
            there = [label not in left_out for label in self.people.labels[axis]]
            cells = np.compress(there & (self.truth.sum(axis=1 - axis) > 0), cells, axis=axis)
        cells = cells / cells.sum()
        product = np.outer(cells.sum(axis=1), cells.sum(axis=0))
        return float(np.sqrt(((cells - product) ** 2 / product).sum() / (min(cells.shape) - 1)))

    def facts(self) -> dict[str, Any]:
        return {
            "columns": list(self.people.names),
            "rows": len(self.people),
            "missing": self.people.missing,
            "true_cramers_v": self.true_v,
            **{name: value for name, value in self.summary.to_json().items() if name not in {"variables", "cells"}},
            "cells": list(self.rows()),
        }

    def sentences(self) -> list[str]:
        low, high = self.estimate.interval(self.summary.level)
        inside = int(np.count_nonzero((low <= self.truth) & (self.truth <= high)))
        same = " (of the values that are not left out)" if self.summary.v and any(self.summary.v.left_out) else ""
        return [
            f"Truth: Cramer's V of these rows is {self.true_v:.2f}{same}",
            f"Intervals: {inside:,} of the {self.truth.size:,} pairs' 95% intervals hold the truth",
        ]

    def tables(self, *, everything: bool) -> Iterator[Block]:
        yield from self.summary.blocks(everything=everything)

    def plot(self) -> Picture:
        from overstory.analysis.association.summary import table_picture

        return table_picture("table", self.summary)


def collect_pairs(
    pairs: Pairs, budget: TrialBudget, oracle: str, seed: int, advance: Advance = lambda _: None
) -> TableTrial:
    """Let every row report its pair by one oracle, and learn the table."""
    result = collect(pairs.population, budget, oracle, seed, advance)
    table = pair_table(result.oracle.mechanism, result.estimate, pairs.names, pairs.labels)
    return TableTrial(pairs, result, table)


def survey_table(columns: Any, epsilon: float = 1.0, *, oracle: str = "auto", rng: Rng = None) -> TableTrial:
    """Simulate a survey of two columns under local differential privacy: each row reports its pair of values.

    Parameters
    ----------
    columns
        Two columns by name: a data frame of two columns, or a mapping of two lists. A missing value is a value like
        any other.
    epsilon
        What a row's report may reveal of the pair, in nats; smaller is more private.
    oracle
        What each row randomizes with; "auto" is the one that `overstory compare` recommends.
    rng
        Randomness for the simulation, as NumPy takes it: a seed, a generator, or None.

    Returns
    -------
    TableTrial
        Its `summary` says what was learned; `people` are the truth.

    Raises
    ------
    ParameterError
        When there are no two columns of one length, or they have too many values.

    Examples
    --------
    >>> answers = {"os": ["a", "a", "b", "b"] * 5_000, "crash": ["no", "no", "no", "yes"] * 5_000}
    >>> learned = survey_table(answers, epsilon=2, rng=1)
    >>> learned.summary.conditional.shares.round(1).tolist()
    [[1.0, -0.0], [0.5, 0.5]]
    """
    names = [str(name) for name in getattr(columns, "columns", columns)]
    if len(names) != 2:
        raise ParameterError(f"{len(names)} columns: give two, by name")
    read = [read_column(columns[name]) for name in getattr(columns, "columns", columns)]
    if len(read[0].codes) != len(read[1].codes) or not len(read[0].codes):
        raise ParameterError("the columns have no rows, or not as many: give two of one length")
    counts = np.zeros((len(read[0].labels), len(read[1].labels)), np.int64)
    np.add.at(counts, (read[0].codes, read[1].codes), 1)
    values = [[label_text(label) for label in column.labels] for column in read]
    notes = [OF_COLUMN.format("").replace("the column", "the columns")]
    for axis, name in enumerate(names):
        held = dict(zip(values[axis], counts.sum(axis=1 - axis).tolist(), strict=True))
        notes += look_alikes(name, held, ONE_SPELLING)
    pairs = arranged(names, values, counts, notes)
    return collect_pairs(pairs, TrialBudget(epsilon), oracle, seed_of(rng))
