"""What may be claimed of reports that came through a relay: from recorded releases, and from nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from overstory.presentation.document import Block, Lines
from overstory.privacy.shuffle.central import DELTA, CentralPrivacy, shuffled
from overstory.privacy.text import plural
from overstory.protocol.mechanisms.base import LocalRandomizer

ONE_BY_ONE: Final = (
    "Reports that a relay passes on one by one are shuffled only if the times of their arrival say nothing about their "
    "senders: that is assumed, and how many hide each other is not recorded, so no epsilon is stated."
)
GROUPED: Final = (
    "Reports name their group in clear, and releases are not counted by group: how many of one group hide each other "
    "is not recorded, so no epsilon is stated."
)
NO_REPORTS: Final = "There are no reports in this range."


class Released(Protocol):
    """What was released of a metric and period."""

    @property
    def smallest(self) -> int:
        """Messages in the smallest release."""
        ...

    @property
    def complete(self) -> bool:
        """Whether these are all reports of the period, made with the same parameters."""
        ...


@dataclass(frozen=True)
class CentralClaim:
    """What shuffled reports reveal, or why that is not stated.

    Attributes
    ----------
    privacy
        The claim; None where nothing is recorded that it could rest on.
    reason
        Where the number of reports comes from, or why there is no claim.
    """

    privacy: CentralPrivacy | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; without a claim, the reason alone."""
        return {**({} if self.privacy is None else self.privacy.to_json()), "reason": self.reason}

    def sentences(self) -> list[str]:
        """Return the claim, where its number comes from and what it rests on; or why there is none."""
        if self.privacy is None:
            return [f"central privacy: {self.reason}"]
        rests_on = (f"  rests on: {sentence}" for sentence in self.privacy.rests_on)
        return [f"central privacy: {self.privacy.words()}", f"  {self.reason}", *rests_on]

    def blocks(self) -> list[Block]:
        """Return the sentences as a block."""
        return [Lines(*self.sentences())]


@dataclass(frozen=True)
class ReleasedPeriods:
    """The smallest release of each period of a metric.

    Attributes
    ----------
    smallest
        By period with reports: messages in the smallest release; 0 where some reports came another way.
    grouped
        Whether reports name a group.
    delta
        The chance by which epsilon may be exceeded; None: 1e-9, or less where there are very many reports.
    honest
        The share of messages that come from honest devices.
    """

    smallest: Mapping[int, int] = field(default_factory=dict)
    grouped: bool = False
    delta: float | None = None
    honest: float = 1.0

    @classmethod
    def of(cls, periods: Iterable[int], released: Mapping[int, Released], *, grouped: bool) -> Self:
        """Return the smallest releases of periods with reports, from what a store has of them."""
        complete = {period: each.smallest for period, each in released.items() if each.complete}
        return cls({period: complete.get(period, 0) for period in periods}, grouped)

    def claim(self, mechanism: LocalRandomizer) -> CentralClaim:
        """Return what reports of this mechanism reveal, one in each of the periods.

        Raises
        ------
        ParameterError
            When delta or the share of honest messages is out of range.
        """
        sizes = self.smallest.values()
        without = sum(not size for size in sizes)
        if not sizes:
            return CentralClaim(None, NO_REPORTS)
        if self.grouped:
            return CentralClaim(None, GROUPED)
        if without:
            where = f"In {without} of {plural(len(sizes), 'period')}, reports did not all come in a recorded release. "
            return CentralClaim(None, where + ONE_BY_ONE)
        number = min(sizes)
        honest = math.floor(number * self.honest) if 0 < self.honest <= 1 else number
        if honest < 2:
            some = "" if honest == number else f", {honest} of them honest"
            return CentralClaim(None, f"The smallest release had {plural(number, 'message')}{some}: it hides nobody.")
        delta = min(DELTA, 1 / (10 * number)) if self.delta is None else self.delta
        privacy = shuffled(mechanism, number, delta, periods=len(sizes), honest=self.honest)
        several = "" if len(sizes) == 1 else f" of {len(sizes)} periods"
        return CentralClaim(
            privacy, f"the smallest release{several} had {number:,} messages, as the collector recorded"
        )
