"""The outcome of an audit: its checks after Holm, the games, and a verdict; as JSON values and as a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.analysis.selection.detection import holm
from overstory.presentation.document import Block, Column, Lines, Notice, Paragraph, Table
from overstory.presentation.formats import finite, p_value
from overstory.privacy.text import epsilon_text, rounded_down, rounded_up

if TYPE_CHECKING:
    from overstory.audit.checks import Check
    from overstory.audit.game import Game

Verdict = Literal["violates", "deviates", "no fault found"]

NO_PROOF: Final = (
    "No audit proves an epsilon: it bounds it from below. What no check looks at may still be wrong, and a client can "
    "behave otherwise when it is not audited."
)


@dataclass(frozen=True)
class Timed:
    """A check, and the processor time that its part of the audit took."""

    check: Check
    seconds: float


@dataclass(frozen=True)
class AuditResult:
    """The outcome of an audit.

    Attributes
    ----------
    mechanism
        The declared one's name.
    pair
        The two values that were guessed between.
    reports
        Of fresh devices.
    declared
        Epsilon of one report.
    detectable_excess
        By which share of the declared epsilon less noise in every report must raise it to be seen nine times in ten;
        None where that few reports show none. Of a fault in a few reports it says nothing.
    notes
        What was not tested, and why.
    """

    mechanism: str
    pair: tuple[str, str]
    reports: int
    lines: int
    alpha: float
    declared: float
    timed: tuple[Timed, ...]
    games: tuple[Game, ...]
    detectable_excess: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def adjusted(self) -> list[float]:
        """The p-value of each check after Holm."""
        return holm([timed.check.p_value for timed in self.timed])

    @property
    def lower(self) -> float:
        """The largest epsilon that any game shows to be lost, with confidence 1 - alpha."""
        return max(game.lower for game in self.games)

    @property
    def failed(self) -> list[str]:
        """The names of the checks that a right client passes."""
        return [
            timed.check.name
            for timed, adjusted in zip(self.timed, self.adjusted, strict=True)
            if adjusted <= self.alpha
        ]

    @property
    def verdict(self) -> Verdict:
        """The worst that is certain."""
        if self.lower > self.declared:
            return "violates"
        return "deviates" if self.failed else "no fault found"

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        best = max(self.games, key=lambda game: game.lower)
        return {
            "verdict": self.verdict,
            "mechanism": self.mechanism,
            "pair": list(self.pair),
            "reports": self.reports,
            "lines": self.lines,
            "alpha": self.alpha,
            "epsilon": {
                "declared": finite(self.declared),
                "lower": finite(self.lower),
                "confidence": 1 - self.alpha,
                "game": best.name,
                "guesses": best.guesses,
                "correct": best.correct,
                "detectable_excess": finite(self.detectable_excess),
            },
            "games": [
                {
                    "name": game.name,
                    "guesses": game.guesses,
                    "correct": game.correct,
                    "alpha": game.alpha,
                    "lower": finite(game.lower),
                }
                for game in self.games
            ],
            "tests": [
                {
                    "name": timed.check.name,
                    "expected": timed.check.expected,
                    "observed": timed.check.observed,
                    "statistic": finite(timed.check.statistic),
                    "interval": None if timed.check.low is None else [timed.check.low, timed.check.high],
                    "p_value": timed.check.p_value,
                    "adjusted": adjusted,
                    "verdict": "deviates" if adjusted <= self.alpha else "as declared",
                    "seconds": round(timed.seconds, 4),
                }
                for timed, adjusted in zip(self.timed, self.adjusted, strict=True)
            ],
            "notes": list(self.notes),
        }

    def blocks(self) -> Iterator[Block]:
        """Return the outcome for a person."""
        yield Paragraph(
            f"{self.mechanism}, epsilon {epsilon_text(self.declared)} for one report; {self.reports:,} reports of "
            f"fresh devices, {self.lines:,} lines in all; values {self.pair[0]!r} and {self.pair[1]!r} by a fair coin"
        )
        yield self._table()
        yield Lines(*self._epsilon(), *(f"note: {note}" for note in self.notes))
        yield Notice(self._conclusion(), "good" if self.verdict == "no fault found" else "bad")
        yield Paragraph(NO_PROOF)

    def _table(self) -> Table:
        rows = [
            {
                "check": timed.check.name,
                "expected": timed.check.expected,
                "observed": timed.check.observed,
                "low": timed.check.low,
                "high": timed.check.high,
                "adjusted": adjusted,
                "verdict": "DEVIATES" if adjusted <= self.alpha else "",
            }
            for timed, adjusted in zip(self.timed, self.adjusted, strict=True)
        ]
        columns = (
            Column("check", is_left=True),
            Column("expected", is_left=True),
            Column("observed", "came", is_left=True),
            Column("interval", "99.9% interval", _interval, ("low", "high"), is_left=True),
            Column("adjusted", "p after Holm", _chance),
            Column("verdict", "", is_left=True),
        )
        return Table("", columns, rows)

    def _epsilon(self) -> Iterator[str]:
        best = max(self.games, key=lambda game: game.lower)
        share = f"{best.correct:,} of {best.guesses:,} guesses of the value were right ({best.name})"
        lower, declared = self._bounds()
        yield f"{share}: epsilon is at least {lower} with {100 * (1 - self.alpha):.10g}% confidence"
        yield f"declared: {declared}"

    def _bounds(self) -> tuple[str, str]:
        """Return the certain epsilon, rounded down, and the declared one, rounded up, in their true order."""
        digits = 4
        while True:
            step = Decimal(1).scaleb(-digits)
            lower = rounded_down(self.lower, step)
            if self.lower <= self.declared:
                return f"{lower:f}", epsilon_text(self.declared)
            declared = rounded_up(self.declared, step)
            if lower > declared:
                return f"{lower:f}", f"{declared:f}"
            digits += 1

    def _conclusion(self) -> str:
        if self.verdict == "violates":
            lower, declared = self._bounds()
            return f"violates: a report reveals more than declared (epsilon at least {lower}, declared {declared})"
        if self.verdict == "deviates":
            names = ", ".join(self.failed)
            return (
                f"deviates: the reports are not those of the declared parameters ({names}); privacy may be worse or "
                "better than declared, and estimates are wrong"
            )
        excess = self.detectable_excess
        if excess is None:
            seen = "that is too few to say how large a fault would have been seen"
        else:
            percent = rounded_up(100 * excess, Decimal("0.1"))
            seen = (
                f"too little noise in every report, with an epsilon {percent:,f}% above the declared one, would have "
                "been seen nine times in ten; a fault in only some of the reports can be larger and not be seen"
            )
        return f"no fault found in {self.reports:,} reports: {seen}"


def _chance(probability: float) -> str:
    return p_value(probability) if probability < 0.001 else f"{probability:.3f}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.4f} to {high:.4f}"
