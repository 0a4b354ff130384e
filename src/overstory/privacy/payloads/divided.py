"""What a report of one of several mechanisms discloses: what that mechanism does, and which of them it is.

Which one a device uses follows from its secret, whatever its value: every epsilon is the largest of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Final

from overstory.privacy.histories.pairs import Worst
from overstory.privacy.payloads.base import Attack, Disclosure, bounded
from overstory.privacy.payloads.bits import BitDisclosure, BitTerms
from overstory.privacy.payloads.linked import read_part
from overstory.privacy.payloads.shared import Constant, Likeness, mixed
from overstory.privacy.payloads.single_round import NumberTerms, SetDisclosure
from overstory.privacy.payloads.symbols import SymbolDisclosure, SymbolTerms
from overstory.privacy.terms import Terms
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.divided import DividedMechanism

DISCLOSURES: Final[dict[str, type[Disclosure[Any]]]] = {
    "bits": BitDisclosure,
    "symbols": SymbolDisclosure,
    "sets": SetDisclosure,
}
KINDS: Final[Mapping[str, type[Any]]] = {"bits": BitTerms, "symbols": SymbolTerms, "numbers": NumberTerms}
"""The terms that a part can have, by the name that their canonical form begins with."""


@dataclass(frozen=True)
class SeveralTerms(Terms):
    """The terms of several mechanisms, of which a device uses one.

    Attributes
    ----------
    parts
        Those of each.
    most_values
        The largest of theirs; None where one has none.
    """

    kind: ClassVar[str] = "several"
    parts: tuple[Terms, ...]
    most_values: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(read_part(part, KINDS) for part in self.parts))
        if len(self.parts) < 2:
            raise ParameterError(f"terms of several mechanisms are of two or more, not {len(self.parts)}")

    @property
    def fresh(self) -> bool:
        """Whether none of them memoizes anything."""
        return all(part.fresh for part in self.parts)

    @property
    def equal_bits_share(self) -> bool:
        """Whether one of them takes values with the same true bits to have one permanent response."""
        return any(part.equal_bits_share for part in self.parts)

    @property
    def epsilon_permanent(self) -> float:
        """The largest of theirs."""
        return max(part.epsilon_permanent for part in self.parts)

    def _few(self, reports: int) -> float:
        return max(part.epsilon_n(reports) for part in self.parts)

    def change_leak(self, reports: int) -> float:
        """Epsilon of one change: the largest of theirs."""
        return max(part.change_leak(reports) for part in self.parts)

    def _worst(self, reports: int) -> Worst:
        epsilons = [part.epsilon_any(reports) for part in self.parts]
        return Worst(max(epsilons), exact=all(part.epsilon_any_is_exact(reports) for part in self.parts))

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        parts = [part.canonical() for part in self.parts]
        return {"kind": self.kind, "parts": parts, "most_values": self.most_values}


def terms_of_several(parts: Iterable[Terms]) -> Terms:
    """Return the terms of mechanisms of which a device uses one; those of one alone where no other ever costs more.

    Rounding makes epsilons of one declaration differ: the mechanism of the largest need not be that of the most values.
    """
    several = tuple(dict.fromkeys(parts))
    sizes = [part.most_values for part in several]
    most = None if None in sizes else max(size for size in sizes if size is not None)
    worst = max(several, key=lambda part: (part.epsilon_n(1), part.most_values == most))
    one_round = all(part.epsilon_n(1) == part.epsilon_permanent for part in several)
    if len(several) == 1 or (one_round and worst.most_values == most):
        return worst
    return SeveralTerms(several, most)


@dataclass(frozen=True)
class DividedDisclosure(Disclosure[DividedMechanism]):
    """The worst table's, for the table is chosen without looking at the value."""

    terms_type: ClassVar[type[Terms]] = SeveralTerms

    @property
    def terms(self) -> Terms:
        """Those of all tables."""
        return terms_of_several(part.terms for part in self._parts)

    @property
    def _parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(DISCLOSURES[part.payload](part) for part in self.mechanism.parts)

    def attack(self, candidates: int) -> Attack:  # noqa: ARG002 - a domain says how many there are
        """Return the bounds on every mechanism of this epsilon."""
        return bounded(self.mechanism.domain_size, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    @property
    def payload(self) -> Constant:
        """The table, and its own permanent response."""
        return mixed((1 / self.mechanism.num_cohorts, part.unchanged) for part in self._parts)

    @property
    def likeness(self) -> Likeness:
        """Those of the tables."""
        return Likeness(levels=tuple(part.likeness for part in self._parts))

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
        """Return that of the cohort's table between the cells of both histories."""
        one, other = ([self.mechanism.cell(value, cohort) for value in history] for history in (first, second))
        return self._parts[cohort].epsilon_between(one, other, 0)

    def evidence(self, reports: Sequence[Report]) -> Callable[[Any], Decimal]:
        """Return that of the reports' table, of the value's cell."""
        cohorts = {report.cohort for report in reports}
        if len(cohorts) != 1:
            raise ParameterError("reports of one device are of one table")
        (table,) = cohorts
        told = self._parts[table].evidence([Report(0, report.bits) for report in reports])
        return lambda value: told(self.mechanism.cell(value, table))
