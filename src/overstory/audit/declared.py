"""What a client declares: a mechanism, the values that are asked, and what each encodes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism, Report
from overstory.protocol.mechanisms.registry import REGISTRY

if TYPE_CHECKING:
    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.audit.answers import Answers
    from overstory.protocol.metrics.metric import Metric

Column = NDArray[np.int64]

OTHERS: Final = 64
"""How many values are asked in addition to the pair."""
LOOKED_AT: Final = 64
"""In how many cohorts two values are compared to choose the pair."""


@dataclass(frozen=True, eq=False)
class Declared:
    """A mechanism and values: the first two are the pair that the guessing game is played with."""

    mechanism: Mechanism
    values: tuple[Any, ...]  # as the mechanism encodes them
    texts: tuple[str, ...]  # as the client reads them, one for each value
    hashed: NDArray[Any] | None = None  # a map's bits, shape (cohorts, values, hashes); None: the mechanism's own

    @property
    def num_cohorts(self) -> int:
        return self.mechanism.num_cohorts

    @property
    def are_vectors(self) -> bool:
        """Whether a value is encoded as bits, and a report has each of them with its own noise."""
        return self.mechanism.payload == "bits"

    @property
    def are_bits(self) -> bool:
        """Whether a report is written as bits: those of a vector, or of a subset."""
        return self.are_vectors or self.mechanism.payload_weight is not None

    @property
    def epsilon(self) -> float:
        return self.mechanism.epsilon_report

    def encoded(self, values: Column, cohorts: Column) -> NDArray[Any]:
        """Return what each value is before any noise: a row of bits, a symbol; where there is none, its place."""
        pairs, rows = np.unique(values * self.num_cohorts + cohorts, return_inverse=True)
        table = [self._encoded(*divmod(pair, self.num_cohorts)) for pair in pairs.tolist()]
        return (self._bits(table) if self.are_vectors else np.array(table, np.int64))[rows]

    def _encoded(self, value: int, cohort: int) -> int:
        if self.hashed is not None:
            return sum(1 << int(bit) for bit in set(self.hashed[cohort, value].tolist()))
        payload = self.mechanism.encode(self.values[value], cohort)
        return value if payload is None else payload

    def packed(self, payloads: Sequence[int]) -> NDArray[Any]:
        """Return reports as `Answers` holds them."""
        return self._bits(payloads) if self.are_bits else np.array(payloads, np.int64)

    def _bits(self, payloads: Sequence[int]) -> NDArray[np.uint8]:
        bits = self.mechanism.payload_bits
        octets = b"".join(payload.to_bytes((bits + 7) // 8, "little") for payload in payloads)
        packed = np.frombuffer(octets, np.uint8).reshape(len(payloads), -1)
        return np.unpackbits(packed, axis=1, count=bits, bitorder="little")

    def supported(self, answers: Answers) -> NDArray[np.bool_]:
        """Return whether each report is its value's symbol, or an output of its value's set."""
        if self.are_bits:
            symbols = np.array(self.values, np.int64)[answers.values]
            return np.asarray(answers.reports[np.arange(len(answers)), symbols], np.bool_)
        if self.mechanism.payload == "symbols":
            return np.asarray(self.encoded(answers.values, answers.cohorts) == answers.reports)
        outputs = self.mechanism.payload_limit
        pairs, rows = np.unique(answers.values * outputs + answers.reports, return_inverse=True)
        named = (divmod(pair, outputs) for pair in pairs.tolist())
        return np.array([self.mechanism.supports(Report(0, out), self.values[v]) for v, out in named], np.bool_)[rows]

    def set_of(self, encoded: int) -> NDArray[np.bool_]:
        """Return of each output whether it is in the set of what a value is encoded as."""
        outputs = range(self.mechanism.payload_limit)
        if self.mechanism.payload == "symbols":
            return np.asarray(np.array(outputs) == encoded)
        return np.array([self.mechanism.supports(Report(0, each), self.values[encoded]) for each in outputs])


def declare(
    mechanism: Any, *, metric: Metric | None = None, candidates: CandidateMap | None = None, most: int = 2 + OTHERS
) -> Declared:
    """Return what is audited, with the pair of values first that differs in the most bits, or cohorts.

    The client reads the metric's values, or symbols as numbers; with `candidates`, their strings and bits.
    """
    if mechanism.name not in REGISTRY:
        names = ", ".join(sorted(REGISTRY))
        raise ParameterError(f"an audit reads no reports of {mechanism.name}; it reads those of {names}")
    if candidates is not None:
        places = _spread(candidates.num_candidates, most)
        texts = tuple(str(candidates.candidates[place]) for place in places)
        return _paired(Declared(mechanism, texts, texts, np.asarray(candidates.positions)[:, places]))
    labels = () if metric is None else metric.labels
    if mechanism.domain_size is None:
        asked = tuple(labels[place] for place in _spread(len(labels), most))
        values = asked or tuple(f"value-{number}" for number in range(most))
        return _paired(Declared(mechanism, values, values))
    places = _spread(mechanism.domain_size, most)
    named = tuple(map(str, range(mechanism.domain_size))) if metric is None else _readable(metric)
    return _paired(Declared(mechanism, tuple(places), tuple(named[place] for place in places)))


def _readable(metric: Metric) -> Sequence[str]:
    """Return a text of each symbol that a program would record: a name, or a number."""
    examples = metric.domain.examples()
    return metric.labels if any(isinstance(value, tuple) for value in examples) else [str(value) for value in examples]


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


def _differences(declared: Declared, cohorts: Column) -> NDArray[np.int64]:
    """Return in how many bits, or cohorts, each two values differ."""
    many = len(declared.values)
    values, asked = np.repeat(np.arange(many), len(cohorts)), np.tile(cohorts, many)
    encoded = declared.encoded(values, asked).reshape(many, -1)
    return np.array([(encoded != row).sum(axis=1) for row in encoded])
