"""The paper's parameters (p = 1/2, q = 3/4, h = 2) within the same two budgets, to compare a plan with."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from overstory.planning.design import GRID
from overstory.planning.detection import root
from overstory.protocol.mechanisms.bits import rappor
from overstory.protocol.mechanisms.payloads import BitMechanism

if TYPE_CHECKING:
    from overstory.planning.plan import Comparison, Plan

PAPER: Final = {"num_hashes": 2, "p": 0.5, "q": 0.75}


def paper_design(epsilon_report: float, epsilon_permanent: float, like: BitMechanism) -> BitMechanism:
    """Return the paper's p = 1/2, q = 3/4, h = 2 at the least f that keeps both budgets, in filters like `like`'s.

    Examples
    --------
    >>> paper = paper_design(1.0743, 4.3945, rappor())
    >>> round(paper.parameters["f"], 4)
    0.5
    """

    def build(f: int) -> BitMechanism:
        return rappor(**{**like.parameters, **PAPER, "f": f / GRID})

    def fits(f: int) -> bool:
        tried = build(f)
        return tried.epsilon_report <= epsilon_report and tried.epsilon_permanent <= epsilon_permanent

    near = _paper_share(epsilon_report, epsilon_permanent)
    low, high = max(0, near - 4), min(GRID - 1, near + 4)
    if fits(low) or not fits(high):
        low, high = 0, GRID - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return build(high)


def _paper_share(epsilon_report: float, epsilon_permanent: float) -> int:
    """Return about the least f, times `GRID`, that keeps both budgets: in floats, where the search begins."""
    hashes, p, q = PAPER["num_hashes"], PAPER["p"], PAPER["q"]

    def spare(f: float) -> float:
        to_one, to_zero = q - (q - p) * f / 2, p + (q - p) * f / 2
        odds = to_one * (1 - to_zero) / (to_zero * (1 - to_one))
        return epsilon_report - hashes * math.log(odds)

    kept = 2 / (1 + math.exp(epsilon_permanent / (2 * hashes)))
    return round(GRID * max(kept, min(1.0, root(spare))))


def paper_sentences(plan: Plan, paper: Comparison) -> Iterator[str]:
    """Say how a plan compares with the paper's parameters."""
    yield (
        f"The paper's p = 0.5, q = 0.75, h = 2 with f = {paper.parameters['f']:.4g}, within the same two epsilons, "
        f"would have a standard error of {paper.standard_error:,.0f}: {paper.standard_error_ratio:.2f} times as large; "
        f"{paper.reports_ratio:.2f} times as many reports would make up for it."
    )
    if paper.higher_epsilon_n:
        n = max(paper.higher_epsilon_n, key=lambda n: plan.epsilon_n[n] - paper.epsilon_n[n])
        yield (
            f"In between this plan reveals a little more: {n} reports of one value have epsilon "
            f"{plan.epsilon_n[n]:.3f}, the paper's {paper.epsilon_n[n]:.3f}."
        )
    for n, leak in plan.change_leak.items():
        if leak > paper.change_leak[n]:
            yield (
                f"And a change of value is easier to see: epsilon {leak:.2f} within {n} reports, the paper's "
                f"{paper.change_leak[n]:.2f}."
            )
