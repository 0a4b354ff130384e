"""What every domain is: a finite set of values, numbered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final

from overstory.protocol.errors import ParameterError

MAX_SIZE: Final = 1 << 20


class Domain(ABC):
    """A finite set of values, numbered."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many symbols there are."""

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether neighbouring symbols are neighbouring values: whether ranges and smoothing mean anything."""

    @property
    @abstractmethod
    def labels(self) -> tuple[str, ...]:
        """What each symbol is called."""

    @abstractmethod
    def symbol(self, value: Any) -> int:
        """Return the symbol of `value`.

        Raises
        ------
        ParameterError
            When the value has none.
        """

    @abstractmethod
    def canonical(self) -> dict[str, Any]:
        """Return the parameters as JSON values; `domain_from` is the inverse."""


def check_size(size: int, what: str) -> None:
    """Raise ParameterError unless a domain may have so many symbols."""
    if not 2 <= size <= MAX_SIZE:
        raise ParameterError(f"{size} {what}: a domain has from 2 to {MAX_SIZE} symbols")
