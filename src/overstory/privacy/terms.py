"""Terms: the integers that a mechanism's privacy depends on, and every epsilon that follows from them.

Terms are what a ledger keeps of a mechanism, so they outlive it: they are frozen, have a canonical form, are read back
without the registry, and never change their meaning. A kind of mechanism names its class of terms
(`Kind.terms_place`); `terms_of` and `terms_from_json` are in `overstory.privacy.payloads.base`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

from overstory.privacy.histories import MAX_REPORTS, Worst, check_reports
from overstory.protocol.errors import ParameterError


class Terms(ABC):
    """What privacy depends on; a subclass is a frozen dataclass."""

    kind: ClassVar[str]  # the name that the canonical form begins with
    kinds: ClassVar[dict[str, type[Terms]]] = {}  # every class that is loaded, by that name
    once: ClassVar[bool] = False  # whether a device sends one report by these parameters, and then no other
    # After how many distinct values a further one costs nothing: the domain, the hash's range, the sampled bits.
    most_values: int | None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" in vars(cls):
            cls.kinds[cls.kind] = cls

    @property
    @abstractmethod
    def fresh(self) -> bool:
        """Whether nothing is memoized: all of a report's noise is drawn afresh (the window mechanisms, f = 0)."""

    @property
    @abstractmethod
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, rounded up."""

    @property
    def even_bits(self) -> tuple[int, tuple[int, int]] | None:
        """How many bits two values lower and raise, and P(1|1), P(1|0); None where no one pair is the worst."""
        return None

    @abstractmethod
    def change_leak(self, reports: int) -> float:
        """Exact epsilon of one change of value, or to nothing or from it, within `reports` reports, rounded up."""

    def canonical(self) -> dict[str, Any]:
        own = {part.name: _plain(getattr(self, part.name)) for part in fields(self)}  # type: ignore[arg-type] # a dataclass
        return {"kind": self.kind, **own}

    @abstractmethod
    def _few(self, reports: int) -> float:
        """Exact epsilon of up to `MAX_REPORTS` reports of one value."""

    def epsilon_n(self, reports: int) -> float:
        """Epsilon of `reports` reports of one value, rounded up; exact up to `MAX_REPORTS`, and never below."""
        if not isinstance(reports, int) or isinstance(reports, bool) or reports < 1:
            raise ParameterError(f"reports = {reports!r}: give a whole number, at least 1")
        if reports <= MAX_REPORTS:
            return _exact(self, reports)
        return add_up([(reports, _exact(self, 1))]) if self.fresh else self.epsilon_permanent

    def epsilon_any(self, reports: int) -> float:
        """Epsilon between any two histories of `reports` reports, changing or not, rounded up."""
        return self._any_two(reports).epsilon

    def epsilon_any_is_exact(self, reports: int) -> bool:
        """Whether `epsilon_any` is what the worst two histories of `reports` reports come to, and not a bound above."""
        return self._any_two(reports).exact

    def _any_two(self, reports: int) -> Worst:
        if self.fresh or reports == 1:
            return Worst(self.epsilon_n(reports), exact=True)
        self.epsilon_n(reports)  # says so when this is no number of reports
        return _worst(self, reports)

    def _worst(self, reports: int) -> Worst:  # noqa: ARG002 - a report is the permanent response
        """Epsilon between any two histories of `reports` reports, at least two, where responses are memoized."""
        return Worst(math.inf, exact=True)

    def epsilon_values(self, values: int, *, reports: int | None = None) -> float:
        """Epsilon of D distinct values against a history of the same pattern: D epsilon_permanent, rounded up."""
        distinct = min(n for n in (values, reports, self.most_values) if n is not None)
        if distinct < 1:
            within = "" if reports is None else f" in {reports} reports"
            raise ParameterError(f"{values} values{within}: give at least one")
        if self.fresh and reports is not None:
            return self.epsilon_any(reports)
        return add_up([(distinct, self.epsilon_permanent)])

    def epsilon_history(self, responses: Mapping[int, int]) -> float:
        """Epsilon, rounded up, against histories of the same pattern: `responses` says how many had so many reports."""
        costs = [(times, self.epsilon_n(reports)) for reports, times in responses.items()]
        # Never more than all values, and nothing, at their permanent epsilon: post-processing of these responses.
        most = self.most_values
        return min(add_up(costs), math.inf if most is None else add_up([(most + 1, self.epsilon_permanent)]))


class OneRoundTerms(Terms):
    """One memoized output: all reports of a value are the same, and another one proves a change."""

    @property
    def fresh(self) -> bool:
        return False

    def _few(self, reports: int) -> float:  # noqa: ARG002 - however often it is sent
        return self.epsilon_permanent

    def change_leak(self, reports: int) -> float:
        check_reports(reports, 2)
        return math.inf


def part_of(part: Any) -> Any:
    """Return terms, from their canonical form where that is given."""
    if not isinstance(part, Mapping):
        return part
    if part.get("kind") not in Terms.kinds:
        raise ParameterError(f"a part's terms are of a kind {', '.join(sorted(Terms.kinds))}, not {part.get('kind')!r}")
    return Terms.kinds[part["kind"]](**{name: _tuples(value) for name, value in part.items() if name != "kind"})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class AfreshTerms(Terms):
    """Reports of which each has noise of its own, whatever their mechanism memoizes elsewhere: a panel's answers."""

    kind: ClassVar[str] = "afresh"
    part: Terms

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", part_of(self.part))

    @property
    def fresh(self) -> bool:
        return True

    @property
    def most_values(self) -> int | None:  # type: ignore[override] # a field of others
        return self.part.most_values

    @property
    def epsilon_permanent(self) -> float:
        return math.inf

    def _few(self, reports: int) -> float:
        return add_up([(reports, self.part.epsilon_n(1))])

    def change_leak(self, reports: int) -> float:
        check_reports(reports, 2)
        return self._few(reports - 1)


def _plain(value: Any) -> Any:
    if isinstance(value, Terms):
        return value.canonical()
    return list(map(_plain, value)) if isinstance(value, tuple) else value


def add_up(epsilons: Iterable[tuple[int, float]]) -> float:
    """Return the sum of times * epsilon, exact and then rounded up: to infinity, where floats end."""
    exact = Fraction(0)
    for times, epsilon in epsilons:
        if math.isinf(epsilon):
            return epsilon
        exact += times * Fraction(epsilon)
    return float_above(exact)


def float_above(exact: Fraction) -> float:
    """Return the smallest float that is not below a number: infinity, where floats end."""
    try:
        near = float(exact)
    except OverflowError:
        return math.inf
    return near if Fraction(near) >= exact else math.nextafter(near, math.inf)


@lru_cache(maxsize=4096)
def _exact(terms: Terms, reports: int) -> float:
    return terms._few(reports)  # noqa: SLF001 - its own class's


@lru_cache(maxsize=4096)
def _worst(terms: Terms, reports: int) -> Worst:
    return terms._worst(reports)  # noqa: SLF001 - its own class's
