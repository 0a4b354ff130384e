"""What the reports of a mechanism disclose: the questions that a kind of payload answers.

A kind of payload is one subclass of `Disclosure` and one line in `overstory.privacy.payloads.registry`. Nothing else
in this package, nor above it, asks what kind of payload a mechanism has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Generic, TypeVar

from overstory.privacy.caveats import Positions
from overstory.privacy.payloads.shared import NO_LIKENESS, Constant, Likeness
from overstory.privacy.payloads.success import Attack
from overstory.privacy.terms import Terms
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Report

M_co = TypeVar("M_co", bound=LocalRandomizer, covariant=True)
Evidence = Callable[[Any], Decimal]
"""From a value to the logarithm of its likelihood, up to a constant that is the same for all values."""


@dataclass(frozen=True)
class Disclosure(ABC, Generic[M_co]):
    """What the reports of one mechanism disclose."""

    terms_type: ClassVar[type[Terms]]  # what a ledger keeps of such a mechanism
    mechanism: M_co

    @property
    @abstractmethod
    def terms(self) -> Terms:
        """The integers that the mechanism's privacy depends on."""

    @abstractmethod
    def attack(self, candidates: int) -> Attack:
        """Return what the best attacker achieves, among so many values where no domain says how many there are."""

    @property
    @abstractmethod
    def payload(self) -> Constant:
        """The permanent response of a value with its cohort, as a distribution over devices."""

    @property
    def repeats(self) -> bool:
        """Whether all reports of an unchanged value have one payload."""
        return True

    @property
    def always(self) -> Constant:
        """What is the same in every report, whatever the value: the cohort, which is uniform."""
        cohorts = self.mechanism.num_cohorts
        return Constant.uniform(cohorts) if cohorts > 1 else Constant()

    @property
    def unchanged(self) -> Constant:
        """What is the same while the value does not change."""
        return self.payload if self.repeats else self.always

    @property
    def likeness(self) -> Likeness:
        """What reports share that are drawn afresh from one permanent response."""
        return NO_LIKENESS

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:  # noqa: ARG002 - of most kinds
        """Return the exact epsilon between two histories of values of one device, rounded up."""
        raise ParameterError(f"{self.mechanism.name}: how two histories differ is not computed for its reports")

    def evidence(self, reports: Sequence[Report]) -> Evidence:  # noqa: ARG002 - of most kinds
        """Return the function from a value to ln P(reports | value), up to one constant, for reports of one cohort."""
        raise ParameterError(f"{self.mechanism.name}: the likelihood of its reports is not computed")

    def on_map(self, positions: Positions) -> tuple[float, float]:  # noqa: ARG002 - of most kinds
        """Return epsilon of one report, and of any number of an unchanged value, between candidates of a fixed map."""
        raise ParameterError(f"{self.mechanism.name} has no candidate map: only Bloom filters have")

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - where a payload names no value
        """Return a payload in words; `labels` are the names of the values, one of which the payload may be."""
        return f"output {payload}"

    def compared(self, before: int, after: int) -> str:
        """Return how a payload differs from an earlier one, in words that the earlier one's name completes."""
        return "the same as" if before == after else "another than"
