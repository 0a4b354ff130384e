"""Figure 4, section 5.1: the normal distribution learned by Basic One-time RAPPOR from N reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from overstory.analysis.estimate import Estimate
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import postprocess
from overstory.protocol.kinds.bits import basic_rappor_one_time
from papers import figures
from papers.comparison import Comparison, Published, exact, printed, simulated, stated
from papers.rappor.collections import F64
from papers.study import Context, Study, Table, each, mean

MEAN, DEVIATION = 50, 10
VALUES: Final = 101
SIZES: Final = (10**4, 10**5, 10**6)
WORDS: Final = ("too noisy", "the bell begins to emerge", "traced very closely")
"""What the paper says of its three panels."""
EMERGED, CLOSE = 0.75, 0.97
"""Correlations of estimated and true counts from which we say so."""
SMOOTHED: Final = ("smooth", "norm-sub")
NOTES: Final = f"""
We call an estimate too noisy while its correlation with the true counts is below {EMERGED}, and say that it traces them
closely from {CLOSE}: the paper's words are about a picture, and name no number.

The band in the picture is one standard error of an estimated count, which is nearly the same for all values: noise in
the tails is no smaller than at the peak.

The paper says that prior knowledge could improve on this by smoothing. Ours supposes only that neighbours are alike (a
spline whose roughness the known noise chooses), then that counts are not negative.
"""


@dataclass(frozen=True, eq=False)
class Learned:
    """One collection: the true counts, the estimate, and the smoothed counts."""

    truth: F64
    estimate: Estimate
    smoothed: F64

    @property
    def correlation(self) -> float:
        """Of the raw estimates with the true counts."""
        return float(np.corrcoef(self.estimate.raw_counts, self.truth)[0, 1])

    @property
    def raw_error(self) -> float:
        """Root mean square error of the raw estimates."""
        return self.error(self.estimate.raw_counts)

    @property
    def smoothed_error(self) -> float:
        """Root mean square error of the smoothed counts."""
        return self.error(self.smoothed)

    def error(self, counts: F64) -> float:
        """Root mean square error as a share of the reports."""
        return float(np.sqrt(np.mean((counts - self.truth) ** 2)) / self.estimate.num_reports)


def run(context: Context) -> Study:
    """Collect from the three sizes."""
    oracle = FrequencyOracle(basic_rappor_one_time(domain_size=VALUES, p=0.5, q=0.75))
    runs = context.pick(quick=5, full=100)
    learned = [
        [_learn(oracle, size, context.rng(size, number)) for number in context.steps(range(runs), f"N = {size:,}")]
        for size in SIZES
    ]
    return Study(
        inputs={"mean": MEAN, "sd": DEVIATION, "values": VALUES, "p": 0.5, "q": 0.75, "N": list(SIZES), "runs": runs},
        comparisons=_compare(oracle, learned),
        tables=[_table(learned)],
        figures=[_draw([several[0] for several in learned])],
        notes=NOTES,
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


def in_words(correlation: float) -> str:
    """Put a correlation into the paper's words."""
    return WORDS[int(correlation >= EMERGED) + int(correlation >= CLOSE)]


def _compare(oracle: FrequencyOracle, learned: list[list[Learned]]) -> list[Comparison]:
    section = "section 5.1"
    rows = [exact("epsilon of one report", oracle.epsilon_report, Published(math.log(3), f"{section}: ln(3)", 1e-6))]
    for size, several, words in zip(SIZES, learned, WORDS, strict=True):
        correlations = each(several, "correlation")
        reports = f"10^{round(math.log10(size))} reports"
        rows += [
            stated(f"the estimate from {reports}", in_words(mean(correlations)), Published(words, section)),
            simulated(f"correlation with the true counts, {reports}", correlations, averaged=len(several)),
        ]
    formula = math.sqrt(0.25 * SIZES[-1]) / 0.25
    spread = Published(formula, "appendix: sqrt(p (1 - p) N) / (q - p), the others hold little", within=0.01 * formula)
    errors = [error * SIZES[-1] for error in each(learned[-1], "raw_error")]
    means = [float(np.average(np.arange(VALUES), weights=one.smoothed)) for one in learned[-1]]
    return [
        *rows,
        simulated("error of one count, 10^6 reports", errors, spread, unit="reports"),
        simulated("mean of the smoothed estimate, 10^6 reports", means, printed("50", section)),
    ]


def _table(learned: list[list[Learned]]) -> Table:
    columns: dict[str, list[Any]] = {
        "reports N": [f"{size:,}" for size in SIZES],
        "correlation": [mean(each(several, "correlation")) for several in learned],
        "error of a value (% of N)": [100 * mean(each(several, "raw_error")) for several in learned],
        "after smoothing (% of N)": [100 * mean(each(several, "smoothed_error")) for several in learned],
        "peak (% of N)": [100 * float(bell().max()) for _ in SIZES],
    }
    return Table.of("Error of one value's share, root mean square", columns)


def _draw(shown: list[Learned]) -> figures.Picture:
    figure, axes = figures.panels(width=9.6, height=3.5, columns=3)
    for panel, size, learned in zip(axes, SIZES, shown, strict=True):
        _draw_panel(panel, size, learned)
    axes[0].set_ylabel("reports (thousands)")
    return figures.picture(
        figure,
        "rappor-figure-4",
        "Normal(50, 10), rounded, by Basic One-time RAPPOR with p = 0.5, q = 0.75: true counts as a line; estimates as "
        "bars, one collection per panel, with a band of one standard error; the spline as a dashed line.",
        "At ten thousand reports the estimates scatter about the bell as far as it is high; at a hundred thousand its "
        "shape is plain; at a million the estimates follow it.",
    )


def _draw_panel(axes: Any, size: int, learned: Learned) -> None:
    values, raw = np.arange(VALUES), learned.estimate.raw_counts / 1000
    error = learned.estimate.standard_errors / 1000
    figures.bars(axes, values, raw, figures.GREEN, alpha=0.45)
    figures.interval(axes, values.tolist(), raw - error, raw + error, figures.GREEN)
    figures.line(axes, values, learned.smoothed / 1000, figures.BLUE, linewidth=1.2, linestyle=(0, (4, 2)))
    figures.line(axes, values, learned.truth / 1000, figures.INK, linewidth=1.4)
    figures.panel_title(axes, f"{size:,} reports")
    if size == SIZES[-1]:
        top = learned.truth.max() / 1000
        entries = ((1.0, "true", figures.INK), (0.92, "estimated", figures.GREEN), (0.84, "smoothed", figures.BLUE))
        figures.key(axes, 2, [(y * top, name, colour) for y, name, colour in entries])
    axes.set(xlabel="value", xlim=(0, 100))
