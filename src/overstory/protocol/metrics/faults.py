"""Faults: what is wrong with a registry, all of it at once, each where it stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from overstory.protocol.errors import FormatError


@dataclass(frozen=True, order=True)
class Fault:
    """One thing that is wrong.

    Attributes
    ----------
    line
        Its line's number, from 1.
    field
        The key, dotted: ``metrics.search-engine.period``.
    message
        What is wrong, and what would be right.

    Examples
    --------
    >>> str(Fault(7, "metrics.search-engine.period", "'daily' is no period"))
    "line 7, metrics.search-engine.period: 'daily' is no period"
    """

    line: int
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.message}" if self.field else f"line {self.line}: {self.message}"


class RegistryError(FormatError):
    """A registry with faults; `faults` holds every one of them, in the order of the lines.

    Examples
    --------
    >>> error = RegistryError([Fault(3, "b", "second"), Fault(2, "a", "first")], source="metrics.toml")
    >>> print(error)
    metrics.toml: 2 faults
      line 2, a: first
      line 3, b: second
    """

    def __init__(self, faults: Iterable[Fault], *, source: str | None = None) -> None:
        self.faults = tuple(sorted(faults))
        if len(self.faults) == 1:
            only = self.faults[0]
            super().__init__(only.message, source=source, line=only.line, field=only.field)
        else:
            shown = "".join(f"\n  {fault}" for fault in self.faults)
            super().__init__(f"{len(self.faults)} faults{shown}", source=source)
