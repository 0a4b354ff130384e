"""Estimates as objects: numbers with their uncertainty, what was detected, and ways to show them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar

import numpy as np

from overstory.analysis import selection
from overstory.analysis.tables.output import Frame
from overstory.analysis.variance import ONE_EACH, support_noise
from overstory.protocol.channels import check_channel
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from overstory.analysis.reports import SupportCounts
    from overstory.analysis.selection import F64, Correction, IntervalKind
    from overstory.analysis.variance import Clustering


NO_REPORTS: Final = "there are no reports: nothing can be estimated"
MOST_TOGETHER: Final = 2_000  # values whose errors are compared with each other at once: a matrix of 32 MB


FEW: Final = 10_000
"""Expected supports of a value that nobody has below which p-values are exact. From here on normal ones are too small
by a factor of at most 1.14 at four standard errors and 1.22 at a millionth (GRR and SUE at epsilon 8: the largest)."""


MOST_REPEATED: Final = 50
"""Reports of a device, with fresh noise on a kept response, up to which the exact law is summed."""


@dataclass(frozen=True, eq=False)
class NullSupport:
    """How many reports would support a value that nobody has: Binomial(n, q*), whatever the devices hold.

    Several reports of one device share its permanent response. A device then sends R reports that support the value
    with the same chance, one of two; N / R such devices are clusters of equal size, where theirs may differ.
    """

    supports: NDArray[np.int64]  # of each value, shape (M,)
    asked: NDArray[np.int64]  # reports that speak of each, shape (M,)
    q_star: float
    shared: Clustering = ONE_EACH

    def p_values(self, raw: F64, standard_errors: F64) -> F64:
        """Return P(at least this support) where few are expected, else the normal approximation of it."""
        few, found = self._few() & (self.asked > 0), np.empty(raw.shape)
        found[~few] = selection.upper_p_values(raw[~few], standard_errors[~few])
        size = self._size if self._is_kept else 1.0
        for many in np.unique(self.asked[few]).tolist():
            tails, at = self._tails(many), np.flatnonzero(few & (self.asked == many))
            needed = np.ceil(self.supports[at] / size - 1e-9).astype(np.int64)
            found[at] = tails[np.minimum(needed, tails.size - 1)]
        return found

    @property
    def _size(self) -> float:
        """How many reports share what was drawn once."""
        return self.shared.reports_per_device if self.shared.covariances[1] else 1.0

    @property
    def _chances(self) -> tuple[float, float]:
        """With which chance reports support a value that the permanent response does not, or does: q* lies between."""
        _, raised, span = self.shared.permanent
        lower = min(max(self.q_star - span * raised, 0.0), 1.0)
        return lower, min(lower + span, 1.0)

    @property
    def _is_kept(self) -> bool:
        """Whether all reports of a device are the same one."""
        lower, upper = self._chances
        return self._size > 1.0 and lower < 1e-9 and upper > 1.0 - 1e-9

    def _few(self) -> NDArray[np.bool_]:
        expected = self.asked * self.q_star
        if self._is_kept:
            return expected / self._size < FEW
        return (expected < FEW) & (self._size <= MOST_REPEATED)

    def _tails(self, many: int) -> F64:
        if self._size == 1.0:
            return selection.binomial_tails(many, self.q_star)
        raised = self.shared.permanent[1]
        if self._is_kept:  # in clusters that support a value as a whole
            return selection.binomial_tails(max(round(many / self._size), 1), raised)
        return selection.clustered_tails(many, self._size, self._chances, raised)

    def at(self, places: slice) -> NullSupport:
        """Return that of some of the values."""
        return replace(self, supports=self.supports[places], asked=self.asked[places])


def null_support(supports: Any, asked: Any, rates: tuple[float, float], shared: Clustering) -> NullSupport | None:
    """Return how often absent values are supported; None where a support speaks against its value, or is certain."""
    p_star, q_star = rates
    if not 0.0 < q_star < p_star:
        return None
    counted = np.asarray(supports, np.int64)
    return NullSupport(counted, np.broadcast_to(np.asarray(asked, np.int64), counted.shape), q_star, shared)


class JointErrors(Protocol):
    """How the errors of an estimate's values vary together; each family of oracles has its own."""

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: NDArray[np.intp]) -> F64:
        """Return the covariances of the raw counts at `places`; the diagonal is not used."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Estimate(Frame):
    """How many reports hold each value.

    Attributes
    ----------
    values : sequence, length M
        The values asked about: strings, or a column's own labels.
    counts : ndarray of float64, shape (M,)
        The counts to report: `raw_counts` themselves for a closed form, post-processed by a decoder that says how.
    raw_counts : ndarray of float64, shape (M,)
        Unbiased counts; noise makes some of them negative.
    standard_errors : ndarray of float64, shape (M,)
        Of `raw_counts`, for these reports: the noise of randomization alone. Infinite where the reports say nothing
        about a value. `errors` has those of either kind; p-values come from these, or from `null_support`, because
        detection tests whether nobody has a value, and then the sampling of people adds nothing.
    num_reports : int
        Reports behind the estimate.
    interval_kind : {"reports", "population"}
        What intervals are for: the devices that reported, or all devices like these (docs/explanation/estimates.md).
    reports_per_device : float
        How many of the reports one device sent, if that was given; see `analysis.variance.reports_per_device`.
    null_share : float
        Share of values nobody has, as far as the false discovery rate may count on it (1 is always safe).
    alpha, correction
        The level and rule that `detected` uses unless asked otherwise.
    notes : tuple of str
        What a reader must know before trusting the numbers.
    joint_errors : JointErrors, optional
        How the errors of different values vary together; see `covariance`.
    null_support : NullSupport, optional
        What is known of the support of a value that nobody has: where few are expected, p-values come from it.
    """

    adds_up: ClassVar[bool] = True  # whether a device holds one of the values, so that shares add up
    is_bounded: ClassVar[bool] = False  # whether counts were changed after they were estimated, and intervals with them
    values: Sequence[Any]
    counts: F64
    raw_counts: F64
    standard_errors: F64
    num_reports: int
    interval_kind: IntervalKind = "reports"
    reports_per_device: float = 1.0
    null_share: float = 1.0
    alpha: float = 0.05
    correction: Correction = "fdr"
    notes: tuple[str, ...] = ()
    joint_errors: JointErrors | None = None
    null_support: NullSupport | None = None

    def __post_init__(self) -> None:
        selection.check_alpha(self.alpha)
        selection.check_interval_kind(self.interval_kind)
        freeze_columns(self, "counts", "raw_counts", "standard_errors")

    def __len__(self) -> int:
        return len(self.values)

    @property
    def num_tested(self) -> int:
        """How many values were tested together."""
        return len(self)

    @property
    def frequencies(self) -> F64:
        """Reported counts as fractions of the reports."""
        return np.asarray(self.counts / max(self.num_reports, 1))

    @property
    def raw_frequencies(self) -> F64:
        """Unbiased counts as fractions of the reports."""
        return np.asarray(self.raw_counts / max(self.num_reports, 1))

    @property
    def frequency_standard_errors(self) -> F64:
        """Standard errors of `raw_frequencies`, for these reports."""
        return np.asarray(self.standard_errors / max(self.num_reports, 1))

    @property
    def z(self) -> F64:
        """Raw count over its standard error; 0 where nothing is estimated."""
        return selection.z_values(self.raw_counts, self.standard_errors)

    @cached_property
    def p_values(self) -> F64:
        """One-sided: the chance that a value nobody has looks at least this frequent."""
        counted = self.raw_counts, self.standard_errors
        return selection.upper_p_values(*counted) if self.null_support is None else self.null_support.p_values(*counted)

    @cached_property
    def q_values(self) -> F64:
        """The smallest false discovery rate at which each value is detected."""
        return selection.adjusted_p_values(self.p_values, "fdr", self.null_share)

    def detected(self, alpha: float | None = None, correction: Correction | None = None) -> NDArray[np.bool_]:
        """Return which values are surely present, at a level over *all* values.

        Parameters
        ----------
        alpha : float, optional
            The false discovery rate ("fdr") or the chance of any false one ("bonferroni").
        correction : {"fdr", "bonferroni"}, optional

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1, or the correction is unknown.
        """
        level = self.alpha if alpha is None else alpha
        rule = self.correction if correction is None else correction
        selection.check_alpha(level)
        adjusted = self.q_values if rule == "fdr" else selection.adjusted_p_values(self.p_values, rule)
        return np.asarray(adjusted <= level) & (self.raw_counts > 0)

    def errors(self, kind: IntervalKind | None = None) -> F64:
        """Return the raw counts' standard errors of a kind; of `interval_kind` unless given.

        ``population`` adds ``R N f (1 - f)`` to the variance: `selection.people_variance`.

        Raises
        ------
        ParameterError
            If there is no such kind.

        Examples
        --------
        60 of 100 people, known exactly:

        >>> asked = Estimate(values=["yes"], counts=[60], raw_counts=[60], standard_errors=[0], num_reports=100)
        >>> asked.errors("reports").round(1).tolist(), asked.errors("population").round(1).tolist()
        ([0.0], [4.9])
        """
        chosen = self.interval_kind if kind is None else kind
        selection.check_interval_kind(chosen)
        if chosen == "reports":
            return self.standard_errors
        people = selection.people_variance(self.raw_counts, self.num_reports, self.reports_per_device)
        return np.asarray(np.sqrt(self.standard_errors**2 + people))

    def covariance(self, kind: IntervalKind | None = None, places: Sequence[int] | None = None) -> F64:
        """Return the covariances of the raw counts, shape (M, M), of a kind; of `interval_kind` unless given.

        Parameters
        ----------
        places : sequence of int, optional
            Which values; all unless given.

        Raises
        ------
        ParameterError
            If the covariance of these values is unknown, or there are more than 2,000 of them.
        """
        chosen = self.interval_kind if kind is None else kind
        rows = np.arange(len(self)) if places is None else np.asarray(places, np.intp)
        if self.joint_errors is None:
            raise ParameterError("it is not known how the errors of these values go together: a sum has no interval")
        if rows.size > MOST_TOGETHER:
            raise ParameterError(f"{rows.size:,} values at once: choose at most {MOST_TOGETHER:,}")
        together = self.joint_errors.covariance(self, chosen, rows)
        np.fill_diagonal(together, self.errors(chosen)[rows] ** 2)
        return together

    def confidence_interval(self, level: float = 0.95, kind: IntervalKind | None = None) -> tuple[F64, F64]:
        """Return the bounds of the raw counts' two-sided normal interval, in reports, not corrected for selection.

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1, or there is no such kind.
        """
        return self._selected.interval(self.errors(kind), level, self._around, adjusted=False)

    def interval(
        self, level: float = 0.95, kind: IntervalKind | None = None, *, adjusted: bool = True
    ) -> tuple[F64, F64]:
        """Return the interval to show with `counts`, in reports.

        Where counts were changed after they were estimated, it goes with them (`selection.bounded_interval`).

        Parameters
        ----------
        adjusted : bool
            Whether detected values pay for their selection: noise helped some of them to be detected. Their intervals
            are then wider, so that the level holds on average over them (false coverage rate).

        Raises
        ------
        ParameterError
            If the level is not between 0 and 1, or there is no such kind.
        """
        around = self._bounded if self.is_bounded else self._around
        return self._selected.interval(self.errors(kind), level, around, adjusted=adjusted)

    def _around(self, reach: F64) -> tuple[F64, F64]:
        return self.raw_counts - reach, self.raw_counts + reach

    def _bounded(self, reach: F64) -> tuple[F64, F64]:
        return selection.bounded_interval(self.counts, self.raw_counts, reach, self.num_reports)

    @cached_property
    def _selected(self) -> selection.Selected:
        return selection.Selected(self.detected(), self.p_values, self.num_tested)

    def order(self) -> NDArray[np.intp]:
        """Return the values' indices, most frequent first."""
        return np.lexsort((-self.raw_counts, -self.counts))

    def summary(self) -> dict[str, Any]:
        """Return the facts about the estimate, ready for JSON."""
        return {
            "reports": self.num_reports,
            "candidates": len(self),
            "detected": int(np.count_nonzero(self.detected())),
            "alpha": self.alpha,
            "correction": self.correction,
            "interval": self.interval_kind,
            "adjustment": "fcr",
            "notes": list(self.notes),
        }


def freeze_columns(result: Any, *names: str) -> None:
    """Make columns of a frozen result read-only arrays of its own, one number for each of its values."""
    for name in names:
        array, many = np.array(getattr(result, name), np.float64), len(result.values)
        if array.shape != (many,):
            raise ParameterError(f"{many} values, but {name} of shape {array.shape}")
        array.flags.writeable = False
        object.__setattr__(result, name, array)


def unbiased(values: Sequence[Any], raw: F64, errors: F64, num_reports: int, **more: Any) -> Estimate:
    """Return an estimate that reports the unbiased counts; without reports, its note says so."""
    if not num_reports:
        more["notes"] = (NO_REPORTS,)
    return Estimate(values=values, counts=raw, raw_counts=raw, standard_errors=errors, num_reports=num_reports, **more)


E = TypeVar("E", bound=Estimate)


def converted(kind: type[E], estimate: Estimate, **changed: Any) -> E:
    """Return the estimate as one of a class that says more."""
    given = {part.name: getattr(estimate, part.name) for part in fields(Estimate)}
    return kind(**{**given, **changed})


def debias(
    counts: SupportCounts,
    p_star: float,
    q_star: float,
    values: Sequence[str],
    shared: Clustering = ONE_EACH,  # what reports of one device have in common
    joint_errors: JointErrors | None = None,
) -> Estimate:
    """Estimate counts from one-hot reports, bit i for ``values[i]`` (Wang et al., USENIX Security 2017, section 3)."""
    check_channel(p_star, q_star)
    if len(values) != counts.num_bits:
        raise ParameterError(f"{len(values)} values, but reports of {counts.num_bits} bits")
    reports = counts.num_reports
    # E c = t p* + (n - t) q*, solved for t.
    supports = counts.ones.sum(axis=0)
    raw = (supports - reports * q_star) / (p_star - q_star)
    # Var c at the possible count nearest to the estimate; a device's further reports add what they share.
    holders = np.clip(raw, 0, reports)
    noise = support_noise(holders, reports - holders, p_star, q_star) + shared.excess(holders, reports - holders)
    errors = np.sqrt(noise) / abs(p_star - q_star) if reports else np.full(raw.shape, np.inf)
    return unbiased(
        values,
        raw,
        errors,
        reports,
        reports_per_device=shared.reports_per_device,
        notes=shared.note,
        joint_errors=joint_errors,
        null_support=null_support(supports, reports, (p_star, q_star), shared),
    )
