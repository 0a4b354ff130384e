"""Table 2, section 5.3: process names of 10,133 machines in 186,792 reports, with the variance that such reports have.

A machine's reports of one name share a permanent response; of two names they do not. The paper does not say how often
a name came twice from one machine, so three kinds of machine are simulated: each name once, names sampled from what
runs, and one name only. What a report's error is then lies between nothing shared and all shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from overstory.analysis.variance import design_effect
from overstory.planning.detection import count_error, critical_value, detectable_frequency, detectable_frequency_fdr
from overstory.protocol.kinds.bits import BitMechanism, basic_rappor_one_time
from papers import figures
from papers.comparison import LEVEL, Comparison, Published, about, exact, printed, proportion, simulated
from papers.rappor.collections import (
    DEFAULT,
    F64,
    KINDS,
    MACHINES,
    MALICIOUS,
    NAMES,
    PAPERS,
    PER_MACHINE,
    PRINTED,
    PROCEDURES,
    REPORTS,
    RUNNING,
    SAMPLED,
    collect,
    collected,
)
from papers.study import Context, Study, Table, each, letters, mean

TOLD: Final = f"{DEFAULT}, told what is shared"
TOLD_MOST: Final = f"{DEFAULT}, told 18.4 per machine"

NOTES: Final = """
The population is ours: the ten names at the shares that Table 2 estimates, and 190 rarer ones, none above 1%, that hold
the rest. The paper gives neither the candidates nor how often a machine sent one name.

A frequent name near the limit is found in most collections, not all; a rarer one is found now and then. So the ten
names of one collection are not quite those of the next.

The ten names of the paper begin at 2.5%. Estimates of shares as large scatter by .66%, and those that fall lower are
found, too, down to the limit: of the smallest, one collection says too little for a verdict.

The paper's 1,212 is what reports that share nothing have. Had every machine sent one name only, its residual variance
would have shown it: so names that one machine sent were mostly different ones, or few.

An analyst cannot see which reports share a response. Told 18.4 reports per device she gets the upper bound, right if
each machine sent one name; told nothing, our default widens its errors by the residual dispersion.
"""


@dataclass(frozen=True, eq=False)
class Decodings:
    """One collection of one kind of machine, decoded."""

    per_response: float
    held: F64
    detected: dict[str, NDArray[np.bool_]]
    estimates: dict[str, F64]
    errors: dict[str, F64]

    def shares_detected(self, procedure: str) -> F64:
        """Return the estimated shares of the names that a procedure detects."""
        return np.asarray(self.estimates[procedure][self.detected[procedure]] / self.held.sum())


def run(context: Context) -> Study:
    """Collect from the three kinds of machine, decode, and compare what errors are stated with what they are."""
    runs = context.pick(quick=12, full=100)
    mechanism = collected(0.5, num_cohorts=8)
    decodings: dict[str, list[Decodings]] = {}
    for which, kind in enumerate(KINDS):
        rngs = [context.rng(which, number) for number in range(runs)]
        decodings[kind] = [_once(mechanism, kind, rng) for rng in context.steps(rngs, kind)]
    return Study(
        inputs={"N": REPORTS, "machines": MACHINES, **letters(mechanism), "candidates": len(NAMES)}
        | {"names running on a machine": RUNNING, "false discovery rate": 0.05, "runs": runs},
        comparisons=_compare(mechanism, decodings),
        tables=[_errors_table(mechanism, decodings), _detected_table(decodings[SAMPLED])],
        figures=[_draw(mechanism, decodings[SAMPLED][0])],
        notes=NOTES,
    )


def _once(mechanism: BitMechanism, kind: str, rng: np.random.Generator) -> Decodings:
    sent = KINDS[kind](rng)
    drawn = collect(mechanism, sent, rng)
    procedures: dict[str, dict[str, Any]] = {
        **PROCEDURES,
        TOLD: _shared(mechanism, sent.per_response),
        TOLD_MOST: _shared(mechanism, PER_MACHINE),
    }
    decoded = {name: drawn.decoded(mechanism, **choices) for name, choices in procedures.items()}
    return Decodings(
        sent.per_response,
        drawn.held.astype(np.float64),
        {name: one.detected() for name, one in decoded.items()},
        {name: one.raw_counts for name, one in decoded.items()},
        {name: one.standard_errors for name, one in decoded.items()},
    )


def _shared(mechanism: BitMechanism, per_device: float) -> dict[str, Any]:
    return {"permanent": mechanism.rounds.permanent, "reports_per_device": per_device}


def _stated(runs: list[Decodings], procedure: str) -> list[float]:
    """Return each collection's mean standard error of the ten names."""
    errors = [run.errors[procedure][: len(PRINTED)] for run in runs]
    return [float(of_names[np.isfinite(of_names)].mean()) for of_names in errors]


def _real(runs: list[Decodings], procedure: str = DEFAULT) -> float:
    """Return the root mean square error of the ten names' counts."""
    misses = [(run.estimates[procedure] - run.held)[: len(PRINTED)] for run in runs]
    return float(np.sqrt(np.mean(np.square(misses))))


def naive_error(mechanism: BitMechanism, fitted: int = len(PRINTED)) -> float:
    """Return the standard error of a count when no two reports share anything."""
    return count_error(mechanism, REPORTS, 0.0, fitted)


def _compare(mechanism: BitMechanism, decodings: dict[str, list[Decodings]]) -> list[Comparison]:
    where, section = "table 2", "section 5.3"
    middle = decodings[SAMPLED]
    names = [int(np.count_nonzero(run.detected[PAPERS])) for run in middle]
    malicious = [float(run.estimates[DEFAULT][MALICIOUS] / run.held.sum()) for run in middle]
    largest = [float(run.shares_detected(PAPERS).max(initial=0.0)) for run in middle]
    smallest = [float(run.shares_detected(PAPERS).min(initial=1.0)) for run in middle]
    table = np.array(list(PRINTED.values())) / REPORTS
    most = Published(float(table.max()), f"{where}: 8,054 reports; {section}: up to 4.5%")
    least = float(table.min())  # 4,760 reports: "from 2.5%"
    basic = basic_rappor_one_time(domain_size=128, p=0.5, q=0.75)
    optimistic = detectable_frequency(basic, REPORTS, 128, critical_value(0.05, 128))
    optimistically = about(0.015, f"{section}: optimistically")
    naive = naive_error(mechanism)
    because = "the paper's population is not known; ours has ten names above 2.5%, and none of the others reaches 1%"
    rows = [
        simulated("names found by the paper's procedure", names, printed("10", where), because=because),
        simulated("share of BADAPPLE.COM, our default", malicious, printed("0.026", section)),
        simulated("largest share of a name found", largest, most, because=because),
        simulated("smallest share of a name found", smallest),
        proportion(
            "collections that find no name below the paper's 2.5%", sum(s >= least for s in smallest), len(smallest)
        ),
        exact("share that can be found, bit per name, f = 0, M = 128", optimistic, optimistically),
        exact("share that can be found here", detectable_frequency_fdr(mechanism, REPORTS, len(NAMES), 0.05)),
        simulated("standard error of a count, paper's procedure", _stated(middle, PAPERS), printed("1212", where)),
        exact("standard error if nothing is shared", naive),
        exact("standard error if all of a machine's reports share", naive * _widening(mechanism)),
    ]
    for kind, runs in decodings.items():
        shared = each(runs, "per_response")
        rows.append(simulated(f"reports that share a response, {kind}", shared, averaged=len(runs)))
        rows.append(_ratio(kind, _real(runs, TOLD) / mean(_stated(runs, TOLD)), len(runs)))
    return rows


def _ratio(kind: str, ratio: float, runs: int) -> Comparison:
    """Return real over stated error, with the interval that a root mean square of ten misses a collection has."""
    degrees = len(PRINTED) * runs
    low, high = (
        ratio * float(np.sqrt(degrees / chi2.ppf(level, degrees))) for level in ((1 + LEVEL) / 2, (1 - LEVEL) / 2)
    )
    return Comparison(f"real error over stated, {kind}", ratio, low, high)


def _widening(mechanism: BitMechanism) -> float:
    """Return by how much errors grow where every machine sends one name only."""
    return float(np.sqrt(design_effect(mechanism, PER_MACHINE)))


def _errors_table(mechanism: BitMechanism, decodings: dict[str, list[Decodings]]) -> Table:
    naive, kinds = round(naive_error(mechanism, len(NAMES))), list(decodings.values())
    columns: dict[str, list[Any]] = {
        "each machine sends": list(decodings),
        "R": [mean(each(runs, "per_response")) for runs in kinds],
        "naive, 200 fitted": [naive for _ in kinds],
    }
    for name in kinds[0][0].errors:
        columns[name.removeprefix(f"{DEFAULT}, ")] = [round(mean(_stated(runs, name))) for runs in kinds]
    columns["real error"] = [round(_real(runs)) for runs in kinds]
    return Table.of("Standard error of a count as stated, and the real one (our default's)", columns)


def _detected_table(runs: list[Decodings]) -> Table:
    ten = range(len(PRINTED))
    columns: dict[str, list[Any]] = {
        "name": list(PRINTED),
        "paper's est.": list(PRINTED.values()),
        "our truth": [round(mean([run.held[i] for run in runs])) for i in ten],
        "our mean est.": [round(mean([run.estimates[DEFAULT][i] for run in runs])) for i in ten],
    }
    headings = {PAPERS: "found by paper's", DEFAULT: "by our default"}
    for name in runs[0].detected:
        heading = headings.get(name, name.removeprefix(f"{DEFAULT}, "))
        columns[heading] = [mean([run.detected[name][i] for run in runs]) for i in ten]
    return Table.of(f"The ten names, {SAMPLED}: share of collections in which each is found", columns)


def _draw(mechanism: BitMechanism, run: Decodings) -> figures.Picture:
    figure, axes = figures.panels(width=7.6, height=4.4)
    at, naive = np.arange(len(PRINTED)), naive_error(mechanism, len(NAMES))
    estimates = run.estimates[DEFAULT][: len(PRINTED)]
    for error, width, colour in ((naive * _widening(mechanism), 1.2, figures.SKY), (naive, 3.4, figures.OURS)):
        axes.errorbar(estimates, at, xerr=1.96 * error, fmt="none", ecolor=colour, elinewidth=width)
    axes.plot(estimates, at, "o", color=figures.OURS, markersize=5)
    axes.plot(run.held[: len(PRINTED)], at, "|", color=figures.INK, markersize=12, markeredgewidth=1.8)
    axes.plot(list(PRINTED.values()), at + 0.28, "*", color=figures.THEIRS, markersize=7)
    axes.set_yticks(at, list(PRINTED))
    axes.invert_yaxis()
    entries = (
        (5.6, "black: true count", figures.INK),
        (6.4, "dot, thick line: our estimate,\n95% if no response is shared", figures.OURS),
        (7.7, "thin line: 95% if each machine\nsent one name 18 times", figures.SKY),
        (8.8, "star: the paper's estimate", figures.THEIRS),
    )
    figures.key(axes, 10_600, entries)
    axes.set(xlabel="reports", xlim=(0, 15_500))
    return figures.picture(
        figure,
        "rappor-table-2",
        f"The ten names in one collection of {REPORTS:,} reports from {MACHINES:,} machines ({SAMPLED}).",
        "Ten names with estimates between about 4,000 and 9,000 reports; intervals that count shared responses are a "
        "third wider than those that do not.",
    )
