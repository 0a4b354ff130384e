"""A plan: what given parameters reveal and what they let a collection learn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from overstory.planning.detection import (
    NINE_IN_TEN,
    critical_value,
    critical_value_fdr,
    detectable_frequency,
    detectable_frequency_fdr,
    learning_limit,
    reports_needed,
)
from overstory.planning.precision import count_error, fitted_candidates
from overstory.privacy import PrivacyStatement, statement
from overstory.privacy.claims import by_number
from overstory.protocol.encodings import OneHot
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism

EPSILON_REPORTS = (1, 2, 3, 5, 10, 20, 100)


@dataclass(frozen=True)
class AtShare:
    """A string of a given share: how well its count will be known, and how many reports would detect it."""

    frequency: float
    count: float
    standard_error: float
    detectable: bool
    reports_needed: int

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return dict(vars(self))


@dataclass(frozen=True)
class Comparison:
    """The paper's parameters (p = 1/2, q = 3/4, h = 2, the least f within both budgets) on the same collection."""

    parameters: Mapping[str, float]
    epsilon_report: float
    epsilon_permanent: float
    epsilon_n: Mapping[int, float]
    change_leak: Mapping[int, float]
    standard_error: float
    detectable_frequency: float
    standard_error_ratio: float
    reports_ratio: float
    higher_epsilon_n: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        plain = dict(vars(self))
        plain |= {"parameters": dict(self.parameters), "higher_epsilon_n": list(self.higher_epsilon_n)}
        return plain | {"epsilon_n": by_number(self.epsilon_n), "change_leak": by_number(self.change_leak)}


@dataclass(frozen=True)
class Plan:
    """What a collection would reveal and learn. Counts are in reports, frequencies are fractions.

    Attributes
    ----------
    mechanism
        Whose plan it is.
    num_reports, num_candidates, alpha
        The collection, one report a device, and the level of the tests.
    privacy
        Every epsilon with its assumption.
    standard_error
        Of the estimated count of a string that (nearly) nobody has.
    critical_value, detectable_frequency
        Q = Phi^-1(1 - alpha/M), Bonferroni's, and the share whose expected count is Q standard errors: such a string
        is detected half the time.
    reliable_frequency
        The share that is detected nine times in ten.
    critical_value_fdr, detectable_frequency_fdr
        The same for a false discovery rate of alpha, supposing that one candidate in ten is there.
    learnable_strings
        How many strings can be learned at most: as many, all of one share, as are still detected (RAPPOR, appendix).
    rule_of_thumb
        The paper's sqrt(N) / 10.
    num_fitted
        How many strings the counts have to tell apart.
    share
        A string of the share asked about.
    sufficient_epsilon_permanent
        Where the parameters were planned: the permanent budget that would have sufficed for this precision.
    basic_standard_error
        Where the parameters were planned: that of a bit per value (Basic RAPPOR) with the same channels, for a list of
        candidates that is complete.
    comparison
        Where the parameters were planned: the paper's within the same budgets.
    """

    mechanism: BitMechanism
    num_reports: int
    num_candidates: int
    alpha: float
    privacy: PrivacyStatement
    standard_error: float
    critical_value: float
    detectable_frequency: float
    reliable_frequency: float
    critical_value_fdr: float
    detectable_frequency_fdr: float
    learnable_strings: int
    rule_of_thumb: float
    num_fitted: int
    share: AtShare | None = None
    sufficient_epsilon_permanent: float | None = None
    basic_standard_error: float | None = None
    comparison: Comparison | None = None

    @property
    def epsilon_report(self) -> float:
        """Epsilon of one report."""
        return self.privacy.epsilon_report

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value."""
        return self.privacy.epsilon_permanent

    @property
    def epsilon_n(self) -> Mapping[int, float]:
        """Epsilon of n reports of one value, by n."""
        return self.privacy.epsilon_n

    @property
    def change_leak(self) -> Mapping[int, float]:
        """Epsilon of a change of value within n reports, by n."""
        return self.privacy.change_leak

    @property
    def detectable_count(self) -> float:
        """The smallest detectable count."""
        return self.detectable_frequency * self.num_reports

    @cached_property
    def parameters(self) -> Mapping[str, float]:
        """RAPPOR's letters: k, h, m, p, q, f."""
        return MappingProxyType(letters(self.mechanism))

    def standard_error_at(self, frequency: float) -> float:
        """Return the standard error of the count of a string of that frequency."""
        return count_error(self.mechanism, self.num_reports, frequency, self.num_fitted)

    def plain_words(self) -> str:
        """Say it to a person."""
        from overstory.planning.words import sentences

        return " ".join(sentences(self))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        privacy = self.privacy.to_json()
        shared = ("epsilon_report", "epsilon_permanent", "epsilon_n", "change_leak")
        return {
            "mechanism": self.mechanism.name,
            "parameters": dict(self.parameters),
            **{key: privacy[key] for key in shared},
            **{name: getattr(self, name) for name in _NUMBERS},
            "share": self.share and self.share.to_json(),
            "sufficient_epsilon_permanent": self.sufficient_epsilon_permanent,
            "basic_standard_error": self.basic_standard_error,
            "paper": self.comparison and self.comparison.to_json(),
            "claims": privacy["claims"],
            "plain_words": self.plain_words(),
        }


_NUMBERS = (
    "num_reports",
    "num_candidates",
    "alpha",
    "standard_error",
    "critical_value",
    "detectable_frequency",
    "detectable_count",
    "reliable_frequency",
    "critical_value_fdr",
    "detectable_frequency_fdr",
    "learnable_strings",
    "rule_of_thumb",
    "num_fitted",
)


def plan_from_parameters(
    mechanism: BitMechanism,
    num_reports: int,
    num_candidates: int,
    *,
    alpha: float = 0.05,
    share: float | None = None,
) -> Plan:
    """Return what a collection with these parameters reveals and learns.

    Parameters
    ----------
    mechanism
        The mechanism: any RAPPOR.
    num_reports
        N, one report a device.
    num_candidates
        M, how many strings are looked for.
    alpha
        Level of the tests.
    share
        A share to plan for: how well a string of it will be known, and how many reports would detect it.

    Raises
    ------
    ParameterError
        When a number is out of range.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> plan = plan_from_parameters(mechanism("rappor"), 10**6, 200, share=0.01)
    >>> round(plan.standard_error), round(plan.detectable_frequency, 4), plan.learnable_strings
    (2976, 0.0104, 96)
    >>> plan.share.reports_needed
    1073003
    """
    check_collection(num_reports, num_candidates)
    _check_domain(mechanism, num_candidates)
    quantile = critical_value(alpha, num_candidates)
    detectable = detectable_frequency(mechanism, num_reports, num_candidates, quantile)
    detectable_fdr = detectable_frequency_fdr(mechanism, num_reports, num_candidates, alpha)
    fitted = fitted_candidates(mechanism, num_candidates, detectable)
    error = count_error(mechanism, num_reports, 0.0, fitted)
    return Plan(
        mechanism=mechanism,
        num_reports=num_reports,
        num_candidates=num_candidates,
        alpha=alpha,
        privacy=statement(mechanism, reports=EPSILON_REPORTS),
        standard_error=error,
        critical_value=quantile,
        detectable_frequency=detectable,
        reliable_frequency=detectable + NINE_IN_TEN * error / num_reports,
        critical_value_fdr=critical_value_fdr(alpha, num_candidates, detectable_fdr),
        detectable_frequency_fdr=detectable_fdr,
        learnable_strings=min(num_candidates, int(learning_limit(mechanism, num_reports, num_candidates, alpha=alpha))),
        rule_of_thumb=math.sqrt(num_reports) / 10,
        num_fitted=fitted,
        share=None if share is None else _at_share(mechanism, num_reports, num_candidates, quantile, share, fitted),
    )


def _at_share(
    mechanism: BitMechanism, num_reports: int, num_candidates: int, quantile: float, share: float, fitted: int
) -> AtShare:
    needed = reports_needed(mechanism, num_candidates, share, quantile)
    error = count_error(mechanism, num_reports, share, fitted)
    return AtShare(share, share * num_reports, error, num_reports >= needed, needed)


def check_collection(num_reports: int, num_candidates: int) -> None:
    """Raise ParameterError unless there is something to collect and something to look for."""
    for name, number in (("reports", num_reports), ("candidates", num_candidates)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise ParameterError(f"{name} = {number!r}: give a whole number of at least 1")


def _check_domain(mechanism: BitMechanism, num_candidates: int) -> None:
    encoding = mechanism.encoding
    if isinstance(encoding, OneHot) and num_candidates > encoding.domain_size:
        raise ParameterError(f"{num_candidates} candidates do not fit a domain of {encoding.domain_size} values")


def letters(mechanism: BitMechanism) -> dict[str, float]:
    """Return a RAPPOR's parameters under the paper's letters; one round is p = 0, q = 1 beside f, or f = 0."""
    encoding, given = mechanism.encoding, mechanism.parameters
    sizes = {"k": encoding.num_bits, "h": getattr(encoding, "num_hashes", 1), "m": encoding.num_cohorts}
    absent = {"p": 0.0, "q": 1.0, "f": 0.0}
    chances = {letter: value if given.get(letter) is None else given[letter] for letter, value in absent.items()}
    return sizes | chances
