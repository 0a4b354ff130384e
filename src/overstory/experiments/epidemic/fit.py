"""Section 4.4 (estimated against true frequencies) and section 3 (Warner's one-hot form), on the real figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.oracle import FrequencyOracle, frequency_oracle
from overstory.experiments.accumulation import accumulated
from overstory.experiments.comparison import Comparison, Published, exact, simulated, stated
from overstory.experiments.epidemic.respondents import CASES, CLOSE, PICKED, STATES, asked, fitted, mechanism
from overstory.experiments.registry import Context
from overstory.experiments.result import Cell, Result, Table
from overstory.presentation import figures
from overstory.presentation.svg import Picture

F64 = NDArray[np.float64]
LASSO, DEFAULT, ONE_HOT = "RAPPOR, the paper's Lasso", "RAPPOR, our default", "one-hot (section 3)"
FITS: Final = "fits closely"
FORMULA: Final = "formula (2): F = (N_j - (1 - p) n) / (2p - 1)"

_NOTES: Final = (
    PICKED,
    (
        "Respondents are the confirmed cases themselves: all in the full run, every tenth in quick mode. We say "
        "that an estimate fits closely when R squared about the line of equality is at least 0.95."
    ),
    (
        "One-hot at the same epsilon of one report is more precise, for nothing collides; it has no second round here, "
        "and its list of states is part of the report's format, while a Bloom filter's can grow later."
    ),
)


@dataclass(frozen=True, eq=False)
class Survey:
    """One survey: estimates and standard errors of every state's share, by decoder."""

    truth: F64
    estimates: dict[str, F64]
    errors: dict[str, F64]
    from_formula: float

    def covered(self, name: str) -> float:
        """Return the share of states whose 95% interval holds the truth."""
        return float(np.mean(np.abs(self.estimates[name] - self.truth) <= 1.96 * self.errors[name]))

    def error(self, name: str) -> float:
        """Return the root mean square error of a state's share."""
        return float(np.sqrt(np.mean((self.estimates[name] - self.truth) ** 2)))


def run(context: Context) -> Result:
    """Survey the infected, by RAPPOR and by Warner's one-hot form."""
    runs, share = context.pick(quick=4, full=6), context.pick(quick=0.1, full=1.0)
    symbols = asked(share)
    found = [_survey(symbols, context.rng(number)) for number in context.steps(range(runs), "surveys")]
    return context.result(
        _compare(found),
        inputs={
            "states": list(STATES),
            "respondents": len(symbols),
            "k": 128,
            "h": 2,
            "m": 16,
            "f": 0.5,
            "p": 0.5,
            "q": 0.75,
            "one-hot epsilon": mechanism().epsilon_report,
            "runs": runs,
        },
        random=True,
        tables=[_table(found[0])],
        figures=[_draw(found[0], len(symbols))],
        notes=_NOTES,
    )


def _survey(symbols: NDArray[np.int32], rng: np.random.Generator) -> Survey:
    oracle = FrequencyOracle(mechanism())
    counts = accumulated(oracle, oracle.devices(symbols, rng, candidates=STATES))
    truth = np.bincount(symbols, minlength=len(STATES)) / len(symbols)
    decoded = {LASSO: oracle.estimate(counts, STATES, method="lasso"), DEFAULT: oracle.estimate(counts, STATES)}
    warner = frequency_oracle("sue", domain_size=len(STATES), epsilon=mechanism().epsilon_report)
    flipped = accumulated(warner, warner.devices(symbols, rng))
    decoded[ONE_HOT] = warner.estimate(flipped)
    p, n = float(warner.mechanism.p_star), len(symbols)
    by_formula = (flipped.ones.sum(axis=0) - (1 - p) * n) / (2 * p - 1)
    return Survey(
        truth,
        {name: one.raw_frequencies for name, one in decoded.items()},
        {name: one.frequency_standard_errors for name, one in decoded.items()},
        float(np.abs(decoded[ONE_HOT].raw_counts - by_formula).max()),
    )


def _fit(found: list[Survey], name: str) -> list[float]:
    return [fitted(one.estimates[name], one.truth) for one in found]


def _compare(found: list[Survey]) -> list[Comparison]:
    runs = len(found)
    said = FITS if min(_fit(found, LASSO)) >= CLOSE else "does not fit closely"
    rows = [
        stated("estimated against true frequencies", said, Published(FITS, "section 4.4")),
        exact(
            "largest difference of our one-hot count from its formula",
            max(one.from_formula for one in found),
            Published(0.0, f"section 3, {FORMULA}", within=0.01),
            unit="reports",
        ),
    ]
    for name in (LASSO, DEFAULT, ONE_HOT):
        rows.append(simulated(f"R squared, {name}", _fit(found, name), averaged=runs))
        rows.append(simulated(f"error of a share, {name}", [one.error(name) for one in found], averaged=runs))
    covered = [one.covered(DEFAULT) for one in found]
    rows.append(simulated("95% intervals that hold the truth, our default", covered, averaged=runs))
    return rows


def _table(one: Survey) -> Table:
    order = np.argsort(-one.truth)
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (
            STATES[i],
            int(CASES[i]),
            float(one.truth[i]),
            *(float(one.estimates[name][i]) for name in (LASSO, DEFAULT, ONE_HOT)),
            float(one.errors[DEFAULT][i]),
        )
        for i in order
    )
    columns = ("state", "confirmed cases", "true share", LASSO, DEFAULT, ONE_HOT, "its standard error")
    return Table("Shares of the infected, one survey", columns, rows)


def _draw(one: Survey, respondents: int) -> Picture:
    figure, axes = figures.panels(width=9.4, height=4.4)
    order = np.argsort(-one.truth)
    at = np.arange(len(STATES))
    axes.bar(at, 100 * one.truth[order], width=0.8, color=figures.MUTED, alpha=0.4, linewidth=0)
    for shift, colour, name in (
        (-0.22, figures.THEIRS, LASSO),
        (0.0, figures.OURS, DEFAULT),
        (0.22, figures.GREEN, ONE_HOT),
    ):
        errors = np.where(np.isfinite(one.errors[name]), one.errors[name], 0.0)[order]
        axes.errorbar(
            at + shift,
            100 * one.estimates[name][order],
            yerr=196 * errors,
            fmt="o",
            markersize=3.2,
            color=colour,
            elinewidth=1.1,
        )
    top = 100 * one.truth.max()
    for y, words, colour in (
        (1.0, "bars: true share", figures.MUTED),
        (0.92, "RAPPOR, the paper's Lasso", figures.THEIRS),
        (0.84, "RAPPOR, our default", figures.OURS),
        (0.76, "one-hot, the same epsilon of a report", figures.GREEN),
    ):
        figures.label(axes, 9, y * top, words, colour, xytext=(0, 0))
    axes.set_xticks(at, [STATES[i] for i in order], rotation=60, ha="right", fontsize=8)
    axes.set(ylabel="share of the infected (%)", xlim=(-0.8, len(STATES) - 0.2))
    return figures.picture(
        figure,
        "epidemic-fit",
        f"Confirmed infections in 26 states on 18 April 2021, from one randomized report of each of {respondents:,} "
        "people; bars of the estimates are 95% intervals.",
        "The estimates of all three decoders lie close to the true shares, in every state.",
    )
