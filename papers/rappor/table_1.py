"""Table 1, section 5.2: the twenty most frequent strings that were detected, their counts and standard errors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import chi2, t

from overstory.planning.detection import count_error
from papers import figures
from papers.comparison import LEVEL, Comparison, Published, exact, printed, simulated
from papers.rappor.collections import F64, collect_counts, collected, exponential
from papers.rappor.figure_5 import NAMES, PAPERS_CHOICES, REPORTS
from papers.study import Context, Study, Table, letters

# String number, estimate, standard deviation, true count: Table 1.
PRINTED: Final = (
    (1, 48803, 2808, 49884),
    (2, 47388, 2855, 47026),
    (5, 41490, 2801, 40077),
    (7, 40682, 2849, 36565),
    (4, 40420, 2811, 42747),
    (3, 39509, 2882, 44642),
    (8, 36861, 2842, 34895),
    (6, 36220, 2829, 38231),
    (10, 34196, 2828, 31234),
    (9, 32207, 2805, 33106),
    (12, 30688, 2822, 28295),
    (11, 29630, 2831, 29908),
    (14, 27366, 2850, 25984),
    (19, 23860, 2803, 20057),
    (13, 22327, 2826, 26913),
    (15, 21752, 2825, 24653),
    (20, 20159, 2821, 19110),
    (18, 19521, 2835, 20912),
    (17, 18387, 2811, 22141),
    (21, 18267, 2828, 17878),
)
STRINGS: Final = np.array([string for string, *_ in PRINTED])
ESTIMATES, ERRORS, TRUTHS = np.array(PRINTED, dtype=np.float64).T[1:]
FIRST, LAST = 0, 19

NOTES: Final = """
Chi-square counts squared distances in standard errors: where these are right it lies, 99 times in 100, in the interval
shown as ours. So the paper's true counts may be a draw from our population, and its estimates scatter about its true
counts as much as its standard errors say.

The standard error is that of least squares on the strings that the Lasso picked: it grows with their number, from what
one string alone would have to the Cramer-Rao bound for all 200 candidates.
"""


@dataclass(frozen=True, eq=False)
class Found:
    """One collection: estimates and standard errors of the twenty strings; infinite where the Lasso left one out."""

    counts: F64
    errors: F64


def run(context: Context) -> Study:
    """Decode collections by the paper's procedure."""
    runs = context.pick(quick=12, full=200)
    decoded = context.parallel(lambda number: _once(context, number), range(runs), "collections")
    return Study(
        inputs={"N": REPORTS, **letters(collected(0.5)), "runs": runs},
        comparisons=_compare(decoded),
        tables=[_table(decoded)],
        figures=[_draw(decoded)],
        notes=NOTES,
    )


def _once(context: Context, number: int) -> Found:
    mechanism = collected(0.5, hash_key=f"collection {number}")
    drawn = collect_counts(mechanism, NAMES, exponential(), REPORTS, context.rng(number))
    decoded = drawn.decoded(mechanism, **PAPERS_CHOICES)
    return Found(decoded.raw_counts[STRINGS - 1], decoded.standard_errors[STRINGS - 1])


def _compare(decoded: list[Found]) -> list[Comparison]:
    where = "table 1"
    expected = REPORTS * exponential()[STRINGS - 1]
    of_truths = float((((TRUTHS - expected) ** 2) / (expected * (1 - expected / REPORTS))).sum())
    of_estimates = float((((ESTIMATES - TRUTHS) / ERRORS) ** 2).sum())
    z = np.array([one.counts / one.errors for one in decoded])
    errors = [float(one.errors[np.isfinite(one.errors)].mean()) for one in decoded]
    errors_of_first = [float(one.errors[FIRST]) for one in decoded]
    because = (
        "the paper names no penalty of its Lasso; ours keeps more strings in the regression, and each takes a little "
        "of what tells the others apart"
    )
    mean_error = Published(float(ERRORS.mean()), f"{where}: mean of 20", within=0.5)
    error_of_first = printed(str(PRINTED[FIRST][2]), where)
    middle, half = _bands(decoded)
    inside = float(np.count_nonzero(np.abs(ESTIMATES - middle) <= half))
    return [
        simulated("standard error of a count", errors, mean_error, unit="reports", because=because),
        simulated("standard error of V_1's count", errors_of_first, error_of_first, unit="reports", because=because),
        exact("the same with one string alone", count_error(collected(0.5), REPORTS, 0.0, 1)),
        exact("the same with all 200 candidates fitted", count_error(collected(0.5), REPORTS, 0.0, len(NAMES))),
        _chi_square("chi-square of its true counts about our population's", of_truths, where),
        _chi_square("chi-square of its estimates about its true counts", of_estimates, where),
        simulated("signal to noise of V_1", z[:, FIRST].tolist(), Published(17.38, where, 0.005)),
        simulated("signal to noise of V_21", z[:, LAST].tolist(), Published(6.46, where, 0.005)),
        exact("of its 20 estimates, in our 99% bands", inside),
    ]


def _chi_square(name: str, published: float, where: str) -> Comparison:
    """Compare a sum of squares from the table with what 20 independent standard errors give."""
    degrees = len(PRINTED)
    low, high = chi2.ppf([(1 - LEVEL) / 2, (1 + LEVEL) / 2], degrees)
    return Comparison(name, float(degrees), float(low), float(high), "", Published(published, f"from {where}"))


def _bands(decoded: list[Found]) -> tuple[F64, F64]:
    """Return mean and half width of where a further collection's estimates fall, 99 times in 100."""
    counts = np.array([one.counts for one in decoded])
    half = t.ppf((1 + LEVEL) / 2, len(decoded) - 1) * counts.std(axis=0, ddof=1) * math.sqrt(1 + 1 / len(decoded))
    return counts.mean(axis=0), half


def _table(decoded: list[Found]) -> Table:
    middle, _ = _bands(decoded)
    spread = np.array([one.counts for one in decoded]).std(axis=0, ddof=1)
    strings, estimates, errors, truths = zip(*PRINTED, strict=True)
    columns = {
        "string": [f"V_{string}" for string in strings],
        "paper's est.": estimates,
        "std. err.": errors,
        "truth": truths,
        "expected truth": [round(REPORTS * float(exponential()[string - 1])) for string in strings],
        "our mean est.": [round(count) for count in middle.tolist()],
        "our spread": [round(deviation) for deviation in spread.tolist()],
    }
    return Table.of("Table 1 beside ours", columns)


def _draw(decoded: list[Found]) -> figures.Picture:
    figure, axes = figures.panels(width=7.4, height=4.6)
    middle, half = _bands(decoded)
    order, at = np.argsort(STRINGS), np.arange(len(PRINTED))
    figures.interval(axes, at.tolist(), (middle - half)[order] / 1000, (middle + half)[order] / 1000, figures.OURS)
    figures.line(axes, at, middle[order] / 1000, figures.OURS, linewidth=1.6)
    errors = 1.96 * ERRORS[order] / 1000
    axes.errorbar(at, ESTIMATES[order] / 1000, yerr=errors, fmt="o", markersize=4.5, color=figures.THEIRS)
    axes.plot(at, TRUTHS[order] / 1000, "_", color=figures.INK, markersize=11, markeredgewidth=1.6)
    figures.label(axes, 8.0, 46.5, "the paper's estimates, with 95% intervals", figures.THEIRS)
    figures.label(axes, 8.0, 50.0, "the paper's true counts", figures.INK)
    figures.label(axes, 8.0, 53.5, "ours: mean, and where 99% of collections fall", figures.OURS)
    axes.set_xticks(at, [f"V_{PRINTED[i][0]}" for i in order], rotation=60, fontsize=8)
    axes.set(ylabel="reports (thousands)", ylim=(0, 58))
    return figures.picture(
        figure,
        "rappor-table-1",
        f"The twenty strings of Table 1 in the order of their true frequencies; ours from {len(decoded)} collections "
        "of 10^6 reports, by the paper's procedure.",
        "The paper's twenty estimates lie in the band that our collections span.",
    )
