r"""The difference of two estimates, value by value and over all values: has anything changed, and what.

For shares :math:`\hat f_a, \hat f_b` of two collections from different devices,

.. math:: \operatorname{Var}(\hat f_a - \hat f_b) = \operatorname{Var} \hat f_a + \operatorname{Var} \hat f_b .

Two weeks, releases or countries are compared to learn about the populations behind them, so each variance holds the
sampling of people unless asked otherwise: two collections from one population differ by more than the noise. Where
the same devices report in both and keep their values, noise and people partly cancel in the difference, and this is
too large, never too small (`overstory.analysis.difference.subtraction` has the covariance).

The test of "nothing changed" adds up the squared z values, :math:`Q = \sum_v z_v^2`. Where nothing changed, Q is a sum
of chi-squares, weighted by the eigenvalues of the correlations R of the z values: of mean M and variance
:math:`2 \operatorname{tr} R^2`. So :math:`Q M / \operatorname{tr} R^2` is compared with chi-square of
:math:`M^2 / \operatorname{tr} R^2` degrees of freedom [1]_. Where R is not known, the test is that of the smallest
q-value [2]_.

References
----------
.. [1] Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2 (1946).
.. [2] Simes, "An improved Bonferroni procedure for multiple tests of significance", Biometrika 73 (1986).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.analysis import selection
from overstory.analysis.estimate import freeze_columns
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import UNKNOWN, finite, interval, p_value, percent
from overstory.presentation.render_text import UNFOLDED, as_text
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from overstory.analysis.selection import Adjustment, IntervalKind
    from overstory.presentation.document import Block

    F64 = NDArray[np.float64]


OverallTest = Literal["covariance", "simes"]

MOST_NAMED: Final = 5
"""Changed values that one sentence names."""


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
    first, second : ndarray of float64, shape (M,)
        The unbiased shares of the two collections.
    overlap : float
        Declared share of the smaller collection's devices that are in both and kept their values.
    correlations_squared : float, optional
        The sum of the squared correlations of the differences' errors, tr R^2; None where it is not known.
    adjustment : {"fcr", "conditional", "none"}
        What `interval` corrects for: a change that was found is likely to look larger than it is.
    """

    values: Sequence[str]
    differences: F64
    standard_errors: F64
    num_reports: tuple[int, int]
    interval_kind: IntervalKind = "population"
    alpha: float = 0.05
    notes: tuple[str, ...] = ()
    first: F64
    second: F64
    overlap: float = 0.0
    correlations_squared: float | None = None
    adjustment: Adjustment = "fcr"

    def __post_init__(self) -> None:
        selection.check_alpha(self.alpha)
        selection.check_adjustment(self.adjustment)
        selection.check_interval_kind(self.interval_kind)
        freeze_columns(self, "differences", "standard_errors", "first", "second")

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

    @property
    def overall_test(self) -> OverallTest:
        """What `overall_p_value` is computed from: every value's errors together, or the smallest q-value."""
        return "simes" if self.correlations_squared is None else "covariance"

    @cached_property
    def overall_p_value(self) -> float:
        """The chance that two collections look at least this different where no share changed."""
        if self.correlations_squared is None:
            return float(self.q_values.min(initial=1.0))
        squares = float((self.z**2).sum())
        if not np.isfinite(squares):
            return 0.0
        known = np.count_nonzero(np.isfinite(self.standard_errors) & (self.standard_errors > 0))
        # Satterthwaite: a chi-square of M^2 / tr R^2 degrees, times tr R^2 / M, has the mean and variance of Q.
        factor = known / max(self.correlations_squared, 1.0)
        return selection.chi2_tail(known * factor, squares * factor) if known else 1.0

    def detectable(self, power: float = 0.95) -> F64:
        """Return how large each value's change must be to be called one with this probability, shape (M,).

        Without `changed` values to help, the false discovery rate admits the smallest p-value up to alpha / M.

        Raises
        ------
        ParameterError
            If the power is not between 0 and 1.
        """
        if not 0.0 < power < 1.0:
            raise ParameterError(f"power is a probability between 0 and 1, not {power}")
        surprise = -selection.normal_quantile(self.alpha / (2.0 * max(len(self), 1)))
        return np.asarray((surprise + selection.normal_quantile(power)) * self.standard_errors)

    def sentence(self) -> str:
        """Return in words what changed; if nothing surely did, the largest change that could have been missed."""
        changed = np.flatnonzero(self.changed())
        if not changed.size:
            return self._hidden()
        low, high = self.interval()
        most = changed[np.argsort(-np.abs(self.z[changed]), kind="stable")][:MOST_NAMED]
        named = ", ".join(
            f"{self.values[v]} {100 * self.differences[v]:+.1f} ({100 * low[v]:.1f} to {100 * high[v]:.1f})"
            for v in most
        )
        more = f", and {changed.size - most.size:,} more" if changed.size > most.size else ""
        return f"changed, in percentage points: {named}{more}"

    def _hidden(self) -> str:
        seen = self.detectable()
        known = seen[np.isfinite(seen)]
        if not known.size:
            return "no change is visible; one of the collections has no reports"
        text = (
            f"no change is visible; a change of {100 * float(known.max()):.1f} percentage points or more in any value "
            "would have been, with a probability of 95%"
        )
        unknown = seen.size - known.size
        return f"{text}; {unknown:,} value(s) cannot be compared" if unknown else text

    def confidence_interval(self, level: float = 0.95) -> tuple[F64, F64]:
        """Return the bounds of the differences' two-sided normal interval; not corrected for selection.

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1.
        """
        return self._around(selection.normal_reach(level) * self.standard_errors)

    def _around(self, reach: F64) -> tuple[F64, F64]:
        return self.differences - reach, self.differences + reach

    def interval(self, level: float = 0.95, adjustment: Adjustment | None = None) -> tuple[F64, F64]:
        """Return the interval to show: `confidence_interval`, adjusted for values that changed; see `Estimate`."""
        chosen = self.adjustment if adjustment is None else adjustment
        return self._selected.interval(chosen, self.differences, self.standard_errors, level, self._around)

    def corrected_differences(self) -> F64:
        """Return the differences without what selection adds to the size of those that changed."""
        return self._selected.corrected(self.differences, self.standard_errors)

    @cached_property
    def _selected(self) -> selection.Selected:
        changed = self.changed()
        needed = selection.needed_p_value(self.alpha, "fdr", int(np.count_nonzero(changed)), len(self))
        return selection.Selected(changed, self.p_values, len(self), needed, two_sided=True)

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return a dictionary per value, the surest difference first; unknown numbers are None."""
        low, high = self.interval(level)
        plain_low, plain_high = self.confidence_interval(level)
        changed = self.changed()
        columns = {
            "a": self.first,
            "b": self.second,
            "difference": self.differences,
            "standard_error": self.standard_errors,
            "low": low,
            "high": high,
            "p_value": self.p_values,
            "q_value": self.q_values,
            "plain_low": plain_low,
            "plain_high": plain_high,
        }
        if self.adjustment == "conditional":
            columns["corrected_difference"] = self.corrected_differences()
        return [
            {
                "value": str(self.values[index]),
                **{name: finite(column[index]) for name, column in columns.items()},
                "changed": bool(changed[index]),
                "interval": self.interval_kind,
                "adjustment": self.adjustment if changed[index] else "none",
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
            "adjustment": self.adjustment,
            "overlap": self.overlap,
            "overall_p_value": self.overall_p_value,
            "overall_test": self.overall_test,
            "sentence": self.sentence(),
            "notes": list(self.notes),
            "differences": self.rows(level),
        }

    def table(self, level: float = 0.95) -> str:
        """Return a plain-text table, the surest difference first; differences in percentage points."""
        return as_text(self.blocks(level), UNFOLDED).rstrip("\n")

    def blocks(self, level: float = 0.95, limit: int | None = None) -> list[Block]:
        """Return the table, what changed, and what to read it by; at most `limit` values and those that changed."""
        every = self.rows(level)
        rows = [row for number, row in enumerate(every) if limit is None or number < limit or row["changed"]]
        left = len(every) - len(rows)
        more = (f"... and {left:,} more, none of which surely changed",) if left else ()
        table = Table("", difference_columns(level, self.adjustment), rows, unchanged(rows))
        return [table, Lines(*more, *self.facts(), *(f"note: {note}" for note in self.notes))]

    def facts(self) -> list[str]:
        """Return what changed, the test of all values together, and what the intervals describe, as sentences."""
        from_all = {"covariance": "from all values and how their errors go together", "simes": "from the smallest q"}
        intervals = selection.interval_words(self.interval_kind, self.adjustment, "changed")
        return [
            f"{self.sentence()} (false discovery rate at most {100 * self.alpha:.3g}%)",
            f"test that nothing changed at all: p = {p_value(self.overall_p_value)}, {from_all[self.overall_test]}",
            f"differences in percentage points; intervals: {intervals}",
        ]


def unchanged(rows: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the numbers of the rows of values that did not surely change."""
    return frozenset(number for number, row in enumerate(rows) if not row["changed"])


def difference_columns(level: float = 0.95, adjustment: Adjustment = "fcr") -> tuple[Column, ...]:
    """Return the columns of a table of differences."""
    return (
        Column("value", is_left=True),
        Column("a", text=percent),
        Column("b", text=percent),
        Column("difference", text=_points),
        Column("interval_ends", f"{level:.0%} interval", interval(_points), ("low", "high")),
        *((Column("corrected_difference", "corrected", _points),) if adjustment == "conditional" else ()),
        Column("p_value", "p", p_value),
        Column("q_value", "q", p_value),
        Column("changed", text=lambda changed: "yes" if changed else "-", is_left=True),
    )


def _points(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:+.3f}"
