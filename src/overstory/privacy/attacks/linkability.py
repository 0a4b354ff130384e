"""Linkability: what stays the same in every report of a device, in bits, and how many devices share it.

Epsilon says what reports tell of a value. This says whether reports can be recognized as one device's: a cohort or a
seed is sent in the clear with every report, and where there is one round of noise an unchanged value is the same
payload every time. Both are numbers that a device carries, drawn from a known distribution, so their entropy is exact
(`Constant`).

Where reports are drawn afresh from a permanent response nothing more may be equal, and yet they are alike: what two of
them share, and what 30 share with 30 others, is their mutual information (`Likeness`).

All devices are taken to hold one value. Different values have different payloads, which can only make crowds smaller;
by how much depends on the values that people really hold, and is no property of a mechanism.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.payloads.registry import disclosure_of
from overstory.privacy.payloads.shared import MILLION, NO_LIKENESS, Constant, Likeness, bits_text
from overstory.protocol.mechanisms.base import LocalRandomizer

__all__ = ["MILLION", "Constant", "Linkability", "bits_text", "linkability"]

FEW_BITS: Final = 10.0
"""Up to 1,024 outcomes: of a million devices about a thousand share each."""

MONTH: Final = 30
"""Reports of each side, where many are set against many: a month of days."""


@dataclass(frozen=True)
class Linkability:
    """What makes a device's reports known for one device's.

    Attributes
    ----------
    unchanged
        What is the same while the value does not change: the same, and the payload where its noise is drawn once.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> linkability(mechanism("rappor")).words().split(": ")[2]
    'two share 4.3 bits, 30 and 30 share 59.1 bits; to tell one device of a million takes 20'
    >>> linkability(mechanism("l-osue", domain_size=9, epsilon_permanent=2.0, epsilon_report=1.0)).words()[:77]
    'nothing is equal in every report, but reports of an unchanged value are alike'
    >>> linkability(mechanism("wb", domain_size=9, epsilon=1.0, window=10)).words()
    'nothing stays the same from report to report'
    """

    always: Constant  # what is the same in every report, whatever the value: cohort, seed, level
    unchanged: Constant
    likeness: Likeness = NO_LIKENESS  # what reports share that are drawn afresh from one permanent response

    @property
    def bits(self) -> float:
        """The most that stays the same: that of an unchanged value."""
        return self.unchanged.bits

    def shared(self, reports: int = 1) -> float:
        """Return the bits that so many reports share with as many others, while the value does not change.

        What is equal in them is counted by Shannon's entropy. An upper bound where `likeness.is_exact` says so.
        """
        return self.unchanged.shannon_bits + self.likeness.beyond(reports)

    @property
    def are_alike(self) -> bool:
        """Whether reports share more than what is equal in them."""
        return self.likeness.beyond(MONTH) > 0

    @property
    def has_payload(self) -> bool:
        """Whether the payload of an unchanged value stays the same."""
        return self.unchanged != self.always

    def crowd(self, devices: int) -> float:
        """Return how many of `devices` an unchanged device's reports fit on average, itself included."""
        return self.unchanged.crowd(devices)

    def alone(self, devices: int) -> float:
        """Return the share of `devices` that nobody else's reports fit, while their values do not change."""
        return self.unchanged.alone(devices)

    @property
    def is_pseudonym(self) -> bool:
        """Whether two reports share more than ten bits, equal or alike: enough to tell a device from most others."""
        return max(self.bits, self.likeness.beyond(1)) > FEW_BITS

    def carried(self) -> str:
        """Say to a person what could put her reports together, though they carry no name."""
        if self.is_pseudonym:
            return f"Reports carry no name, but they can be put together without one: {self.words()}."
        nameless = "Reports carry no name, and the collector keeps no address"
        return f"{nameless}; {self.words()}."

    def words(self) -> str:
        """Say it in one sentence."""
        if not self.bits and not self.are_alike:
            return "nothing stays the same from report to report"
        sentences = []
        if self.always.bits:
            sentences.append(f"the same in every report: {self.always.words()}")
        if self.has_payload:
            also = "with the payload, " if sentences else ""
            sentences.append(
                f"{also}the same in every report while the value does not change: {self.unchanged.words()}"
            )
        if self.are_alike:
            sentences.append(self._alike_words())
        return "; ".join(sentences)

    def _alike_words(self) -> str:
        two, many = bits_text(self.shared(1)), bits_text(self.shared(MONTH))
        most = "" if self.likeness.is_exact(MONTH) else "at most "
        first = "with it, reports" if self.bits else "nothing is equal in every report, but reports"
        return (
            f"{first} of an unchanged value are alike: two share {two}, {MONTH} and {MONTH} share {most}{many}; "
            "to tell one device of a million takes 20"
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "always": self.always.to_json(),
            "unchanged": self.unchanged.to_json(),
            "shared": {
                "two_reports": self.shared(1),
                "thirty_and_thirty": self.shared(MONTH),
                "thirty_is_exact": self.likeness.is_exact(MONTH),
            },
            "words": self.words(),
        }


def linkability(mechanism: LocalRandomizer) -> Linkability:
    """Return what stays the same in the reports of one device."""
    disclosure = disclosure_of(mechanism)
    return Linkability(disclosure.always, disclosure.unchanged, disclosure.likeness)
