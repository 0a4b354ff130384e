r"""The difference of two estimates, value by value: has a share changed, or is it larger here than there.

For shares :math:`\hat f_a, \hat f_b` of two collections from different devices,

.. math:: \operatorname{Var}(\hat f_a - \hat f_b) = \operatorname{Var} \hat f_a + \operatorname{Var} \hat f_b .

Two weeks, releases or countries are compared to learn about the populations behind them, so each variance holds the
sampling of people unless asked otherwise: two collections from one population differ by more than the noise. Where
the same devices report in both and keep their values, noise and people partly cancel in the difference, and this is
too large, never too small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis import selection
from overstory.analysis.estimate import Estimate, freeze_columns
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import UNKNOWN, finite, interval, p_value
from overstory.presentation.render_text import UNFOLDED, as_text
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from overstory.analysis.selection import IntervalKind

    F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Difference:
    """Shares of one collection less those of another.

    Attributes
    ----------
    values : sequence of str, length M
        The values that both estimates have.
    differences : ndarray of float64, shape (M,)
        Differences of the unbiased shares.
    standard_errors : ndarray of float64, shape (M,)
        Theirs, of the kind `interval_kind`; infinite where one collection says nothing about a value.
    num_reports : tuple of int
        Reports behind the two estimates.
    interval_kind : {"population", "reports"}
        What intervals and p-values are for: all devices like these, or the devices that reported.
    alpha : float
        The false discovery rate that `changed` uses unless another is given.
    notes : tuple of str
        What a reader must know before trusting the numbers.
    """

    values: Sequence[str]
    differences: F64
    standard_errors: F64
    num_reports: tuple[int, int]
    interval_kind: IntervalKind = "population"
    alpha: float = 0.05
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        selection.check_alpha(self.alpha)
        selection.check_interval_kind(self.interval_kind)
        freeze_columns(self, "differences", "standard_errors")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def z(self) -> F64:
        """Difference over its standard error; 0 where nothing is estimated."""
        return selection.z_values(self.differences, self.standard_errors)

    @cached_property
    def p_values(self) -> F64:
        """Two-sided: the chance that a share that is the same in both looks at least this different."""
        return np.minimum(2.0 * selection.upper_p_values(np.abs(self.differences), self.standard_errors), 1.0)

    @cached_property
    def q_values(self) -> F64:
        """The smallest false discovery rate at which each difference is one."""
        return selection.adjusted_p_values(self.p_values, "fdr")

    def changed(self, alpha: float | None = None) -> NDArray[np.bool_]:
        """Return which shares surely differ, at a false discovery rate over all values.

        Raises
        ------
        ParameterError
            If the rate is not between 0 and 1.
        """
        level = self.alpha if alpha is None else alpha
        selection.check_alpha(level)
        return np.asarray(self.q_values <= level)

    def confidence_interval(self, level: float = 0.95) -> tuple[F64, F64]:
        """Return the bounds of the differences' two-sided normal interval.

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1.
        """
        reach = selection.normal_reach(level) * self.standard_errors
        return self.differences - reach, self.differences + reach

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return a dictionary per value, the surest difference first; unknown numbers are None."""
        low, high = self.confidence_interval(level)
        columns = {
            "difference": self.differences,
            "standard_error": self.standard_errors,
            "low": low,
            "high": high,
            "p_value": self.p_values,
            "q_value": self.q_values,
        }
        changed = self.changed()
        return [
            {
                "value": str(self.values[index]),
                **{name: finite(column[index]) for name, column in columns.items()},
                "changed": bool(changed[index]),
                "interval": self.interval_kind,
            }
            for index in np.lexsort((-np.abs(self.differences), -np.abs(self.z)))
        ]

    def to_json(self, level: float = 0.95) -> dict[str, Any]:
        """Return the facts about the comparison and, under ``differences``, `rows`."""
        return {
            "reports": list(self.num_reports),
            "changed": int(np.count_nonzero(self.changed())),
            "alpha": self.alpha,
            "interval": self.interval_kind,
            "notes": list(self.notes),
            "differences": self.rows(level),
        }

    def table(self, level: float = 0.95) -> str:
        """Return a plain-text table, the surest difference first; differences in percentage points."""
        kind = selection.INTERVAL_KINDS[self.interval_kind]
        columns = (
            Column("value", is_left=True),
            Column("difference", text=_points),
            Column("standard_error", "std error", lambda error: UNKNOWN if error is None else f"{100 * error:.3f}"),
            Column("interval_ends", f"{level:.0%} interval", interval(_points), ("low", "high")),
            Column("p_value", "p", p_value),
            Column("q_value", "q", p_value),
            Column("changed", text=lambda changed: "yes" if changed else "-", is_left=True),
        )
        about = Lines(f"in percentage points; intervals: {kind}")
        return as_text([Table("", columns, self.rows(level)), about], UNFOLDED).rstrip("\n")


def difference(a: Estimate, b: Estimate, *, interval_kind: IntervalKind = "population") -> Difference:
    """Return the shares of `a` less those of `b`, for every value that both have.

    Parameters
    ----------
    a, b
        Estimates from two collections.
    interval_kind
        ``population``: do the populations differ, of which these devices are samples? ``reports``: do the devices
        differ that reported, with no word on others? Neither estimate's own kind matters.

    Raises
    ------
    ParameterError
        If no value is in both, or one lists a value twice.

    Examples
    --------
    Two weeks of an oracle with little noise, 900 and 1,100 of 2,000 devices:

    >>> weeks = [Estimate(values=["on"], counts=[count], raw_counts=[count], standard_errors=[5], num_reports=2_000)
    ...          for count in (1_100, 900)]
    >>> for kind in ("population", "reports"):
    ...     both = difference(*weeks, interval_kind=kind)
    ...     print(kind, both.differences.round(3).tolist(), both.standard_errors.round(4).tolist())
    population [0.1] [0.0161]
    reports [0.1] [0.0035]
    """
    names = [[str(value) for value in estimate.values] for estimate in (a, b)]
    if any(len(set(listed)) < len(listed) for listed in names):
        raise ParameterError("one of the estimates lists a value twice: values cannot be matched")
    place = {value: index for index, value in enumerate(names[1])}
    first = [index for index, value in enumerate(names[0]) if value in place]
    if not first:
        raise ParameterError("the two estimates have no value in common")
    second = [place[names[0][index]] for index in first]
    left = len(names[0]) + len(names[1]) - 2 * len(first)
    notes = (f"{left:,} value(s) occur in only one of the estimates and are not compared",) if left else ()
    # Two independent collections: Var (f - g) = Var f + Var g.
    chosen = ((a, first), (b, second))
    errors = (estimate.errors(interval_kind)[rows] / max(estimate.num_reports, 1) for estimate, rows in chosen)
    return Difference(
        values=[names[0][index] for index in first],
        differences=a.raw_frequencies[first] - b.raw_frequencies[second],
        standard_errors=np.hypot(*errors),
        num_reports=(a.num_reports, b.num_reports),
        interval_kind=interval_kind,
        notes=notes,
    )


def _points(share: float) -> str:
    return f"{100 * share:+.3f}"
