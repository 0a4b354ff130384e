"""What each level of a search tried and let through, and the prefixes that it could not follow to a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from overstory.presentation.formats import finite


@dataclass(frozen=True)
class Level:
    """One question of a search: its reports, and what it let through.

    Attributes
    ----------
    tried, kept
        Prefixes counted that some value may begin with, and the most frequent of them, which went on.
    ended
        Of those kept, the strings that had ended: they are not extended, and tested by all later levels together.
    """

    name: str  # the question's
    num_bits: int  # prefix length
    num_reports: int  # answers to this question
    tried: int
    kept: int
    ended: int
    standard_error: float  # of the frequency of a prefix that nobody has
    cut: float  # the lowest frequency estimate that was kept
    background: float  # the mean estimate of all that was tried and not kept

    def to_json(self) -> dict[str, Any]:
        """Return the level as JSON values."""
        return {name: finite(value) for name, value in asdict(self).items()}


@dataclass(frozen=True)
class HeavyPrefix:
    """What many values begin with, though none of them was detected."""

    text: str
    num_bits: int
    frequency: float  # of the users, by the level that asked for it
    standard_error: float

    def to_json(self) -> dict[str, Any]:
        """Return the prefix as JSON values."""
        return asdict(self)
