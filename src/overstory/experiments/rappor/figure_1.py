"""Figure 1: the life of a report, as the rows of bits that a value becomes on its device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.client import Randomizer
from overstory.experiments.comparison import LEVEL, Comparison, Published
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.files.params import RapporParameters, read_params
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.protocol.entropy import KeyedEntropy, SeededEntropy
from overstory.protocol.mechanisms.payloads import BitMechanism

VALUE = "68"
PAPERS = RapporParameters(k=256, h=4, m=1, p=0.5, q=0.75, f=0.5)
REPORTS = 3


@dataclass(frozen=True)
class Life:
    """The bits of one value on one device: true, permanent, and sent."""

    value: str
    cohort: int
    true: int
    permanent: int
    reports: tuple[int, ...]


def run(context: Context) -> Result:
    """Draw one device's bits and hold the paper's run against what such runs give."""
    value: str = context.options.get("value", VALUE)
    parameters = read_params(context.options["params"]) if "params" in context.options else PAPERS
    mechanism = parameters.mechanism()
    life = live(mechanism, value, context.seed)
    usual = value == VALUE and parameters == PAPERS
    return context.result(
        compare(mechanism, life, published=usual),
        inputs={"value": value, "cohort": life.cohort, **{letter: getattr(parameters, letter) for letter in "khmpqf"}},
        random=True,
        tables=[_table(life)],
        figures=[draw(mechanism, life)],
        notes=[_note(mechanism)],
    )


def live(mechanism: BitMechanism, value: str, seed: int) -> Life:
    """Return what a device whose secret follows from `seed` makes of a value."""
    secret = KeyedEntropy(b"the device of figure 1", str(seed).encode()).bits(256).to_bytes(32, "big")
    device = Randomizer(mechanism, secret=secret, metric="figure 1", entropy=SeededEntropy(seed))
    reports = tuple(device.report(value).bits for _ in range(REPORTS))
    return Life(value, device.cohort, mechanism.encode(value, device.cohort), device.permanent(value), reports)


def compare(mechanism: BitMechanism, life: Life, *, published: bool) -> list[Comparison]:
    """Return the paper's three counts against the exact spread of such counts."""
    true, k = life.true.bit_count(), mechanism.encoding.num_bits
    kept = float(mechanism.rounds.permanent.keep_one)
    shown, rates = float(mechanism.rounds.instantaneous.keep_one), mechanism.channel
    found = (
        ("bits set in the report", 145, [(true, float(rates.keep_one)), (k - true, float(rates.raise_zero))]),
        ("bits of the value that are 1 in the permanent response", 2, [(true, kept)]),
        ("of two such bits, those that are 1 in the report", 2, [(2, shown)]),
    )
    return [
        _count(name, parts, Published(paper, "section 2, one random run") if published else None)
        for name, paper, parts in found
    ]


def _count(name: str, parts: list[tuple[int, float]], published: Published | None) -> Comparison:
    """Compare a sum of binomial counts: its mean, and where 99 of 100 runs fall.

    Where that is every count there can be, no run could differ, and there is no verdict.
    """
    chances = _sum_of_binomials(parts)
    mean, at_most = math.fsum(trials * rate for trials, rate in parts), np.cumsum(chances)
    low, high = int(np.argmax(at_most > (1 - LEVEL) / 2)), int(np.argmax(at_most >= (1 + LEVEL) / 2))
    can_differ = high - low < len(chances) - 1
    said = published if can_differ else None
    return Comparison(name, mean, float(min(low, mean)), float(max(high, mean)), "bits", said)


def _sum_of_binomials(parts: list[tuple[int, float]]) -> NDArray[np.float64]:
    """Return P(sum = 0, 1, ...)."""
    from scipy.stats import binom

    chances = np.ones(1)
    for trials, rate in parts:
        chances = np.convolve(chances, binom.pmf(np.arange(trials + 1), trials, rate))
    return chances


def _table(life: Life) -> Table:
    rows: list[tuple[str, int, int]] = [
        ("true bits (stay on the device)", life.true.bit_count(), life.true.bit_count())
    ]
    shown = [("permanent response (stays)", life.permanent)]
    shown += [(f"report {i + 1}", bits) for i, bits in enumerate(life.reports)]
    rows += [(name, bits.bit_count(), (bits & life.true).bit_count()) for name, bits in shown]
    return Table("The bits of this run", ("row", "bits set", "of the value's own"), tuple(rows))


def _note(mechanism: BitMechanism) -> str:
    ever = mechanism.epsilon_permanent
    return (
        "Only the reports are ever sent; the permanent response is kept, and is the same for every report of this "
        f"value. One report reveals epsilon {mechanism.epsilon_report:.4f}; any number of them "
        + (f"{ever:.4f}. " if math.isfinite(ever) else "have no bound. ")
        + "Of counts that one run in a hundred could not contradict, such as the paper's two bits of two, no verdict "
        "is given."
    )


def draw(mechanism: BitMechanism, life: Life) -> Picture:
    """Draw the rows of bits, from the value to the reports."""
    rows = [life.true, life.permanent, *life.reports]
    names = ["true bits B", "permanent B'", *(f"report {i + 1}: S" for i in range(len(life.reports)))]
    figure, axes = figures.panels(width=8.4, height=1.15 + 0.5 * len(rows))
    axes.grid(visible=False)
    width = mechanism.encoding.num_bits
    for row, bits in enumerate(rows):
        _row(axes, row, bits, life.true, width)
    own = [i for i in range(width) if life.true >> i & 1]
    for bit in own:
        axes.plot([width / 2, bit + 0.5], [-1.25, -0.42], color=figures.MUTED, linewidth=0.8)
    axes.text(width / 2, -1.3, f"value {life.value[:40]!r}", ha="center", va="bottom", color=figures.INK, fontsize=10)
    axes.axhline(1.5, color=figures.MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
    figures.label(axes, width, 1.5, "the device's edge", figures.MUTED, xytext=(6, 0), fontsize=8)
    for row, bits in enumerate(rows):
        figures.label(axes, width, row, f"{bits.bit_count()} of {width}", xytext=(6, 0))
    axes.set_yticks(range(len(rows)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set(xlim=(0, width), ylim=(len(rows) - 0.5, -1.9), xlabel="bit of the report")
    return figures.picture(
        figure,
        "rappor-figure-1",
        f"One value on one device of cohort {life.cohort}. Vermilion: the value's own bits where they are 1; blue: "
        "other bits that are 1. The rows above the dashed line never leave the device.",
        f"Rows of {width} bits. The true row has {life.true.bit_count()} bits set, the permanent response "
        f"{life.permanent.bit_count()}, the reports {', '.join(str(bits.bit_count()) for bits in life.reports)}.",
    )


def _row(axes: Any, row: int, bits: int, own: int, width: int) -> None:
    """Draw a row of bits, each as wide as its place."""
    axes.broken_barh([(0, width)], (row - 0.36, 0.72), facecolor=figures.FAINT, linewidth=0)
    lit = [i for i in range(width) if bits >> i & 1]
    for colour, places in (
        (figures.BLUE, [i for i in lit if not own >> i & 1]),
        (figures.VERMILION, [i for i in lit if own >> i & 1]),
    ):
        grown = 0.0 if colour == figures.BLUE else width / 600  # a bit of the value's own must be seen among others
        axes.broken_barh(
            [(i - grown, 1 + 2 * grown) for i in places], (row - 0.36, 0.72), facecolor=colour, linewidth=0
        )
