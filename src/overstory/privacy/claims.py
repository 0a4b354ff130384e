"""Claims: every epsilon of a statement with what it rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overstory.privacy.statement import PrivacyStatement


@dataclass(frozen=True)
class Claim:
    """One epsilon, in nats and rounded up, with what it is about and what it rests on.

    Attributes
    ----------
    about, epsilon, assumption
        What is revealed, how much, and what has to be true for that.
    caution
        Where a paper claims more than this, or the number means less than it seems to.
    """

    about: str
    epsilon: float
    assumption: str
    caution: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        plain = {"about": self.about, "epsilon": finite(self.epsilon), "assumption": self.assumption}
        return plain | ({"caution": self.caution} if self.caution else {})


def claims_of(said: PrivacyStatement) -> Iterator[Claim]:
    """Return every claim of a statement."""
    warn = said.cautions.get
    yield Claim("one report", said.epsilon_report, REPORT, warn("report"))
    yield from _several(said)
    if said.terms.fresh:
        for n, epsilon in said.epsilon_any.items():
            yield Claim(f"any {n} consecutive reports, of any values", epsilon, FRESH, warn("any"))
    yield Claim("any number of reports of one unchanged value", said.epsilon_permanent, _ever(said), warn("permanent"))
    if not said.terms.fresh:
        yield Claim("each further distinct value", said.epsilon_permanent, _values(said), warn("values"))
    change = FRESH_CHANGE if said.terms.fresh else CHANGE
    for n, epsilon in said.change_leak.items():
        yield Claim(f"a change of value within {n} reports", epsilon, change, warn("change"))
    if said.map_epsilon_report is not None:
        yield Claim("one report, candidates of the map", said.map_epsilon_report, MAP)
    if said.map_epsilon_permanent is not None:
        yield Claim("any number of reports, candidates of the map", said.map_epsilon_permanent, MAP)


def _several(said: PrivacyStatement) -> Iterator[Claim]:
    """Several reports of one value; the first of these claims carries what there is to say of them all."""
    warned = said.cautions.get("several")
    for n, epsilon in said.epsilon_n.items():
        if n > 1:
            about = f"{n} reports of one unchanged value"
            yield Claim(about, epsilon, FRESH if said.terms.fresh else MEMO, warned)
            warned = None


def _ever(said: PrivacyStatement) -> str:
    return NO_CEILING if said.terms.fresh or math.isinf(said.epsilon_permanent) else PERMANENT


def _values(said: PrivacyStatement) -> str:
    most = said.terms.most_values
    limit = f", D being at most the number of reports and {most}" if most else ", D being at most the number of reports"
    return f"D distinct values cost D times as much{limit}; {SAME_PATTERN}"


def finite(epsilon: float | None) -> float | None:
    """Return `epsilon`, or None where there is no bound: JSON has no infinity."""
    return None if epsilon is None or math.isinf(epsilon) else epsilon


def by_number(epsilons: Mapping[int, float]) -> dict[str, float | None]:
    """Return the epsilons by n as a string, for JSON."""
    return {str(n): finite(epsilon) for n, epsilon in epsilons.items()}


REPORT = (
    "The device draws both rounds as declared, its cohort was drawn without looking at the value, and nothing else "
    "about the report (its time, its sender) depends on the value."
)
MEMO = (
    "All reports are of one unchanged value, from one memoized permanent response; only the instantaneous round is "
    "drawn afresh."
)
FRESH = "All noise is drawn afresh for every report, so reports add up: exactly, and whether or not the values change."
PERMANENT = "All reports are of one unchanged value; even the permanent response itself may be seen."
NO_CEILING = "There is no ceiling: nothing is memoized, and every report adds its own."
SAME_PATTERN = (
    "only between histories with the same pattern of equal and different permanent responses (of values; of symbols, "
    "where values are hashed)."
)
CHANGE = (
    "The value changes once, at the worst moment, to the worst other value, whose permanent response is independent; "
    "not covered by the permanent epsilon, and it grows with every further report."
)
FRESH_CHANGE = "The value changes once, after the first report; the reports after that add up, as always."
MAP = "The value is a candidate of this map and the devices hash exactly as the map says."
