"""A result: what was learned, as a typed table, facts, notes and pictures; every surface writes it from these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.presentation.document import Block, Lines, Table
from overstory.presentation.render_data import as_csv

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture


class Result(ABC):
    """What was learned; a kind of result says what is its own, and writers that know no kind make every format."""

    name: ClassVar[str]
    """What a file with it is called."""
    every: ClassVar[str] = "value"
    """What a line of such a file is of."""

    @abstractmethod
    def as_table(self) -> Table:
        """Return a row per estimate, by the names of `to_json`, for files of every form."""

    @abstractmethod
    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return the estimates, unless `everything` of detected values alone, and the facts to read them by."""

    @abstractmethod
    def shown(self, *, everything: bool) -> Iterable[Block]:
        """Return the tables that a person reads; `everything`: not only what was detected."""

    def sentences(self) -> Iterable[str]:
        """Return what was read, how, and what it costs."""
        return ()

    def all_notes(self) -> Iterable[str]:
        """Return what a reader must know before trusting the numbers."""
        return ()

    def pictures(self) -> list[Picture]:
        """Return the pictures, whose captions say what is left out; none without reports."""
        return []

    def csv_lines(self) -> Iterable[str]:
        return as_csv(self.as_table())

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        """Return what a person reads; `everything`: not only what was detected; `written`: a file that has it all."""
        yield from self.shown(everything=everything)
        notes = (f"note: {note}" for note in self.all_notes())
        yield Lines(*self.sentences(), *notes, *([] if written is None else [f"every {self.every}: {written}"]))
