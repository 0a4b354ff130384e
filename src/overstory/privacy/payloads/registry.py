"""Which kind of payload discloses what: the one table, what is asked of any mechanism through it, and what has parts.

*Linked reports* are two payloads of one device side by side. The parts draw independent noise, given the values. So log
ratios add up, and whoever chooses both values freely makes both parts the worst at once: every loss of one report, or
of a pair that does not change, is the sum of the parts', exactly. Of histories that change the sum is a bound, because
nothing to report is nothing in both. Each part has permanent responses of its own. That a pair changed shows which of
its parts did.

*Divided tables, and levels of a tree*: a report is of one of several mechanisms, and discloses what that one does and
which of them it is. Which one a device uses follows from its secret, whatever its value: every epsilon is the largest
of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Final

from overstory.privacy.histories.pairs import PRECISE, Worst
from overstory.privacy.payloads.base import CANDIDATES, Attack, Disclosure, Evidence, Success, bounded
from overstory.privacy.payloads.bits import BitDisclosure
from overstory.privacy.payloads.shared import Constant, Likeness, mixed
from overstory.privacy.payloads.single_round import (
    ItemBitDisclosure,
    ItemDisclosure,
    NumberDisclosure,
    SearchDisclosure,
    SetDisclosure,
)
from overstory.privacy.payloads.symbols import SymbolDisclosure
from overstory.privacy.terms import Terms, add_up, float_above
from overstory.privacy.text import plural
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism, Report
from overstory.protocol.mechanisms.joint import PARTS, JointMechanism


@dataclass(frozen=True)
class LinkedTerms(Terms):
    """The terms of both parts."""

    kind: ClassVar[str] = "linked"
    in_parts: ClassVar[bool] = True
    parts: tuple[Any, ...]
    most_values: int | None  # how many pairs there are; None where a part takes strings

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(map(_part, self.parts)))
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


@dataclass(frozen=True)
class LinkedDisclosure(Disclosure[JointMechanism]):
    """What two payloads side by side disclose."""

    terms_type: ClassVar[type[Terms]] = LinkedTerms

    @property
    def parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(map(disclosure_of, self.mechanism.components))

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


@dataclass(frozen=True)
class SeveralTerms(Terms):
    """The terms of several mechanisms, of which a device uses one."""

    kind: ClassVar[str] = "several"
    parts: tuple[Terms, ...]
    most_values: int | None  # the largest of the parts'; None where one has none

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(map(_part, self.parts)))
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
    """Return the terms of mechanisms of which a device uses one; those of one alone where no other ever costs more."""
    several = tuple(dict.fromkeys(parts))
    sizes = [part.most_values for part in several]
    most = None if None in sizes else max(size for size in sizes if size is not None)
    worst = max(several, key=lambda part: (part.epsilon_n(1), part.most_values == most))
    one_round = all(part.epsilon_n(1) == part.epsilon_permanent for part in several)
    if len(several) == 1 or (one_round and worst.most_values == most):
        return worst
    return SeveralTerms(several, most)


@dataclass(frozen=True)
class SeveralDisclosure(Disclosure[Any]):
    """What a report of one level of a tree discloses: what that level's mechanism does, and the level."""

    terms_type: ClassVar[type[Terms]] = SeveralTerms

    @property
    def _parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(map(disclosure_of, self.mechanism.mechanisms))

    @property
    def terms(self) -> Terms:
        return terms_of_several(part.terms for part in self._parts)

    def attack(self, candidates: int) -> Attack:  # noqa: ARG002 - a domain says how many there are
        return bounded(self.mechanism.domain_size, self.mechanism.epsilon_report, self.mechanism.epsilon_permanent)

    @property
    def payload(self) -> Constant:
        return mixed((1 / self.mechanism.num_cohorts, part.unchanged) for part in self._parts)

    @property
    def likeness(self) -> Likeness:
        return Likeness(levels=tuple(part.likeness for part in self._parts))


@dataclass(frozen=True)
class DividedDisclosure(SeveralDisclosure):
    """The same of one table of several, which is chosen without looking at the value."""

    @property
    def _parts(self) -> tuple[Disclosure[Any], ...]:
        return tuple(map(disclosure_of, self.mechanism.parts))

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
        one, other = ([self.mechanism.cell(value, cohort) for value in history] for history in (first, second))
        return self._parts[cohort].epsilon_between(one, other, 0)

    def evidence(self, reports: Sequence[Report]) -> Evidence:
        cohorts = {report.cohort for report in reports}
        if len(cohorts) != 1:
            raise ParameterError("reports of one device are of one table")
        (table,) = cohorts
        told = self._parts[table].evidence([Report(0, report.bits) for report in reports])
        return lambda value: told(self.mechanism.cell(value, table))


DISCLOSURES: Final[dict[str, type[Disclosure[Any]]]] = {
    "bits": BitDisclosure,
    "symbols": SymbolDisclosure,
    "sets": SetDisclosure,
    "numbers": NumberDisclosure,
    "levels": SeveralDisclosure,
    "items": ItemDisclosure,
    "item-bits": ItemBitDisclosure,
    "search": SearchDisclosure,
    "divided": DividedDisclosure,
    "linked": LinkedDisclosure,
}
"""By `Mechanism.payload`."""
KINDS: Final = {disclosure.terms_type.kind: disclosure.terms_type for disclosure in DISCLOSURES.values()}
"""By the name that the canonical form of terms begins with."""


def disclosure_of(mechanism: LocalRandomizer) -> Disclosure[Any]:
    """Return what a mechanism's reports disclose."""
    disclosure = DISCLOSURES.get(getattr(mechanism, "payload", ""))
    if disclosure is None:
        raise ParameterError(f"nothing is known of the privacy of a {type(mechanism).__name__}")
    return disclosure(mechanism)


def terms_of(mechanism: LocalRandomizer) -> Terms:
    """Return the terms of a mechanism, or of what takes numbers (of a range tree: its worst level's).

    Parameters
    ----------
    mechanism
        A frequency oracle's mechanism, or a numeric randomizer.

    Raises
    ------
    ParameterError
        When its kind is unknown.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.symbols import grr
    >>> terms_of(grr(domain_size=4, epsilon=1.0))
    SymbolTerms(num_symbols=4, permanent=1290591209, instantaneous=4294967296, most_values=4)
    """
    return disclosure_of(mechanism).terms


def change_leak(mechanism: Mechanism, reports: int = 2) -> float:
    """Exact epsilon between `reports` reports of a and reports of a that become b on the way, rounded up.

    The worst over the time of the change and over the values, one of which may be nothing to report. It is infinite
    when every report is the permanent response itself (the one-time modes): two different reports then prove a change.

    Parameters
    ----------
    mechanism
        The mechanism whose reports an attacker links to one device.
    reports
        How many reports the device sends in all; at least 2.

    Raises
    ------
    ParameterError
        When there are fewer than two reports, or too many to look at every time of a change.

    Examples
    --------
    RAPPOR's own parameters, whose epsilon_permanent is 4.39:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> [round(change_leak(rappor, n), 2) for n in (2, 3, 4)]
    [8.61, 15.83, 25.18]
    """
    return terms_of(mechanism).change_leak(reports)


def epsilon_between(mechanism: Mechanism, first: Sequence[Any], second: Sequence[Any], *, cohort: int = 0) -> float:
    """Exact epsilon between two histories of values of one device, rounded up.

    Of values alone: that a device had nothing to report is no value here. `change_leak` and `Terms.epsilon_any` count
    that as well.

    Parameters
    ----------
    mechanism
        The mechanism that both histories are reported with.
    first, second
        The value of each report, in order.
    cohort
        The device's cohort, or its hash seed, from 0.

    Raises
    ------
    ParameterError
        When the histories differ in length or are too varied to enumerate, or a value is outside the domain.

    Examples
    --------
    Two reports of one value against two of another, and against a change, which is more visible:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> basic = mechanism("basic-rappor", domain_size=64)
    >>> round(epsilon_between(basic, [1, 1], [2, 2]), 3)
    1.009
    >>> round(epsilon_between(basic, [1, 1], [1, 2]), 3)
    4.305
    """
    return disclosure_of(mechanism).epsilon_between(first, second, cohort)


def attack(mechanism: LocalRandomizer, values: int | None = None) -> Attack:
    """Return what the best attacker achieves against a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism, or what takes numbers.
    values
        How many values are equally likely before; ignored where there is a domain. None: `CANDIDATES`.

    Raises
    ------
    ParameterError
        When `values` is not at least two.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> from overstory.privacy.payloads.base import percent
    >>> grr = attack(mechanism("grr", domain_size=4, epsilon=1.0))
    >>> percent(grr.prior), percent(grr.report.guess), percent(grr.report.true_positives)
    ('25.00%', '47.54%', '2.72%')
    """
    if values is not None and (not isinstance(values, int) or isinstance(values, bool) or values < 2):
        raise ParameterError(f"values = {values!r}: give a whole number, at least 2")
    return disclosure_of(mechanism).attack(values or CANDIDATES)


def terms_from_json(read: Mapping[str, Any]) -> Terms:
    """Return the terms that `canonical` wrote."""
    if not isinstance(read, Mapping) or read.get("kind") not in KINDS:
        raise FormatError(f"expected terms of a kind {', '.join(KINDS)}, found {read!r}", field="terms")
    kind = KINDS[read["kind"]]
    try:
        terms: Terms = _part(read)
        usable = terms.most_values is None or terms.most_values >= 1
        usable = usable and terms.epsilon_n(1) <= terms.epsilon_permanent and terms.change_leak(2) >= 0
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"these are no terms of {kind.kind}: {error}", field="terms") from error
    if not usable:
        raise FormatError(f"these are no terms of {kind.kind}: they promise nothing", field="terms")
    return terms


def _part(part: Any) -> Any:
    """Return terms, from their canonical form where that is given."""
    if not isinstance(part, Mapping):
        return part
    if part.get("kind") not in KINDS:
        raise ParameterError(f"a part's terms are of a kind {', '.join(KINDS)}, not {part.get('kind')!r}")
    return KINDS[part["kind"]](**{name: _tuples(value) for name, value in part.items() if name != "kind"})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
