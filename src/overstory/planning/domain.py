"""The plan of a collection over a known domain: which oracle, what it detects, how many people a share takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.analysis.comparison import SLACK, Choice, rank, recommend, trade
from overstory.analysis.variance import frequency_variance
from overstory.planning.nearest import COMMON_SHARE, Nearest, nearest
from overstory.planning.sample_size import required_sample_size, smallest_share
from overstory.privacy.text import plural
from overstory.privacy.text import share as percentage
from overstory.protocol.encodings.base import check_count
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.needs import oracles_for
from overstory.protocol.mechanisms.registry import mechanism

EPSILON_STEP: Final = 0.01
"""How far the permanent epsilon of proposed needs is above the other: a report must not be the permanent response."""


@dataclass(frozen=True)
class DomainPlan:
    """What a collection over a known domain would learn by the best oracle."""

    ranking: tuple[Choice, ...]  # every oracle that meets the needs, the most accurate first
    best: Choice
    instead: str | None  # what was nearly as good, and what it would cost
    num_reports: int  # one report a device
    alpha: float  # the chance of any false detection
    share: float | None  # that was asked for, from 0 to 1
    smallest_share: float | None  # that is detected nine times in ten
    people_needed: int | None  # to detect the share nine times in ten; None where no number does
    nearest: Nearest | None  # the nearest needs that detect the share, where these do not

    @property
    def mechanism(self) -> Mechanism:
        return mechanism(self.best.name, **self.best.parameters)

    def sentences(self) -> Iterator[str]:
        smallest, given = self.smallest_share, f"With {plural(self.num_reports, 'report')}"
        if smallest is None:
            yield f"{given} no share is detected nine times in ten."
        else:
            yield f"{given} a share of {percentage(smallest)} is detected nine times in ten; rarer ones may be missed."
        if self.share is not None:
            needed = (
                "no number of devices is enough" if self.people_needed is None else f"{self.people_needed:,} are needed"
            )
            yield f"To detect a share of {percentage(self.share)} nine times in ten {needed}."
        if self.nearest is not None:
            yield self.nearest.plain_words()

    def to_json(self) -> dict[str, Any]:
        return {
            "reports": self.num_reports,
            **self.best.to_json(),
            "instead": self.instead,
            "alpha": self.alpha,
            "share": self.share,
            "smallest_share": self.smallest_share,
            "people_needed": self.people_needed,
            "nearest": self.nearest and self.nearest.to_json(),
        }


def plan_for_domain(
    domain_size: int,
    epsilon: float,
    num_reports: int,
    *,
    # of any number of reports of one value, where devices report more than once
    epsilon_permanent: float | None = None,
    share: float | None = None,  # to be detected, above 0 and at most 1
    alpha: float = 0.05,  # the chance of any false detection
) -> DomainPlan:
    """Return the plan of a collection over a domain of `domain_size` values."""
    if share is not None and not 0 < share <= 1:
        raise ParameterError(f"share = {share}: give a fraction above 0 and at most 1, such as 0.01")
    check_count("reports", num_reports, 1, 1 << 62)
    ranking = rank(domain_size, epsilon, num_reports, epsilon_permanent=epsilon_permanent)
    best = recommend(ranking)
    built = mechanism(best.name, **best.parameters)
    smallest = smallest_share(built, num_reports, domain_size, alpha=alpha)
    needed = None if share is None else _people_needed(built, share, domain_size, alpha)
    return DomainPlan(
        ranking=ranking,
        best=best,
        instead=trade(ranking, best),
        num_reports=num_reports,
        alpha=alpha,
        share=share,
        smallest_share=smallest,
        people_needed=needed,
        nearest=_nearest(domain_size, epsilon, epsilon_permanent, num_reports, share, alpha, smallest),
    )


def _people_needed(built: Mechanism, share: float, domain_size: int, alpha: float) -> int | None:
    try:
        return required_sample_size(built, share, domain_size, alpha=alpha)
    except ParameterError:  # its seeds are too few, whatever the number of people
        return None


def _nearest(
    domain_size: int,
    epsilon: float,
    epsilon_permanent: float | None,
    num_reports: int,
    share: float | None,
    alpha: float,
    smallest: float | None,
) -> Nearest | None:
    wanted = COMMON_SHARE if share is None else share
    if smallest is not None and (share is None or smallest <= wanted):
        return None

    def devices_needed(larger: float, ceiling: float | None, number: int) -> int | None:
        oracles = oracles_for(domain_size, larger, ceiling)
        least = min(oracles, key=lambda built: frequency_variance(built, number, 1 / domain_size), default=None)
        needed = None if least is None else _people_needed(least, wanted, domain_size, alpha)
        return None if needed is None else math.ceil(SLACK * needed)  # the recommended oracle may be that much worse

    needs = epsilon, epsilon_permanent, num_reports
    return nearest(devices_needed, *needs, share=wanted, smallest_share=smallest, apart=EPSILON_STEP)
