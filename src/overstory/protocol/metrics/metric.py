"""A metric: what is asked of a device, why, how it is randomized, how often, and for how long."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from overstory.protocol.domains.domains import AnyDomain
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Mechanism, digest
from overstory.protocol.metrics.period import DAY, Period
from overstory.protocol.sampling import context

if TYPE_CHECKING:
    from overstory.protocol.metrics.groups import Groups
    from overstory.protocol.metrics.panel import Panel

OverCap = Literal["drop", "first", "nearest"]  # what a device does with a value past the cap on distinct values

SLACK: Final = 3600
"""Seconds for which a period that takes no reports is not final: one may wait for its commit, and clocks differ.

Batch ids are stored for as long, too.
"""

Publish = Literal["nothing", "estimates"]  # what of a metric's results everybody may read on the console's public page

ReportTransport = Literal["direct", "oblivious"]
"""How reports travel: to the collector, or encrypted through a relay, which alone sees the device's address."""


CAPS: Final = ("window", "max_values", "over_cap")  # what bounds how much the reports of one device say

FEWEST_TOGETHER: Final = 10
"""Past retention, no counts stay of fewer reports that have their period, group, and cohort or seed in common."""


@dataclass(frozen=True)
class Metric:
    """One entry of the registry; `overstory.protocol.metrics.registry` reads and checks it."""

    # its name, which never changes: other parameters that reveal more, or a change of meaning, need another one
    id: str
    title: str  # for people: what is collected, in a few words
    description: str  # for people: what is collected, in a sentence or two
    owner: str  # for people: who answers for it, a team or a person
    purpose: str  # for people: a link to why it is collected
    domain: AnyDomain  # from a value to a symbol or string
    mechanism: Kind  # from a symbol or string to a report
    period: Period  # a device reports at most once in each period
    # in how many reports' privacy the metric's page is stated; for window mechanisms, the window itself
    window: int | None
    max_values: int | None  # at most so many distinct values are ever reported by one device
    over_cap: OverCap  # what replaces further ones: the first one reported, the nearest, or nothing
    retention_days: int  # how long report rows are kept, then only counts that several reports share
    grace_days: int  # how many days after its period a report is still accepted: never longer than it is kept
    expires: dt.date  # the first day, in UTC, on which nothing is collected any more
    candidates: tuple[str, ...] | None = None  # the lines of the candidate file, where there is one and it was read
    # what it says about the person, as a short id that metrics share which say the same; None where none is given. It
    # changes no report, so no digest of reports has it
    attribute: str | None = None
    # whether everybody may read the estimates of a period that is final; it changes no report
    publish: Publish = "nothing"
    publish_least: int = 100  # how many reports a published period must have
    groups: Groups | None = None  # the public groups that reports name in clear; None where they name none
    # how its reports travel. Those of an "oblivious" metric never go to the collector directly
    transport: ReportTransport = "direct"
    panel: Panel | None = None  # how seldom a device is asked; None where every device reports in every period
    # why a year of its reports may reveal more than is usual; None where the registry states no reason
    yearly_reason: str | None = None

    @property
    def oracle(self) -> Mechanism:
        """The mechanism of a metric whose values are counted one by one: a frequency oracle.

        Raises
        ------
        ParameterError
            When it is none: a mean, for example, has no values to count.
        """
        if not self.mechanism.counts_values:
            raise ParameterError(f"{self.id} is collected by {self.mechanism.name}, which counts no single values")
        return cast("Mechanism", self.mechanism)

    @property
    def reading(self) -> str:
        """How its estimates are read: the name of a reading of `overstory.queries`."""
        return self.domain.reading or self.mechanism.reading

    def encode(self, value: Any) -> Any:
        """Return the symbol, or the string, that the mechanism takes for a value.

        Raises
        ------
        ParameterError
            When the value is outside the domain.
        """
        return self.domain.encode(value)

    @property
    def num_values(self) -> int | None:
        """How many values a device can tell apart: symbols, or positions of a number; None where nobody can say."""
        values = self.domain.num_values
        return self.mechanism.domain_size if values is None else values

    @property
    def nothing_is_spare(self) -> bool:
        """Whether reporting nothing has a place of its own besides `max_values`; else it takes one of these."""
        return self.over_cap == "drop"

    @property
    def max_responses(self) -> int | None:
        """The most permanent responses that one device ever reports, nothing included; None without a cap."""
        return None if self.max_values is None else self.max_values + self.nothing_is_spare

    @property
    def labels(self) -> tuple[str, ...]:
        """What is estimated: the names of the domain's symbols, or the candidates (none, unless they were read)."""
        return self.candidates or self.domain.labels

    def expired(self, unix_time: float) -> bool:
        """Whether nothing is collected any more at that time."""
        return unix_time >= self.expires_at

    @cached_property
    def expires_at(self) -> int:
        """The first second at which nothing is collected any more, in unix time."""
        return (self.expires - dt.date(1970, 1, 1)).days * DAY

    def accept_until(self, period_number: int) -> int:
        """Return the unix time from which reports of that period are refused."""
        return self.period.start(period_number + 1) + self.grace_days * DAY

    def final_from(self, period_number: int) -> int:
        """Return the unix time from which no report of that period can come, late and waiting ones included."""
        return self.accept_until(period_number) + SLACK

    def newest_final(self, now: float) -> int:
        """Return the newest period that is final at a unix time; of an ended metric, its last one."""
        return self.newest_over(now - self.grace_days * DAY)

    def newest_over(self, now: float) -> int:
        """Return the newest period that ended before the hour in which reports wait; of an ended metric, its last."""
        return min(self.period.number(now - SLACK) - 1, self.period.number(self.expires_at - 1))

    def canonical(self) -> dict[str, Any]:
        """Return all that a report's meaning or privacy depends on, as JSON values."""
        return {
            "metric": self.id,
            "mechanism": self.mechanism.canonical(),
            "domain": self.domain.canonical(),
            "period": str(self.period),
            **{key: getattr(self, key) for key in CAPS},
            **({} if self.groups is None else {"groups": self.groups.canonical()}),
            **({} if self.panel is None else {"panel": self.panel.canonical()}),
            **self._other_transport,
        }

    @cached_property
    def digest(self) -> bytes:
        """The 16-byte digest of the canonical form. Reports on the wire carry `mechanism.digest`."""
        return digest(self.canonical())

    @cached_property
    def account(self) -> bytes:
        """The 16-byte digest of what a permanent response stands for: the mechanism, and which value is which symbol.

        Under another account a device draws other responses; what a person is told adds up over accounts.
        """
        afresh = {} if self.panel is None else {"afresh": True}
        return digest({"mechanism": self.mechanism.digest.hex(), "domain": self.domain.numbering} | afresh)

    @property
    def fresh(self) -> bool:
        """Whether all noise of a report is drawn afresh, so that a device keeps no permanent response."""
        return self.panel is not None or self.mechanism.fresh

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value; without bound in a panel, whose answers share no noise."""
        return self.mechanism.epsilon_permanent if self.panel is None else math.inf

    @property
    def is_afresh(self) -> bool:
        """Whether no two reports share noise, so that those of one year tell the same whatever came before."""
        return self.fresh or self.once

    @property
    def once(self) -> bool:
        """Whether a device sends one report by these parameters, and then no other."""
        return self.panel is None and self.mechanism.once

    @cached_property
    def counts_digest(self) -> bytes:
        """The 16-byte digest of all that stored counts depend on: the mechanism, and labels where they are counted."""
        labels = None
        if self.mechanism.counted_by_value:  # more seeds or rows than can be counted apart
            labels = hashlib.blake2b(context(*self.labels), digest_size=16, person=b"labels").hexdigest()
        return digest({"mechanism": self.mechanism.digest.hex(), "labels": labels})

    def to_json(self) -> dict[str, Any]:
        """Return the public entry as JSON values: what a registry says, and the digests it amounts to."""
        return {
            **{key: getattr(self, key) for key in ("id", "title", "description", "owner", "purpose")},
            "domain": self.domain.to_json(),
            "oracle": self.mechanism.name,
            "parameters": _shown(self.mechanism.parameters),
            "period": str(self.period),
            **{key: getattr(self, key) for key in (*CAPS, "retention_days", "grace_days")},
            "expires": self.expires.isoformat(),
            "mechanism_digest": self.mechanism.digest.hex(),
            "digest": self.digest.hex(),
            # Only what a registry says.
            **({} if self.attribute is None else {"attribute": self.attribute}),
            **({} if self.yearly_reason is None else {"yearly_reason": self.yearly_reason}),
            **({} if self.publish == "nothing" else {"publish": self.publish, "publish_least": self.publish_least}),
            **({} if self.groups is None else {"groups": self.groups.to_json()}),
            **({} if self.panel is None else {"panel": self.panel.to_json()}),
            **self._other_transport,
        }

    @property
    def _other_transport(self) -> dict[str, str]:
        return {"transport": self.transport} if self.is_oblivious else {}

    @property
    def is_oblivious(self) -> bool:
        """Whether its reports go through a relay, encrypted for the collector."""
        return self.transport == "oblivious"


def _shown(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that are shown: numbers, texts, and those of parts; others are the domain's own."""
    plain = {name: value for name, value in parameters.items() if isinstance(value, str | int | float) and value != ""}
    parts = {
        name: [_shown(part) for part in value]
        for name, value in parameters.items()
        if isinstance(value, list) and all(isinstance(part, Mapping) for part in value)
    }
    return {name: value for both in (plain, parts) for name, value in both.items()}
