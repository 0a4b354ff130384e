"""Figure 4, section 5.1: the normal distribution learned by Basic One-time RAPPOR from N reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from overstory.analysis.estimate import Estimate
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess.processed import postprocess
from overstory.experiments.comparison import Comparison, Published, exact, printed, simulated, stated
from overstory.experiments.rappor.collections import F64
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.protocol.mechanisms.rappor import basic_rappor_one_time

MEAN, DEVIATION = 50, 10
VALUES: Final = 101
SIZES: Final = (10**4, 10**5, 10**6)
WORDS: Final = ("too noisy", "the bell begins to emerge", "traced very closely")
"""What the paper says of its three panels."""
EMERGED, CLOSE = 0.75, 0.97
"""Correlations of estimated and true counts from which we say so."""
SMOOTHED: Final = ("smooth", "norm-sub")

_NOTES: Final = (
    (
        f"We call an estimate too noisy while its correlation with the true counts is below {EMERGED}, and say that it "
        f"traces them closely from {CLOSE}: the paper's words are about a picture, and name no number."
    ),
    (
        "The band in the picture is one standard error of an estimated count, which is nearly the same for all values: "
        "noise in the tails is no smaller than at the peak."
    ),
    (
        "The paper says that prior knowledge could improve on this by smoothing. Ours supposes only that neighbours "
        "are alike (a spline whose roughness the known noise chooses), then that counts are not negative."
    ),
)


@dataclass(frozen=True, eq=False)
class Learned:
    """One collection: what was held, what was learned, and after smoothing."""

    truth: F64
    estimate: Estimate
    smoothed: F64

    @property
    def correlation(self) -> float:
        """Of the raw estimates with the true counts."""
        return float(np.corrcoef(self.estimate.raw_counts, self.truth)[0, 1])

    def error(self, counts: F64) -> float:
        """Root mean square error as a share of the reports."""
        return float(np.sqrt(np.mean((counts - self.truth) ** 2)) / self.estimate.num_reports)


def run(context: Context) -> Result:
    """Collect from the three sizes."""
    oracle = FrequencyOracle(basic_rappor_one_time(domain_size=VALUES, p=0.5, q=0.75))
    runs = context.pick(quick=5, full=100)
    found = [
        [_learn(oracle, size, context.rng(size, number)) for number in context.steps(range(runs), f"N = {size:,}")]
        for size in SIZES
    ]
    return context.result(
        _compare(oracle, found),
        inputs={"mean": MEAN, "sd": DEVIATION, "values": VALUES, "p": 0.5, "q": 0.75, "N": list(SIZES), "runs": runs},
        random=True,
        tables=[_table(found)],
        figures=[_draw([several[0] for several in found])],
        notes=_NOTES,
    )


def bell() -> F64:
    """Return each value's probability: a normal variable rounded, the few beyond 0 and 100 moved there.

    Examples
    --------
    >>> chances = bell()
    >>> round(float(chances.sum()), 12), round(float(chances[50]), 4), int(chances.argmax())
    (1.0, 0.0399, 50)
    """
    edges = (np.arange(1, VALUES) - 0.5 - MEAN) / DEVIATION
    return np.diff(ndtr(edges), prepend=0.0, append=1.0)


def _learn(oracle: FrequencyOracle, size: int, rng: np.random.Generator) -> Learned:
    drawn = np.rint(rng.normal(MEAN, DEVIATION, size)).astype(np.int32)
    symbols = np.clip(drawn, 0, VALUES - 1)
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(symbols, rng)))
    truth = np.bincount(symbols, minlength=VALUES).astype(np.float64)
    return Learned(truth, estimate, postprocess(estimate, *SMOOTHED).counts)


def said(correlation: float) -> str:
    """Put a correlation into the paper's words."""
    return WORDS[int(correlation >= EMERGED) + int(correlation >= CLOSE)]


def _compare(oracle: FrequencyOracle, found: list[list[Learned]]) -> list[Comparison]:
    section = "section 5.1"
    rows = [exact("epsilon of one report", oracle.epsilon_report, Published(math.log(3), f"{section}: ln(3)", 1e-6))]
    for size, several, words in zip(SIZES, found, WORDS, strict=True):
        correlation = float(np.mean([one.correlation for one in several]))
        power = f"10^{round(math.log10(size))}"
        rows.append(stated(f"the estimate from {power} reports", said(correlation), Published(words, section)))
        rows.append(
            simulated(
                f"correlation with the true counts, {power} reports",
                _each(several, "correlation"),
                averaged=len(several),
            )
        )
    largest = found[-1]
    errors = [one.error(one.estimate.raw_counts) * SIZES[-1] for one in largest]
    formula = math.sqrt(0.25 * SIZES[-1]) / 0.25
    place = "appendix: sqrt(p (1 - p) N) / (q - p), the others hold little"
    spread = Published(formula, place, within=0.01 * formula)
    rows.append(simulated("error of one count, 10^6 reports", errors, spread, unit="reports"))
    mean = [float(np.average(np.arange(VALUES), weights=one.smoothed)) for one in largest]
    rows.append(simulated("mean of the smoothed estimate, 10^6 reports", mean, printed("50", section)))
    return rows


def _each(several: list[Learned], name: str) -> list[float]:
    return [getattr(one, name) for one in several]


def _table(found: list[list[Learned]]) -> Table:
    rows = tuple(
        (
            f"{size:,}",
            float(np.mean(_each(several, "correlation"))),
            100 * float(np.mean([one.error(one.estimate.raw_counts) for one in several])),
            100 * float(np.mean([one.error(one.smoothed) for one in several])),
            100 * float(bell().max()),
        )
        for size, several in zip(SIZES, found, strict=True)
    )
    columns = ("reports N", "correlation", "error of a value (% of N)", "after smoothing (% of N)", "peak (% of N)")
    return Table("Error of one value's share, root mean square", columns, rows)


def _draw(shown: list[Learned]) -> Picture:
    figure, axes = figures.panels(width=9.6, height=3.5, columns=3)
    for panel, size, learned in zip(axes, SIZES, shown, strict=True):
        _draw_one(panel, size, learned)
    axes[0].set_ylabel("reports (thousands)")
    return figures.picture(
        figure,
        "rappor-figure-4",
        "Normal(50, 10), rounded, by Basic One-time RAPPOR with p = 0.5, q = 0.75: true counts as a line; estimates as "
        "bars, one collection per panel, with a band of one standard error; the spline as a dashed line.",
        "At ten thousand reports the estimates scatter about the bell as far as it is high; at a hundred thousand its "
        "shape is plain; at a million the estimates follow it.",
    )


def _draw_one(axes: Any, size: int, learned: Learned) -> None:
    values, raw = np.arange(VALUES), learned.estimate.raw_counts / 1000
    error = learned.estimate.standard_errors / 1000
    axes.bar(values, raw, width=1.0, color=figures.GREEN, alpha=0.45, linewidth=0)
    figures.band(axes, values.tolist(), (raw - error).tolist(), (raw + error).tolist(), figures.GREEN)
    axes.plot(values, learned.smoothed / 1000, color=figures.BLUE, linewidth=1.2, linestyle=(0, (4, 2)))
    axes.plot(values, learned.truth / 1000, color=figures.INK, linewidth=1.4)
    figures.panel_title(axes, f"{size:,} reports")
    if size == SIZES[-1]:
        top = learned.truth.max() / 1000
        figures.label(axes, 2, top, "true", figures.INK, xytext=(0, 0))
        figures.label(axes, 2, 0.92 * top, "estimated", figures.GREEN, xytext=(0, 0))
        figures.label(axes, 2, 0.84 * top, "smoothed", figures.BLUE, xytext=(0, 0))
    axes.set(xlabel="value", xlim=(0, 100))
