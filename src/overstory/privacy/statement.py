"""The privacy statement of a mechanism: every epsilon, and in plain words what each one rests on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from overstory.privacy.changes import change_leak
from overstory.privacy.maps import Positions, map_differences
from overstory.privacy.words import sentences
from overstory.protocol.encodings import OneHot
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.probability import round_up, weighted_sum


@dataclass(frozen=True)
class Claim:
    """One epsilon, in nats and rounded up, with what it is about and what it rests on."""

    about: str
    epsilon: float
    assumption: str

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        return {"about": self.about, "epsilon": finite(self.epsilon), "assumption": self.assumption}


@dataclass(frozen=True)
class PrivacyStatement:
    """What a mechanism reveals, exactly; every number is in nats and rounded up.

    Attributes
    ----------
    mechanism, parameters
        What it is about.
    epsilon_report
        One report (RAPPOR's eps_1).
    epsilon_n
        n reports of one unchanged value, by n.
    epsilon_permanent
        Any number of reports of one unchanged value (RAPPOR's eps_infinity).
    change_leak
        n reports of one value against n reports in which it changed once, by n.
    domain_size
        How many values there are, where that is known.
    map_epsilon_report, map_epsilon_permanent
        The exact maximum over pairs of candidates of a fixed map, where one was given.
    """

    mechanism: str
    parameters: Mapping[str, Any]
    epsilon_report: float
    epsilon_n: Mapping[int, float]
    epsilon_permanent: float
    change_leak: Mapping[int, float]
    domain_size: int | None = None
    map_epsilon_report: float | None = None
    map_epsilon_permanent: float | None = None

    def epsilon_values(self, values: int, *, reports: int | None = None) -> float:
        """Epsilon of a history of `values` distinct values: D times epsilon_permanent, rounded up.

        D is at most the number of reports, where given, and the size of the domain. It holds only between histories
        with the same pattern of equal and different values: see `change_leak`.

        Raises
        ------
        ParameterError
            When there is no value or no report.
        """
        limits = [n for n in (values, reports, self.domain_size) if n is not None]
        if min(limits) < 1:
            raise ParameterError(f"{values} values in {reports} reports: give at least one of each")
        return round_up(weighted_sum([(min(limits), Decimal(self.epsilon_permanent))]))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every epsilon with its assumption."""
        found = [Claim("one report", self.epsilon_report, _REPORT)]
        several = {n: epsilon for n, epsilon in self.epsilon_n.items() if n > 1}
        found += [Claim(f"{n} reports of one unchanged value", epsilon, _MEMO) for n, epsilon in several.items()]
        found += [Claim("any number of reports of one unchanged value", self.epsilon_permanent, _PERMANENT)]
        found += [Claim("each further distinct value", self.epsilon_permanent, _VALUES)]
        found += [Claim(f"a change of value within {n} reports", e, _CHANGE) for n, e in self.change_leak.items()]
        if self.map_epsilon_report is not None:
            found += [Claim("one report, candidates of the map", self.map_epsilon_report, _MAP)]
        if self.map_epsilon_permanent is not None:
            found += [Claim("any number of reports, candidates of the map", self.map_epsilon_permanent, _MAP)]
        return tuple(found)

    def plain_words(self) -> str:
        """Say it to a person."""
        return sentences(
            report=self.epsilon_report,
            several=self.epsilon_n,
            permanent=self.epsilon_permanent,
            change=self.change_leak,
            on_map=self.map_epsilon_report,
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        return {
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "epsilon_report": finite(self.epsilon_report),
            "epsilon_permanent": finite(self.epsilon_permanent),
            "epsilon_n": by_number(self.epsilon_n),
            "change_leak": by_number(self.change_leak),
            "domain_size": self.domain_size,
            "map_epsilon_report": finite(self.map_epsilon_report),
            "map_epsilon_permanent": finite(self.map_epsilon_permanent),
            "claims": [claim.to_json() for claim in self.claims],
            "plain_words": self.plain_words(),
        }


def statement(
    mechanism: BitMechanism,
    *,
    reports: Iterable[int] = (1, 2, 3, 5, 10),
    change_reports: Iterable[int] = (2,),
    positions: Positions | None = None,
) -> PrivacyStatement:
    """Return the privacy statement of a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism.
    reports
        For which n to state `epsilon_n`.
    change_reports
        For which n to state the leak of a change.
    positions
        A fixed candidate map (bit positions by cohort, candidate and hash), to state its exact epsilons beside.

    Raises
    ------
    ParameterError
        When a number of reports is out of range or the map does not fit the mechanism.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> said = statement(rappor)
    >>> round(said.epsilon_report, 4), round(said.epsilon_permanent, 4), round(said.change_leak[2], 2)
    (1.0743, 4.3944, 8.61)
    >>> round(said.epsilon_values(3), 3)
    13.183
    """
    on_map = None if positions is None else map_differences(positions, mechanism.encoding)
    encoding, rounds = mechanism.encoding, mechanism.rounds
    return PrivacyStatement(
        mechanism=mechanism.name,
        parameters=MappingProxyType(dict(mechanism.parameters)),
        epsilon_report=mechanism.epsilon_report,
        epsilon_n=MappingProxyType({n: mechanism.epsilon_n(n) for n in reports}),
        epsilon_permanent=mechanism.epsilon_permanent,
        change_leak=MappingProxyType({n: change_leak(mechanism, n) for n in change_reports}),
        domain_size=encoding.domain_size if isinstance(encoding, OneHot) else None,
        map_epsilon_report=None if on_map is None else rounds.epsilon(on_map),
        map_epsilon_permanent=None if on_map is None else rounds.epsilon_permanent(on_map),
    )


def finite(epsilon: float | None) -> float | None:
    """Return `epsilon`, or None where there is no bound: JSON has no infinity."""
    return None if epsilon is None or math.isinf(epsilon) else epsilon


def by_number(epsilons: Mapping[int, float]) -> dict[str, float | None]:
    """Return the epsilons by n as a string, for JSON."""
    return {str(n): finite(epsilon) for n, epsilon in epsilons.items()}


_REPORT = (
    "The device draws both rounds as declared, its cohort was drawn without looking at the value, and nothing else "
    "about the report (its time, its sender) depends on the value."
)
_MEMO = (
    "All reports are of one unchanged value, from one memoized permanent response; only the instantaneous round is "
    "drawn afresh."
)
_PERMANENT = "All reports are of one unchanged value; even the permanent response itself may be seen."
_VALUES = (
    "D distinct values cost D times as much, D being at most the number of reports and the size of the domain; only "
    "between histories with the same pattern of equal and different values."
)
_CHANGE = (
    "The value changes once, at the worst moment, to the worst other value, whose permanent response is independent; "
    "not covered by the permanent epsilon, and it grows with every further report."
)
_MAP = "The value is a candidate of this map and the devices hash exactly as the map says."
