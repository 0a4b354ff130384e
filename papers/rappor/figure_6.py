"""Figure 6, section 5.4: homepages in 14 million reports, and the smallest share that such a collection can find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import clopper_pearson
from overstory.planning.detection import (
    count_error,
    critical_value,
    critical_value_fdr,
    detectable_frequency,
    detectable_frequency_fdr,
    fitted_candidates,
    reports_needed,
)
from overstory.planning.needs import design
from overstory.protocol.kinds.bits import BitMechanism, basic_rappor_one_time
from papers import figures
from papers.comparison import LEVEL, Comparison, about, at_least, at_most, exact, simulated
from papers.rappor.collections import (
    DEFAULT,
    F64,
    HEAVY_HOMEPAGES,
    HOMEPAGES,
    PAPERS,
    PROCEDURES,
    Collection,
    collect_counts,
    collect_reports,
    collected,
    homepages,
)
from papers.study import Context, Study, Table, letters

REPORTS: Final = 14_000_000
CLAIMED: Final = 0.001
ALPHA: Final = 0.05
NAMES: Final = tuple(f"https://home{i + 1}.example/" for i in range(2 * HOMEPAGES - HEAVY_HOMEPAGES))
"""The candidates, then as many strings outside the list."""

STEP, EACH = 0.001, 6
PROBED: Final = STEP * np.arange(1, 13)
"""Shares of the strings that show what can be detected; six of each."""
FREQUENT: Final = 14

NOTES: Final = """
The paper does not give the shares. In our population 43 candidates (0.5% of 8,616) hold 85%, the largest 4.7% and the
smallest 0.6%; as many strings as there are rare candidates, outside the list, hold the rest.

The share that can be found is measured in a second population with six strings at each of 0.1%, 0.2%, ... 1.2%: it is
where half are found (the sum of the rates over the steps, Spearman and Karber).

At f = 0.75 each bit of a report keeps a sixteenth of its signal, and one standard error of a share is about 0.15% of 14
million reports: a string with 0.1% looks like one that nobody has.
"""


@dataclass(frozen=True, eq=False)
class Found:
    """One collection decoded: the truth, and by procedure what was detected and estimated, shape (HOMEPAGES,)."""

    held: NDArray[np.int64]
    detected: dict[str, NDArray[np.bool_]]
    counts: dict[str, F64]
    errors: dict[str, F64]

    def number(self, procedure: str) -> int:
        """Return how many candidates were detected."""
        return int(np.count_nonzero(self.detected[procedure]))

    def mass(self, procedure: str) -> float:
        """Return the estimated share of the reports that the detected candidates hold."""
        return float(self.counts[procedure][self.detected[procedure]].sum() / REPORTS)

    def wrong(self, procedure: str) -> float:
        """Return the share of the detected that are not among the heavy homepages."""
        wrong = np.count_nonzero(self.detected[procedure][HEAVY_HOMEPAGES:])
        return float(wrong / max(1, self.number(procedure)))

    def rates(self, procedure: str) -> F64:
        """Return, for each probed share, how many of its strings were detected."""
        probes = self.detected[procedure][: PROBED.size * EACH]
        return np.asarray(probes.reshape(PROBED.size, EACH).mean(axis=1))

    def limit(self, procedure: str) -> float:
        """Return the share of which half is detected."""
        return float(PROBED[-1] + STEP / 2 - STEP * self.rates(procedure).sum())


def run(context: Context) -> Study:
    """Collect from both populations and decode."""
    runs = context.pick(quick=5, full=30)
    mechanism = collected(0.75, num_cohorts=32)
    real, probes = (
        [_decoded(mechanism, drawn) for drawn in _collections(context, mechanism, shares, rngs, doing)]
        for shares, rngs, doing in (
            (homepages(), [context.rng(0, number) for number in range(runs)], "collections of homepages"),
            (probing(), [context.rng(1, number) for number in range(runs)], "collections with probes"),
        )
    )
    return Study(
        inputs={"N": REPORTS, **letters(mechanism)}
        | {"candidates": HOMEPAGES, "false discovery rate": ALPHA, "runs": runs}
        | {"simulated": context.pick(quick="counts", full="reports")},
        comparisons=_compare(mechanism, real, probes),
        tables=[_table(mechanism, probes)],
        figures=[_draw(mechanism, real[0], probes)],
        notes=NOTES,
    )


def probing() -> F64:
    """Return shares with six strings at each of 0.1% to 1.2%, fourteen frequent ones, and 15% outside the list.

    Examples
    --------
    >>> shares = probing()
    >>> round(float(shares.sum()), 12), float(shares[0]), round(float(shares[72]), 4)
    (1.0, 0.001, 0.0273)
    """
    probes = np.repeat(PROBED, EACH)
    frequent = np.full(FREQUENT, (0.85 - probes.sum()) / FREQUENT)
    tail = homepages()[HOMEPAGES:]
    return np.concatenate((probes, frequent, np.zeros(HOMEPAGES - probes.size - FREQUENT), tail))


def _collections(
    context: Context, mechanism: BitMechanism, shares: F64, rngs: Sequence[np.random.Generator], doing: str
) -> Iterator[Collection]:
    """Yield collections: from counts in quick mode, from every single report in full mode."""
    collect = context.pick(quick=collect_counts, full=collect_reports)
    for rng in context.steps(rngs, doing):
        yield collect(mechanism, NAMES, shares, REPORTS, rng)


def _decoded(mechanism: BitMechanism, drawn: Collection) -> Found:
    decoded = {name: drawn.decoded(mechanism, HOMEPAGES, **choices) for name, choices in PROCEDURES.items()}
    return Found(
        drawn.held[:HOMEPAGES],
        {name: one.detected() for name, one in decoded.items()},
        {name: one.raw_counts for name, one in decoded.items()},
        {name: one.standard_errors for name, one in decoded.items()},
    )


def share_error(mechanism: BitMechanism) -> float:
    """Return one standard error of a rare string's share, fitted with as many strings as can be detected."""
    smallest = detectable_frequency_fdr(mechanism, REPORTS, HOMEPAGES, ALPHA)
    return count_error(mechanism, REPORTS, 0.0, fitted_candidates(mechanism, HOMEPAGES, smallest)) / REPORTS


def _compare(mechanism: BitMechanism, real: list[Found], probes: list[Found]) -> list[Comparison]:
    where, runs = "section 5.4", len(real)
    number = {name: [one.number(name) for one in real] for name in PROCEDURES}
    limits = {name: [one.limit(name) for one in probes] for name in PROCEDURES}
    wrong, mass = [one.wrong(DEFAULT) for one in real], [one.mass(DEFAULT) for one in real]
    tenth = [float(one.rates(DEFAULT)[0]) for one in probes]
    error = share_error(mechanism)
    because = (
        f"one standard error of a share is {100 * error:.3f}% here, so 0.1% is {CLAIMED / error:.1f} of it. Found are "
        "shares of three to five standard errors; not even a bit per string without a permanent round would find 0.1%"
    )
    few = at_most(0.005 * HOMEPAGES, f"{where}: < 0.5%")
    # The appendix's limit, which no collection with Bloom filters or two rounds reaches.
    basic = basic_rappor_one_time(domain_size=128, p=0.5, q=0.75)
    ideal = detectable_frequency(basic, REPORTS, 128, critical_value(ALPHA, 128))
    budget = mechanism.epsilon_report, mechanism.epsilon_permanent
    fitter = design(*budget, num_bits=128, num_hashes=1, num_cohorts=32)
    needed = reports_needed(mechanism, HOMEPAGES, CLAIMED, critical_value_fdr(ALPHA, HOMEPAGES, CLAIMED))
    smallest = "smallest share found (half of the time), our default"
    return [
        simulated("candidates found, paper's procedure", number[PAPERS], at_least(31, "figure 6")),
        simulated("candidates found, our default", number[DEFAULT], few),
        simulated("share that the found candidates hold", mass, about(0.85, where, 0.05)),
        simulated("false share of the found, our default", wrong, at_most(ALPHA, where), averaged=runs),
        simulated(smallest, limits[DEFAULT], about(CLAIMED, where), because=because),
        simulated("the same, paper's procedure", limits[PAPERS], averaged=runs),
        exact("the same, planned", detectable_frequency_fdr(mechanism, REPORTS, HOMEPAGES, ALPHA)),
        exact("one standard error of a share", error),
        simulated("strings of 0.1% that are found, share", tenth, averaged=runs),
        exact("smallest share, bit per string, f = 0, M = 128", ideal),
        exact("reports that 0.1% would need", needed),
        exact(
            "smallest share at the same epsilons, redesigned",
            detectable_frequency_fdr(fitter, REPORTS, HOMEPAGES, ALPHA),
        ),
    ]


def _table(mechanism: BitMechanism, probes: list[Found]) -> Table:
    error = share_error(mechanism)
    rates = {name: np.mean([one.rates(name) for one in probes], axis=0) for name in PROCEDURES}
    columns = {
        "share": [f"{100 * share:.1f}%" for share in PROBED],
        "reports": [round(share * REPORTS) for share in PROBED],
        "standard errors": [float(share / error) for share in PROBED],
        "found by paper's procedure": rates[PAPERS].tolist(),
        "found by our default": rates[DEFAULT].tolist(),
    }
    return Table.of("Share of strings that are found", columns)


def _draw(mechanism: BitMechanism, one: Found, probes: list[Found]) -> figures.Picture:
    figure, axes = figures.panels(width=10.2, height=4.2, columns=2, width_ratios=(1.25, 1))
    _draw_detected(axes[0], one)
    _draw_limit(axes[1], mechanism, probes)
    return figures.picture(
        figure,
        "rappor-figure-6",
        "Left: the candidates that our default finds in one collection of 14 million reports, estimates with 95% "
        f"intervals. Right: share of strings found at each true share, {EACH * len(probes)} strings at each, with "
        "99% intervals.",
        "About forty candidates are found, with 0.5% to 5% each. The chance of being found rises from nothing at 0.2% "
        "through a half near 0.5% to certainty at 0.8%.",
    )


def _draw_detected(axes: Any, one: Found) -> None:
    rows = np.flatnonzero(one.detected[DEFAULT])
    rows = rows[np.argsort(-one.counts[DEFAULT][rows])]
    at, scale = np.arange(1, rows.size + 1), 100 / REPORTS
    heights, errors = scale * one.counts[DEFAULT][rows], 1.96 * scale * one.errors[DEFAULT][rows]
    axes.bar(at, heights, color=figures.OURS, alpha=0.45, linewidth=0)
    axes.errorbar(at, heights, yerr=errors, fmt="none", ecolor=figures.OURS, elinewidth=1.1)
    axes.plot(at, scale * one.held[rows], "_", color=figures.INK, markersize=7, markeredgewidth=1.6)
    figures.panel_title(axes, f"{rows.size} of {HOMEPAGES:,} candidates found")
    marks = (4.6, "bars: estimated", figures.OURS), (4.25, "marks: true (at zero: nobody's)", figures.INK)
    figures.key(axes, 12, marks)
    axes.set(xlabel="homepage, by estimate", ylabel="share of reports (%)", ylim=(-0.08, 5.6))


def _draw_limit(axes: Any, mechanism: BitMechanism, probes: list[Found]) -> None:
    trials, shares = EACH * len(probes), (100 * PROBED).tolist()
    for colour, name, place, align in (
        (figures.ORANGE, PAPERS, (8, -12), "left"),
        (figures.OURS, DEFAULT, (-8, 8), "right"),
    ):
        hits = np.round(trials * np.mean([one.rates(name) for one in probes], axis=0))
        low, high = 100 * np.array([clopper_pearson(int(hit), trials, LEVEL) for hit in hits]).T
        figures.interval(axes, shares, low, high, colour)
        figures.line(axes, shares, 100 * hits / trials, colour, marker="o", linewidth=1.7, markersize=4)
        middle = float(np.interp(0.6, hits / trials, PROBED))
        figures.label(axes, 100 * middle, 60, name, colour, xytext=place, ha=align)
    error = 100 * share_error(mechanism)
    axes.axvspan(0, error, color=figures.MUTED, alpha=0.15, linewidth=0)
    figures.label(axes, error, 91, "one standard\nerror", figures.MUTED)
    axes.axvline(100 * CLAIMED, color=figures.THEIRS, linewidth=1.2, linestyle=figures.DASHED)
    figures.label(axes, 100 * CLAIMED, 76, "the paper: 0.1%", figures.THEIRS)
    figures.panel_title(axes, "What share can be found")
    axes.set(xlabel="true share of reports (%)", ylabel="strings found (%)", xlim=(0, 1.2), ylim=(-2, 102))
