"""What linked reports disclose: two payloads of one device side by side, each as it would alone.

The parts draw independent noise, given the values. So log ratios add up, and whoever chooses both values freely makes
both parts the worst at once: every loss of one report, or of a pair that does not change, is the sum of the parts',
exactly. Of histories that change the sum is a bound, because nothing to report is nothing in both.

Each part has permanent responses of its own. That a pair changed shows which of its parts did.

*Divided tables*: a report is of one of several mechanisms, and discloses what that one does and which of them it is.
Which one a device uses follows from its secret, whatever its value: every epsilon is the largest of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

from overstory.privacy.histories.pairs import PRECISE, Worst
from overstory.privacy.payloads.base import Attack, Disclosure, Evidence, Success, bounded
from overstory.privacy.payloads.bits import BitDisclosure, BitTerms
from overstory.privacy.payloads.shared import Constant, Likeness, mixed
from overstory.privacy.payloads.single_round import NumberTerms, SetDisclosure
from overstory.privacy.payloads.symbols import SymbolDisclosure, SymbolTerms
from overstory.privacy.terms import Terms, add_up, float_above
from overstory.privacy.text import plural
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism, Report
from overstory.protocol.mechanisms.divided import DividedMechanism
from overstory.protocol.mechanisms.joint import PARTS, JointMechanism

KINDS: Final[Mapping[str, type[Any]]] = {"bits": BitTerms, "symbols": SymbolTerms}
"""The terms that a part can have, by the name that their canonical form begins with."""
PART_DISCLOSURES: Final[Mapping[str, type[Disclosure[Any]]]] = {"bits": BitDisclosure, "symbols": SymbolDisclosure}


@dataclass(frozen=True)
class LinkedTerms(Terms):
    """The terms of both parts.

    Attributes
    ----------
    parts
        Those of each part.
    most_values
        How many pairs there are; None where a part takes strings.
    """

    kind: ClassVar[str] = "linked"
    in_parts: ClassVar[bool] = True
    parts: tuple[Any, ...]
    most_values: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(read_part(part, KINDS) for part in self.parts))
        if len(self.parts) != PARTS:
            raise ParameterError(f"linked terms are of {PARTS} parts, not {len(self.parts)}")

    @property
    def fresh(self) -> bool:
        return all(part.fresh for part in self.parts)

    @property
    def epsilon_permanent(self) -> float:
        return add_up((1, part.epsilon_permanent) for part in self.parts)

    def _few(self, reports: int) -> float:
        return add_up((1, part.epsilon_n(reports)) for part in self.parts)

    def epsilon_n(self, reports: int) -> float:
        """Epsilon of `reports` reports of one pair: the sum of the parts', also where one of them is fresh."""
        super().epsilon_n(reports)  # says so when this is no number of reports
        return self._few(reports)

    def change_leak(self, reports: int) -> float:
        """Epsilon of one change of both parts at once, or to nothing or from it; one part alone costs its own."""
        return add_up((1, part.change_leak(reports)) for part in self.parts)

    def _worst(self, reports: int) -> Worst:
        return Worst(add_up((1, part.epsilon_any(reports)) for part in self.parts), exact=False)

    def epsilon_history(self, responses: Mapping[int, int]) -> float:
        """Epsilon of reports of pairs, rounded up: a bound, for pairs can share the response of one part."""
        reports = sum(times * number for times, number in responses.items())
        pairs = sum(responses.values())
        return add_up((1, _most_of_part(part, reports, pairs)) for part in self.parts)

    def canonical(self) -> dict[str, Any]:
        parts = [part.canonical() for part in self.parts]
        return {"kind": self.kind, "parts": parts, "most_values": self.most_values}


def _most_of_part(part: Terms, reports: int, pairs: int) -> float:
    """Return a bound on the epsilon of one part's reports, however they are spread over the values of so many pairs.

    With n_v reports of the value v (or of nothing), at most G of these and N reports in all, epsilon is the sum over v
    of epsilon_n(n_v). That is at most G epsilon_n(N), for epsilon_n never falls, and at most N times the largest
    epsilon_n(n) / n.
    """
    if part.fresh:
        return part.epsilon_any(reports)
    values = min(pairs, pairs if part.most_values is None else part.most_values + 1)  # and nothing
    most = add_up([(values, part.epsilon_n(reports))])
    return most if values == 1 else min(most, float_above(reports * _largest_rate(part, reports)))


@lru_cache(maxsize=1024)
def _largest_rate(part: Terms, reports: int) -> Fraction:
    """Return the largest epsilon_n(n) / n of up to so many reports of a value."""
    best, number = Fraction(part.epsilon_n(1)), 2
    # epsilon_n(n) / n is at most epsilon_permanent / n.
    while number <= reports and Fraction(part.epsilon_permanent) > best * number:
        best = max(best, Fraction(part.epsilon_n(number)) / number)
        number += 1
    return best


def read_part(part: Any, kinds: Mapping[str, type[Any]]) -> Any:
    """Return a part's terms, from their canonical form where that is given."""
    if not isinstance(part, Mapping):
        return part
    given = {name: _tuples(value) for name, value in part.items() if name != "kind"}
    if part.get("kind") not in kinds:
        raise ParameterError(f"a part's terms are of a kind {', '.join(kinds)}, not {part.get('kind')!r}")
    return kinds[part["kind"]](**given)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class LinkedDisclosure(Disclosure[JointMechanism]):
    """What two payloads side by side disclose."""

    terms_type: ClassVar[type[Terms]] = LinkedTerms

    @property
    def parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(PART_DISCLOSURES[part.payload](part) for part in self.mechanism.components)

    @property
    def terms(self) -> LinkedTerms:
        parts = tuple(part.terms for part in self.parts)
        sizes = [part.most_values for part in parts]
        return LinkedTerms(parts, None if None in sizes else math.prod(size for size in sizes if size is not None))

    def attack(self, candidates: int) -> Attack:
        mechanism = self.mechanism
        size = mechanism.domain_size or candidates
        bounds = bounded(size, mechanism.epsilon_report, mechanism.epsilon_permanent)
        if mechanism.domain_size is None:
            return bounds
        attacks = [part.attack(candidates) for part in self.parts]
        # Uniform pairs: both values are guessed independently of each other.
        successes = [
            Success(
                min(math.prod(getattr(each, when).guess for each in attacks), 1.0), getattr(bounds, when).true_positives
            )
            for when in ("report", "unchanged")
        ]
        return Attack(size, successes[0], successes[1], exact=False)

    @property
    def payload(self) -> Constant:
        return self._together([part.payload for part in self.parts])

    @property
    def repeats(self) -> bool:
        return all(part.repeats for part in self.parts)

    @property
    def unchanged(self) -> Constant:
        return self._together([part.unchanged for part in self.parts])

    def _together(self, parts: Sequence[Constant]) -> Constant:
        """Return independent draws together, but for the cohort, which both have."""
        both = sum(part.num_cohorts > 1 for part in self.mechanism.components) == PARTS
        twice = math.log(self.mechanism.num_cohorts) if both else 0.0
        first, second = parts
        return Constant(tuple((a + c - twice, b + d + twice) for a, b in first.groups for c, d in second.groups))

    @property
    def likeness(self) -> Likeness:
        """What both parts' fresh reports share: information of independent draws adds up."""
        return Likeness(together=tuple(part.likeness for part in self.parts))

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
        """Return the exact epsilon between two histories of pairs: the sum over the parts."""
        own, other = ([self.mechanism.split(value) for value in history] for history in (first, second))
        return add_up(
            (1, part.epsilon_between([x[i] for x in own], [y[i] for y in other], self._cohort(i, cohort)))
            for i, part in enumerate(self.parts)
        )

    def _cohort(self, place: int, cohort: int) -> int:
        part: Mechanism = self.mechanism.components[place]
        return self.mechanism.cohort_of(part, cohort)

    def evidence(self, reports: Sequence[Report]) -> Evidence:
        sides = []
        for place, part in enumerate(self.parts):
            own = [Report(self._cohort(place, r.cohort), self.mechanism.payloads(r.bits)[place]) for r in reports]
            sides.append(part.evidence(own))

        def evidence(value: Any) -> Any:
            pair = self.mechanism.split(value)
            with localcontext(PRECISE):
                return sides[0](pair[0]) + sides[1](pair[1])

        return evidence

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - of cells, and parts are shown
        payloads = self.mechanism.payloads(payload)
        each = (part.words(own) for part, own in zip(self.parts, payloads, strict=True))
        return ", and ".join(
            f"{name}: {words}" for name, words in zip(("first part", "second part"), each, strict=True)
        )

    def compared(self, before: int, after: int) -> str:
        pairs = zip(self.mechanism.payloads(before), self.mechanism.payloads(after), strict=True)
        changed = sum(a != b for a, b in pairs)
        return f"{plural(changed, 'part')} {'differs' if changed == 1 else 'differ'} from" if changed else "the same as"


DISCLOSURES: Final[dict[str, type[Disclosure[Any]]]] = {
    "bits": BitDisclosure,
    "symbols": SymbolDisclosure,
    "sets": SetDisclosure,
}
DIVIDED_KINDS: Final[Mapping[str, type[Any]]] = {**KINDS, "numbers": NumberTerms}
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
        object.__setattr__(self, "parts", tuple(read_part(part, DIVIDED_KINDS) for part in self.parts))
        if len(self.parts) < 2:
            raise ParameterError(f"terms of several mechanisms are of two or more, not {len(self.parts)}")

    @property
    def fresh(self) -> bool:
        return all(part.fresh for part in self.parts)

    @property
    def equal_bits_share(self) -> bool:
        return any(part.equal_bits_share for part in self.parts)

    @property
    def epsilon_permanent(self) -> float:
        return max(part.epsilon_permanent for part in self.parts)

    def _few(self, reports: int) -> float:
        return max(part.epsilon_n(reports) for part in self.parts)

    def change_leak(self, reports: int) -> float:
        return max(part.change_leak(reports) for part in self.parts)

    def _worst(self, reports: int) -> Worst:
        epsilons = [part.epsilon_any(reports) for part in self.parts]
        return Worst(max(epsilons), exact=all(part.epsilon_any_is_exact(reports) for part in self.parts))

    def canonical(self) -> dict[str, Any]:
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
        return terms_of_several(part.terms for part in self._parts)

    @property
    def _parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(DISCLOSURES[part.payload](part) for part in self.mechanism.parts)

    def attack(self, candidates: int) -> Attack:  # noqa: ARG002 - a domain says how many there are
        return bounded(self.mechanism.domain_size, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    @property
    def payload(self) -> Constant:
        return mixed((1 / self.mechanism.num_cohorts, part.unchanged) for part in self._parts)

    @property
    def likeness(self) -> Likeness:
        return Likeness(levels=tuple(part.likeness for part in self._parts))

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
        one, other = ([self.mechanism.cell(value, cohort) for value in history] for history in (first, second))
        return self._parts[cohort].epsilon_between(one, other, 0)

    def evidence(self, reports: Sequence[Report]) -> Callable[[Any], Decimal]:
        cohorts = {report.cohort for report in reports}
        if len(cohorts) != 1:
            raise ParameterError("reports of one device are of one table")
        (table,) = cohorts
        told = self._parts[table].evidence([Report(0, report.bits) for report in reports])
        return lambda value: told(self.mechanism.cell(value, table))
