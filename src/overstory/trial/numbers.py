"""A collection of a column of numbers, of a file or of a data frame: each row reports its number by one mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Rng, generator
from overstory.analysis.kinds.numbers import simulate_payloads
from overstory.analysis.numeric.quantities import NumberEstimate, Quantity, draw_quantities, estimate_numbers
from overstory.analysis.reports import ReportBatch
from overstory.analysis.tables.columns import read_numbers
from overstory.files.columns import ANY_FORM, blocks
from overstory.files.io import Advance
from overstory.files.recognition import number_form
from overstory.presentation.document import Block, Column, Table
from overstory.presentation.formats import percent, significant
from overstory.presentation.svg import Picture
from overstory.protocol.domains.numbers import Interval
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.kinds.registry import any_mechanism
from overstory.trial.population import TAILS, People, empty, round_bins
from overstory.trial.run import CHUNK, Trial, TrialBudget, count_here

F64 = NDArray[np.float64]

Learned = Literal["mean", "distribution"]
LEARNED: Final[Mapping[Learned, str]] = {"mean": "hybrid", "distribution": "square-wave"}
"""What is learned of numbers, and by which mechanism."""
RANGE_BINS: Final = 64  # round steps in which a range is chosen
CHOSEN: Final = (
    f"the range was chosen by the numbers themselves ({TAILS[0]:.0%} to {TAILS[1]:.0%} quantile); a real collection "
    "must fix it beforehand: "
)


@dataclass(frozen=True, eq=False)
class Numbers(People):
    """People that hold a number each."""

    values: F64  # finite, shape (n,)
    name: str = "the column"
    given_by: str = "--range"  # how the range is given

    def __len__(self) -> int:
        return self.values.size

    @classmethod
    def of(cls, every: F64, **about: Any) -> Numbers:
        finite = every[np.isfinite(every)]
        return cls(finite, missing=every.size - finite.size, **about).absent_noted()


@dataclass(frozen=True, eq=False, repr=False)
class NumberTrial(Trial):
    """A simulated collection of numbers, next to the truth that no collector would see.

    Attributes
    ----------
    people : Numbers
        The numbers of the rows, and the name of their column: the truth that no collector would see.
    mechanism : Kind
        What each row randomized its number with.
    estimate : NumberEstimate
        What is learned, with intervals.
    truth : tuple of float
        The same of the column itself, in the order of the estimates; numbers outside count as the nearest end.
    range_notes : tuple of str
        What a reader must know of the range.
    """

    columns: ClassVar[Sequence[Column]] = tuple(
        map(Column, ("kind", "of", "truth", "value", "standard_error", "low", "high"))
    )
    of: ClassVar[str] = "number"

    people: Numbers
    mechanism: Kind
    estimate: NumberEstimate
    truth: tuple[float, ...]
    range_notes: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return self.mechanism

    def warnings(self) -> Iterator[str]:
        yield from self.range_notes

    @property
    def who(self) -> str:
        return f"{self.estimate.num_reports:,} numbers of {self.people.name}, one report each"

    def _headline(self) -> str:
        learned = f"{self.estimate.reading} of {self.people.name}"
        return f"{self.estimate.num_reports:,} reports, {learned}, {self.mechanism.name}, {self.sentences()[0]}"

    @property
    def held(self) -> int:
        """How many intervals hold the truth."""
        return sum(row["holds"] for row in self.rows())

    def rows(self) -> Iterator[dict[str, Any]]:
        for row, true in zip(self.estimate.quantities, self.truth, strict=True):
            low, high = row.low, row.high  # a text where they are not known
            holds = not isinstance(low, str) and not isinstance(high, str) and low <= true <= high
            yield {**row.to_json(), "truth": true, "holds": holds}

    def facts(self) -> dict[str, Any]:
        return {
            "column": self.people.name,
            "estimate": self.estimate.reading,
            "reports": self.estimate.num_reports,
            "missing": self.people.missing,
            "intervals_that_hold_the_truth": self.held,
            "estimates": list(self.rows()),
        }

    def tables(self, *, everything: bool) -> Iterator[Block]:  # noqa: ARG002 - a few rows
        rows = []
        for row in self.rows():
            form = percent if row["kind"] == "share" else significant
            numbers = {name: row[name] for name in ("truth", "value", "low", "high")}
            shown = {name: one if isinstance(one, str) else form(one) for name, one in numbers.items()}
            what = f"{row['kind']} {row['of']}".strip()
            rows.append({"what": what, **shown, "holds": "" if row["holds"] else "missed"})
        yield Table("", SHOWN, rows)

    def sentences(self) -> list[str]:
        return [f"{self.held} of {len(self.truth)} intervals of 95% hold the truth"]

    def plot(self) -> Picture:
        both = [*zip(self.estimate.quantities, self.truth, strict=True)]
        about = f"{self.people.name}, with 95% intervals; the strokes across are the truth."
        if drawn := [(row, true) for row, true in both if row.kind == "share"]:
            caption = f"Share of the rows in each range of {about}"
            rows, truth = zip(*drawn, strict=True)
            return draw_quantities("shares", caption, rows, truth=truth)
        what = self.estimate.reading
        (row, true), *_ = both
        return draw_quantities("mean", f"The {what} of {about}", [row], [what], [true])


SHOWN: Final = (
    Column("what", "", is_left=True),
    Column("value", "estimate"),
    Column("low", "95% interval", "{} to {}".format, ("low", "high")),
    Column("truth"),
    Column("holds", "", is_left=True),
)


def read_column_of_numbers(path: str, column: str, **how: Any) -> Numbers:
    """Return a file's numbers; see `blocks` for how it is read."""
    how["form"], notes = number_form(path, column, how.get("form", ANY_FORM))
    read = [values for (values,) in blocks(path, [column], numbers=True, **how)]
    numbers = Numbers.of(np.concatenate(read) if read else np.empty(0), name=column, notes=notes)
    if not len(numbers):
        raise empty(path, column, numbers.missing)
    return numbers


def collect_numbers(
    held: Numbers,
    budget: TrialBudget,
    oracle: str = "auto",
    seed: int | np.random.Generator = 0,
    *,
    learned: Learned = "mean",
    minimum: float | None = None,
    maximum: float | None = None,
    advance: Advance = lambda _: None,
) -> NumberTrial:
    """Let each number be reported once, and learn from the reports alone."""
    if learned not in LEARNED:
        raise ParameterError(f"{learned!r} is not learned of numbers: choose one of {', '.join(LEARNED)}")
    name, numbers = LEARNED[learned], held.values
    if oracle not in {"auto", name}:
        raise ParameterError(f"{oracle} gives no {learned} of numbers: choose auto or {name}")
    if minimum is None or maximum is None:
        low, high = np.quantile(numbers, TAILS).tolist()
        around = round_bins(low, high, RANGE_BINS)
        low, high = (around.minimum if minimum is None else minimum, around.maximum if maximum is None else maximum)
        chosen = [CHOSEN + held.given_by]
    else:
        low, high, chosen = minimum, maximum, []
    domain = Interval(low, high)
    built: Any = any_mechanism(name, epsilon=budget.epsilon, **domain.completes(""))
    drawn = np.random.default_rng([seed, 3]) if isinstance(seed, int) else seed

    def batches() -> Iterator[ReportBatch]:
        for start in range(0, numbers.size, CHUNK):
            some = numbers[start : start + CHUNK]
            bits = simulate_payloads(built, some, drawn).astype(np.uint64).reshape(-1, 1)
            yield ReportBatch(np.zeros(some.size, np.uint16), bits, built.payload_bits, 1)
            advance(some.size)

    counts = count_here(built, batches())
    outside = int(((numbers < domain.minimum) | (numbers > domain.maximum)).sum())
    if outside:
        chosen.append(f"{outside:,} numbers lie outside the range and count as the nearest end")
    estimate = estimate_numbers(built, domain, counts)
    truth = tuple(_truth(row, np.clip(numbers, domain.minimum, domain.maximum), domain) for row in estimate.quantities)
    return NumberTrial(held, built, estimate, truth, tuple(chosen))


def _truth(row: Quantity, numbers: F64, domain: Interval) -> float:
    """Return what an estimate is of."""
    if row.kind == "mean":
        return float(numbers.mean())
    if row.kind == "quantile":
        return float(np.quantile(numbers, float(row.of)))
    low, high = float(row.start or 0.0), float(row.stop or 0.0)
    below = numbers <= high if high == domain.maximum else numbers < high
    return float(((numbers >= low) & below).mean())


def survey_numbers(
    column: Any,
    epsilon: float = 1.0,
    *,
    learn: Learned = "mean",
    minimum: float | None = None,
    maximum: float | None = None,
    oracle: str = "auto",
    rng: Rng = None,
) -> NumberTrial:
    """Simulate a survey of numbers under local differential privacy: each row randomizes its own number.

    Parameters
    ----------
    column
        A Series of pandas or Polars, an Arrow array, a NumPy array, or a list, of numbers.
    epsilon
        What a row's report may reveal, in nats; smaller is more private.
    learn : {"mean", "distribution"}
        What is estimated: one mean, or a histogram with quantiles.
    minimum, maximum
        The range; numbers outside count as the nearest end. Unless given it is chosen by the numbers, and a note says
        so: a real collection must fix it beforehand.
    oracle
        What each row randomizes with; "auto" is the best for this.
    rng
        Randomness for the simulation, as NumPy takes it.

    Returns
    -------
    NumberTrial
        The estimates, with intervals, next to the truth.

    Raises
    ------
    ParameterError
        When the column holds no numbers, or a choice is unknown.

    Examples
    --------
    >>> ages = np.random.default_rng(1).normal(40, 10, 50_000)
    >>> trial = survey_numbers(ages, epsilon=1, minimum=0, maximum=100, rng=1)
    >>> trial.mechanism.name, trial.held, round(trial.truth[0])
    ('hybrid', 1, 40)
    """
    held = Numbers.of(read_numbers(column), given_by="minimum=, maximum=")
    if not len(held):
        raise ParameterError("the column holds no numbers")
    budget, drawn = TrialBudget(epsilon), generator(rng)
    return collect_numbers(held, budget, oracle, drawn, learned=learn, minimum=minimum, maximum=maximum)
