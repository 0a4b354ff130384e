"""Section 4.4's attacker: what can be rebuilt from the reports, with and without the instantaneous round.

Two attackers. One rebuilds the frequencies as the collector does, but takes the reports for permanent responses: the
paper's picture. The other, the best there is against one person, computes the exact posterior of her state from her
reports and names the likeliest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.decoding import decode
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import clopper_pearson
from overstory.files.rappor import hash_candidates
from overstory.privacy.attacks import posterior
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.bits import BitMechanism, rappor_one_time
from papers import figures
from papers.comparison import (
    LEVEL,
    Comparison,
    Published,
    exact,
    proportion,
    simulated,
    stated,
)
from papers.epidemic.fit import CLOSE, PICKED, STATES, asked, fitted, mechanism
from papers.rappor.collections import rates
from papers.study import Context, Study, Table, mean

F64 = NDArray[np.float64]
SAMPLE: Final = 1_000_000
WITH, WITHOUT, KNOWING = "with the instantaneous round", "without it", "with it, p and q known"
SEEN: Final = (1, 3, 10, 30)
POOR, GOOD = "poor", "close"

NOTES: Final = f"""
{PICKED}

The paper does not say how its attacker rebuilds the frequencies. Ours decodes by Lasso and scales to one, but takes the
reports for permanent responses. One who knows p and q, which are public, rebuilds them as well as the collector does:
frequencies are what a survey is for. What the rounds protect is a person.

Against a person: the instantaneous round hides much from one who sees few reports. One who sees many learns the
permanent response, which is as much as one report without the round, and bounded by epsilon_infinity.
"""


@dataclass(frozen=True, eq=False)
class Rebuilt:
    """Frequencies as one attacker rebuilds them, in one run."""

    truth: F64
    by: dict[str, F64]


def run(context: Context) -> Study:
    """Attack the survey's frequencies, then persons."""
    runs, persons = context.pick(quick=3, full=10), context.pick(quick=150, full=3000)
    surveys = [_rebuild(context.rng(0, number)) for number in context.steps(range(runs), "surveys rebuilt")]
    hits = {n: _named(context, mechanism(), n, persons) for n in SEEN}
    bare = _named(context, _bare(), 1, persons)
    return Study(
        inputs={"states": list(STATES), "respondents": SAMPLE, "persons attacked": persons, "runs": runs},
        comparisons=_compare(surveys, hits, bare),
        tables=[_table(hits, bare)],
        figures=[_draw(surveys[0], hits, bare)],
        notes=NOTES,
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
    frequencies = decode(counts, candidates, **rates(supposed), method="lasso").frequencies
    return np.asarray(frequencies / frequencies.sum())


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


def in_words(truth: F64, rebuilt: F64) -> str:
    """Put a fit into a word."""
    return GOOD if fitted(rebuilt, truth) >= CLOSE else POOR


def _compare(surveys: list[Rebuilt], hits: dict[int, list[bool]], bare: list[bool]) -> list[Comparison]:
    poor = Published(POOR, "section 4.4, figure 8")
    rows = []
    for name in surveys[0].by:
        words = sorted({in_words(survey.truth, survey.by[name]) for survey in surveys})
        rows.append(stated(f"the attacker's frequencies, {name}", " or ".join(words), poor if name == WITH else None))
    for name in surveys[0].by:
        fits = [fitted(survey.by[name], survey.truth) for survey in surveys]
        rows.append(simulated(f"R squared, {name}", fits, averaged=len(surveys)))
    rows.append(exact("persons named rightly by chance", 1 / len(STATES)))
    for reports, right in hits.items():
        name = f"persons named rightly from {reports} report{'s' * (reports > 1)}"
        rows.append(proportion(name, sum(right), len(right)))
    rows.append(proportion("persons named rightly from one report without the round", sum(bare), len(bare)))
    return rows


def _table(hits: dict[int, list[bool]], bare: list[bool]) -> Table:
    rows = [(f"{n} with both rounds", mechanism().epsilon_n(n), mean(right)) for n, right in hits.items()]
    rows.append(("one without the instantaneous round", _bare().epsilon_report, mean(bare)))
    rows.append(("none", 0.0, 1 / len(STATES)))
    return Table("Persons whose state the best attacker names", ("reports seen", "epsilon", "share named"), tuple(rows))


def _draw(survey: Rebuilt, hits: dict[int, list[bool]], bare: list[bool]) -> figures.Picture:
    figure, (frequencies, persons) = figures.panels(width=10.2, height=4.4, columns=2, width_ratios=(1.9, 1))
    _draw_frequencies(frequencies, survey)
    _draw_persons(persons, hits, mean(bare))
    return figures.picture(
        figure,
        "epidemic-attacker",
        f"Left: frequencies rebuilt by one who takes a million reports for permanent responses. Right: persons whose "
        f"state the best attacker names from her reports, {len(bare)} persons, with 99% intervals.",
        "With the instantaneous round the rebuilt frequencies are far from the true ones, without it they are close. "
        "From one report few persons are named, from thirty as many as without the round.",
    )


def _draw_frequencies(axes: Any, survey: Rebuilt) -> None:
    order, at = np.argsort(-survey.truth), np.arange(len(STATES))
    figures.bars(axes, at, 100 * survey.truth[order], figures.MUTED, width=0.8)
    for colour, name in ((figures.VERMILION, WITH), (figures.OURS, WITHOUT)):
        axes.plot(at, 100 * survey.by[name][order], "o", color=colour, markersize=4)
    top = max(100 * max(float(survey.truth.max()), float(survey.by[WITH].max())), 1.0)
    entries = (
        (0.98, "bars: true share", figures.MUTED),
        (0.91, f"rebuilt from reports {WITH}", figures.VERMILION),
        (0.84, "rebuilt from reports without it", figures.OURS),
    )
    figures.key(axes, 7, [(y * top, text, colour) for y, text, colour in entries])
    axes.set_xticks(at, [STATES[i] for i in order], rotation=60, ha="right", fontsize=8)
    axes.set(ylabel="share of the infected (%)", xlim=(-0.8, len(STATES) - 0.2))
    figures.panel_title(axes, "Frequencies, from reports taken for permanent responses")


def _draw_persons(axes: Any, hits: dict[int, list[bool]], bare: float) -> None:
    axes.set(xscale="log")
    shares = [100 * mean(right) for right in hits.values()]
    low, high = 100 * np.array([clopper_pearson(sum(right), len(right), LEVEL) for right in hits.values()]).T
    figures.interval(axes, SEEN, low, high, figures.VERMILION)
    figures.line(axes, SEEN, shares, figures.VERMILION, marker="o", linewidth=1.7, markersize=4)
    figures.label(axes, SEEN[0], shares[0], "both rounds", figures.VERMILION, xytext=(4, 14))
    for y, name, colour, up in (
        (100 * bare, "one report without the round", figures.OURS, 7),
        (100 / len(STATES), "by chance", figures.MUTED, -8),
    ):
        figures.level(axes, y, colour, name, SEEN[0], linewidth=1.2, place={"xytext": (4, up)})
    axes.minorticks_off()
    axes.set_xticks(SEEN, [str(n) for n in SEEN])
    top = 1.15 * max(100 * bare, high[-1])
    axes.set(xlabel="reports seen of one person", ylabel="persons whose state is named (%)", ylim=(0, top))
    figures.panel_title(axes, "Persons, by the exact posterior")
