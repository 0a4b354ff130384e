"""What a report of one of several tables discloses: what that table's oracle does, and which table it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar

from overstory.privacy.payloads.base import Attack, Disclosure, bounded
from overstory.privacy.payloads.bits import BitDisclosure
from overstory.privacy.payloads.shared import Constant, Likeness, mixed
from overstory.privacy.payloads.single_round import NumberTerms, SetDisclosure
from overstory.privacy.payloads.symbols import SymbolDisclosure
from overstory.privacy.terms import Terms
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.divided import DividedMechanism

_KINDS: dict[str, type[Disclosure[Any]]] = {"bits": BitDisclosure, "symbols": SymbolDisclosure, "sets": SetDisclosure}


@dataclass(frozen=True)
class DividedDisclosure(Disclosure[DividedMechanism]):
    """The worst table's, for the table is chosen without looking at the value."""

    terms_type: ClassVar[type[Terms]] = NumberTerms

    @property
    def terms(self) -> Terms:
        """Those of the table of the largest epsilon; of equal ones, of that with the most cells."""
        worst = max(self.mechanism.parts, key=lambda part: (part.epsilon_report, part.domain_size or 0))
        return _KINDS[worst.payload](worst).terms

    @property
    def _parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(_KINDS[part.payload](part) for part in self.mechanism.parts)

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
