"""Theorem 2: a frequency oracle with error tau gives heavy hitters with error 2 tau, at epsilon times log |X|.

A value that is not listed counts as estimated by 0, so its error is its count. tau is the bound that the oracle keeps
for all its answers at once, with probability 1 - beta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.discovery.simulation import integer_rows
from papers import figures
from papers.comparison import Comparison, Published, at_most, exact
from papers.lecture.bits import BitPlan, answers, buckets_of, recover
from papers.lecture.bounds import error_bound
from papers.study import Context, Study, Table, each, mean

WIDTH: Final = 16
BUCKETS: Final = 1 << 12
BETA: Final = 0.05
PRESENT: Final = 40
EPSILONS: Final = (0.5, 1.0, 2.0)


@dataclass(frozen=True)
class Outcome:
    """One collection: errors as fractions of n."""

    worst: float
    listed: int
    recall: float


def run(context: Context) -> Study:
    """Run the reduction literally, and with the users divided in place of the budget."""
    num_reports = context.pick(quick=50_000, full=500_000)
    runs = context.pick(quick=4, full=20)
    cases = [(epsilon, i) for epsilon in EPSILONS for i in range(runs)]
    literal = context.parallel(lambda case: _once(context, num_reports, *case, partitioned=False), cases, "Theorem 2")
    divided = context.parallel(
        lambda case: _once(context, num_reports, *case, partitioned=True), cases, "users divided"
    )
    comparisons, rows = [], []
    for place, epsilon in enumerate(EPSILONS):
        mine = slice(place * runs, (place + 1) * runs)
        bound = 2 * _tau(epsilon, num_reports)
        comparisons += _compare(epsilon, bound, literal[mine], divided[mine])
        rows += [_row("literal", epsilon, bound, literal[mine]), _row("users divided", epsilon, None, divided[mine])]
    return Study(
        inputs={"n": num_reports, "bits": WIDTH, "buckets": BUCKETS, "beta": BETA, "present": PRESENT, "runs": runs},
        comparisons=comparisons,
        tables=[Table("Error and recall (found of the values held by at least 1 in 100)", HEAD, tuple(rows))],
        figures=[_draw(num_reports, literal, divided, runs)],
        notes=NOTES,
    )


def _compare(epsilon: float, bound: float, literal: list[Outcome], divided: list[Outcome]) -> list[Comparison]:
    total = epsilon * WIDTH
    spent = Published(total, "Theorem 2: epsilon times log |X|", within=1e-6 * total)
    plan, unit = _plan(epsilon, partitioned=False), "fraction of n"
    errors = [max(each(outcomes, "worst")) for outcomes in (literal, divided)]
    largest = f"largest error over the domain and all runs, epsilon of one answer {epsilon}"
    return [
        exact(f"epsilon spent by the literal form, epsilon of one answer {epsilon}", plan.epsilon_in_all, spent),
        exact(largest, errors[0], at_most(bound, "Theorem 2: 2 tau"), unit=unit),
        exact(f"the same, users divided over the bits, epsilon in all {total:g}", errors[1], unit=unit),
    ]


def _row(form: str, epsilon: float, bound: float | None, outcomes: list[Outcome]) -> tuple[str | float | None, ...]:
    worst, listed, recall = (mean(each(outcomes, name)) for name in ("worst", "listed", "recall"))
    shown = None if bound is None else round(bound, 5)
    return (form, epsilon * WIDTH, shown, round(worst, 5), round(listed, 1), round(recall, 3))


NOTES: Final = f"""
The theorem assumes a hash without collisions, T about n squared; here T = {BUCKETS}, and values apart.

Values that are not detected are left off the list and count as 0, as the lecture has it.

Users divided: an answer at epsilon 8 is nearly exact; what remains is one sign from a sixteenth of them.
"""
HEAD: Final = ("form", "epsilon in all", "2 tau", "largest error", "values listed", "recall")


def _plan(epsilon: float, *, partitioned: bool) -> BitPlan:
    return BitPlan(epsilon=epsilon * WIDTH, width=WIDTH, buckets=BUCKETS, partitioned=partitioned)


def _tau(epsilon: float, num_reports: int) -> float:
    """The bound of all answers of the oracle at once: a union over buckets, bits and their two values."""
    return error_bound(_plan(epsilon, partitioned=False).mechanism, num_reports, BETA / (2 * BUCKETS * WIDTH))


def _once(context: Context, num_reports: int, epsilon: float, number: int, *, partitioned: bool) -> Outcome:
    rng = context.rng(int(epsilon * 10), number, int(partitioned))
    plan = _plan(epsilon, partitioned=partitioned)
    values = _apart(plan, rng)
    weights = 1 / np.arange(1, PRESENT + 1)
    held = values[rng.choice(PRESENT, num_reports, p=weights / weights.sum())]
    recovered = recover(plan, answers(plan, held, rng))
    truth = dict(zip(*(side.tolist() for side in np.unique(held, return_counts=True)), strict=True))
    sides = (side[recovered.detected].tolist() for side in (recovered.values, recovered.counts))
    listed = dict(zip(*sides, strict=True))
    errors = [abs(listed.get(value, 0.0) - truth.get(value, 0)) for value in truth.keys() | listed.keys()]
    heavy = [value for value, count in truth.items() if count >= num_reports / 100]
    return Outcome(max(errors) / num_reports, len(listed), sum(value in listed for value in heavy) / len(heavy))


def _apart(plan: BitPlan, rng: np.random.Generator) -> NDArray[np.uint64]:
    """Draw values until no two share a bucket."""
    while True:
        values = rng.choice(1 << WIDTH, PRESENT, replace=False).astype(np.uint64)
        if len(np.unique(buckets_of(integer_rows(values, WIDTH), plan.buckets))) == PRESENT:
            return values


def _draw(num_reports: int, literal: list[Outcome], divided: list[Outcome], runs: int) -> figures.Picture:
    figure, axes = figures.panels(height=3.6)
    totals = [epsilon * WIDTH for epsilon in EPSILONS]
    bounds = [2 * _tau(epsilon, num_reports) for epsilon in EPSILONS]
    axes.set(yscale="log")
    figures.line(axes, totals, bounds, figures.THEIRS, "2 tau (Theorem 2)", linestyle="--", linewidth=1.6)
    for outcomes, colour, name in ((literal, figures.OURS, "literal"), (divided, figures.GREEN, "users divided")):
        errors = np.array(each(outcomes, "worst")).reshape(len(EPSILONS), runs)
        figures.line(axes, totals, errors.mean(axis=1), colour, linewidth=2, marker="o", markersize=4)
        figures.spread(axes, totals, errors, colour)
        figures.label(axes, totals[-1], float(errors[-1].mean()), name, colour)
    axes.set(xlabel="epsilon spent by each user, in all", ylabel="largest error (fraction of n)")
    axes.margins(x=0.25)
    return figures.picture(
        figure,
        "lecture-heavy-hitters",
        f"Largest error over the domain of {WIDTH}-bit values; {runs} runs of {num_reports:,} users, bands from the "
        "least to the greatest.",
        "The literal form's error falls with epsilon, that of divided users hardly; both means lie under the dashed "
        "2 tau.",
    )
