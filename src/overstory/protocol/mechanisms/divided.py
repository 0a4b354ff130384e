"""Devices divided over several tables: each answers one of them, at the whole epsilon.

Which table a device answers follows from its secret, whatever it holds, and is public: it is the report's cohort. So a
report reveals what the report of one table reveals, and epsilon is that of the worst table, exactly. Each of k tables
gets a k-th of the devices, so its variance is k times as large; to divide epsilon by k instead costs about k squared.

A change of a variable that is not in a device's table changes nothing: it keeps its permanent response.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

from overstory.protocol.encodings.base import MAX_COHORTS, check_symbol
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.registry import REGISTRY, mechanism
from overstory.protocol.mechanisms.split import Split

CHOICES: Final = "grr, oue, sue or projective"
"""The oracles of one round, without cohorts of their own, whose payloads a limit alone describes."""


@dataclass(frozen=True)
class DividedMechanism(Split):
    """An oracle for each table's cells; a report's cohort is its table's number.

    >>> either = divided(oracle="grr", epsilon=1.0, sizes="3 2 2", tables="0 1, 2")
    >>> either.num_cohorts, [part.domain_size for part in either.parts], either.cell(7, 0), either.cell(7, 1)
    (2, [6, 2], 3, 1)
    """

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    sizes: tuple[int, ...]  # how many values each variable has
    tables: tuple[tuple[int, ...], ...]  # the numbers of each table's variables
    parts: tuple[Mechanism, ...]

    payload: ClassVar[str] = "divided"
    reading: ClassVar[str] = "table"
    server: ClassVar[str] = "analysis.support.split:DividedSupport"

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
        """How many combinations of all variables there are."""
        return math.prod(self.sizes)

    def cell(self, value: Any, place: int) -> int:
        """Return which cell of a table, by its number, the combination of all variables is in."""
        rest, symbols = check_symbol(value, self.domain_size), []
        for size in reversed(self.sizes):
            rest, symbol = divmod(rest, size)
            symbols.append(symbol)
        symbols.reverse()
        cell = 0
        for variable in self.tables[place]:
            cell = cell * self.sizes[variable] + symbols[variable]
        return cell

    project = cell

    def canonical(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sizes": list(self.sizes),
            "tables": [list(table) for table in self.tables],
            "parts": [part.canonical() for part in self.parts],
        }


def divided(*, oracle: str, epsilon: float, sizes: str = "2 2", tables: str = "0 1") -> DividedMechanism:
    """Devices divided over tables: each answers one, by an oracle of one round, at the whole epsilon.

    The oracle is grr, oue, sue or projective. `sizes` has spaces between the variables' sizes; `tables` has the
    variables' numbers, with commas between tables. Both follow from a metric's domain.
    """
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
