"""Figure 1: the life of a report, as the rows of bits that a value becomes on its device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from overstory.client import Randomizer
from overstory.files.rappor import RapporParameters
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.sampling import KeyedEntropy, SeededEntropy
from papers import figures
from papers.comparison import LEVEL, Comparison, Published
from papers.study import Context, Study, Table, letters

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


def live(mechanism: BitMechanism, value: str, seed: int) -> Life:
    """Return what a device whose secret follows from `seed` makes of a value."""
    secret = KeyedEntropy(b"the device of figure 1", str(seed).encode()).bits(256).to_bytes(32, "big")
    device = Randomizer(mechanism, secret=secret, metric="figure 1", entropy=SeededEntropy(seed))
    reports = tuple(device.report(value).bits for _ in range(REPORTS))
    return Life(value, device.cohort, mechanism.encode(value, device.cohort), device.permanent(value), reports)


def run(context: Context) -> Study:
    """Draw one device's bits and compare the paper's run with the spread of such runs."""
    mechanism = PAPERS.mechanism()
    life = live(mechanism, VALUE, context.seed)
    return Study(
        inputs={"value": VALUE, "cohort": life.cohort} | letters(mechanism, "khmpqf"),
        comparisons=compare(mechanism, life),
        tables=[_table(life)],
        figures=[_draw(mechanism, life)],
        notes=_note(mechanism),
    )


def compare(mechanism: BitMechanism, life: Life) -> list[Comparison]:
    """Return the paper's three counts against the exact spread of such counts."""
    true, k = life.true.bit_count(), mechanism.encoding.num_bits
    permanent = float(mechanism.rounds.permanent.keep_one)
    shown, rates = float(mechanism.rounds.instantaneous.keep_one), mechanism.channel
    counts = (
        ("bits set in the report", 145, [(true, float(rates.keep_one)), (k - true, float(rates.raise_zero))]),
        ("bits of the value that are 1 in the permanent response", 2, [(true, permanent)]),
        ("of two such bits, those that are 1 in the report", 2, [(2, shown)]),
    )
    return [_count(name, parts, Published(paper, "section 2, one random run")) for name, paper, parts in counts]


def _count(name: str, parts: list[tuple[int, float]], published: Published | None) -> Comparison:
    """Compare a sum of binomial counts: its mean, and where 99 of 100 runs fall.

    Where that is every count there can be, no run could differ, and there is no verdict.
    """
    chances = _sum_of_binomials(parts)
    mean, at_most = math.fsum(trials * rate for trials, rate in parts), np.cumsum(chances)
    low, high = int(np.argmax(at_most > (1 - LEVEL) / 2)), int(np.argmax(at_most >= (1 + LEVEL) / 2))
    can_differ = high - low < len(chances) - 1
    bounds = float(min(low, mean)), float(max(high, mean))
    return Comparison(name, mean, *bounds, "bits", published if can_differ else None)


def _sum_of_binomials(parts: list[tuple[int, float]]) -> NDArray[np.float64]:
    """Return P(sum = 0, 1, ...)."""
    from scipy.stats import binom

    chances = np.ones(1)
    for trials, rate in parts:
        chances = np.convolve(chances, binom.pmf(np.arange(trials + 1), trials, rate))
    return chances


def _table(life: Life) -> Table:
    rows = {"true bits (stay on the device)": life.true, "permanent response (stays)": life.permanent}
    rows |= {f"report {i + 1}": bits for i, bits in enumerate(life.reports)}
    return Table.of(
        "The bits of this run",
        {
            "row": rows,
            "bits set": [bits.bit_count() for bits in rows.values()],
            "of the value's own": [(bits & life.true).bit_count() for bits in rows.values()],
        },
    )


def _draw(mechanism: BitMechanism, life: Life) -> figures.Picture:
    """Draw one device's bits: the true filter, its permanent response, and what is sent (RAPPOR, figure 1)."""
    rows = [life.true, life.permanent, *life.reports]
    names = ["true bits B", "permanent B'", *(f"report {i + 1}: S" for i in range(len(life.reports)))]
    figure, axes = figures.panels(width=8.4, height=1.15 + 0.5 * len(rows))
    axes.grid(visible=False)
    width = mechanism.encoding.num_bits
    for row, bits in enumerate(rows):
        _row(axes, row, bits, life.true, width)
    for bit in (i for i in range(width) if life.true >> i & 1):
        axes.plot([width / 2, bit + 0.5], [-1.25, -0.42], color=figures.MUTED, linewidth=0.8)
    axes.text(width / 2, -1.3, f"value {life.value[:40]!r}", ha="center", va="bottom", color=figures.INK, fontsize=10)
    place = {"xytext": (6, 0), "fontsize": 8}
    figures.level(axes, 1.5, figures.MUTED, "the device's edge", width, place=place, linewidth=0.8)
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
    """Draw a row of bits, each as wide as its place; the value's own are a little wider, to be seen among others."""
    axes.broken_barh([(0, width)], (row - 0.36, 0.72), facecolor=figures.FAINT, linewidth=0)
    for colour, chosen, grown in ((figures.BLUE, bits & ~own, 0.0), (figures.VERMILION, bits & own, width / 600)):
        spans = [(i - grown, 1 + 2 * grown) for i in range(width) if chosen >> i & 1]
        axes.broken_barh(spans, (row - 0.36, 0.72), facecolor=colour, linewidth=0)


def _note(mechanism: BitMechanism) -> str:
    ceiling = mechanism.epsilon_permanent
    return (
        "Only the reports are ever sent; the permanent response is kept, and is the same for every report of this "
        f"value. One report reveals epsilon {mechanism.epsilon_report:.4f}; any number of them "
        + (f"{ceiling:.4f}. " if math.isfinite(ceiling) else "have no bound. ")
        + "Of counts that one run in a hundred could not contradict, such as the paper's two bits of two, no verdict "
        "is given."
    )
