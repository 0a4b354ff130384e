"""Set systems: every value owns a set of outputs, all of one size, any two meeting in one number of outputs.

A report is an output, drawn from the value's own set with one probability and from outside it with the rest. That is
all there is to subset selection and to projective geometry response, and (K, c_set, c_int) is all their privacy and
accuracy depend on (Ye and Barg 2018; Feldman, Nelson, Nguyen, Talwar 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.protocol.channels import ONE, set_epsilon
from overstory.protocol.kinds.base import (
    MAX_SYMBOLS,
    OutputEncoding,
    Report,
    check_count,
    check_epsilon,
    check_symbol,
)
from overstory.protocol.kinds.bits import OneHot
from overstory.protocol.kinds.calibration import least_noise
from overstory.protocol.kinds.finite_fields import MAX_PRIME, Field, digits_of, field_of, is_field_size
from overstory.protocol.kinds.symbols import OutputMechanism
from overstory.protocol.sampling import Entropy, uniform_below


class SetSystem(OutputEncoding):
    """Sets S(v) of outputs with |S(v)| = c_set and |S(v) n S(w)| = c_int for v != w, out of K outputs."""

    num_cohorts: ClassVar[int] = 1

    if TYPE_CHECKING:

        @property
        def domain_size(self) -> int: ...

        @property
        def subset_size(self) -> int | None:
            """How many bits of an output are 1, where it is the bits of its values; None where it is a number."""

        def inside(self, value: Any, entropy: Entropy) -> int:
            """Return an output drawn uniformly from the value's set."""

        def outside(self, value: Any, entropy: Entropy) -> int:
            """Return an output drawn uniformly from the others."""

        def anywhere(self, entropy: Entropy) -> int:
            """Return an output drawn uniformly from all of them."""

        def contains(self, output: int, value: Any) -> bool:
            """Whether the value's set holds the output."""


@dataclass(frozen=True)
class Subsets(SetSystem):
    """Outputs are the subsets of `subset_size` values, as indicator bits; a value owns those that it is in."""

    domain_size: int
    subset_size: int

    form: ClassVar[tuple[str, str]] = ("sets", "subsets")
    server: ClassVar[str] = "analysis.kinds.symbols:SubsetSupport"
    guessed_exactly: ClassVar[bool] = True

    def __post_init__(self) -> None:
        OneHot(self.domain_size)
        check_count("subset_size", self.subset_size, 1, self.domain_size - 1)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(C(d, w), C(d-1, w-1), C(d-2, w-2))."""
        d, w = self.domain_size, self.subset_size
        return math.comb(d, w), math.comb(d - 1, w - 1), math.comb(d - 2, w - 2) if w > 1 else 0

    @property
    def holders(self) -> tuple[int, int]:
        return self.domain_size, self.subset_size

    def inside(self, value: Any, entropy: Entropy) -> int:
        symbol = self._symbol(value)
        return 1 << symbol | self._others(symbol, self.subset_size - 1, entropy)

    def outside(self, value: Any, entropy: Entropy) -> int:
        return self._others(self._symbol(value), self.subset_size, entropy)

    def anywhere(self, entropy: Entropy) -> int:
        return sum(1 << other for other in _chosen(self.subset_size, self.domain_size, entropy))

    def contains(self, output: int, value: Any) -> bool:
        return bool(output >> self._symbol(value) & 1)

    def _symbol(self, value: Any) -> int:
        return check_symbol(value, self.domain_size)

    def _others(self, symbol: int, count: int, entropy: Entropy) -> int:
        last = self.domain_size - 1
        return sum(1 << (last if other == symbol else other) for other in _chosen(count, last, entropy))


def _chosen(count: int, size: int, entropy: Entropy) -> set[int]:
    """Draw `count` different numbers below `size` (Floyd)."""
    chosen: set[int] = set()
    for last in range(size - count, size):
        drawn = uniform_below(last + 1, entropy)
        chosen.add(last if drawn in chosen else drawn)
    return chosen


@dataclass(frozen=True)
class Projective(SetSystem):
    """Outputs and values are the points of the projective space PG(t-1, q); a value owns the points orthogonal to it.

    Point number i, with ``(q^j - 1)/(q - 1) <= i < (q^(j+1) - 1)/(q - 1)``, has the coordinates 0, ..., 0, 1 and then
    the j digits of the rest in base q: the first coordinate that is not 0 is 1.
    """

    domain_size: int
    field_size: int  # q, a prime, or a power of one up to 2**10 (`finite_fields` numbers its elements)

    form: ClassVar[tuple[str, str]] = ("sets", "projective")
    subset_size: ClassVar[None] = None
    server: ClassVar[str] = "analysis.kinds.symbols:PointSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_SYMBOLS)
        check_count("field_size", self.field_size, 2, MAX_PRIME)
        field_of(self.field_size)

    @property
    def field(self) -> Field:
        return field_of(self.field_size)

    @cached_property
    def dimension(self) -> int:
        """t: the least with a point for every value. With t = 2 a value owns one point, which is GRR."""
        dimension = 2
        while self._points(dimension) < self.domain_size:
            dimension += 1
        return dimension

    def _points(self, dimension: int) -> int:
        points: int = (self.field_size**dimension - 1) // (self.field_size - 1)
        return points

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self._points(self.dimension), self._points(self.dimension - 1), self._points(self.dimension - 2)

    @property
    def holders(self) -> tuple[int, int]:
        return self.sizes[:2]

    def coordinates(self, point: int) -> tuple[int, ...]:
        tail = 0
        while self._points(tail + 1) <= point:
            tail += 1
        digits = digits_of(point - self._points(tail), self.field_size, tail)
        return (0,) * (self.dimension - 1 - tail) + (1,) + digits[::-1]

    def number(self, vector: list[int]) -> int:
        first = next(i for i, coordinate in enumerate(vector) if coordinate)
        inverse, rest = self.field.inverse(vector[first]), 0
        for coordinate in vector[first + 1 :]:
            rest = rest * self.field_size + self.field.times(coordinate, inverse)
        return self._points(self.dimension - 1 - first) + rest

    def inside(self, value: Any, entropy: Entropy) -> int:
        while not any(vector := self._vector(value, 0, entropy)):
            pass
        return self.number(vector)

    def outside(self, value: Any, entropy: Entropy) -> int:
        return self.number(self._vector(value, 1 + uniform_below(self.field_size - 1, entropy), entropy))

    def anywhere(self, entropy: Entropy) -> int:
        return uniform_below(self.sizes[0], entropy)

    def _vector(self, value: Any, product: int, entropy: Entropy) -> list[int]:
        """Draw a vector uniformly among those whose inner product with the value's point is `product`."""
        normal = self.coordinates(check_symbol(value, self.domain_size))
        pivot = normal.index(1)
        vector = [uniform_below(self.field_size, entropy) for _ in normal]
        vector[pivot] = 0
        vector[pivot] = self.field.minus(product, self.field.inner(normal, vector))
        return vector

    def contains(self, output: int, value: Any) -> bool:
        normal = self.coordinates(check_symbol(value, self.domain_size))
        return self.field.inner(normal, self.coordinates(output)) == 0

    def canonical(self) -> dict[str, Any]:
        return super().canonical() | self.field.canonical()


@dataclass(frozen=True)
class SetMechanism(OutputMechanism):
    """Draw the output from the value's set with probability `inside`, else from outside it; memoized."""

    encoding: SetSystem
    inside: Fraction

    payload: ClassVar[str] = "sets"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:SetTerms"

    @property
    def payload_limit(self) -> int:
        return self.encoding.sizes[0] if self.encoding.subset_size is None else 1 << self.encoding.domain_size

    @property
    def payload_weight(self) -> int | None:
        return self.encoding.subset_size

    def chances(self, *, permanent: bool = False) -> tuple[Fraction, Fraction]:  # noqa: ARG002 - it is sent as it is
        outputs, own, _ = self.encoding.sizes
        return self.inside / own, (1 - self.inside) / (outputs - own)

    def supports(self, report: Report, value: Any) -> bool:
        return self.encoding.contains(report.bits, value)

    def held(self, value: Any, cohort: int) -> int:  # noqa: ARG002 - one cohort
        return check_symbol(value, self.encoding.domain_size)

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - one cohort
        drawn = self.encoding.inside if entropy.bits(32) < self.inside * ONE else self.encoding.outside
        return drawn(held, entropy)

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - one cohort
        return self.encoding.anywhere(entropy)

    def canonical(self) -> dict[str, Any]:
        return {"name": self.name, "thresholds": [int(self.inside * ONE)], **self.encoding.canonical()}


def subset(*, domain_size: int, epsilon: float, subset_size: int | None = None) -> SetMechanism:
    """Subset selection (Ye and Barg 2018): a random subset of the domain, more likely with the value in it.

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

    Feldman, Nelson, Nguyen, Talwar, "Private frequency estimation via projective geometry", ICML 2022.
    """
    parameters = dict(locals())
    near = min(math.exp(min(check_epsilon("epsilon", epsilon), 10.0)) + 1, MAX_PRIME / 2)
    check_count("domain_size", domain_size, 2, MAX_SYMBOLS)
    sizes = [field_size] if field_size is not None else sorted({*_around(near), *_thrifty(domain_size)})
    return _best("projective", parameters, [Projective(domain_size, size) for size in sizes], epsilon)


def _around(near: float) -> list[int]:
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
    mechanisms = [SetMechanism(name, parameters, system, _inside(system, epsilon)) for system in systems]
    return min(mechanisms, key=lambda mechanism: mechanism.rare_variance)


def _inside(system: SetSystem, epsilon: float) -> Fraction:
    """Return the largest probability of the value's own set whose exact epsilon is not above `epsilon`."""
    outputs, own, _ = system.sizes
    even = (outputs - own) * ONE // outputs  # every output about equally likely: the most noise there is
    near = round(ONE / (1 + math.exp(min(epsilon, 700.0)) * (own / (outputs - own))))
    outside = least_noise(lambda t: set_epsilon(outputs, own, 1 - Fraction(t, ONE)), epsilon, 1, even, near=near)
    return 1 - Fraction(outside, ONE)
