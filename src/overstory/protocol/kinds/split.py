"""Several mechanisms of which a device uses one: the public part of its report says which, whatever it holds.

Tables of which a device answers one, levels of a tree, questions of a search: epsilon is the worst part's, exactly.
Each of k tables gets a k-th of the devices, so its variance is k times as large; to divide epsilon by k instead costs
about k squared.
"""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS, Kind, Mechanism, Report, check_cohort, check_symbol
from overstory.protocol.kinds.registry import REGISTRY, mechanism
from overstory.protocol.sampling import Entropy


class Split(Kind):
    """The part that answers follows from the cohort; what it answers about is a projection of the value.

    Parts have one round, whose response is sent as it is: a payload without its part cannot go through a second.
    """

    terms_place: ClassVar[str] = "privacy.payloads.symbols:SplitTerms"

    if TYPE_CHECKING:

        @property
        def parts(self) -> tuple[Mechanism, ...]:
            """The mechanisms, of which a device uses one."""

    @abstractmethod
    def project(self, value: Any, place: int) -> Any:
        """Return what part number `place` is asked about a value."""

    def place_of(self, cohort: int) -> tuple[int, int]:
        """Return the number of the part that answers in a cohort, and its own cohort."""
        check_cohort(cohort, self.num_cohorts)
        return cohort, 0

    def noise_name(self, metric: str, place: int) -> str:  # noqa: ARG002 - a device uses one part of a metric
        """Return the name that a part's permanent responses are derived under."""
        return metric

    @property
    def num_cohorts(self) -> int:
        return len(self.parts)

    @property
    def payload_limit(self) -> int:
        return max(part.payload_limit for part in self.parts)

    @property
    def odds(self) -> Fraction:
        """Largest odds of a part: it is chosen without looking at the value."""
        return max(part.odds for part in self.parts)

    def encode(self, value: Any, cohort: int) -> int | None:
        place, own = self.place_of(cohort)
        return self.parts[place].encode(self.project(value, place), own)

    def held(self, value: Any, cohort: int) -> Any:
        place, own = self.place_of(cohort)
        return self.parts[place].held(self.project(value, place), own)

    def draw(self, held: Any, cohort: int, entropy: Entropy) -> int:
        place, own = self.place_of(cohort)
        return self.parts[place].draw(held, own, entropy)

    def likelihood(self, report: Report, value: Any) -> Fraction:
        place, own = self.place_of(report.cohort)
        return self.parts[place].likelihood(Report(own, report.bits), self.project(value, place))

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        place, own = self.place_of(cohort)
        respond, project = self.parts[place].responder(secret, self.noise_name(metric, place), own), self.project
        return lambda value: respond(project(value, place))

    def response_key(self, value: Any, cohort: int) -> Hashable:
        place, own = self.place_of(cohort)
        return self.parts[place].response_key(self.project(value, place), own)

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        place, own = self.place_of(cohort)
        return self.parts[place].nothing(secret, self.noise_name(metric, place), own)


CHOICES: Final = "grr, oue, sue or projective"
"""The oracles of one round, without cohorts of their own, whose payloads a limit alone describes."""


@dataclass(frozen=True)
class DividedMechanism(Split):
    """An oracle for each table's cells; a report's cohort is its table's number."""

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    sizes: tuple[int, ...]  # how many values each variable has
    tables: tuple[tuple[int, ...], ...]  # the numbers of each table's variables
    parts: tuple[Mechanism, ...]

    payload: ClassVar[str] = "divided"
    reading: ClassVar[str] = "table"
    server: ClassVar[str] = "analysis.kinds.split:DividedSupport"

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        for part in self.parts:
            one_round = part.epsilon_permanent == part.epsilon_report
            if part.num_cohorts > 1 or part.payload_weight is not None or part.fresh or not one_round:
                raise ParameterError(f"{self.name} cannot divide devices with {part.name}: choose {CHOICES}")
        if not 1 <= len(self.parts) <= MAX_COHORTS:
            raise ParameterError(f"{len(self.parts)} tables: give from 1 to {MAX_COHORTS}")

    @property
    def zones(self) -> tuple[tuple[int, int], ...]:
        return tuple((place + 1, part.payload_limit) for place, part in enumerate(self.parts))

    @property
    def domain_size(self) -> int:
        return math.prod(self.sizes)

    def project(self, value: Any, place: int) -> int:
        rest, symbols = check_symbol(value, self.domain_size), []
        for size in reversed(self.sizes):
            rest, symbol = divmod(rest, size)
            symbols.append(symbol)
        symbols.reverse()
        cell = 0
        for variable in self.tables[place]:
            cell = cell * self.sizes[variable] + symbols[variable]
        return cell

    def canonical(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sizes": list(self.sizes),
            "tables": [list(table) for table in self.tables],
            "parts": [part.canonical() for part in self.parts],
        }


def divided(*, oracle: str, epsilon: float, sizes: str = "2 2", tables: str = "0 1") -> DividedMechanism:
    """Devices divided over tables: each answers one, by an oracle of one round, at the whole epsilon."""
    build = REGISTRY.get(str(oracle))
    if build is None or not {"domain_size", "epsilon"} <= set(inspect.signature(build).parameters):
        raise ParameterError(f"oracle = {oracle!r}: choose {CHOICES}")
    values, places = _numbers("sizes", sizes), [_numbers("tables", table) for table in str(tables).split(",")]
    for table in places:
        if not table or len(set(table)) < len(table) or not all(0 <= place < len(values) for place in table):
            raise ParameterError(f"tables = {tables!r}: give numbers of variables below {len(values)}, each once")
    parts = [
        mechanism(oracle, domain_size=math.prod(values[place] for place in table), epsilon=epsilon) for table in places
    ]
    parameters = {"oracle": oracle, "epsilon": epsilon, "sizes": sizes, "tables": tables}
    return DividedMechanism("divided", parameters, tuple(values), tuple(map(tuple, places)), tuple(parts))


def _numbers(name: str, text: str) -> Sequence[int]:
    try:
        return [int(number) for number in str(text).split()]
    except ValueError:
        raise ParameterError(f"{name} = {text!r}: give whole numbers with spaces between them") from None
