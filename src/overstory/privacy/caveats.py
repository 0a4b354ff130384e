"""Caveats of a mechanism's claims.

A caution is printed next to a number where a paper claims more than it proves, or where the same number means less. Its
key says which claim it belongs to: report, several, permanent, values, change, any.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any, Final

from overstory.presentation.formats import epsilon_text
from overstory.privacy.histories.pairs import MOST_CHANGE_REPORTS
from overstory.privacy.terms import Terms, add_up
from overstory.protocol.kinds.base import Kind, Mechanism
from overstory.protocol.kinds.joint import JointMechanism
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.ranges import RangeRandomizer

Caution = Callable[[Any, Terms], dict[str, str]]


def cautions(mechanism: Kind, terms: Terms) -> dict[str, str]:
    """Return the cautions of a mechanism by claim."""
    by_claim = _superadditive(terms)
    for caution in ABOUT.get(mechanism.name, ()):
        for claim, text in caution(mechanism, terms).items():
            by_claim[claim] = f"{by_claim[claim]} {text}" if claim in by_claim else text
    return by_claim


def first_change_above(terms: Terms, epsilon: float) -> int | None:
    """Return the number of reports from which a change leaks more than `epsilon`; None past a thousand."""
    least, most = 1, 2
    while terms.change_leak(most) <= epsilon:
        if most == MOST_CHANGE_REPORTS:
            return None
        least, most = most, min(2 * most, MOST_CHANGE_REPORTS)
    return bisect_right(range(least + 1, most), epsilon, key=terms.change_leak) + least + 1


def _superadditive(terms: Terms) -> dict[str, str]:
    """Say where n reports of one memoized value cost more than n times one."""
    single = terms.epsilon_n(1)
    worse = [n for n in range(2, 11) if terms.epsilon_n(n) > n * single + 1e-12]
    if not worse or terms.fresh:
        return {}
    n = worse[0]
    return {
        "several": f"{n} reports cost {epsilon_text(terms.epsilon_n(n))}, more than {n} times one "
        f"({epsilon_text(n * single)}): reports of one value share their permanent response, so sequential composition "
        "of single reports does not bound them."
    }


def _rappor(mechanism: Mechanism, terms: Terms) -> dict[str, str]:  # noqa: ARG001 - the same for all parameters
    return {
        "several": "The RAPPOR paper (section 3.2) says that this cannot be computed; it can, and this is exact.",
        "permanent": "The RAPPOR paper (section 6.1) warns that values which change fall outside of this.",
    }


def _window(mechanism: Mechanism, terms: Terms) -> dict[str, str]:
    window: int = mechanism.parameters["window"]
    return {
        "any": f"The thesis (section 4.2) bounds any {window} consecutive reports, which is right, and says nothing of "
        f"all of them: {10 * window} reports cost {epsilon_text(terms.epsilon_any(10 * window))}, and so on without "
        "end."
    }


def _opt_dr(mechanism: Mechanism, terms: Terms) -> dict[str, str]:  # noqa: ARG001 - the terms say all
    exceeded = first_change_above(terms, terms.epsilon_permanent)
    beyond = f" A change of bin within {exceeded} reports is beyond it already." if exceeded else ""
    return {
        "values": f"The thesis (section 4.3) claims {epsilon_text(terms.epsilon_permanent)} for any number of bins, by "
        "parallel composition, since the collector cannot link a participant's reports. That is an assumption about "
        "linking, not a theorem: parallel composition is across people, and D linked bins of one person cost D times "
        "as much." + beyond
    }


def _loloha(mechanism: Mechanism, terms: Terms) -> dict[str, str]:
    symbols: int = mechanism.encoding.num_symbols
    ceiling = add_up([(symbols, terms.epsilon_permanent)])
    exceeded = first_change_above(terms, ceiling)
    beyond = f": a change of symbol within {exceeded} reports leaks more than that" if exceeded else ""
    return {
        "values": f"The paper claims {symbols} x {epsilon_text(terms.epsilon_permanent)} = {epsilon_text(ceiling)} for "
        "whatever a device reports. It holds between histories whose hashed symbols repeat alike, which histories of "
        f"different values need not do; it fails under changes{beyond}."
    }


def _published(mechanism: Mechanism, terms: Terms) -> dict[str, str]:
    if not mechanism.parameters.get("published"):
        return {}
    asked: float = mechanism.parameters["epsilon_report"]
    return {
        "report": f"The published second round leaves out the way over a third symbol: {epsilon_text(asked)} was asked "
        f"for, and more noise than needed is added, for {epsilon_text(terms.epsilon_n(1))}."
    }


def _lecture(mechanism: Mechanism, terms: Terms) -> dict[str, str]:
    advantage: Any = mechanism.parameters.get("advantage")
    if advantage is None:
        return {}
    real = terms.epsilon_n(1)
    return {
        "report": f"The lecture calls 1/2 + {advantage:g} a {advantage:g}-randomizer; its epsilon is "
        f"ln({0.5 + advantage:g} / {0.5 - advantage:g}) = {epsilon_text(real)}, "
        f"{real / advantage:.1f} times as much."
    }


def _numbers(mechanism: NumericRandomizer, terms: Terms) -> dict[str, str]:
    return {
        "several": f"The device must keep the report of each position (`responder`); drawn afresh, n reports cost n "
        f"times {epsilon_text(terms.epsilon_n(1))}.",
        "values": f"A position is 1/{mechanism.resolution} of the range: readings that differ at all are nearly always "
        "different values, so a device that reports a reading again and again spends this every time.",
    }


def _ranges(mechanism: RangeRandomizer, terms: Terms) -> dict[str, str]:  # noqa: ARG001 - the levels are all alike
    levels = mechanism.num_cohorts
    return {
        "report": f"The device's level, 1 of {levels}, is public, drawn once without looking at the value, and kept: "
        "a device that answered at two levels would spend this for each."
    }


def _linked(mechanism: JointMechanism, terms: Terms) -> dict[str, str]:  # noqa: ARG001 - the parts say all
    parts = mechanism.components
    alone = " and ".join(f"{epsilon_text(part.epsilon_report)} ({part.name})" for part in parts)
    ever = " and ".join(epsilon_text(part.epsilon_permanent) for part in parts)
    return {
        "report": f"That is the sum of the parts: alone they cost {alone}.",
        "permanent": f"The parts alone cost {ever}.",
    }


ABOUT: Final[Mapping[str, tuple[Caution, ...]]] = {
    "joint": (_linked,),
    "rappor": (_rappor,),
    "basic-rappor": (_rappor,),
    "wb": (_window,),
    "opt-wb": (_window,),
    "opt-dr": (_opt_dr,),
    "l-grr": (_published,),
    "loloha": (_published, _loloha),
    "random-matrix": (_lecture,),
    "square-wave": (_numbers,),
    "duchi": (_numbers,),
    "piecewise": (_numbers,),
    "hybrid": (_numbers,),
    "ranges": (_ranges,),
}
