"""A survey of a column in Python: each row randomizes its value, and the estimate has the column's own labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import converted
from overstory.analysis.kinds.base import Rng
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import Processed
from overstory.analysis.tables.columns import PERIODS, Label, coded, labels_from, read_column, read_numbers
from overstory.analysis.tables.output import label_text, unlike
from overstory.files.recognition import look_alikes
from overstory.presentation.formats import epsilon_text
from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import ParameterError
from overstory.trial.population import (
    ANOTHER,
    I64,
    MANY_NUMBERS,
    MOST_VALUES,
    OF_COLUMN,
    ONE_SPELLING,
    Population,
    absent_note,
    round_bins,
    symbols,
)
from overstory.trial.run import TrialBudget, seed_of
from overstory.trial.values import collect

Missing = Literal["value", "drop"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Survey(Processed):
    """What a survey of a column learns: an estimate whose values are the column's own.

    Attributes
    ----------
    steps : tuple of str
        The post-processing steps that made `counts` of `raw_counts`, in order.
    oracle : FrequencyOracle
        What every row randomized with.
    in_order : bool
        Whether the values keep their own order, as bins, dates and ordered categories do.
    """

    oracle: FrequencyOracle
    in_order: bool = False

    def order(self) -> NDArray[np.intp]:
        """Return the values' indices: bins, dates and ordered categories in their order, others most frequent first."""
        return np.arange(len(self)) if self.in_order else super().order()

    def _headline(self) -> str:
        return f"{super()._headline()}, {self.oracle.name}, epsilon {epsilon_text(self.oracle.epsilon_report)}"

    def summary(self) -> dict[str, Any]:
        used = {"oracle": self.oracle.name, "epsilon_report": self.oracle.epsilon_report}
        return {**super().summary(), **used}


def survey(
    column: Any,
    epsilon: float = 1.0,
    *,
    labels: Any = None,
    bins: Bins | tuple[float, float, int] | None = None,
    by: str | None = None,
    missing: Missing = "value",
    oracle: str = "auto",
    rng: Rng = None,
) -> Survey:
    """Simulate a survey under local differential privacy: each row randomizes its value, and only that is counted.

    Parameters
    ----------
    column
        A Series of pandas or Polars, an Arrow array, a NumPy array, or a list: of text, categories, booleans, dates or
        whole numbers; of any numbers with `bins`.
    epsilon
        What a row's report may reveal, in nats; smaller is more private.
    labels
        The values that there can be, fixed beforehand as in a real collection. Unless given, the column's categories,
        or the values that occur, are the list, and a note says so.
    bins
        Minimum, maximum and number of equal bins, for numbers; what lies outside counts in the nearest.
    by : {"day", "week", "month", "year"}
        What dates are counted by; unless given, the shortest that leaves at most about 60 of them, which a note names.
    missing : {"value", "drop"}
        Whether a value is missing is private too: such a row reports None, a label like any other, which costs nothing.
        With "drop" it sends no report, so that everyone sees who has no value; a note counts them.
    oracle
        What each row randomizes with; "auto" is the one that `overstory compare` recommends.
    rng
        Randomness for the simulation, as NumPy takes it: a seed, a generator, or None. Equal seeds give equal results,
        so a seed is for simulations only: real devices draw from the operating system.

    Returns
    -------
    Survey
        An `Estimate`: print it, plot it, index it by a value, make a data frame of it. Its counts are moved to the
        nearest possible ones; `raw_counts` are unbiased.

    Raises
    ------
    ParameterError
        When the column holds no values, too many, or of a kind that has no labels; or a choice is unknown.

    Examples
    --------
    >>> answers = survey(["yes"] * 6_000 + ["no"] * 3_000 + [None] * 1_000, epsilon=1, rng=1)
    >>> [row.value for row in answers], round(answers["yes"].frequency, 1)
    (['yes', 'no', None], 0.6)
    """
    if missing not in get_args(Missing):
        raise ParameterError(f"missing = {missing!r}: choose one of {', '.join(get_args(Missing))}")
    if bins is not None and labels is not None:
        raise ParameterError("give bins or labels, not both")
    in_order = bins is not None
    if bins is not None:
        listed, codes, notes = _binned(column, bins)
    else:
        listed, codes, notes, in_order = _named(column, labels, missing, by)
    listed, codes, absent = _with_missing(listed, codes, missing)
    if len(listed) == 1:
        listed = (*listed, ANOTHER)
    population = _surveyed(listed, codes)
    result = collect(population, TrialBudget(epsilon), oracle, seed_of(rng))
    if not result.shown.detected().any():
        absent.append(
            f"no value was detected: {len(codes):,} reports at this epsilon are few for {len(listed):,} values"
        )
    said = (*result.shown.notes, *notes, *absent)
    oracle_of = FrequencyOracle(result.kind, listed)
    about = {"steps": result.shown.steps, "oracle": oracle_of, "in_order": in_order}
    return converted(Survey, result.shown, values=listed, notes=said, **about)


def _named(
    column: Any, labels: Any, missing: Missing, by: str | None
) -> tuple[tuple[Label, ...], I64, list[str], bool]:
    """Return the labels, each row's (-1: missing), what a reader must know of both, and whether they are in order."""
    if labels is not None:
        listed = labels_from(labels)
        place = None if None not in listed else listed.index(None)
        codes = coded(column, listed, missing=-1 if missing == "drop" else place)
        return listed, np.where(codes == place, -1, codes) if place is not None else codes, [], False
    read = read_column(column, by)
    values = read.labels[:-1] if None in read.labels else read.labels
    codes = np.where(read.codes == len(values), -1, read.codes) if None in read.labels else read.codes
    if len(values) > MOST_VALUES:
        raise ParameterError(
            f"the column has {len(values):,} distinct values, more than {MOST_VALUES:,}: give labels=[...] for those "
            "to ask about, bins=(minimum, maximum, count) for numbers, or find frequent ones by `overstory discover`"
        )
    notes = [] if all(isinstance(value, bool) for value in values) and values else [OF_COLUMN.format(" (labels=...)")]
    texts = {
        value: count for value, count in zip(read.labels, read.counts.tolist(), strict=True) if isinstance(value, str)
    }
    notes += look_alikes("the column", texts, ONE_SPELLING)
    notes += [f"dates were counted by {read.by}; by= gives another of {', '.join(PERIODS)}"] if read.by else []
    numbers = [label for label in values if isinstance(label, int) and not isinstance(label, bool)]
    if len(numbers) > MANY_NUMBERS:
        best = round_bins(float(numbers[0]), float(numbers[-1]), 20)
        notes.append(
            f"{len(numbers):,} different numbers are many to tell apart: "
            f"bins=({best.minimum:g}, {best.maximum:g}, {best.count}) would show more"
        )
    return values, codes, notes, read.in_order


def _binned(column: Any, bins: Bins | tuple[float, float, int]) -> tuple[tuple[Label, ...], I64, list[str]]:
    if not isinstance(bins, Bins) and (not isinstance(bins, tuple | list) or len(bins) != 3):
        raise ParameterError(f"bins = {bins!r}: give the minimum, the maximum and how many, as in (0, 100, 20)")
    made = bins if isinstance(bins, Bins) else Bins(*bins)
    numbers = read_numbers(column)
    absent = np.isnan(numbers)
    outside = int(np.count_nonzero((numbers < made.minimum) | (numbers > made.maximum)))
    codes = np.where(absent, -1, symbols(made, np.where(absent, made.minimum, numbers)))
    notes = [f"numbers outside the bins, counted in the nearest: {outside:,}"] if outside else []
    return made.labels, codes, notes


def _with_missing(labels: tuple[Label, ...], codes: I64, missing: Missing) -> tuple[tuple[Label, ...], I64, list[str]]:
    """Give missing values a label of their own, or leave them out, and say which."""
    absent = codes < 0
    number = int(np.count_nonzero(absent))
    if missing == "drop" and number:
        return labels, codes[~absent], [absent_note(number, len(codes))]
    if not number:
        return labels, codes, []
    labels = labels if None in labels else (*labels, None)
    note = f"{number:,} of {len(codes):,} rows hold no value: they report {label_text(None)}, a value like any other"
    return labels, np.where(absent, labels.index(None), codes), [note]


def _surveyed(labels: tuple[Label, ...], codes: I64) -> Population:
    if not codes.size:
        raise ParameterError("the column holds nothing to survey: no row has a value")
    texts = [label_text(label) for label in labels]
    if None in labels:
        place = labels.index(None)
        texts[place] = unlike(texts[place], [*texts[:place], *texts[place + 1 :]])
    return Population(tuple(texts), np.bincount(codes, minlength=len(labels)).astype(np.int64))
