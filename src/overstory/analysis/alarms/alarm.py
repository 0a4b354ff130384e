"""What an alarm says, and what about a collection's health raises one: volume, fit, refusals, expiry.

`overstory.analysis.alarms.changes` raises those about shares. docs/explanation/alarms.md says what each means.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.analysis.alarms.crafted import DECODERS_OWN
from overstory.analysis.decoding.caveats import (
    SURE,
    UNBALANCED,
    cohorts_differ,
    dispersion_reach,
    misses_strings,
    residuals_vary,
)
from overstory.analysis.decoding.decoder import Decoded
from overstory.presentation.formats import finite

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Iterator, Mapping, Sequence

    from overstory.analysis.alarms.crafted import Check

Kind = Literal["step", "drift", "volume", "fit", "crafted", "estimate", "refusals", "expiry"]
Severity = Literal["red", "amber", "note"]

SEVERITIES: Final[tuple[Severity, ...]] = ("red", "amber", "note")
"""Worst first. A note is shown, and does not fail a check."""

BEFORE: Final = 8
"""How many earlier periods the newest is compared with."""
ENOUGH_BEFORE: Final = 4
"""With fewer of them there is nothing to compare with."""


@dataclass(frozen=True)
class Alarm:
    """Something about a metric that somebody should look at.

    Attributes
    ----------
    kind, severity
        What it is about; red, amber, or a note that fails no check.
    metric
        The metric's id; None for what is about all of them.
    period
        The label of the period, or the day, that it is about.
    text
        What it means, in a sentence or two.
    values
        The metric's values that it is about.
    numbers
        What it was decided by, as JSON values.
    """

    kind: Kind
    severity: Severity
    metric: str | None
    period: str
    text: str
    values: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the alarm as JSON values."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "metric": self.metric,
            "period": self.period,
            "values": list(self.values),
            "text": self.text,
            "numbers": {name: finite(number) for name, number in self.numbers.items()},
        }


LOWEST_VOLUME, HIGHEST_VOLUME = 0.5, 2.0
"""Times the median within which a number of reports is usual."""


def volume(metric: str, period: str, reports: int, before: Sequence[int]) -> Alarm | None:
    """Return an alarm if a period has less than half or more than twice the median of the periods before.

    Small numbers vary by chance: the difference must exceed 4 standard errors of two Poisson counts, too.

    Examples
    --------
    >>> volume("colour", "2026-W47", 400, [1_000] * 8).text
    '400 reports in 2026-W47; the median of the 8 periods before is 1,000. Most often a release, or broken senders.'
    >>> volume("colour", "2026-W47", 600, [1_000] * 8), volume("colour", "2026-W47", 2, [5] * 8)
    (None, None)
    """
    if len(before) < ENOUGH_BEFORE:
        return None
    usual = statistics.median(before)
    is_usual = LOWEST_VOLUME * usual <= reports <= HIGHEST_VOLUME * usual
    if is_usual or abs(reports - usual) <= SURE * math.sqrt(reports + usual):
        return None
    text = (
        f"{reports:,} reports in {period}; the median of the {len(before)} periods before is {usual:,.0f}. "
        "Most often a release, or broken senders."
    )
    return Alarm("volume", "amber" if reports else "red", metric, period, text, (), _counted(reports, usual))


def _counted(reports: int, usual: float) -> dict[str, Any]:
    return {"reports": reports, "median": usual}


def fit(metric: str, period: str, newest: Decoded, before: Sequence[Decoded]) -> Iterator[Alarm]:
    """Yield what is past the decoder's own limits; only a note where that was so in most of the periods before.

    A list that never had all strings is no news.
    """
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
    """Yield what honest devices cannot have sent; what a decoder sees itself is an alarm about fit."""
    fitted = any(check.name == "dispersion" for check in checks)
    for check in checks:
        if check.raised and not (fitted and check.name in DECODERS_OWN):
            text = f"{check.means} It is {check.detail}. Not seen by this check: {check.cannot_see}."
            yield Alarm("crafted", "amber", metric, period, text, (), check.to_json())


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


REFUSED_SHARE, REFUSED_TIMES = 0.001, 5.0
"""A day's share of posts refused for one reason that is worth an alarm, and how many times its median that must be."""


def refusals(day: str, posts: int, refused: Mapping[str, int], before: Sequence[Mapping[str, float]]) -> list[Alarm]:
    """Return an alarm per reason whose share of a day's posts is above .1% and five times its median.

    Parameters
    ----------
    posts
        Posts of the day, refused or not.
    refused
        Posts of the day that were refused, by reason.
    before
        Each earlier day's share of its posts by reason; a reason that is missing has 0.

    Examples
    --------
    >>> usual = [{"too late": 0.002}] * 8
    >>> [alarm.values for alarm in refusals("2026-11-21", 1_000, {"too late": 3, "bad token": 40}, usual)]
    [('bad token',)]
    """
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
    """Return an alarm in a metric's last 60 days; in its last 30 it is amber, in its last 7 red.

    Examples
    --------
    >>> import datetime as dt
    >>> expiry("colour", dt.date(2027, 1, 1), dt.date(2026, 12, 20)).text
    'It expires in 12 days, on 2027-01-01: no device reports it from then on.'
    """
    days = (expires - today).days
    severity = next((severity for limit, severity in EXPIRY.items() if 0 < days <= limit), None)
    if severity is None:
        return None
    text = f"It expires in {days} day{'s' if days > 1 else ''}, on {expires}: no device reports it from then on."
    return Alarm("expiry", severity, metric, today.isoformat(), text, (), {"days": days})
