"""The collection itself: every device randomizes with a shipped oracle, and what it sends is counted and decoded."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO

import numpy as np

from overstory.analysis.comparison import Choice, rank, recommend
from overstory.analysis.kinds.base import Rng, SimulatedDevices, count_reports, generator
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.files.io import writing_text
from overstory.planning.needs import plan_from_needs
from overstory.presentation.document import (
    Block,
    Column,
    Figure,
    Folded,
    Heading,
    KeyValues,
    Lines,
    Paragraph,
    Preformatted,
)
from overstory.presentation.formats import epsilon_text, factor, guess_text, parameter_words
from overstory.presentation.render_html import as_page
from overstory.presentation.render_text import csv_lines
from overstory.presentation.result import Result
from overstory.privacy.statements import statement
from overstory.privacy.terms import terms_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Mechanism, whole_number
from overstory.protocol.kinds.registry import REGISTRY, build_from
from overstory.trial.population import People

CHUNK: Final = 1 << 17  # devices at a time

Advance = Callable[[int], object]


def seed_of(rng: Rng) -> int:
    """Return the seed of a simulation: the whole number that was given, or one that is drawn."""
    drawn, seed = generator(rng), whole_number(rng)
    return seed if isinstance(seed, int) else int(drawn.integers(1 << 63))


class Trial(Result):
    """What a simulated collection learned, next to the truth that no collector would see."""

    columns: ClassVar[Sequence[Column]] = ()  # of a file of `rows`
    of: ClassVar[str] = "value"  # what one report is of
    people: People
    estimate: Any  # what was learned; it has notes of its own

    @property
    def lead(self) -> str:
        """What the page begins with."""
        return f"Each row reported its {self.of} once; none of these numbers shows one row."

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What each row randomized with."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what was learned, as JSON values."""

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        stated = {key: self.stated[key] for key in ("parameters", "epsilon_report")}
        return {"oracle": self.kind.name, **stated, **self.facts(), "notes": list(self.notes)}

    @property
    def stated(self) -> dict[str, Any]:
        """What `overstory privacy` states of the mechanism, as JSON values."""
        return statement(self.kind).to_json()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know before trusting the numbers: of the people, of the collection, of the estimates."""
        return (*self.people.notes, *self.warnings(), *self.estimate.notes)

    def warnings(self) -> Iterator[str]:
        """Yield what a reader must know of how this was collected."""
        yield from ()

    @property
    @abstractmethod
    def who(self) -> str:
        """Who took part."""

    @property
    def more_reports(self) -> tuple[str, str]:
        """What the reports after the first tell, and for how many that holds."""
        ever = self.kind.epsilon_permanent
        if math.isinf(ever):
            return "more reports", "each tells as much again, without limit"
        change = "; two different ones prove a change" if terms_of(self.kind).proves_changes else ""
        words = f"epsilon {epsilon_text(ever)} for any number of reports of one {self.of}; another adds as much{change}"
        return "more reports", words

    @property
    def privacy(self) -> str:
        """What the reports of a device reveal, in plain words."""
        return statement(self.kind).plain_words()

    def cost(self) -> Iterator[Block]:
        """Yield what the reports cost: a sentence and four lines, for every kind of question."""
        epsilon = self.kind.epsilon_report
        one = f"epsilon {epsilon_text(epsilon)}: odds move by a factor of at most {factor(epsilon)}"
        guess = guess_text(epsilon, "one report", f"{self.of}s it is of")
        yield Paragraph(f"{guess[:1].upper()}{guess[1:]}.")
        how = f"{self.kind.name}: {parameter_words(self.stated['parameters'])}"
        yield KeyValues((("who", self.who), ("how", how), ("one report", one), self.more_reports))

    @abstractmethod
    def tables(self, *, everything: bool) -> Iterator[Block]:
        """Yield what was learned next to the truth: as many rows as a terminal shows, or everything."""

    @abstractmethod
    def sentences(self) -> Iterable[str]:
        """Return what was learned, and how near it came to the truth; without the notes."""

    def blocks(self, **_: Any) -> Iterator[Block]:
        """Yield what the terminal shows."""
        yield from self.tables(everything=False)
        yield Lines(*self.sentences())
        yield from self.cost()
        yield from [self.noted()] if self.notes else []
        yield from self.prospects()

    def prospects(self) -> Iterator[Block]:
        """Yield what other collections would learn, where that is known."""
        yield from ()

    def noted(self, *sentences: str) -> Lines:
        """Return sentences, and the notes as a terminal and a page write them."""
        return Lines(*sentences, *(f"note: {note}" for note in self.notes))

    def page_blocks(self, command: str = "") -> Iterator[Block]:
        """Yield what the page shows, and the command that made it."""
        yield Heading(1, self._headline())
        yield Paragraph(self.lead, is_lead=True)
        yield Figure(self.plot())
        yield Heading(2, "What was learned")
        yield from self.tables(everything=True)
        yield Heading(2, "What was true, and what it cost")
        yield self.noted(*self.sentences())
        yield from self.cost()
        if self.privacy != self.more_reports[1]:
            yield Folded("All that can be said of privacy", (Paragraph(self.privacy),))
        yield from self.prospects()
        if command:
            yield Heading(2, "How to get this page again")
            yield Preformatted(command)

    def write_csv(self, text: TextIO) -> None:
        """Write every estimate with the truth."""
        text.writelines(csv_lines(self.columns, ([row[column.name] for column in self.columns] for row in self.rows())))

    def write_page(self, path: Path, command: str) -> Path:
        """Write the page, and return its path."""
        with writing_text(path) as text:
            text.write(as_page(self.page_blocks(command), title=f"Overstory: {self._headline()}"))
        return path


_rank: Final = lru_cache(maxsize=64)(rank)  # once for all columns and questions of one size: it takes a quarter second


@dataclass(frozen=True)
class TrialBudget:
    """What a person may reveal."""

    epsilon: float = 1.0  # of one report
    epsilon_permanent: float | None = None  # of any number of reports of one value; None: those of one are all there is

    def ranking(self, domain_size: int, num_reports: int) -> tuple[Choice, ...]:
        """Return the oracles that keep the budget, the most accurate first."""
        return _rank(domain_size, self.epsilon, num_reports, epsilon_permanent=self.epsilon_permanent)

    def mechanism(self, name: str, domain_size: int, num_reports: int) -> Mechanism:
        """Return the oracle of that name at this budget; ``auto`` is the one that is recommended."""
        ranking = self.ranking(domain_size, num_reports)
        if name == "rappor":
            ever = self.epsilon if self.epsilon_permanent is None else self.epsilon_permanent
            return plan_from_needs(self.epsilon, ever, num_reports, domain_size).mechanism
        fitting = {choice.name: choice for choice in ranking}
        choice = recommend(ranking) if name == "auto" else fitting.get(name)
        if choice is None:
            raise ParameterError(self._refusal(name, fitting))
        return build_from(REGISTRY, choice.name, choice.parameters)

    def _refusal(self, name: str, fitting: dict[str, Choice]) -> str:
        choices = ", ".join(["auto", *fitting, "rappor"])
        if name not in REGISTRY:
            return f"there is no oracle {name!r}; at this budget there are: {choices}"
        accepted = inspect.signature(REGISTRY[name]).parameters.values()
        needed = [p.name for p in accepted if p.default is p.empty and p.name != "domain_size"]
        asks = f"it takes {' and '.join(needed)}" if needed else "its parameters are no epsilons"
        return f"{name} does not fit this budget or these values ({asks}); there are: {choices}"


Transport = Callable[[Kind, Iterable[ReportBatch]], SupportCounts]
"""How reports travel from the devices to whoever counts them: it takes every batch, and returns the counts of all."""


def count_here(mechanism: Kind, batches: Iterable[ReportBatch]) -> SupportCounts:
    """Count reports that never leave this process."""
    return reduce(add, (count_reports(mechanism, batch) for batch in batches))


def send(
    mechanism: Kind,
    values: Sequence[Any],  # that there are
    counts: np.ndarray[Any, Any],  # how many devices hold each
    rng: np.random.Generator,
    size: int,  # devices that report at a time
    advance: Advance,
) -> Iterator[ReportBatch]:
    """Yield what devices send that hold these values, one report each."""
    for symbols in chunks(counts, size):
        yield SimulatedDevices.holding(mechanism, values, symbols, rng).report()
        advance(len(symbols))


def chunks(counts: np.ndarray[Any, Any], size: int = CHUNK) -> Iterator[np.ndarray[Any, Any]]:
    """Yield what devices hold, `size` of them at a time, whose histogram is `counts`."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), size):
        numbers = np.arange(start, min(start + size, int(ends[-1])))
        yield np.searchsorted(ends, numbers, side="right").astype(np.int32)
