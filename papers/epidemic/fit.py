"""Section 4.4 (estimated against true frequencies) and section 3 (Warner's one-hot form), on the real figures.

Who is asked: people with a confirmed infection on 18 April 2021, in 26 states; the answer is the state's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.oracle import oracle as build_oracle
from overstory.protocol.kinds.bits import BitMechanism
from overstory.trial.population import CONFIRMED
from papers import figures
from papers.comparison import Comparison, Published, exact, simulated, stated
from papers.rappor.collections import collected
from papers.study import Context, Study, Table, accumulate, letters

ELSEWHERE: Final = {
    "American Samoa",
    "Diamond Princess",
    "Grand Princess",
    "Guam",
    "Northern Mariana Islands",
    "Virgin Islands",
}
STATES: Final = tuple(sorted(set(CONFIRMED) - ELSEWHERE))[::2]
"""Every second one, by alphabet, of the states, the District of Columbia and Puerto Rico: the paper names none."""
CASES: Final = np.array([CONFIRMED[state] for state in STATES])
CLOSE: Final = 0.95
"""Share of the variance between the states (R squared) from which we call a fit close."""

PICKED: Final = """
The paper samples 26 states and does not say which; ours are every other one by alphabet. Nor are its parameters
known: ours are those of RAPPOR's section 5.2 (k = 128, h = 2, m = 16, f = 0.5, p = 0.5, q = 0.75).
"""


def mechanism() -> BitMechanism:
    """Return the RAPPOR that the respondents use."""
    return collected(0.5)


def asked(share: float = 1.0) -> NDArray[np.int32]:
    """Return each respondent's state, as an index: everybody infected, or the same share of each state.

    Examples
    --------
    >>> len(STATES), len(asked()), len(asked(0.1))
    (26, 19053805, 1905369)
    """
    return np.repeat(np.arange(len(STATES), dtype=np.int32), np.floor(CASES * share + 1e-9).astype(np.int64))


def fitted(estimated: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """Return R squared of estimated frequencies about the line of equality: 1 is perfect, below 0 worse than none.

    Examples
    --------
    >>> fitted(np.array([0.1, 0.9]), np.array([0.1, 0.9])), fitted(np.array([0.5, 0.5]), np.array([0.1, 0.9]))
    (1.0, 0.0)
    """
    return float(1 - ((estimated - truth) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())


F64 = NDArray[np.float64]
LASSO, DEFAULT, ONE_HOT = "RAPPOR, the paper's Lasso", "RAPPOR, our default", "one-hot (section 3)"
FITS: Final = "fits closely"
FORMULA: Final = "formula (2): F = (N_j - (1 - p) n) / (2p - 1)"

NOTES: Final = f"""
{PICKED}

Respondents are the confirmed cases themselves: all in the full run, every twentieth in quick mode. We say that an
estimate fits closely when R squared about the line of equality is at least 0.95.

One-hot at the same epsilon of one report is more precise, for nothing collides; it has no second round here, and its
list of states is part of the report's format, while a Bloom filter's can grow later.
"""


@dataclass(frozen=True, eq=False)
class Survey:
    """One survey: estimates and standard errors of every state's share, shape (26,), by decoder."""

    truth: F64
    estimates: dict[str, F64]
    errors: dict[str, F64]
    from_formula: float  # the largest difference of a one-hot count from the paper's formula

    def covered(self, name: str) -> float:
        """Return the share of states whose 95% interval holds the truth."""
        return float(np.mean(np.abs(self.estimates[name] - self.truth) <= 1.96 * self.errors[name]))

    def error(self, name: str) -> float:
        """Return the root mean square error of a state's share."""
        return float(np.sqrt(np.mean((self.estimates[name] - self.truth) ** 2)))


def run(context: Context) -> Study:
    """Survey the infected, by RAPPOR and by Warner's one-hot form."""
    runs, share = context.pick(quick=4, full=6), context.pick(quick=0.05, full=1.0)
    symbols, used = asked(share), mechanism()
    surveys = [_survey(symbols, context.rng(number)) for number in context.steps(range(runs), "surveys")]
    return Study(
        inputs={"states": list(STATES), "respondents": len(symbols), **letters(used)}
        | {"one-hot epsilon": used.epsilon_report, "runs": runs},
        comparisons=_compare(surveys),
        tables=[_table(surveys[0])],
        figures=[_draw(surveys[0], len(symbols))],
        notes=NOTES,
    )


def _survey(symbols: NDArray[np.int32], rng: np.random.Generator) -> Survey:
    oracle = FrequencyOracle(mechanism())
    counts = accumulate(oracle, oracle.devices(symbols, rng, candidates=STATES))
    truth = np.bincount(symbols, minlength=len(STATES)) / len(symbols)
    decoded = {LASSO: oracle.estimate(counts, STATES, method="lasso"), DEFAULT: oracle.estimate(counts, STATES)}
    warner = build_oracle("sue", domain_size=len(STATES), epsilon=mechanism().epsilon_report)
    flipped = accumulate(warner, warner.devices(symbols, rng))
    decoded[ONE_HOT] = warner.estimate(flipped)
    p, n = float(warner.mechanism.p_star), len(symbols)
    by_formula = (flipped.ones.sum(axis=0) - (1 - p) * n) / (2 * p - 1)
    return Survey(
        truth,
        {name: one.raw_frequencies for name, one in decoded.items()},
        {name: one.frequency_standard_errors for name, one in decoded.items()},
        float(np.abs(decoded[ONE_HOT].raw_counts - by_formula).max()),
    )


def _fit(surveys: list[Survey], name: str) -> list[float]:
    return [fitted(survey.estimates[name], survey.truth) for survey in surveys]


def _compare(surveys: list[Survey]) -> list[Comparison]:
    runs = len(surveys)
    words = FITS if min(_fit(surveys, LASSO)) >= CLOSE else "does not fit closely"
    formula = Published(0.0, f"section 3, {FORMULA}", within=0.01)
    difference = max(survey.from_formula for survey in surveys)
    rows = [
        stated("estimated against true frequencies", words, Published(FITS, "section 4.4")),
        exact("largest difference of our one-hot count from its formula", difference, formula, unit="reports"),
    ]
    for name in (LASSO, DEFAULT, ONE_HOT):
        errors = [survey.error(name) for survey in surveys]
        rows.append(simulated(f"R squared, {name}", _fit(surveys, name), averaged=runs))
        rows.append(simulated(f"error of a share, {name}", errors, averaged=runs))
    covered = [survey.covered(DEFAULT) for survey in surveys]
    rows.append(simulated("95% intervals that hold the truth, our default", covered, averaged=runs))
    return rows


def _table(survey: Survey) -> Table:
    order = np.argsort(-survey.truth)
    columns: dict[str, list[Any]] = {
        "state": [STATES[i] for i in order],
        "confirmed cases": CASES[order].tolist(),
        "true share": survey.truth[order].tolist(),
        **{name: survey.estimates[name][order].tolist() for name in (LASSO, DEFAULT, ONE_HOT)},
        "its standard error": survey.errors[DEFAULT][order].tolist(),
    }
    return Table.of("Shares of the infected, one survey", columns)


def _draw(survey: Survey, respondents: int) -> figures.Picture:
    figure, axes = figures.panels(width=9.4, height=4.4)
    order, at = np.argsort(-survey.truth), np.arange(len(STATES))
    figures.bars(axes, at, 100 * survey.truth[order], figures.MUTED, width=0.8)
    for shift, colour, name in (
        (-0.22, figures.THEIRS, LASSO),
        (0.0, figures.OURS, DEFAULT),
        (0.22, figures.GREEN, ONE_HOT),
    ):
        error = 196 * np.where(np.isfinite(survey.errors[name]), survey.errors[name], 0.0)[order]
        estimate = 100 * survey.estimates[name][order]
        axes.errorbar(at + shift, estimate, yerr=error, fmt="o", markersize=3.2, color=colour, elinewidth=1.1)
    entries = (
        (1.0, "bars: true share", figures.MUTED),
        (0.92, "RAPPOR, the paper's Lasso", figures.THEIRS),
        (0.84, "RAPPOR, our default", figures.OURS),
        (0.76, "one-hot, the same epsilon of a report", figures.GREEN),
    )
    figures.key(axes, 9, [(y * 100 * survey.truth.max(), text, colour) for y, text, colour in entries])
    axes.set_xticks(at, [STATES[i] for i in order], rotation=60, ha="right", fontsize=8)
    axes.set(ylabel="share of the infected (%)", xlim=(-0.8, len(STATES) - 0.2))
    return figures.picture(
        figure,
        "epidemic-fit",
        f"Confirmed infections in 26 states on 18 April 2021, from one randomized report of each of {respondents:,} "
        "people; bars of the estimates are 95% intervals.",
        "The estimates of all three decoders lie close to the true shares, in every state.",
    )
