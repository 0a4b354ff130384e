"""What simulated devices hold: drawn from shares by rank, or from the values of a file's column."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product, zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.protocol.domains import StringTable
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric
from overstory.trial.fleet.fleet import Moment

if TYPE_CHECKING:
    from overstory.files.columns.layout import Form

Shape = Literal["uniform", "zipf"]
SHAPES: Final[tuple[Shape, ...]] = ("uniform", "zipf")
OUTSIDE: Final = "outside the domain"
"""The label of values that a metric does not take: a device reports nothing in their place."""


@dataclass(frozen=True)
class ValueDistribution:
    """The values of a metric, and how often each is held."""

    values: Sequence[Any]  # what a program records
    labels: Sequence[str]  # what each is counted as
    weights: Sequence[float]  # their shares, in any unit

    @classmethod
    def of_shape(cls, metric: Metric, shape: Shape, candidates: Sequence[str] | None = None) -> ValueDistribution:
        """Return one over a metric's values: equally frequent, or the n-th with a share proportional to 1/n.

        Examples
        --------
        >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
        >>> ValueDistribution.of_shape(parse_registry(EXAMPLE)["colour"], "zipf").weights
        [1.0, 0.5, 0.3333333333333333]
        """
        values = metric.domain.examples() or _pairs(metric, candidates) or candidates or metric.candidates
        if not values:
            raise ParameterError(
                f"metric {metric.id} takes any string: give --candidates FILE, one a line, or --data FILE --column C"
            )
        weights = [1.0 / n if shape == "zipf" else 1.0 for n in range(1, len(values) + 1)]
        return cls(values, [label_of(metric, value) for value in values], weights)

    @classmethod
    def of_texts(cls, metric: Metric, counts: Mapping[str, int]) -> ValueDistribution:
        """Return one of the texts of a file, read as the metric's values."""
        values = [_read(metric, text) for text in counts]
        return cls(values, [label_of(metric, value) for value in values], list(counts.values()))


def _pairs(metric: Metric, candidates: Sequence[str] | None) -> list[tuple[Any, ...]]:
    """Return the pairs of candidates and listed values; none where a variable has no candidates."""
    if not isinstance(metric.domain, StringTable):
        return []
    lists = zip_longest(metric.domain.of, metric.candidate_lists)
    return list(product(*(part.examples() or candidates or listed or () for part, listed in lists)))


def label_of(metric: Metric, value: Any) -> str:
    """Return what a value is counted as."""
    try:
        encoded = metric.encode(value)
    except ParameterError:
        return OUTSIDE
    return metric.domain.label(encoded)


def _read(metric: Metric, text: str) -> Any:
    try:
        return metric.domain.read(text)
    except ValueError:
        return text


class Holders:
    """Draws what each device holds at each moment, and counts it.

    Parameters
    ----------
    change
        The chance that a device holds another value, drawn afresh, at its next period.

    Attributes
    ----------
    truth
        How many devices held each label, for each moment: what no collector sees.
    """

    def __init__(
        self, populations: Mapping[str, ValueDistribution], when: Sequence[Moment], change: float, rng: random.Random
    ) -> None:
        if not 0 <= change <= 1:
            raise ParameterError(f"--change {change:g}: give a share from 0 to 1")
        self._distributions, self._when, self._change, self._rng = populations, when, change, rng
        self._edges = {name: list(accumulate(values.weights)) for name, values in populations.items()}
        self.truth: list[Counter[str]] = [Counter() for _ in when]

    def devices(self, count: int) -> Iterator[list[Any]]:
        """Yield each device's values, one for each moment."""
        for _ in range(count):
            held: dict[str, int] = {}
            values = []
            for moment, truth in zip(self._when, self.truth, strict=True):
                name = moment.metric.id
                distribution = self._distributions[name]
                if name not in held or (self._change and self._rng.random() < self._change):
                    places = range(len(distribution.values))
                    held[name] = self._rng.choices(places, cum_weights=self._edges[name])[0]
                values.append(distribution.values[held[name]])
                truth[distribution.labels[held[name]]] += 1
            yield values


def read_texts(path: str, column: str, form: Form | None = None) -> Counter[str]:
    """Return how often each text occurs in a column of a CSV or Parquet file; what is missing is left out."""
    from overstory.files.columns.reader import ANY_FORM, blocks

    counts: Counter[str] = Counter()
    for (texts,) in blocks(path, [column], form=form or ANY_FORM):
        counts.update(texts.counted())
    if not counts:
        raise ParameterError(f"{path}: the column {column!r} holds no value")
    return counts
