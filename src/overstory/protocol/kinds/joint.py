"""Linked reports: one report about two variables, each randomized by an oracle of its own.

The payload is the two payloads side by side; both parts share one cohort, and draw independent noise. A pair of values
can be the worst for both at once: so every epsilon is the sum of the parts', exactly.

Erlingsson, Pihur, Korolova (CCS 2014, section 9); Fanti, Pihur, Erlingsson (PoPETs 2016). docs/explanation/tables.md
compares them with one report of the cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, Final

from overstory.protocol.channels import round_up, weighted_sum
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_BITS, Kind, Mechanism, Report, check_cohort, check_symbol, whole_number
from overstory.protocol.kinds.hashing import OverstoryV1
from overstory.protocol.kinds.registry import REGISTRY, mechanism, parameters_of
from overstory.protocol.sampling import Draw, Entropy, check_secret, context

PARTS: Final = 2  # how many variables a linked report has: pairs are what is counted
HASH_FAMILY: Final = OverstoryV1.name  # the hash that takes a key


@dataclass(frozen=True)
class JointMechanism(Kind):
    """Two oracles side by side: direct encoding (GRR), unary encodings, basic RAPPOR, Bloom RAPPOR."""

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    components: tuple[Mechanism, ...]

    payload: ClassVar[str] = "linked"
    terms_place: ClassVar[str] = "privacy.payloads.combined:LinkedTerms"
    reading: ClassVar[str] = "table"
    server: ClassVar[str] = "analysis.kinds.linked:LinkedSupport"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        object.__setattr__(self, "components", tuple(self.components))
        if len(self.components) != PARTS:
            raise ParameterError(f"{self.name} links {PARTS} oracles, not {len(self.components)}")
        for part in self.components:
            if not part.encoding.pairable:
                raise ParameterError(
                    f"{self.name} cannot link {part.name}: choose direct encoding (grr, l-grr), a unary encoding, "
                    "basic-rappor or rappor"
                )
        cohorts = sorted({part.num_cohorts for part in self.components} - {1})
        if len(cohorts) > 1:
            raise ParameterError(
                f"num_cohorts = {cohorts[0]} and {cohorts[1]}: linked filters share one cohort; give both the same"
            )
        if self.payload_bits > MAX_BITS:
            raise ParameterError(f"{self.payload_bits} bits together: a report has at most {MAX_BITS}")

    @cached_property
    def low(self) -> int:
        """Which part is counted in units: one that fills all its bits, where there is one, so that no bits are idle."""
        return next((place for place, part in enumerate(self.components) if part.payload_limit.bit_count() == 1), 0)

    @cached_property
    def payload_limit(self) -> int:
        return math.prod(part.payload_limit for part in self.components)

    @property
    def num_cohorts(self) -> int:
        return max(part.num_cohorts for part in self.components)

    @property
    def domain_sizes(self) -> tuple[int | None, ...]:
        return tuple(part.domain_size for part in self.components)

    @property
    def domain_size(self) -> int | None:
        first, second = self.domain_sizes
        return None if first is None or second is None else first * second

    @property
    def fresh(self) -> bool:
        return all(part.fresh for part in self.components)

    @property
    def repeats(self) -> bool:
        return all(part.repeats for part in self.components)

    def epsilon_n(self, reports: int) -> float:
        return _together(part.epsilon_n(reports) for part in self.components)

    @cached_property
    def epsilon_permanent(self) -> float:
        return _together(part.epsilon_permanent for part in self.components)

    def split(self, value: Any) -> tuple[Any, ...]:
        """Return what each part takes of a value: a pair, or a cell's number; ParameterError where it is neither."""
        if isinstance(value, tuple | list) and len(value) == PARTS:
            return tuple(map(whole_number, value))
        if self.domain_size is None:
            raise ParameterError(f"{self.name} takes a pair of values, not {value!r:.60}")
        size = self.components[1].domain_size
        assert size is not None
        return divmod(check_symbol(value, self.domain_size), size)

    def payloads(self, payload: int) -> tuple[int, ...]:
        high, low = divmod(payload, self.components[self.low].payload_limit)
        return (high, low) if self.low else (low, high)

    def _side_by_side(self, payloads: Sequence[int]) -> int:
        low, high = payloads[self.low], payloads[1 - self.low]
        return low + self.components[self.low].payload_limit * high

    def cohort_of(self, part: Mechanism, cohort: int) -> int:
        """Return the shared cohort as a part sees it: one that has no cohorts is always in its only one."""
        return cohort if part.num_cohorts > 1 else 0

    def _each(self, cohort: int) -> list[tuple[int, Mechanism, int]]:
        check_cohort(cohort, self.num_cohorts)
        return [(place, part, self.cohort_of(part, cohort)) for place, part in enumerate(self.components)]

    def encode(self, value: Any, cohort: int) -> int | None:
        pair = self.split(value)
        encoded = [part.encode(pair[place], own) for place, part, own in self._each(cohort)]
        return self._side_by_side([each for each in encoded if each is not None])

    def likelihood(self, report: Report, value: Any) -> Fraction:
        pair, payloads, likelihood = self.split(value), self.payloads(report.bits), Fraction(1)
        for place, part, own in self._each(report.cohort):
            likelihood *= part.likelihood(Report(own, payloads[place]), pair[place])
        return likelihood

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_secret(secret)
        first, second = (part.responder(secret, part_name(metric, i), own) for i, part, own in self._each(cohort))

        def respond(value: Any) -> int:
            x, y = self.split(value)
            return self._side_by_side((first(x), second(y)))

        return respond

    def response_key(self, value: Any, cohort: int) -> Hashable:
        pair = self.split(value)
        keys: Any = [part.response_key(pair[i], own) for i, part, own in self._each(cohort)]
        return context(*keys)

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        return self._side_by_side(
            [part.nothing(secret, part_name(metric, i), own) for i, part, own in self._each(cohort)]
        )

    @cached_property
    def instantaneous(self) -> Draw:
        first, second = (part.instantaneous for part in self.components)

        def draw(permanent: int, random_bits: Callable[[int], int]) -> int:
            x, y = self.payloads(permanent)
            return self._side_by_side((first(x, random_bits), second(y, random_bits)))

        return draw

    def held(self, value: Any, cohort: int) -> list[Any]:
        pair = self.split(value)
        return [part.held(pair[i], own) for i, part, own in self._each(cohort)]

    def draw(self, held: list[Any], cohort: int, entropy: Entropy) -> int:
        return self._side_by_side([part.draw(held[i], own, entropy) for i, part, own in self._each(cohort)])

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - of cells, not of parts
        first, second = (
            part.payload_words(own) for part, own in zip(self.components, self.payloads(payload), strict=True)
        )
        return f"first part: {first}, and second part: {second}"

    def canonical(self) -> dict[str, Any]:
        return {"name": self.name, "components": [part.canonical() for part in self.components]}


def part_name(metric: str, place: int) -> str:
    """Return the name that a part's noise is derived under; a metric's id has no brackets, so none is called so."""
    return f"{metric}[{place}]"


def joint(
    *, of: Sequence[Mapping[str, Any]], domain_sizes: Sequence[int | None] | None = None, hash_key: str = ""
) -> JointMechanism:
    """Two oracles in one report, linked: ``of = [{oracle = "grr", epsilon = 1.0, ...}, ...]``."""
    given: Any = of
    if not isinstance(given, list | tuple) or not all(isinstance(each, Mapping) for each in given):
        raise ParameterError(f"of = {of!r:.80}: give an oracle with its parameters for each variable")
    sizes = [None] * PARTS if domain_sizes is None else list(domain_sizes)
    if len(of) != PARTS or len(sizes) != PARTS:
        raise ParameterError(f"joint links {PARTS} variables: give {PARTS} oracles, not {len(of)}")
    named = [
        _completed(place, dict(each), sizes[place], hash_key, of_domain=domain_sizes is not None)
        for place, each in enumerate(of)
    ]
    parts = tuple(_built(place, dict(each)) for place, each in enumerate(named))
    completed = [{"oracle": part.name, **part.parameters} for part in parts]
    return JointMechanism("joint", {"of": completed}, parts)


def _completed(
    place: int, given: dict[str, Any], size: int | None, hash_key: str, *, of_domain: bool
) -> dict[str, Any]:
    """Return a part's parameters with what follows from the domain and the metric."""
    build = REGISTRY.get(str(given.get("oracle")))
    accepted = {} if build is None else parameters_of(build)  # whoever builds it says that there is none
    sized = accepted.get("domain_size")
    if of_domain and size is None and sized is not None and (sized.default is sized.empty or "domain_size" in given):
        raise ParameterError(f"of[{place}]: {given['oracle']} takes symbols, and this variable is strings: use rappor")
    if of_domain and size is not None and build is not None and sized is None:
        raise ParameterError(
            f"of[{place}]: {given['oracle']} takes strings, and this variable has {size} values: use an oracle of "
            "symbols, such as grr"
        )
    if size is not None and given.setdefault("domain_size", size) != size:
        raise ParameterError(f"of[{place}]: domain_size = {given['domain_size']!r}, but there are {size} values")
    if hash_key and "hash_key" in accepted and given.get("hash_family", HASH_FAMILY) == HASH_FAMILY:
        given.setdefault("hash_key", part_name(hash_key, place))
    return given


def _built(place: int, given: dict[str, Any]) -> Mechanism:
    oracle = given.pop("oracle", None)
    if not isinstance(oracle, str):
        raise ParameterError(f'of[{place}] names no oracle: give one, such as {{oracle = "grr", epsilon = 1.0}}')
    try:
        return mechanism(oracle, **given)
    except ParameterError as error:
        raise ParameterError(f"of[{place}]: {error}") from None


def _together(epsilons: Iterable[float]) -> float:
    return round_up(weighted_sum((1, Decimal(epsilon)) for epsilon in epsilons))
