"""Mechanisms whose report is drawn from the value's own set of outputs: subset selection, projective geometry."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from overstory.protocol.channels import ONE, BinaryChannel, log_ratio, round_up
from overstory.protocol.encodings.base import MAX_SYMBOLS, check_cohort, check_count, check_epsilon
from overstory.protocol.encodings.finite_fields import MAX_PRIME, is_field_size
from overstory.protocol.encodings.sets import Projective, SetSystem, Subsets
from overstory.protocol.mechanisms.base import Mechanism, Report
from overstory.protocol.mechanisms.calibration import least_noise
from overstory.protocol.sampling import Entropy, KeyedEntropy, check_secret, context


@dataclass(frozen=True)
class SetMechanism(Mechanism):
    """Draw the output from the value's set with probability `inside`, else from outside it; memoized."""

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: SetSystem
    inside: Fraction

    payload: ClassVar[str] = "sets"

    @property
    def payload_bits(self) -> int:
        return self.encoding.payload_bits

    @property
    def payload_limit(self) -> int:
        return self.encoding.sizes[0] if self.encoding.subset_size is None else 1 << self.payload_bits

    @property
    def payload_weight(self) -> int | None:
        """The subsets' size, where an output is the bits of its values."""
        return self.encoding.subset_size

    def encode(self, value: Any, cohort: int) -> None:
        """Return None: any output of the value's set speaks for it."""

    def likelihood(self, report: Report, value: Any) -> Fraction:
        """P(this output | value): all of a set are alike, and all others."""
        total, own, _ = self.encoding.sizes
        return self.inside / own if self.supports(report, value) else (1 - self.inside) / (total - own)

    @property
    def channel(self) -> BinaryChannel:
        """P(the set holds the output | it is, it is not the value's own)."""
        return BinaryChannel(self.p_star, self.q_star)

    @cached_property
    def p_star(self) -> Fraction:
        """P(the value's set holds the output)."""
        return self.inside

    @cached_property
    def q_star(self) -> Fraction:
        """P(another value's set holds it): c_int of the c_set inside, c_set - c_int of the K - c_set outside."""
        total, own, shared = self.encoding.sizes
        return self.inside * Fraction(shared, own) + (1 - self.inside) * Fraction(own - shared, total - own)

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        """See `Mechanism.permanent_support`: the output is sent as it is."""
        return float(self.p_star), float(self.q_star), 1

    def epsilon_n(self, reports: int) -> float:  # noqa: ARG002 - one memoized output, however often it is sent
        """Exact epsilon: an output inside the set against the same output outside another's, rounded up."""
        return set_epsilon(*self.encoding.sizes[:2], self.inside)

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value: all are the same."""
        return self.epsilon_report

    def supports(self, report: Report, value: Any) -> bool:
        return self.encoding.contains(report.bits, value)

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_cohort(cohort, self.num_cohorts)
        key, about = check_secret(secret), (metric, self.digest, cohort)

        def respond(value: Any) -> int:
            return self._draw(value, KeyedEntropy(key, context(*about, value), purpose=b"permanent"))

        return respond

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return a uniform output; see `Mechanism.nothing`."""
        check_cohort(cohort, self.num_cohorts)
        about = context(metric, self.digest, cohort, b"nothing")  # a value there is a number
        return self.encoding.anywhere(KeyedEntropy(check_secret(secret), about, purpose=b"permanent"))

    def draw_permanent(self, value: Any, cohort: int, entropy: Entropy) -> int:
        check_cohort(cohort, self.num_cohorts)
        return self._draw(value, entropy)

    def _draw(self, value: Any, entropy: Entropy) -> int:
        drawn = self.encoding.inside if entropy.bits(32) < self.inside * ONE else self.encoding.outside
        return drawn(value, entropy)

    def canonical(self) -> dict[str, Any]:
        return {"name": self.name, "thresholds": [int(self.inside * ONE)], **self.encoding.canonical()}


def set_epsilon(outputs: int, own: int, inside: Fraction) -> float:
    """Return ln((inside / c_set) / ((1 - inside) / (K - c_set))), rounded up; either way round."""
    within, without = Fraction(inside, own), Fraction(1 - inside, outputs - own)
    return round_up(log_ratio(max(within, without), min(within, without)))


def subset(*, domain_size: int, epsilon: float, subset_size: int | None = None) -> SetMechanism:
    """Subset selection (Ye and Barg 2018): a random subset of the domain, more likely with the value in it.

    Without `subset_size`, the one of least variance, near d / (e^eps + 1).

    References
    ----------
    Ye, Barg, "Optimal schemes for discrete distribution estimation under locally differential privacy", IEEE
    Transactions on Information Theory 2018.
    """
    parameters = dict(locals())
    check_epsilon("epsilon", epsilon)
    check_count("domain_size", domain_size, 2, MAX_SYMBOLS)
    near = int(domain_size / (math.exp(min(epsilon, 700.0)) + 1))
    sizes = [subset_size] if subset_size is not None else [w for w in (near, near + 1) if 1 <= w < domain_size]
    return _best("subset", parameters, [Subsets(domain_size, size) for size in sizes], epsilon)


def projective(*, domain_size: int, epsilon: float, field_size: int | None = None) -> SetMechanism:
    """Projective geometry response (Feldman, Nelson, Nguyen, Talwar 2022): a point of PG(t-1, q).

    Without `field_size`, the prime or prime power q of least variance among those near e^eps + 1 and those that waste
    fewest points.

    References
    ----------
    Feldman, Nelson, Nguyen, Talwar, "Private frequency estimation via projective geometry", ICML 2022.
    """
    parameters = dict(locals())
    near = min(math.exp(min(check_epsilon("epsilon", epsilon), 10.0)) + 1, MAX_PRIME / 2)
    check_count("domain_size", domain_size, 2, MAX_SYMBOLS)
    sizes = [field_size] if field_size is not None else sorted({*_around(near), *_thrifty(domain_size)})
    return _best("projective", parameters, [Projective(domain_size, size) for size in sizes], epsilon)


def _around(near: float) -> list[int]:
    """Return the fields' sizes on both sides of `near`."""
    below = next((n for n in range(int(near), 1, -1) if is_field_size(n)), 2)
    above = next(n for n in range(int(near) + 1, 2 * int(near) + 3) if is_field_size(n))
    return [below, above]


def _thrifty(domain_size: int) -> list[int]:
    """Return, for every dimension, the size of the least field whose space has a point for every value."""
    sizes: list[int] = []
    for dimension in range(2, domain_size.bit_length() + 2):
        least = max(2, math.floor(domain_size ** (1 / (dimension - 1))) - 1)
        fields = (size for size in range(least, MAX_PRIME) if is_field_size(size))
        fitting = (q for q in fields if (q**dimension - 1) // (q - 1) >= domain_size)
        sizes.extend(q for q in [next(fitting, None)] if q is not None)
    return sizes


def _best(name: str, parameters: dict[str, Any], systems: list[Any], epsilon: float) -> SetMechanism:
    """Return the mechanism of least variance at frequency 0."""
    mechanisms = [SetMechanism(name, parameters, system, _inside(system, epsilon)) for system in systems]
    return min(mechanisms, key=_variance)


def _variance(mechanism: SetMechanism) -> float:
    p_star, q_star = mechanism.p_star, mechanism.q_star
    return float(q_star * (1 - q_star) / (p_star - q_star) ** 2)


def _inside(system: SetSystem, epsilon: float) -> Fraction:
    """Return the largest probability of the value's own set whose exact epsilon is not above `epsilon`."""
    outputs, own, _ = system.sizes
    even = (outputs - own) * ONE // outputs  # every output about equally likely: the most noise there is
    near = round(ONE / (1 + math.exp(min(epsilon, 700.0)) * (own / (outputs - own))))
    outside = least_noise(lambda t: set_epsilon(outputs, own, 1 - Fraction(t, ONE)), epsilon, 1, even, near=near)
    return 1 - Fraction(outside, ONE)
