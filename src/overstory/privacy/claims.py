"""Claims: every epsilon with what it is about and what it rests on, in the words of every page and command."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from overstory.presentation.document import Block, Lines, Table
from overstory.privacy.text import CERTAIN, MOST, epsilon_text, factor, odds_text

NOT_BOUNDED: Final = "no bound on it is computed"


@dataclass(frozen=True)
class Claim:
    """One epsilon, in nats and rounded up, with what it is about and what it rests on.

    Attributes
    ----------
    about, epsilon, assumption
        What is revealed and under which condition, how much, and what has to be true for that.
    caution
        Where a paper claims more than this, or the number means less than it seems to.
    delta, epsilon_at_delta
        What it is but for a chance of `delta`, where that is less: only where all noise is fresh.
    kind
        Of a metric's cost: "any", "report", "unchanged", "permanent", "values" or "pattern"; else empty.
    reason
        Why a metric's cost has no bound, where it has none.
    """

    about: str
    epsilon: float
    assumption: str
    caution: str | None = None
    delta: float | None = None
    epsilon_at_delta: float | None = None
    kind: str = ""
    reason: str | None = None

    @property
    def conditional(self) -> bool:
        """Whether it holds under a condition only, which `about` names."""
        return self.kind not in {"any", "report"}

    @property
    def amount(self) -> str:
        return "no bound" if math.isinf(self.epsilon) else f"epsilon {epsilon_text(self.epsilon)}"

    @property
    def words(self) -> str:
        """What it is about, with its condition, and how far the odds move."""
        if math.isinf(self.epsilon):
            return f"{self.about}; {self.reason or NOT_BOUNDED}"
        if self.epsilon > MOST:
            return f"{self.about}; somebody could be {CERTAIN}"
        return f"{self.about}; odds move by a factor of {'' if self.conditional else 'at most '}{factor(self.epsilon)}"

    @property
    def epsilon_words(self) -> str:
        """The epsilon as it is printed, and in the same line what it is but for a chance of delta."""
        plain = epsilon_text(self.epsilon)
        if self.delta is None or self.epsilon_at_delta is None:
            return plain
        return f"{plain} ({epsilon_text(self.epsilon_at_delta)} at delta {self.delta:g})"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values; an epsilon without bound is null."""
        plain = {"about": self.about, "epsilon": finite(self.epsilon), "assumption": self.assumption}
        approximate = {"delta": self.delta, "epsilon_at_delta": self.epsilon_at_delta} if self.delta else {}
        texts = {"reason": self.reason if math.isinf(self.epsilon) else None, "caution": self.caution}
        kind = {"kind": self.kind} if self.kind else {}
        return kind | plain | approximate | {name: text for name, text in texts.items() if text}


def notes_of(claims: Iterable[Claim]) -> dict[str, int]:
    """Return what the epsilons rest on, and mean less by, numbered in the order of the claims."""
    texts = dict.fromkeys(texts for claim in claims for texts in _words(claim))
    return {text: number for number, text in enumerate(texts, 1)}


def claims_blocks(claims: Sequence[Claim]) -> Iterator[Block]:
    """Return the claims as a table, and what they rest on as numbered notes."""
    numbers = notes_of(claims)
    headings = ("what is seen of one device", "epsilon", "odds move", "rests on")
    rows = [
        (claim.about, claim.epsilon_words, odds_text(claim.epsilon), " ".join(f"[{numbers[w]}]" for w in _words(claim)))
        for claim in claims
    ]
    yield Table.of_cells("", headings, rows, left=(headings[0], headings[3]))
    yield Lines(*(f"[{number}] {text}" for text, number in numbers.items()))


def _words(claim: Claim) -> tuple[str, ...]:
    return (claim.assumption, claim.caution) if claim.caution else (claim.assumption,)


def finite(epsilon: float | None) -> float | None:
    """Return `epsilon`, or None where there is no bound: JSON has no infinity."""
    return None if epsilon is None or math.isinf(epsilon) else epsilon


def by_number(epsilons: Mapping[int, float]) -> dict[str, float | None]:
    """Return the epsilons by n as a string, for JSON."""
    return {str(n): finite(epsilon) for n, epsilon in epsilons.items()}


REPORT = (
    "The device draws both rounds as declared, its cohort was drawn without looking at the value, and nothing else "
    "about the report (its time, its sender), nor whether there is one, depends on the value."
)
MEMO = (
    "All reports are of one unchanged value, from one memoized permanent response; only the instantaneous round is "
    "drawn afresh."
)
ANY_EXACT = "Between any two histories of as many reports: this is what the worst two come to."
ANY_BOUND = "Between any two histories of as many reports: a bound, above what the worst two come to."
ANY_CERTAIN = "A report is the permanent response itself, so two different reports prove that the value changed."
FRESH = "All noise is drawn afresh for every report, so reports add up: exactly, and whether or not the values change."
PERMANENT = "All reports are of one unchanged value; even the permanent response itself may be seen."
NO_CEILING = "There is no ceiling: nothing is memoized, and every report adds its own."
SAME_PATTERN = (
    "only between histories in which the same reports come from one permanent response. Values with one hash share it, "
    "and so do values past a cap; each part of a pair has its own."
)
CHANGE = (
    "The value changes once, at the worst moment, to the worst other value, or to nothing that can be reported, or "
    "from that, and the two permanent responses are independent; not covered by the permanent epsilon, and it grows "
    "with every further report."
)
FRESH_CHANGE = "The value changes once, after the first report; the reports after that add up, as always."
ONCE = "A device sends one report by these parameters and no other, whether its value changes or not."
MAP = "The value is a candidate of this map and the devices hash exactly as the map says."
