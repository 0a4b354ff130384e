"""What an attacker can conclude: a value, whether a device is the same one, and how often he is right.

*Linkability*: whether reports can be recognized as one device's, by what is equal in all of them (`Constant`) and by
what is alike (`Likeness`). A group that is sent in clear is log2(1 / share) bits more.

*Posterior*: exact Bayes over candidate values, bounded by epsilon_report, epsilon_n and epsilon_permanent (the three
attackers of the RAPPOR paper, section 6). Reports in one cohort are taken to be of one device and one unchanged value:

    P(reports | value) = sum over permanent responses z of P1(z | value) prod_i P2(report_i | z)

For bits it is a product over bits, and a bit that was 1 in s of n reports has P1(1|b) P^s (1-P)^(n-s) + P1(0|b) Q^s
(1-Q)^(n-s), with P and Q the instantaneous P(1|1) and P(1|0).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final, TypeVar

from overstory.presentation.formats import share
from overstory.privacy.shared import NO_LIKENESS, Constant, Likeness, bits_text
from overstory.privacy.terms import PRECISE, terms_class
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Report, check_cohort

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

FEW_BITS: Final = 10.0  # up to 1,024 outcomes: of a million devices about a thousand share each

MONTH: Final = 30  # reports of each side, where many are set against many: a month of days


@dataclass(frozen=True)
class Linkability:
    """What makes a device's reports recognizable as one device's."""

    always: Constant  # what is the same in every report of every value: group, cohort, seed, level
    unchanged: Constant  # the same while the value does not change: with the payload, where its noise is drawn once
    likeness: Likeness = NO_LIKENESS  # what reports share that are drawn afresh from one permanent response
    group: tuple[str, float] | None = None  # the device's group and its share of all devices, where it is sent in clear

    @property
    def bits(self) -> float:
        return self.unchanged.bits

    def shared(self, reports: int = 1) -> float:
        """Bits that so many reports share with as many others of the same value: exact where `likeness.is_exact`."""
        return self.unchanged.shannon_bits + self.likeness.beyond(reports)

    @property
    def are_alike(self) -> bool:
        return self.likeness.beyond(MONTH) > 0

    @property
    def has_payload(self) -> bool:
        return self.unchanged != self.always

    def unchanged_words(self) -> str:
        """Say what is the same while the value does not change, and how many devices with the value share it."""
        return self.unchanged.words("devices with that value" if self.has_payload else "devices")

    def carried(self) -> str:
        """Say to a person what could put her reports together, though they carry no name."""
        # Of two reports, equal or alike: enough to tell a device from most others.
        if max(self.bits, self.likeness.beyond(1)) > FEW_BITS:
            return f"Reports carry no name, but they can be put together without one: {self.words()}."
        nameless = "Reports carry no name, and the collector keeps no address"
        return f"{nameless}; {self.words()}."

    def words(self) -> str:
        if not self.bits and not self.are_alike and self.group is None:
            return "nothing stays the same from report to report"
        sentences = []
        if self.always.bits or self.group is not None:
            sentences.append(f"the same in every report: {self.always.words()}")
        if self.has_payload:
            also = "with the payload, " if self.always.bits else ""
            sentences.append(
                f"{also}the same in every report while the value does not change: {self.unchanged_words()}"
            )
        if self.are_alike:
            sentences.append(self._alike_words())
        sentence = "; ".join(sentences)
        if self.group is None:
            return sentence
        name, part = self.group
        return f"in the group {name} ({share(part)} of all devices, whatever their value), {sentence}"

    def _alike_words(self) -> str:
        two, many = bits_text(self.shared(1)), bits_text(self.shared(MONTH))
        most = "" if self.likeness.is_exact(MONTH) else "at most "
        first = "with it, reports" if self.bits else "nothing is equal in every report, but reports"
        return (
            f"{first} of an unchanged value are alike: two share {two}, {MONTH} and {MONTH} share {most}{many}; "
            "to tell one device of a million takes 20"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "always": self.always.to_json(),
            "unchanged": self.unchanged.to_json(),
            "shared": {
                "two_reports": self.shared(1),
                "thirty_and_thirty": self.shared(MONTH),
                "thirty_is_exact": self.likeness.is_exact(MONTH),
            },
            "words": self.words(),
        }


def linkability(mechanism: Kind, group: tuple[str, float] | None = None) -> Linkability:
    """Return what stays the same in a device's reports; `group`: its name and share, where it is sent in clear."""
    kind, outcomes = terms_class(mechanism), 1.0 if group is None else 1 / group[1]
    equal = (kind.always(mechanism).times(outcomes), kind.unchanged(mechanism).times(outcomes))
    return Linkability(*equal, kind.likeness(mechanism), group)


def metric_linkability(metric: Metric, group: str | None = None) -> Linkability:
    """Return what stays the same in a device's reports of a metric: in its group, or in the rarest unless given."""
    named = None if metric.groups is None else metric.groups.with_share(group)
    if metric.panel is None:
        return linkability(metric.mechanism, named)
    places = Constant.uniform(metric.panel.periods(metric.period) ** metric.panel.answers)  # the same in every cycle
    always = places.times(1.0 if named is None else 1 / named[1])
    return Linkability(always, always, group=named)


V = TypeVar("V", bound=Hashable)


def posterior(mechanism: Kind, reports: Iterable[Report], prior: Mapping[V, float]) -> dict[V, float]:
    """Return P(value | reports), of one unchanged value, for every value of `prior` (of any positive scale)."""
    for value, weight in prior.items():
        if not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise ParameterError(f"prior of {value!r} is {weight!r}: give a number from 0")
    if not any(weight > 0 for weight in prior.values()):
        raise ParameterError("no candidate has a positive prior: give at least one")
    kind = terms_class(mechanism)
    evidence = [kind.evidence(mechanism, seen) for seen in _by_cohort(mechanism, reports)]
    with localcontext(PRECISE):
        losses = {value: sum((of_cohort(value) for of_cohort in evidence), Decimal(0)) for value in prior}
    # Bayes with the largest log likelihood taken out, so that no exponential underflows.
    best = max(loss for value, loss in losses.items() if prior[value] > 0)
    weights = {value: prior[value] * math.exp(loss - best) for value, loss in losses.items()}
    total = math.fsum(weights.values())
    return {value: weight / total for value, weight in weights.items()}


def _by_cohort(mechanism: Kind, reports: Iterable[Report]) -> list[list[Report]]:
    groups: dict[int, list[Report]] = {}
    for report in reports:
        check_cohort(report.cohort, mechanism.num_cohorts)
        if not 0 <= report.bits < 1 << mechanism.payload_bits:
            raise ParameterError(f"a {mechanism.name} report has {mechanism.payload_bits} bits, not {report.bits:#x}")
        groups.setdefault(report.cohort, []).append(report)
    return list(groups.values())
