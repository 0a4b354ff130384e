"""Epsilons in plain words."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal


def factor(epsilon: float) -> str:
    """Return e**epsilon as a person reads it, rounded up to three digits.

    Examples
    --------
    >>> factor(1.0743), factor(4.3944), factor(8.61)
    ('2.93', '81', '5490')
    """
    if epsilon > math.log(1e6):
        return "more than a million"
    odds = Decimal(epsilon).exp(Context(prec=12))  # so that 81.000000000000004 is 81
    return f"{odds.normalize(Context(prec=3, rounding=ROUND_CEILING)):f}"


def sentences(
    *,
    report: float,
    several: Mapping[int, float],
    permanent: float,
    change: Mapping[int, float],
    on_map: float | None,
    together: Mapping[int, float],
) -> str:
    """Say what the epsilons mean to the person who reports."""
    said = [f"One report moves the odds between any two values at most {factor(report)}-fold (epsilon {report:.4f})."]
    if on_map is not None and on_map < report:
        said.append(f"Between the candidates of the map it is at most {factor(on_map)}-fold (epsilon {on_map:.4f}).")
    number = max(several, default=1)
    if number > 1 and several[number] < permanent:
        at_most = several[number]
        said.append(f"{number} reports of one unchanged value: at most {factor(at_most)}-fold (epsilon {at_most:.4f}).")
    if together:
        window = min(together)
        said.append(
            f"Any {window} reports in a row, of whatever values: at most {factor(together[window])}-fold "
            f"(epsilon {together[window]:.4f})."
        )
    said.append(_permanent(permanent))
    if change:
        said.append(_change(min(change), change[min(change)]))
    return " ".join(said)


def _permanent(epsilon: float) -> str:
    if math.isinf(epsilon):
        return "There is no permanent noise: enough reports of one value give it away."
    return (
        f"However many reports of one unchanged value: at most {factor(epsilon)}-fold (epsilon {epsilon:.4f}); "
        "each further value that a device reports costs that again."
    )


def _change(reports: int, leak: float) -> str:
    if math.isinf(leak):
        return f"A change of value can be certain from {reports} reports: the same value always sends the same report."
    return (
        f"A change of value is visible beyond that: within {reports} reports, the odds of having changed move "
        f"up to {factor(leak)}-fold (epsilon {leak:.4f}), and by more with every further report."
    )
