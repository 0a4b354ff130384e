r"""Several shares together: the difference of two estimates, value by value and over all values, and sums of values.

For shares :math:`\hat f_a, \hat f_b` of two collections from different devices,

.. math:: \operatorname{Var}(\hat f_a - \hat f_b) = \operatorname{Var} \hat f_a + \operatorname{Var} \hat f_b .

Two weeks, releases or countries are compared to learn about the populations behind them, so each variance holds the
sampling of people unless asked otherwise: two collections from one population differ by more than the noise. Where
the same devices report in both and keep their values, noise and people partly cancel in the difference, and this is
too large, never too small.

The test of "nothing changed" adds up the squared z values, :math:`Q = \sum_v z_v^2`. Where nothing changed, Q is a sum
of chi-squares, weighted by the eigenvalues of the correlations R of the z values: of mean M and variance
:math:`2 \operatorname{tr} R^2`. So :math:`Q M / \operatorname{tr} R^2` is compared with chi-square of
:math:`M^2 / \operatorname{tr} R^2` degrees of freedom [1]_. Where R is not known, the test is that of the smallest
q-value [2]_.

*Sums.* Errors of two values of one estimate do not simply add up: a report that supports one value may support no
other, and a device that holds one value holds no other. With :math:`\Sigma` the covariances of the estimate
(`Estimate.covariance`) and weights a, the total :math:`a'\hat f` has the variance :math:`a' \Sigma a`.

References
----------
.. [1] Satterthwaite, "An approximate distribution of estimates of variance components", Biometrics Bulletin 2 (1946).
.. [2] Simes, "An improved Bonferroni procedure for multiple tests of significance", Biometrika 73 (1986).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.analysis import selection
from overstory.analysis.estimate import freeze_columns
from overstory.analysis.selection import chi2_tail
from overstory.analysis.tables.output import MOST_DRAWN, SHOWN, estimate_picture, label_text
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import UNKNOWN, finite, interval, p_value, percent
from overstory.presentation.result import Result, TableForm, in_form
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import F64, IntervalKind
    from overstory.presentation.document import Block
    from overstory.presentation.svg import Picture


OverallTest = Literal["covariance", "simes"]

MOST_NAMED: Final = 5  # changed values that one sentence names


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Difference(Result):
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
    correlations_squared : float, optional
        The sum of the squared correlations of the differences' errors, tr R^2; None where it is not known.
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
    correlations_squared: float | None = None

    def __post_init__(self) -> None:
        selection.check_alpha(self.alpha)
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
        return chi2_tail(known * factor, squares * factor) if known else 1.0

    def detectable(self) -> F64:
        """Return how large each value's change must be to be called one with a probability of 95%, shape (M,).

        Without `changed` values to help, the false discovery rate admits the smallest p-value up to alpha / M.
        """
        surprise = -selection.normal_quantile(self.alpha / (2.0 * max(len(self), 1)))
        return np.asarray((surprise + selection.normal_quantile(0.95)) * self.standard_errors)

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

    def interval(self, level: float = 0.95) -> tuple[F64, F64]:
        """Return the interval to show: `confidence_interval`, of values that changed wider; see `Estimate`."""
        selected = selection.Selected(self.changed(), self.p_values, len(self), two_sided=True)
        return selected.interval(self.standard_errors, level, self._around)

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
        return [
            {
                "value": str(self.values[index]),
                **{name: finite(column[index]) for name, column in columns.items()},
                "changed": bool(changed[index]),
                "interval": self.interval_kind,
                "adjustment": "fcr" if changed[index] else "none",
            }
            for index in np.lexsort((-np.abs(self.differences), -np.abs(self.z)))
        ]

    def to_json(self, level: float = 0.95, *, everything: bool = True) -> dict[str, Any]:
        """Return the facts about the comparison and, under ``differences``, `rows`: all, or of what changed."""
        return {
            "reports": list(self.num_reports),
            "changed": int(np.count_nonzero(self.changed())),
            "alpha": self.alpha,
            "interval": self.interval_kind,
            "adjustment": "fcr",
            "overall_p_value": self.overall_p_value,
            "overall_test": self.overall_test,
            "sentence": self.sentence(),
            "notes": list(self.notes),
            "differences": [row for row in self.rows(level) if everything or row["changed"]],
        }

    def _headline(self) -> str:
        changed = int(np.count_nonzero(self.changed()))
        first, second = self.num_reports
        return f"{first:,} reports less {second:,}, {len(self):,} values, {changed:,} changed"

    def plot(
        self, limit: int = MOST_DRAWN, *, name: str = "difference", of: str = "The first less the second"
    ) -> Picture:
        """Return a picture of the surest differences with their 95% intervals; `of` begins its caption."""
        return estimate_picture(
            name,
            f"{of}, with 95% intervals; the surest on top.",
            self.rows()[:limit],
            ("difference", "low", "high", "changed"),
            of="change of the share, in points",
            words=("changed, 95% interval", "no change shown"),
            is_difference=True,
        )

    def table(self, level: float = 0.95, *, form: TableForm = "text") -> str:
        """Return a table, the surest difference first, in percentage points; in a form of `Result.table`."""
        return in_form(self.blocks(everything=True, level=level), form)

    def blocks(self, *, everything: bool = False, limit: int = SHOWN, level: float = 0.95, **_: Any) -> Iterator[Block]:
        """Yield the table, what changed, and what to read it by; at most `limit` values and those that changed."""
        every = self.rows(level)
        rows = [row for number, row in enumerate(every) if everything or number < limit or row["changed"]]
        left = len(every) - len(rows)
        more = (f"... and {left:,} more, none of which surely changed",) if left else ()
        yield Table("", difference_columns(level), rows, unchanged(rows))
        yield Lines(*more, *self.sentences(), *(f"note: {note}" for note in self.notes))

    def sentences(self) -> list[str]:
        """Return what changed, the test of all values together, and what the intervals describe, as sentences."""
        from_all = {"covariance": "from all values and how their errors go together", "simes": "from the smallest q"}
        intervals = selection.interval_words(self.interval_kind, "changed")
        return [
            f"{self.sentence()} (false discovery rate at most {100 * self.alpha:.3g}%)",
            f"test that nothing changed at all: p = {p_value(self.overall_p_value)}, {from_all[self.overall_test]}",
            f"differences in percentage points; intervals: {intervals}",
        ]


def unchanged(rows: Sequence[Mapping[str, Any]]) -> frozenset[int]:
    """Return the numbers of the rows of values that did not surely change."""
    return frozenset(number for number, row in enumerate(rows) if not row["changed"])


def difference_columns(level: float = 0.95) -> tuple[Column, ...]:
    """Return the columns of a table of differences."""
    return (
        Column("value", is_left=True),
        Column("a", text=percent),
        Column("b", text=percent),
        Column("difference", text=_points),
        Column("interval_ends", f"{level:.0%} interval", interval(_points), ("low", "high")),
        Column("p_value", "p", p_value),
        Column("q_value", "q", p_value),
        Column("changed", text=lambda changed: "yes" if changed else "-", is_left=True),
    )


def _points(share: float | None) -> str:
    return UNKNOWN if share is None else f"{100 * share:+.3f}"


MOST_TESTED: Final = 500  # values up to which the overall test takes into account how their errors go together


def difference(
    a: Estimate, b: Estimate, *, interval_kind: IntervalKind = "population", alpha: float = 0.05
) -> Difference:
    """Return the shares of `a` less those of `b`, for every value that both have.

    Parameters
    ----------
    a, b
        Estimates from two collections.
    interval_kind
        ``population``: do the populations differ, of which these devices are samples? ``reports``: do the devices
        differ that reported, with no word on others? Neither estimate's own kind matters.
    alpha
        The false discovery rate of `Difference.changed`.

    Raises
    ------
    ParameterError
        If no value is in both, or one lists a value twice.

    Examples
    --------
    Two weeks of an oracle with little noise, 900 and 1,100 of 2,000 devices:

    >>> from overstory import Estimate
    >>> weeks = [Estimate(values=["on"], counts=[count], raw_counts=[count], standard_errors=[5], num_reports=2_000)
    ...          for count in (1_100, 900)]
    >>> for kind in ("population", "reports"):
    ...     both = difference(*weeks, interval_kind=kind)
    ...     print(kind, both.differences.round(3).tolist(), both.standard_errors.round(4).tolist())
    population [0.1] [0.0161]
    reports [0.1] [0.0035]
    """
    for one in (a, b):
        if not hasattr(one, "raw_counts"):
            kind = type(one).__name__
            raise ParameterError(f"these are differences of shares of values: give two estimates, not a {kind}")
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
    together = _together(a, b, first, second, interval_kind)
    # Two independent collections: Var (f - g) = Var f + Var g.
    errors = [
        estimate.errors(interval_kind)[rows] / max(estimate.num_reports, 1)
        for estimate, rows in ((a, first), (b, second))
    ]
    variances = np.asarray(errors[0] ** 2 + errors[1] ** 2)
    return Difference(
        values=[names[0][index] for index in first],
        differences=a.raw_frequencies[first] - b.raw_frequencies[second],
        standard_errors=np.sqrt(variances),
        num_reports=(a.num_reports, b.num_reports),
        interval_kind=interval_kind,
        alpha=alpha,
        notes=notes,
        first=a.raw_frequencies[first],
        second=b.raw_frequencies[second],
        correlations_squared=None if together is None else _squared_correlations(together, variances),
    )


def _together(a: Estimate, b: Estimate, first: list[int], second: list[int], kind: IntervalKind) -> F64 | None:
    """Return the covariances of the differences; None where they are not known or too many."""
    if len(first) > MOST_TESTED:
        return None
    covariances = np.zeros((len(first), len(first)))
    for estimate, rows in ((a, first), (b, second)):
        if estimate.joint_errors is None or not estimate.num_reports:
            return None
        covariances += estimate.covariance(kind, rows) / estimate.num_reports**2
    return covariances


def _squared_correlations(together: F64, variances: F64) -> float:
    """Return tr R^2 over the values whose difference has an error; R is 1 on its diagonal."""
    known = np.flatnonzero(np.isfinite(variances) & (variances > 0))
    errors = np.sqrt(variances[known])
    correlations = np.clip(together[np.ix_(known, known)] / np.outer(errors, errors), -1.0, 1.0)
    np.fill_diagonal(correlations, 1.0)
    return float((correlations**2).sum())


@dataclass(frozen=True, kw_only=True)
class Total:
    """The share of all reports that hold one of several values, with its interval."""

    values: tuple[str, ...]  # the estimate's values whose shares were added up
    estimate: float  # the share of all reports that hold one of them
    low: float  # the lower end of the interval; -inf where nothing is known of a value
    high: float  # the upper end of the interval; inf where nothing is known of a value
    level: float  # the confidence level of the interval
    interval_kind: IntervalKind  # what the interval describes: the devices that reported, or all devices like these

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; None where there is no number."""
        return {
            "values": list(self.values),
            "estimate": finite(self.estimate),
            "low": finite(self.low),
            "high": finite(self.high),
            "level": self.level,
            "interval": self.interval_kind,
        }


def total(estimate: Estimate, values: Sequence[Any], *, level: float = 0.95) -> Total:
    """Return the share of all reports that hold one of several values.

    Parameters
    ----------
    estimate
        The estimate whose unbiased counts are added up; the interval is of its kind.
    values
        Which of the estimate's values.
    level
        The confidence level of the interval, between 0 and 1.

    Raises
    ------
    ParameterError
        If a value is not one of the estimate's or is given twice, no decoder can tell two of them apart, or it is not
        known how their errors go together.

    Examples
    --------
    Two of three answers add up to what the third leaves:

    >>> import overstory
    >>> grr = overstory.oracle("grr", labels=["no", "yes", "unsure"], epsilon=1.0)
    >>> asked = grr.estimate(grr.accumulate(grr.simulate(["no", "yes", "unsure", "no"] * 5_000, rng=1)))
    >>> both, rest = total(asked, ["no", "yes"]), total(asked, ["unsure"])
    >>> round(both.estimate + rest.estimate, 9), round((both.high - both.low) / (rest.high - rest.low), 2)
    (1.0, 1.0)
    """
    places = _places(estimate, values)
    reach = selection.normal_reach(level)
    scale = max(estimate.num_reports, 1)
    share = float(estimate.raw_counts[places].sum()) / scale
    error = math.sqrt(max(_added(estimate, places), 0.0)) / scale
    return Total(
        values=tuple(label_text(estimate.values[place]) for place in places),
        estimate=share,
        low=share - reach * error,
        high=share + reach * error,
        level=level,
        interval_kind=estimate.interval_kind,
    )


def _added(estimate: Estimate, places: list[int]) -> float:
    _check_apart(estimate, places)
    if not np.isfinite(estimate.standard_errors[places]).all():
        return math.inf
    if len(places) == 1:
        return float(estimate.errors()[places[0]] ** 2)
    return float(estimate.covariance(places=places).sum())


def _places(estimate: Estimate, values: Sequence[Any]) -> list[int]:
    if isinstance(values, str) or not len(values):
        raise ParameterError("give a list of at least one value")
    number = {label_text(value): place for place, value in enumerate(estimate.values)}
    asked = [label_text(value) for value in values]
    unknown = [name for name in asked if name not in number]
    if unknown:
        raise ParameterError(f"{unknown[0]!r} is none of the {len(number):,} estimated values")
    if len(set(asked)) < len(asked):
        raise ParameterError("a value is listed twice: a device counts once")
    return [number[name] for name in asked]


def _check_apart(estimate: Estimate, places: list[int]) -> None:
    """Refuse values of which each row shows the same sum."""
    names = {str(estimate.values[place]) for place in places}
    for group in getattr(estimate, "colliding", ()):
        if len(same := [name for name in group if name in names]) > 1:
            raise ParameterError(
                f"{same[0]!r} and {same[1]!r} set the same bits in every cohort, so that each shows the count of both: "
                "give one of them"
            )
