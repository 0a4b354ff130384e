"""What a client declares: a mechanism, the values that are asked, and what each encodes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.registry import REGISTRY
from overstory.protocol.mechanisms.sets import SetMechanism

if TYPE_CHECKING:
    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.protocol.metrics.metric import Metric

Column = NDArray[np.int64]
Rows = NDArray[np.bool_]

OTHERS: Final = 64
"""How many values are asked in addition to the pair."""
LOOKED_AT: Final = 64
"""In how many cohorts two values are compared to choose the pair."""
Audited = BitMechanism | SymbolMechanism | SetMechanism


@dataclass(frozen=True, eq=False)
class Declared:
    """A mechanism and values: the first two are the pair that the guessing game is played with."""

    mechanism: Audited
    values: tuple[Any, ...]  # as the mechanism encodes them
    texts: tuple[str, ...]  # as the client reads them, one for each value
    hashed: NDArray[Any] | None = None  # a map's bits, shape (cohorts, values, hashes); None: the mechanism's own

    @property
    def num_cohorts(self) -> int:
        return self.mechanism.num_cohorts

    @property
    def are_bits(self) -> bool:
        """Whether a report is written as bits: those of a vector, or of a subset."""
        return self.mechanism.payload_weight is not None or isinstance(self.mechanism, BitMechanism)

    @property
    def epsilon(self) -> float:
        return self.mechanism.epsilon_report

    def bits(self, values: Column, cohorts: Column) -> Rows:
        """Return the true bits of a value in a cohort, a row for each."""
        width = self.mechanism.payload_bits
        pairs, rows = np.unique(values * self.num_cohorts + cohorts, return_inverse=True)
        table = np.zeros((len(pairs), width), np.bool_)
        for row, pair in enumerate(pairs.tolist()):
            value, cohort = divmod(pair, self.num_cohorts)
            table[row, list(self._positions(value, cohort))] = True
        return table[rows]

    def _positions(self, value: int, cohort: int) -> Sequence[int]:
        if self.hashed is not None:
            return [int(bit) for bit in self.hashed[cohort, value]]
        encoding: Any = self.mechanism.encoding
        positions: Sequence[int] = encoding.positions(self.values[value], cohort)
        return positions

    def symbols(self, values: Column, cohorts: Column) -> Column:
        """Return the symbol of a value in a cohort, of each."""
        encoding: Any = self.mechanism.encoding
        pairs, rows = np.unique(values * self.num_cohorts + cohorts, return_inverse=True)
        named = (divmod(pair, self.num_cohorts) for pair in pairs.tolist())
        table = np.array([encoding.symbol(self.values[value], cohort) for value, cohort in named], np.int64)
        return table[rows]


def declare(
    mechanism: Any, *, metric: Metric | None = None, candidates: CandidateMap | None = None, most: int = 2 + OTHERS
) -> Declared:
    """Return what is audited, with the pair of values first that differs in the most bits, or cohorts.

    The client reads the metric's values, or symbols as numbers; with `candidates`, their strings and bits.
    """
    if not isinstance(mechanism, BitMechanism | SymbolMechanism | SetMechanism) or mechanism.name not in REGISTRY:
        names = ", ".join(sorted(REGISTRY))
        raise ParameterError(f"an audit reads no reports of {mechanism.name}; it reads those of {names}")
    if candidates is not None:
        if mechanism.domain_size is not None or not isinstance(mechanism, BitMechanism):
            raise ParameterError(f"--map is for RAPPOR's filters: {mechanism.name} hashes no strings into bits")
        places = _spread(candidates.num_candidates, most)
        texts = tuple(str(candidates.candidates[place]) for place in places)
        return _paired(Declared(mechanism, texts, texts, np.asarray(candidates.positions)[:, places]))
    labels = () if metric is None else metric.labels
    if mechanism.domain_size is None:
        values = tuple(labels[place] for place in _spread(len(labels), most)) or _strings(most)
        return _paired(Declared(mechanism, values, values))
    places = _spread(mechanism.domain_size, most)
    named = tuple(map(str, range(mechanism.domain_size))) if metric is None else _readable(metric)
    return _paired(Declared(mechanism, tuple(places), tuple(named[place] for place in places)))


def _readable(metric: Metric) -> Sequence[str]:
    """Return a text of each symbol that a program would record: a name, or a number."""
    examples = metric.domain.examples()
    return metric.labels if any(isinstance(value, tuple) for value in examples) else [str(value) for value in examples]


def _strings(many: int) -> tuple[str, ...]:
    return tuple(f"value-{number}" for number in range(many))


def _spread(many: int, most: int) -> list[int]:
    """Return at most `most` numbers below `many`, evenly spread."""
    return list(dict.fromkeys(int(place) for place in np.linspace(0, many - 1, min(many, most)))) if many else []


def _paired(declared: Declared) -> Declared:
    """Put the two values with the most different encodings first."""
    if len(declared.values) < 2:
        raise ParameterError("an audit asks for at least two values: give a map or a metric with two of them")
    cohorts = np.array(_spread(declared.num_cohorts, LOOKED_AT), np.int64)
    apart = _differences(declared, cohorts)
    first, second = (int(place) for place in np.unravel_index(np.argmax(apart), apart.shape))
    if not apart[first, second]:
        raise ParameterError("no two of the values differ in their bits: an audit needs two that do")
    order = [first, second, *(place for place in range(len(declared.values)) if place not in {first, second})]
    hashed = None if declared.hashed is None else declared.hashed[:, order]
    values, texts = (tuple(each[place] for place in order) for each in (declared.values, declared.texts))
    return Declared(declared.mechanism, values, texts, hashed)


def _differences(declared: Declared, cohorts: Column) -> NDArray[np.float64]:
    """Return in how many bits, or cohorts, each two values differ."""
    many = len(declared.values)
    if isinstance(declared.mechanism, SetMechanism):
        return 1.0 - np.eye(many)
    values, asked = np.repeat(np.arange(many), len(cohorts)), np.tile(cohorts, many)
    if isinstance(declared.mechanism, BitMechanism):
        bits = declared.bits(values, asked).reshape(many, -1).astype(np.float64)
        return bits @ (1.0 - bits).T + (1.0 - bits) @ bits.T
    symbols = declared.symbols(values, asked).reshape(many, -1)
    return np.array([(symbols != row).sum(axis=1) for row in symbols], np.float64)
