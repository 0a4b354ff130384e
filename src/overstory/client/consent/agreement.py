"""What a person agreed to about one metric: its words, the meaning and privacy of its reports, and until when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

WORDS: Final = ("title", "description", "owner", "purpose", "attribute")
"""The texts of a metric that a person reads before choosing; another text is another question."""


@dataclass(frozen=True)
class Agreement:
    """One metric as it was shown.

    The texts are kept as they were, so that a later question can say what has changed.

    Attributes
    ----------
    title, description, owner, purpose, attribute
        The metric's texts.
    retention_days, grace_days
        How long reports are kept, and how late they are taken.
    """

    digest: str  # of all that a report's meaning or privacy depends on, in hexadecimal
    title: str = ""
    description: str = ""
    owner: str = ""
    purpose: str = ""
    attribute: str | None = None
    retention_days: int = 0
    grace_days: int = 0
    expires: str = ""  # the first day without a report, ISO 8601

    @classmethod
    def to(cls, metric: Metric) -> Self:
        """Return the agreement to a metric as it is."""
        return cls(
            digest=metric.digest.hex(),
            title=metric.title,
            description=metric.description,
            owner=metric.owner,
            purpose=metric.purpose,
            attribute=metric.attribute,
            retention_days=metric.retention_days,
            grace_days=metric.grace_days,
            expires=metric.expires.isoformat(),
        )

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Self:
        """Return what `to_json` wrote."""
        values = {field.name: read[field.name] for field in fields(cls)}
        days = [values[name] for name in ("retention_days", "grace_days")]
        texts = [value for name, value in values.items() if not name.endswith("_days") and value is not None]
        if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in days):
            raise TypeError("not what an agreement holds")
        date.fromisoformat(values["expires"])
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)

    def changes(self, metric: Metric) -> Iterator[str]:
        """Return what was shown otherwise, or promised less, when the person agreed; nothing where it is covered."""
        if self.digest != metric.digest.hex():
            yield "what its reports mean, or how private they are, is not what was shown"
        for name in WORDS:
            before = getattr(self, name)
            if before != getattr(metric, name):
                yield f"its {name} was {'not given' if before is None else repr(before)}"
        if metric.retention_days > self.retention_days:
            yield f"reports are to be kept for {metric.retention_days} days, not for {self.retention_days}"
        if metric.grace_days > self.grace_days:
            yield f"late reports are to be taken for {metric.grace_days} days, not for {self.grace_days}"
        if metric.expires.isoformat() > self.expires:
            yield f"it is to end on {metric.expires.isoformat()}, not on {self.expires}"
