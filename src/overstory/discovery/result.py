"""What a discovery found: values with their uncertainty, the rule they passed, and what it could not see."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import Estimate, freeze_columns
from overstory.analysis.selection import Correction, bound_text, interval_words
from overstory.analysis.tables import output
from overstory.presentation.document import Block, Column, Paragraph, Table
from overstory.presentation.formats import epsilon_text, finite, plural
from overstory.presentation.result import TableForm, in_form
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TextIO

    from overstory.presentation.svg import Picture

F64 = NDArray[np.float64]


@dataclass(frozen=True)
class Level:
    """One question of a search: its reports, and what it let through."""

    name: str  # the question's
    num_bits: int  # prefix length
    num_reports: int  # answers to this question
    tried: int  # prefixes counted that some value may begin with
    kept: int  # the most frequent of them, which went on
    ended: int  # of those, strings that had ended: not extended, but tested by all later levels together
    standard_error: float  # of the frequency of a prefix that nobody has
    cut: float  # the lowest frequency estimate that was kept
    background: float  # the mean estimate of all that was tried and not kept

    def to_json(self) -> dict[str, Any]:
        return {name: finite(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Discovered(Estimate):
    """Heavy hitters, most frequent first: an estimate of all values that the last questions kept, detected or not.

    Of many that were tried only the largest are kept, so one that barely passed is likely too large: `interval` takes
    that into account, for the selection was among all that were tried.
    """

    # the values themselves, integers or bytes; `values` are texts, as the domain shows them
    raw_values: tuple[Any, ...]
    # ndarray of float64, shape (M,): the chance that a value nobody has looks at least this frequent
    p_values: F64 = field()
    # ndarray of float64, shape (M,): the smallest alpha at which it is detected, over all `tried`
    q_values: F64 = field()
    sources: tuple[str, ...]  # which question each value comes from
    tried: int  # values that the last questions tried
    threshold: float | None  # the frequency that a searched value had to reach under that rule
    # what could not have been seen: below this, a value is found less than nine times in ten
    detectable_frequency: float | None
    epsilon: float  # the most that one device revealed, exactly, rounded up
    levels: tuple[Level, ...] = ()  # what the search tried and kept at each level
    known_frequency: float | None = None  # the share of the dictionary's values in all
    known_standard_error: float | None = None  # the standard error of that share
    elsewhere_frequency: float | None = None  # of devices whose value has no code: too long, or of other characters
    elsewhere_standard_error: float | None = None  # the standard error of that share

    def __post_init__(self) -> None:
        super().__post_init__()
        freeze_columns(self, "p_values", "q_values")

    @property
    def num_tested(self) -> int:
        return self.tried

    def detected(self, alpha: float | None = None, correction: Correction | None = None) -> NDArray[np.bool_]:
        """Return which values are surely there, at a level over all that was tried, by the rule of the search.

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1, or another rule is asked for.
        """
        if correction not in {None, self.correction}:
            raise ParameterError(f"correction = {correction!r}: this search was tested by {self.correction}")
        return super().detected(alpha, "fdr")  # q-values are already those of the rule

    def found(self) -> tuple[Any, ...]:
        """Return the detected values themselves, most frequent first."""
        return tuple(value for value, yes in zip(self.raw_values, self.detected(), strict=True) if yes)

    def summary(self) -> dict[str, Any]:
        """Return the figures of the discovery, without its values, ready for JSON."""
        return {
            "reports": self.num_reports,
            "tried": self.tried,
            "detected": int(np.count_nonzero(self.detected())),
            "alpha": self.alpha,
            "correction": self.correction,
            "interval": self.interval_kind,
            "adjustment": "fcr",
            "threshold": self.threshold,
            "detectable_frequency": self.detectable_frequency,
            "epsilon_report": self.epsilon,
            "known_frequency": self.known_frequency,
            "known_standard_error": self.known_standard_error,
            "elsewhere_frequency": self.elsewhere_frequency,
            "elsewhere_standard_error": self.elsewhere_standard_error,
            "levels": [level.to_json() for level in self.levels],
            "notes": list(self.notes),
        }

    def rows(self, limit: int | None = None, level: float = 0.95, *, everything: bool = False) -> list[dict[str, Any]]:
        """Return a dictionary per detected value, or per kept one: as of any estimate, and the value's source."""
        both = zip(super().rows(limit, level), self.sources, strict=False)
        return [{**row, "source": source} for row, source in both if everything or row["detected"]]

    def to_json(self, limit: int | None = None, level: float = 0.95, *, everything: bool = False) -> dict[str, Any]:
        """Return `summary` and, under ``estimates``, `rows`."""
        return super().to_json(limit, level, everything=everything)

    def table(
        self, limit: int | None = None, level: float = 0.95, *, form: TableForm = "text", everything: bool = False
    ) -> str:
        """Return a table, most frequent first; in a form of `Result.table`."""
        return in_form([_table(self.rows(limit, level, everything=everything))], form)

    def tables(self, *, everything: bool = False) -> Iterator[Block]:
        """Yield the detected values, or all that the last level kept."""
        rows = self.rows(everything=everything)
        yield _table(rows) if rows else Paragraph("nothing was detected")

    def search_sentences(self, answers: str, of: str, cost: str, *more: str) -> Iterator[str]:
        """Return the discovery as a whole in sentences.

        `answers` says how many came, `of` what they are called, `cost` what epsilon is of; `more` is said of privacy.
        """
        values, bound = plural(len(self.found()), "value"), bound_text(self.correction, self.alpha)
        yield f"{values} detected in {answers}, out of {self.tried:,} that were tried ({bound})"
        yield f"intervals: {interval_words(self.interval_kind)}"
        yield f"privacy: {cost}: epsilon {epsilon_text(self.epsilon)}"
        yield from more
        if self.threshold is not None:
            yield f"a value had to reach {self.threshold:.3%} of the {of} at the last level"

    def to_csv(self, target: str | PathLike[str] | TextIO) -> None:
        """Write a row for each kept value, with a header: the columns of results.csv, and the value's source."""
        output.write_csv(self, target, {"source": self.sources})

    def plot(self, limit: int | None = None) -> Picture:
        """Return a picture of the most frequent values with their 95% intervals, as of any estimate.

        Shown are at most `limit`; all that were detected unless given, up to 100.
        """
        detected = int(np.count_nonzero(self.detected()))
        rows = self.rows(min(max(detected, FEW), MOST) if limit is None else limit, everything=True)
        among = sum(row["detected"] for row in rows)
        left_out = "" if among == detected else f"; {among:,} of the {detected:,} detected are among them"
        about = output.interval_caption(0.95, self.interval_kind)
        caption = f"Share of the {len(rows):,} most frequent values that the search kept, with {about}{left_out}."
        return output.estimate_picture("search", caption, rows)


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows as of any estimate, and what found each value."""
    return output.estimate_table(rows, last=(Column("source", "found by", is_left=True),))


MOST: Final = 100  # rows of a picture; beyond them its caption says how many detected values are left out
FEW: Final = 10  # values that are drawn where none, or hardly any, was detected
