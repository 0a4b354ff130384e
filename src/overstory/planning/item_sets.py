"""Which mechanism counts items best: padding and sampling at some length, by GRR, OUE or OLH, or a bit for every item.

The error of an item's share has two parts. The variance is exact, of noise and of which item is drawn. The other part
is what a padding length below the size of some sets leaves out: of a set of s items ``min(s, L)`` count. Items are
taken to be equally frequent; a length that leaves out more than 5% of them is not proposed. Sizes are taken to be
Poisson about the typical one, none above `most`; without a typical size every device has `most` items, and nothing is
left out at full length.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.analysis.variance import frequency_variance
from overstory.presentation.document import Column, Table
from overstory.presentation.formats import percent, thousands
from overstory.protocol.encodings.base import check_count
from overstory.protocol.encodings.item_sets import ItemBits
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.item_sets import INNER, item_bits, padding_and_sampling

TRIED: Final = 24
"""Padding lengths up to which all are tried; of longer ones about so many, spread evenly on a logarithmic scale."""
MOST_LEFT_OUT: Final = 0.05
"""The most of all held items that a padding length may lose: a smaller error would be a worse count."""
SHOWN: Final = 8
"""Choices that a plan lists."""


@dataclass(frozen=True)
class ItemChoice:
    """A mechanism for sets, and how far off an item's share is expected to be."""

    mechanism: Mechanism
    parameters: Mapping[str, Any]  # what a registry writes down: without what follows from the domain
    standard_error: float  # of a share, as a fraction
    left_out: float  # the share of all held items that sets longer than the padding length lose
    error: float  # the root of the mean squared error: both together

    @property
    def label(self) -> str:
        drawn = self.mechanism.drawn
        return self.mechanism.name if drawn is None else f"{self.mechanism.name} ({drawn[0].name})"

    def to_json(self) -> dict[str, Any]:
        return {
            "oracle": self.mechanism.name,
            "parameters": dict(self.parameters),
            "epsilon_report": self.mechanism.epsilon_report,
            "standard_error": self.standard_error,
            "left_out": self.left_out,
            "error": self.error,
            "payload_bits": self.mechanism.payload_bits,
        }


def sizes_about(typical: float | None, most: int) -> list[float]:
    """Return the chance of each size from 0 to `most`: Poisson about a typical size; without one, `most` for sure."""
    if typical is None:
        return [0.0] * most + [1.0]
    if not 0 < typical <= most:
        raise ParameterError(f"typical = {typical!r}: give the mean size of a set, above 0 and at most {most}")
    logs = [size * math.log(typical) - math.lgamma(size + 1) for size in range(most + 1)]
    chances = [math.exp(log - max(logs)) for log in logs]
    return [chance / math.fsum(chances) for chance in chances]


def rank_item_mechanisms(
    domain_size: int, most: int, epsilon: float, num_reports: int, sizes: Sequence[float] | None = None
) -> tuple[ItemChoice, ...]:
    """Return every mechanism for sets that meets the needs and leaves out at most 5% of all items, least error first.

    At most `most` items of one set count; `sizes` are the chances, or the numbers of devices, of each size from 0.
    `epsilon` is of any number of reports of one set.
    """
    check_count("reports", num_reports, 1, 1 << 62)
    ItemBits(domain_size, most)  # says so when one is out of range, before a list as long as `most` is made
    weights = _checked(sizes_about(None, most) if sizes is None else sizes)
    share = math.fsum(size * weight for size, weight in enumerate(weights)) / domain_size
    bits = item_bits(domain_size=domain_size, most=most, epsilon=epsilon)  # says so when a number is out of range
    choices = [_choice(bits, {"epsilon": epsilon}, most, weights, share, num_reports)]
    for length in _lengths(min(most, domain_size)):
        for inner in INNER:
            built = padding_and_sampling(
                domain_size=domain_size, most=most, epsilon=epsilon, length=length, inner=inner
            )
            written = {"epsilon": epsilon, "length": length, "inner": inner}
            choices.append(_choice(built, written, length, weights, share, num_reports))
    most_left_out = max(MOST_LEFT_OUT, choices[0].left_out)  # what `most` itself leaves out cannot be helped
    fair = (choice for choice in choices if choice.left_out <= most_left_out)
    return tuple(sorted(fair, key=lambda choice: choice.error))


def _checked(sizes: Sequence[float]) -> list[float]:
    total = math.fsum(sizes)
    if not total > 0 or min(sizes) < 0:
        raise ParameterError("sizes: give the share of each size from 0, none below 0, not all of them 0")
    return [weight / total for weight in sizes]


def _lengths(most: int) -> list[int]:
    if most <= TRIED:
        return list(range(1, most + 1))
    return sorted({round(most ** (place / (TRIED - 1))) for place in range(TRIED)})


def _choice(
    built: Mechanism,
    parameters: Mapping[str, Any],
    counted: int,
    weights: Sequence[float],
    share: float,
    num_reports: int,
) -> ItemChoice:
    held = math.fsum(size * weight for size, weight in enumerate(weights))
    seen = math.fsum(min(size, counted) * weight for size, weight in enumerate(weights))
    left_out = 1 - seen / held if held else 0.0
    variance = frequency_variance(built, num_reports, min(share * (1 - left_out), 1.0))
    error = math.sqrt(variance)
    return ItemChoice(built, parameters, error, left_out, math.hypot(error, share * left_out))


def other_mechanism(ranking: Sequence[ItemChoice]) -> str:
    """Return the best mechanism of the other kind, in words."""
    best = ranking[0]
    other = next(choice for choice in ranking if choice.mechanism.name != best.mechanism.name)
    return f"{other.label} would have {other.error / best.error:.2f} times the error"


def item_table(ranking: Sequence[ItemChoice], limit: int = SHOWN) -> Table:
    """Return the choices as a table: the best ones, and the best of each kind."""
    kinds = {choice.label: choice for choice in reversed(ranking)}.values()
    chosen = [choice for place, choice in enumerate(ranking) if place < limit or choice in kinds]
    columns = (
        Column("mechanism", is_left=True),
        Column("length", "padding length"),
        Column("error", "error of a share", percent),
        Column("standard_error", "standard error", percent),
        Column("left_out", "items left out", percent),
        Column("bits", text=thousands),
    )
    return Table("Mechanisms for sets of items, the least error first", columns, list(_rows(chosen)))


def _rows(choices: Sequence[ItemChoice]) -> Iterator[dict[str, Any]]:
    for choice in choices:
        yield {
            "mechanism": choice.label,
            "length": str(choice.parameters.get("length", "")),
            "error": choice.error,
            "standard_error": choice.standard_error,
            "left_out": choice.left_out,
            "bits": choice.mechanism.payload_bits,
        }
