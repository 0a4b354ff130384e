"""What an alarm says, and what raises one: volume, fit, refusals, expiry; steps and slow drifts of shares.

docs/explanation/alarms.md says what each means. Shares of the newest periods, pooled, less those of the periods before,
are tested over a standard error with the sampling of people, two-sided; Benjamini and Hochberg's rule is over every
(metric, value) of a run. Periods share devices, which keep their permanent responses: the page shows that one period
against the mean of the 8 before varies no more than independent ones, and 13 against 13 by `DRIFT_VARIANCE` at most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.analysis import selection
from overstory.analysis.decoding.decoder import (
    SURE,
    UNBALANCED,
    Decoded,
    cohorts_differ,
    dispersion_reach,
    misses_strings,
    residuals_vary,
)
from overstory.presentation.formats import finite
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping

    from overstory.analysis.alarms.crafted import Check
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import F64


Kind = Literal["step", "drift", "volume", "fit", "crafted", "estimate", "refusals", "expiry"]
Severity = Literal["red", "amber", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("red", "amber", "note")
"""Worst first. A note is shown, and does not fail a check."""

BEFORE: Final = 8  # how many earlier periods the newest is compared with
ENOUGH_BEFORE: Final = 4  # with fewer of them there is nothing to compare with


@dataclass(frozen=True)
class Alarm:
    """Something about a metric that somebody should look at."""

    kind: Kind
    severity: Severity  # red, amber, or a note that fails no check
    metric: str | None  # its id; None for what is about all of them
    period: str  # the label of the period, or the day, that it is about
    text: str  # a sentence or two
    values: tuple[str, ...] = ()  # the metric's values that it is about
    numbers: Mapping[str, Any] = field(default_factory=dict)  # what it was decided by, as JSON values
    is_provisional: bool = False  # of a period that still takes late reports

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "severity": self.severity,
            "metric": self.metric,
            "period": self.period,
            "provisional": self.is_provisional,
            "values": list(self.values),
            "text": self.text,
            "numbers": {name: finite(number) for name, number in self.numbers.items()},
        }


LOWEST_VOLUME, HIGHEST_VOLUME = 0.5, 2.0  # times the median within which a number of reports is usual


def volume(metric: str, period: str, reports: int, before: Sequence[int]) -> Alarm | None:
    """Return an alarm if a period has less than half or more than twice the median of the periods before."""
    if len(before) < ENOUGH_BEFORE:
        return None
    usual = statistics.median(before)
    is_usual = LOWEST_VOLUME * usual <= reports <= HIGHEST_VOLUME * usual
    # Small numbers vary by chance: the difference must exceed 4 standard errors of two Poisson counts, too.
    if is_usual or abs(reports - usual) <= SURE * math.sqrt(reports + usual):
        return None
    text = (
        f"{reports:,} reports in {period}; the median of the {len(before)} periods before is {usual:,.0f}. "
        "Most often a release, or broken senders."
    )
    return Alarm(
        "volume", "amber" if reports else "red", metric, period, text, (), {"reports": reports, "median": usual}
    )


def fit(metric: str, period: str, newest: Decoded, before: Sequence[Decoded]) -> Iterator[Alarm]:
    """Yield what is past the decoder's own limits; only a note where that was so in most of the periods before."""
    for name, (is_past, number, text) in _fit(newest).items():
        if is_past:
            earlier = sum(_fit(decoded)[name][0] for decoded in before)
            is_old = len(before) >= ENOUGH_BEFORE and 2 * earlier > len(before)
            since = f" It was so in {earlier} of the {len(before)} periods before." if is_old else ""
            numbers = {name: number, "periods_before": len(before), "past_limits_before": earlier}
            yield Alarm("fit", "note" if is_old else "amber", metric, period, text + since, (), numbers)


def _fit(decoded: Decoded) -> dict[str, tuple[bool, float, str]]:
    """Return each measure of fit: whether it is past its limit, its number, and what that means."""
    reports = max(decoded.num_reports, 1)
    missing, error = decoded.unallocated / reports, decoded.unallocated_standard_error / reports
    residuals = _sentence(residuals_vary(decoded.dispersion))
    cohorts = _sentence(cohorts_differ(f"p = {decoded.cohort_p_value:.0e}"))
    unlisted = f"About {min(missing, 1.0):.1%} of the reports hold strings that are not in the list."
    is_dispersed = abs(decoded.dispersion - 1.0) > dispersion_reach(decoded.degrees_of_freedom)
    return {
        "dispersion": (bool(is_dispersed), float(decoded.dispersion), residuals),
        "unallocated": (misses_strings(missing, error), float(missing), unlisted),
        "cohort_p_value": (decoded.cohort_p_value < UNBALANCED, decoded.cohort_p_value, cohorts),
    }


def crafted(metric: str, period: str, checks: Sequence[Check]) -> Iterator[Alarm]:
    """Yield what honest devices cannot have sent."""
    for check in checks:
        if check.raised:
            text = f"{check.means} It is {check.detail}. Not seen by this check: {check.cannot_see}."
            yield Alarm("crafted", "amber", metric, period, text, (), check.to_json())


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


REFUSED_SHARE, REFUSED_TIMES = 0.001, 5.0
"""A day's share of posts refused for one reason that is worth an alarm, and how many times its median that must be."""


def refusals(day: str, posts: int, refused: Mapping[str, int], before: Sequence[Mapping[str, float]]) -> list[Alarm]:
    """Return an alarm per reason whose share of a day's posts is above .1% and five times its median."""
    alarms = []
    for reason, number in sorted(refused.items()):
        share = number / max(posts, 1)
        usual = statistics.median([shares.get(reason, 0.0) for shares in before] or [0.0])
        # One refusal in a small number of posts is above .1%, and says nothing.
        if share > REFUSED_SHARE and share > REFUSED_TIMES * usual and number >= SURE:
            text = (
                f"{number:,} of {posts:,} posts on {day} were refused ({reason}), {share:.2%}; the median of the "
                f"{len(before)} days before is {usual:.2%}. Keys or tokens that changed, a wrong clock, or an attack."
            )
            numbers = {"refused": number, "posts": posts, "share": share, "median_share": usual}
            alarms.append(Alarm("refusals", "red" if share > 0.1 else "amber", None, day, text, (reason,), numbers))
    return alarms


EXPIRY: Final[Mapping[int, Severity]] = {7: "red", 30: "amber", 60: "note"}
"""Days before a metric expires, and how much that matters."""


def expiry(metric: str, expires: dt.date, today: dt.date) -> Alarm | None:
    """Return an alarm in a metric's last 60 days; in its last 30 it is amber, in its last 7 red."""
    days = (expires - today).days
    severity = next((severity for limit, severity in EXPIRY.items() if 0 < days <= limit), None)
    if severity is None:
        return None
    text = f"It expires in {days} day{'s' if days > 1 else ''}, on {expires}: no device reports it from then on."
    return Alarm("expiry", severity, metric, today.isoformat(), text, (), {"days": days})


ALPHA: Final = 0.01  # the false discovery rate of a run
LEAST_POINTS, LEAST_TENTH = 0.01, 0.1
"""A change must be a percentage point, or a tenth of the value before: less is nobody's concern."""

DRIFT_PERIODS: Final = 13  # A drift is looked for between so many periods and as many before, once in as many periods
DRIFT_VARIANCE: Final = 0.7685
"""Variance of the difference of two means of 13 periods, over a period's: the most that devices that stay can cause."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A metric's newest estimates and the ones before, each of one period, all of one list of values."""

    metric: str
    period: str  # the label of the newest one
    after: Sequence[Estimate]  # one estimate or, for a drift, 13
    before: Sequence[Estimate]  # the 8 or 13 before
    apart: bool = False  # whether no device is in two of them: the panels of one cycle

    def __post_init__(self) -> None:
        lists = {tuple(map(str, estimate.values)) for estimate in (*self.after, *self.before)}
        if len(lists) != 1 or not self.after or not self.before:
            raise ParameterError(f"{self.metric}: compare estimates of one list of values, at least one on either side")


@dataclass(frozen=True, kw_only=True)
class Change:
    """One value's share, before and after."""

    metric: str
    period: str
    value: str
    before: float
    after: float
    standard_error: float  # of the difference
    # the smallest false discovery rate, over all values of all metrics of the run, at which it is a change
    q_value: float
    level: float = 0.95
    """Of the interval: as much above 95% as the choice of this value among all costs (false coverage rate)."""

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def key(self) -> tuple[str, str, bool]:
        return self.metric, self.value, self.change > 0

    @property
    def matters(self) -> bool:
        """Whether it is a percentage point, or a tenth of the value before."""
        return abs(self.change) >= min(LEAST_POINTS, LEAST_TENTH * max(self.before, 0.0))

    def to_json(self) -> dict[str, Any]:
        reach = selection.normal_reach(self.level) * self.standard_error
        return {
            "value": self.value,
            "before": self.before,
            "after": self.after,
            "change": self.change,
            "low": self.change - reach,
            "high": self.change + reach,
            "q_value": self.q_value,
        }


def find_changes(comparisons: Sequence[Comparison], *, alpha: float = ALPHA, least: bool = True) -> tuple[Change, ...]:
    """Return the shares that changed, of all values of all metrics: one run, one false discovery rate."""
    selection.check_alpha(alpha)
    measured = [_difference(comparison) for comparison in comparisons]
    if not measured:
        return ()
    p_values = np.concatenate(
        [
            np.minimum(2.0 * selection.upper_p_values(np.abs(after - before), error), 1.0)
            for before, after, error in measured
        ]
    )
    adjusted = selection.adjusted_p_values(p_values, "fdr")
    q_values = iter(adjusted.tolist())
    # Benjamini and Yekutieli: level 1 - a R / m.
    level = 1.0 - 0.05 * max(int(np.count_nonzero(adjusted <= alpha)), 1) / adjusted.size
    changes = (
        Change(
            metric=comparison.metric,
            period=comparison.period,
            value=str(value),
            before=float(before),
            after=float(after),
            standard_error=float(error),
            q_value=next(q_values),
            level=level,
        )
        for comparison, shares in zip(comparisons, measured, strict=True)
        for value, before, after, error in zip(comparison.after[0].values, *shares, strict=True)
    )
    return tuple(change for change in changes if change.q_value <= alpha and (change.matters or not least))


def _difference(comparison: Comparison) -> tuple[F64, F64, F64]:
    """Return the shares before and after, and the standard error of their difference."""
    (after, independent, one), (before, others, another) = map(_pool, (comparison.after, comparison.before))
    variance = independent + others
    if len(comparison.after) > 1 and not comparison.apart:
        # Pooled periods share devices: their errors do not average out as independent ones do.
        variance = np.maximum(variance, DRIFT_VARIANCE * (one + another) / 2.0)
    return before, after, np.sqrt(variance)


def _pool(estimates: Sequence[Estimate]) -> tuple[F64, F64, F64]:
    """Return the share over all reports, its variance were periods independent, and the mean variance of a period."""
    reports = np.array([estimate.num_reports for estimate in estimates], np.float64)
    if not reports.sum():
        nothing = np.zeros(len(estimates[0]))
        return nothing, nothing + np.inf, nothing + np.inf
    heard = [estimate for estimate in estimates if estimate.num_reports]
    weights = reports[reports > 0] / reports.sum()
    shares = np.array([estimate.raw_frequencies for estimate in heard])
    variances = np.array([(estimate.errors("population") / estimate.num_reports) ** 2 for estimate in heard])
    return weights @ shares, weights**2 @ variances, weights @ variances


def steps(runs: Sequence[Sequence[Change]]) -> list[Alarm]:
    """Return alarms of the last three runs, the newest last: red where a value changed the same way twice."""
    recent = list(runs[-3:])
    times: dict[tuple[str, str, bool], int] = {}
    for run in recent:
        for key in {change.key for change in run}:
            times[key] = times.get(key, 0) + 1
    newest = {change.key: change for change in (recent[-1] if recent else ())}
    latest = {change.key: change for run in recent for change in run}
    red = [latest[key] for key, number in times.items() if number > 1]
    amber = [change for key, change in newest.items() if times[key] == 1]
    return [*_alarms("step", "red", red), *_alarms("step", "amber", amber)]


def drifts(changes: Sequence[Change], *, is_new: bool = True) -> list[Alarm]:
    """Return an amber alarm per metric from a comparison of 13 periods with the 13 before; a note if it is old."""
    return list(_alarms("drift", "amber" if is_new else "note", changes))


MEANINGS: Final = {
    "step": "against the {before} periods before. A release, another mix of devices, or the world: look at the notes. "
    "Where the same devices keep their answers, changes of few of them are not seen.",
    "drift": "in the last 13 periods, against the 13 before. Each change from one period to the next was too small to "
    "be seen. Devices that keep their answers hide slow changes, too.",
}
MOST_NAMED: Final = 3


def _alarms(kind: Kind, severity: Severity, changes: Sequence[Change]) -> Iterator[Alarm]:
    for metric in dict.fromkeys(change.metric for change in changes):
        own = sorted((change for change in changes if change.metric == metric), key=lambda change: change.q_value)
        named = [f"{change.value} {100 * change.change:+.2f} points" for change in own[:MOST_NAMED]]
        more = [f"{len(own) - MOST_NAMED} more"] if len(own) > MOST_NAMED else []
        text = f"{', '.join(named + more)} {MEANINGS[kind].format(before=8)}"
        numbers = {"changes": [change.to_json() for change in own]}
        yield Alarm(kind, severity, metric, own[0].period, text, tuple(change.value for change in own), numbers)
