"""Section 4.4's attacker: what can be rebuilt from the reports, with and without the instantaneous round.

Two attackers. One rebuilds the frequencies as the collector does, but takes the reports for permanent responses: the
paper's picture. The other, the best there is against one person, computes the exact posterior of her state from her
reports and names the likeliest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.decoding import decode
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.experiments.comparison import (
    Comparison,
    Published,
    clopper_pearson,
    exact,
    proportion,
    simulated,
    stated,
)
from overstory.experiments.epidemic.respondents import CLOSE, PICKED, STATES, asked, fitted, mechanism
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.files.candidates import hash_candidates
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.privacy.attacks.posterior import posterior
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.payloads import BitMechanism
from overstory.protocol.mechanisms.rappor import rappor_one_time

F64 = NDArray[np.float64]
SAMPLE: Final = 1_000_000
WITH, WITHOUT, KNOWING = "with the instantaneous round", "without it", "with it, p and q known"
SEEN: Final = (1, 3, 10, 30)
POOR, GOOD = "poor", "close"

_NOTES: Final = (
    PICKED,
    (
        "The paper does not say how its attacker rebuilds the frequencies. Ours decodes by Lasso and scales "
        "to one, but takes the reports for permanent responses. One who knows p and q, which are public, rebuilds them "
        "as well as the collector does: frequencies are what a survey is for. What the rounds protect is a person."
    ),
    (
        "Against a person: the instantaneous round hides much from one who sees few reports. One who sees many learns "
        "the permanent response, which is as much as one report without the round, and bounded by epsilon_infinity."
    ),
)


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """Frequencies as one attacker rebuilds them, in one run."""

    truth: F64
    by: dict[str, F64]


def run(context: Context) -> Result:
    """Attack the survey's frequencies, then persons."""
    runs, persons = context.pick(quick=3, full=10), context.pick(quick=150, full=3000)
    frequencies = [_rebuild(context.rng(0, number)) for number in context.steps(range(runs), "surveys rebuilt")]
    told = {n: _named(context, mechanism(), n, persons) for n in SEEN}
    bare = _named(context, _bare(), 1, persons)
    return context.result(
        _compare(frequencies, told, bare),
        inputs={"states": list(STATES), "respondents": SAMPLE, "persons attacked": persons, "runs": runs},
        random=True,
        tables=[_table(told, bare)],
        figures=[_draw(frequencies[0], told, bare)],
        notes=_NOTES,
    )


def _bare() -> BitMechanism:
    """Return the same survey without the instantaneous round."""
    return rappor_one_time(num_bits=128, num_hashes=2, num_cohorts=16, f=0.5)


def _rebuild(rng: np.random.Generator) -> Rebuilt:
    everyone = asked()
    symbols = everyone[rng.integers(0, len(everyone), SAMPLE)]
    truth = np.bincount(symbols, minlength=len(STATES)) / SAMPLE
    permanent, both = _bare(), mechanism()
    by = {
        WITH: _frequencies(both, permanent, symbols, rng),
        WITHOUT: _frequencies(permanent, permanent, symbols, rng),
        KNOWING: _frequencies(both, both, symbols, rng),
    }
    return Rebuilt(truth, by)


def _frequencies(
    sent: BitMechanism, supposed: BitMechanism, symbols: NDArray[np.int32], rng: np.random.Generator
) -> F64:
    """Return the frequencies that one decodes who supposes another mechanism than the one that sent the reports."""
    oracle = FrequencyOracle(sent)
    counts = oracle.accumulate(oracle.simulate(symbols, rng, candidates=STATES))
    candidates = hash_candidates(STATES, sent.encoding)
    kept, raised = float(supposed.p_star), float(supposed.q_star)
    found = decode(counts, candidates, p_star=kept, q_star=raised, method="lasso").frequencies
    return np.asarray(found / found.sum())


def _named(context: Context, used: BitMechanism, reports: int, persons: int) -> list[bool]:
    """Attack persons, as many of each state, by so many reports each; return whether the likeliest state is hers."""
    rng = context.rng(1, reports, int(used.epsilon_report * 1000))
    symbols = np.arange(persons, dtype=np.int32) % len(STATES)
    devices = FrequencyOracle(used).devices(symbols, rng, candidates=STATES)
    batches = [devices.report(index) for index in range(reports)]
    even = dict.fromkeys(STATES, 1.0)
    hits = []
    for row in context.steps(range(persons), f"persons, {reports} reports each"):
        believed = posterior(used, _reports(batches, row), even)
        hits.append(max(believed, key=lambda state: believed[state]) == STATES[symbols[row]])
    return hits


def _reports(batches: Sequence[ReportBatch], row: int) -> list[Report]:
    return [
        Report(int(batch.cohorts[row]), sum(int(word) << (64 * i) for i, word in enumerate(batch.bits[row])))
        for batch in batches
    ]


def said(truth: F64, rebuilt: F64) -> str:
    """Put a fit into a word."""
    return GOOD if fitted(rebuilt, truth) >= CLOSE else POOR


def _compare(found: list[Rebuilt], told: dict[int, list[bool]], bare: list[bool]) -> list[Comparison]:
    where = "section 4.4, figure 8"
    words = {name: {said(one.truth, one.by[name]) for one in found} for name in found[0].by}
    rows = [
        stated(f"the attacker's frequencies, {WITH}", " or ".join(sorted(words[WITH])), Published(POOR, where)),
        stated(f"the attacker's frequencies, {WITHOUT}", " or ".join(sorted(words[WITHOUT]))),
        stated(f"the attacker's frequencies, {KNOWING}", " or ".join(sorted(words[KNOWING]))),
    ]
    for name in found[0].by:
        fits = [fitted(one.by[name], one.truth) for one in found]
        rows.append(simulated(f"R squared, {name}", fits, averaged=len(found)))
    rows.append(exact("persons named rightly by chance", 1 / len(STATES)))
    for reports, hits in told.items():
        name = f"persons named rightly from {reports} report{'s' * (reports > 1)}"
        rows.append(proportion(name, sum(hits), len(hits)))
    rows.append(proportion("persons named rightly from one report without the round", sum(bare), len(bare)))
    return rows


def _table(told: dict[int, list[bool]], bare: list[bool]) -> Table:
    used, permanent = mechanism(), _bare()
    rows = [(f"{n} with both rounds", used.epsilon_n(n), float(np.mean(hits))) for n, hits in told.items()]
    rows.append(("one without the instantaneous round", permanent.epsilon_report, float(np.mean(bare))))
    rows.append(("none", 0.0, 1 / len(STATES)))
    return Table("Persons whose state the best attacker names", ("reports seen", "epsilon", "share named"), tuple(rows))


def _draw(one: Rebuilt, told: dict[int, list[bool]], bare: list[bool]) -> Picture:
    figure, axes = figures.panels(width=10.2, height=4.4, columns=2, width_ratios=(1.9, 1))
    bars, line = axes
    order = np.argsort(-one.truth)
    at = np.arange(len(STATES))
    bars.bar(at, 100 * one.truth[order], width=0.8, color=figures.MUTED, alpha=0.4, linewidth=0)
    for colour, name in ((figures.VERMILION, WITH), (figures.OURS, WITHOUT)):
        bars.plot(at, 100 * one.by[name][order], "o", color=colour, markersize=4)
    top = max(100 * max(float(one.truth.max()), float(one.by[WITH].max())), 1.0)
    for y, words, colour in (
        (0.98, "bars: true share", figures.MUTED),
        (0.91, f"rebuilt from reports {WITH}", figures.VERMILION),
        (0.84, "rebuilt from reports without it", figures.OURS),
    ):
        figures.label(bars, 7, y * top, words, colour, xytext=(0, 0))
    bars.set_xticks(at, [STATES[i] for i in order], rotation=60, ha="right", fontsize=8)
    bars.set(ylabel="share of the infected (%)", xlim=(-0.8, len(STATES) - 0.2))
    figures.panel_title(bars, "Frequencies, from reports taken for permanent responses")
    middle = [100 * float(np.mean(hits)) for hits in told.values()]
    low, high = 100 * np.array([clopper_pearson(sum(hits), len(hits)) for hits in told.values()]).T
    figures.band(line, SEEN, low.tolist(), high.tolist(), figures.VERMILION)
    line.semilogx(SEEN, middle, "o-", color=figures.VERMILION, linewidth=1.7, markersize=4)
    figures.label(line, SEEN[0], middle[0], "both rounds", figures.VERMILION, xytext=(4, 14))
    without = 100 * float(np.mean(bare))
    for y, words, colour in (
        (without, "one report without the round", figures.OURS),
        (100 / len(STATES), "by chance", figures.MUTED),
    ):
        line.axhline(y, color=colour, linewidth=1.2, linestyle=(0, (4, 3)))
        figures.label(line, SEEN[0], y, words, colour, xytext=(4, 7 if colour == figures.OURS else -8))
    line.minorticks_off()
    line.set_xticks(SEEN, [str(n) for n in SEEN])
    line.set(
        xlabel="reports seen of one person",
        ylabel="persons whose state is named (%)",
        ylim=(0, 1.15 * max(without, high[-1])),
    )
    figures.panel_title(line, "Persons, by the exact posterior")
    return figures.picture(
        figure,
        "epidemic-attacker",
        f"Left: frequencies rebuilt by one who takes a million reports for permanent responses. Right: persons whose "
        f"state the best attacker names from her reports, {len(bare)} persons, with 99% intervals.",
        "With the instantaneous round the rebuilt frequencies are far from the true ones, without it they are close. "
        "From one report few persons are named, from thirty as many as without the round.",
    )
