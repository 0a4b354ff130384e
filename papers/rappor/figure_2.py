"""Figure 2: recall and precision over the filter's size k, the hashes h and the cohorts m, at one epsilon."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from overstory.files.rappor import hash_candidates
from overstory.protocol.kinds.bits import BitMechanism, rappor_one_time
from papers import figures
from papers.comparison import Comparison, Published, exact, simulated, stated
from papers.rappor.collections import (
    DEFAULT,
    F64,
    PAPERS,
    PRESENT,
    PROCEDURES,
    count_reports,
    exponential,
    rates,
)
from papers.rappor.figure_5 import NAMES, REPORTS
from papers.study import Context, Study, Table

LETTERS: Final = {"k": "bits k", "h": "hashes h", "m": "cohorts m"}
SIZES, HASHES, COHORTS = (128, 256, 512, 1024), (1, 2, 4, 8, 16), (8, 16, 32, 64)
SURELY: Final = 0.9
"""Share of the settings of the other two in which one level must be best to be called preferred."""
NONE: Final = "no clear preference"
NOTES: Final = """
The paper gives neither the levels of k, h and m nor the number of reports: ours are in the table, and 10^6 reports, as
in section 5.2. Both procedures hold the false discovery rate at 5%.

A level is called preferred when its recall is the best in at least nine of ten settings of the other two. h = 1, which
the paper does not show, is compared apart.
"""


@dataclass(frozen=True, eq=False)
class Setting:
    """One point of the figure: bits, hashes, cohorts, and the rates by procedure, shape (runs,)."""

    k: int
    h: int
    m: int
    recall: dict[str, F64]
    precision: dict[str, F64]


def run(context: Context) -> Study:
    """Collect and decode at every setting."""
    sizes: tuple[int, ...] = context.pick(quick=SIZES[:3], full=SIZES)
    hashes: tuple[int, ...] = context.pick(quick=HASHES[:4], full=HASHES)
    cohorts: tuple[int, ...] = context.pick(quick=COHORTS[:3], full=COHORTS)
    runs = context.pick(quick=3, full=10)
    levels = [(k, h, m) for k in sizes for h in hashes for m in cohorts]
    settings = context.parallel(lambda kmh: _setting(context, kmh, runs), levels, "settings of k, h, m")
    return Study(
        inputs={"k": list(sizes), "h": list(hashes), "m": list(cohorts), "replicates": runs, "N": REPORTS}
        | {"candidates": len(NAMES), "present": PRESENT, "epsilon": "ln 3", "false discovery rate": 0.05},
        comparisons=_compare(settings),
        tables=[_table(settings)],
        figures=[_draw(settings, runs)],
        notes=NOTES,
    )


def one_time(num_bits: int, num_hashes: int, num_cohorts: int) -> BitMechanism:
    """One-time RAPPOR at epsilon = ln 3: f from 2 h ln((1 - f/2) / (f/2)) = ln 3.

    Examples
    --------
    >>> mechanism = one_time(128, 2, 16)
    >>> round(mechanism.parameters["f"], 4), round(mechanism.epsilon_report, 4)
    (0.8635, 1.0986)
    """
    f = 2 / (1 + 3 ** (1 / (2 * num_hashes)))
    return rappor_one_time(num_bits=num_bits, num_hashes=num_hashes, num_cohorts=num_cohorts, f=f)


def _setting(context: Context, kmh: tuple[int, int, int], runs: int) -> Setting:
    mechanism, shares = one_time(*kmh), exponential()
    candidates = hash_candidates(NAMES, mechanism.encoding)
    recall, precision = ({name: np.zeros(runs) for name in PROCEDURES} for _ in range(2))
    for number in range(runs):
        drawn = count_reports(candidates, shares, REPORTS, context.rng(*kmh, number), **rates(mechanism))
        for name, choices in PROCEDURES.items():
            detected = drawn.decoded(mechanism, **choices).detected()
            true = int(np.count_nonzero(detected & (drawn.held > 0)))
            recall[name][number] = true / PRESENT
            precision[name][number] = true / max(1, int(np.count_nonzero(detected)))
    return Setting(*kmh, recall, precision)


def preferred(settings: list[Setting], letter: str, procedure: str) -> str:
    """Return the level of one letter that has the best recall in nearly every setting of the others, or `NONE`."""
    groups: dict[tuple[int, ...], list[Setting]] = {}
    for setting in settings:
        others = tuple(getattr(setting, other) for other in LETTERS if other != letter)
        groups.setdefault(others, []).append(setting)
    best = [getattr(max(group, key=lambda s: s.recall[procedure].mean()), letter) for group in groups.values()]
    often = max(set(best), key=best.count)
    return str(often) if best.count(often) >= SURELY * len(best) else NONE


def _compare(settings: list[Setting]) -> list[Comparison]:
    shown = [setting for setting in settings if setting.h > 1]
    epsilon = max(one_time(setting.k, setting.h, setting.m).epsilon_report for setting in settings)
    where = "figure 2"
    noisy = "with few replicates one level can be best everywhere by chance; the full run averages ten"

    def averaged(name: str, procedure: str, h: int | None = None, rate: str = "recall") -> Comparison:
        """Compare each replicate's mean over settings."""
        of = [getattr(setting, rate)[procedure] for setting in settings if h in {None, setting.h}]
        return simulated(name, np.mean(of, axis=0).tolist(), averaged=10)

    return [
        exact("epsilon at every setting", epsilon, Published(math.log(3), where, 1e-6)),
        stated("best number of hashes, of 2 and more", preferred(shown, "h", PAPERS), Published("2", where)),
        stated("best filter size k", preferred(shown, "k", PAPERS), Published(NONE, where), because=noisy),
        stated("best number of cohorts m", preferred(shown, "m", PAPERS), Published(NONE, where), because=noisy),
        stated("best number of hashes, of 1 and more", preferred(settings, "h", PAPERS)),
        averaged("recall at h = 2, mean over k and m", PAPERS, 2),
        averaged("recall at h = 1, mean over k and m", PAPERS, 1),
        averaged("recall at h = 2, our default decoder", DEFAULT, 2),
        averaged("precision of our default decoder, mean over all settings", DEFAULT, rate="precision"),
    ]


def _table(settings: list[Setting]) -> Table:
    columns: dict[str, list[float]] = {letter: [getattr(s, letter) for s in settings] for letter in LETTERS}
    for procedure, name in ((PAPERS, "paper's"), (DEFAULT, "ours")):
        columns[f"recall, {name}"] = [float(s.recall[procedure].mean()) for s in settings]
        columns[f"precision, {name}"] = [float(s.precision[procedure].mean()) for s in settings]
    return Table.of("Mean recall and precision", columns)


def _draw(settings: list[Setting], runs: int) -> figures.Picture:
    figure, axes = figures.panels(width=7.4, height=6.4, rows=2, columns=2)
    population, *by_letter = axes.flat
    _draw_population(population)
    for panel, letter in zip(by_letter, LETTERS, strict=True):
        _draw_letter(panel, settings, letter)
    return figures.picture(
        figure,
        "rappor-figure-2",
        f"One-time RAPPOR at epsilon = ln 3, 10^6 reports, the paper's procedure at a false discovery rate of 5%: the "
        f"same points in three panels, each the mean of {runs} collections; bars are one standard error of that mean. "
        "Hollow: h = 1, which the paper leaves out.",
        "Recall falls clearly from 1 to 2 and more hashes; points of different filter sizes and numbers of cohorts lie "
        "mixed.",
    )


def _draw_population(axes: Any) -> None:
    shares = 100 * exponential()
    axes.fill_between(np.arange(1, shares.size + 1), shares, step="mid", color=figures.MUTED, alpha=0.45, linewidth=0)
    figures.panel_title(axes, "Population")
    figures.label(axes, 150, 0.0, "100 strings that\nnobody has", figures.MUTED, xytext=(0, 16), ha="center")
    axes.set(xlabel="string", ylabel="frequency (%)", xlim=(0, 200), ylim=(0, 5.2))


def _draw_letter(axes: Any, settings: list[Setting], letter: str) -> None:
    figures.panel_title(axes, LETTERS[letter])
    levels = sorted({getattr(setting, letter) for setting in settings})
    for colour, level in zip(figures.SERIES, levels, strict=False):
        chosen = [setting for setting in settings if getattr(setting, letter) == level]
        _points(axes, [setting for setting in chosen if setting.h > 1], color=colour, markerfacecolor=colour)
        _points(axes, [setting for setting in chosen if setting.h == 1], color=colour, markerfacecolor="none")
        if letter == "h":
            middle = 100 * float(np.mean([setting.recall[PAPERS].mean() for setting in chosen]))
            figures.label(axes, middle, 90, f"h = {level}", colour, xytext=(0, 0), ha="center")
        else:
            axes.plot([], [], "o", color=colour, label=f"{letter} = {level}")
    if letter != "h":
        axes.legend(frameon=False, fontsize=8, loc="lower left", handletextpad=0.2, labelcolor=figures.INK)
    axes.set(xlabel="recall (%)", ylabel="precision (%)", ylim=(88, 100.6))


def _points(axes: Any, chosen: list[Setting], **style: Any) -> None:
    if chosen:
        (x, xerr), (y, yerr) = (
            _percent([getattr(s, rate)[PAPERS] for s in chosen]) for rate in ("recall", "precision")
        )
        axes.errorbar(x, y, xerr=xerr, yerr=yerr, fmt="o", markersize=4.5, linewidth=0.7, alpha=0.9, **style)


def _percent(rates: list[F64]) -> tuple[list[float], list[float]]:
    """Return the means and their standard errors, in percent."""
    means = [100 * float(rate.mean()) for rate in rates]
    return means, [100 * float(rate.std(ddof=1)) / math.sqrt(rate.size) for rate in rates]
