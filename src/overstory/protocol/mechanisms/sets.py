"""Mechanisms whose report is drawn from the value's own set of outputs: subset selection, projective geometry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

from overstory.protocol.channels import ONE, BinaryChannel, set_epsilon
from overstory.protocol.encodings.base import MAX_SYMBOLS, check_count, check_epsilon, check_symbol
from overstory.protocol.encodings.finite_fields import MAX_PRIME, is_field_size
from overstory.protocol.encodings.sets import Projective, SetSystem, Subsets
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.calibration import least_noise
from overstory.protocol.mechanisms.payloads import OutputMechanism
from overstory.protocol.sampling import Entropy


@dataclass(frozen=True)
class SetMechanism(OutputMechanism):
    """Draw the output from the value's set with probability `inside`, else from outside it; memoized."""

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: SetSystem
    inside: Fraction

    payload: ClassVar[str] = "sets"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:SetTerms"

    @property
    def payload_limit(self) -> int:
        return self.encoding.sizes[0] if self.encoding.subset_size is None else 1 << self.encoding.domain_size

    @property
    def payload_weight(self) -> int | None:
        """The subsets' size, where an output is the bits of its values."""
        return self.encoding.subset_size

    def chances(self, *, permanent: bool = False) -> tuple[Fraction, Fraction]:  # noqa: ARG002 - it is sent as it is
        outputs, own, _ = self.encoding.sizes
        return self.inside / own, (1 - self.inside) / (outputs - own)

    @property
    def channel(self) -> BinaryChannel:
        """P(the set holds the output | it is, it is not the value's own)."""
        return BinaryChannel(self.p_star, self.q_star)

    def supports(self, report: Report, value: Any) -> bool:
        return self.encoding.contains(report.bits, value)

    def held(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - one cohort
        return check_symbol(value, self.encoding.domain_size)

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - one cohort
        drawn = self.encoding.inside if entropy.bits(32) < self.inside * ONE else self.encoding.outside
        return drawn(held, entropy)

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - one cohort
        """Return a uniform output."""
        return self.encoding.anywhere(entropy)

    def canonical(self) -> dict[str, Any]:
        return {"name": self.name, "thresholds": [int(self.inside * ONE)], **self.encoding.canonical()}


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
    return min(mechanisms, key=lambda mechanism: mechanism.rare_variance)


def _inside(system: SetSystem, epsilon: float) -> Fraction:
    """Return the largest probability of the value's own set whose exact epsilon is not above `epsilon`."""
    outputs, own, _ = system.sizes
    even = (outputs - own) * ONE // outputs  # every output about equally likely: the most noise there is
    near = round(ONE / (1 + math.exp(min(epsilon, 700.0)) * (own / (outputs - own))))
    outside = least_noise(lambda t: set_epsilon(outputs, own, 1 - Fraction(t, ONE)), epsilon, 1, even, near=near)
    return 1 - Fraction(outside, ONE)
