"""The collection itself: every device randomizes with a shipped oracle, and what it sends is counted and decoded."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Final, TextIO

import numpy as np

from overstory.analysis.comparison import Choice, rank, recommend
from overstory.analysis.estimate import Estimate, converted
from overstory.analysis.kinds.base import Rng, SimulatedDevices, count_reports, generator
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.postprocess import Processed, postprocess
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.tables.output import estimate_picture
from overstory.files.io import writing_text
from overstory.planning.detection import count_error
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
from overstory.presentation.render_data import csv_lines
from overstory.presentation.render_html import as_page
from overstory.presentation.shown import Shown
from overstory.presentation.svg import Picture
from overstory.privacy.statements import statement
from overstory.privacy.terms import terms_of
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Mechanism, whole_number
from overstory.protocol.kinds.registry import REGISTRY, build_from
from overstory.trial.population import Devices, Population

CHUNK: Final = 1 << 17  # devices at a time

Advance = Callable[[int], object]


def seed_of(rng: Rng) -> int:
    """Return the seed of a simulation: the whole number that was given, or one that is drawn."""
    drawn, seed = generator(rng), whole_number(rng)
    return seed if isinstance(seed, int) else int(drawn.integers(1 << 63))


class Trial(Shown):
    """What a simulated collection learned, next to the truth that no collector would see."""

    columns: ClassVar[Sequence[Column]] = ()  # of a file of `rows`
    lead: ClassVar[str]  # what the page begins with
    of: ClassVar[str] = "value"  # what one report is of

    @property
    @abstractmethod
    def title(self) -> str:
        """Of the page."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What each row randomized with."""

    @abstractmethod
    def rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a dictionary per estimate, with the truth."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""

    @property
    @abstractmethod
    def notes(self) -> Sequence[str]:
        """What a reader must know before trusting the numbers."""

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
        how = f"{self.kind.name}: {parameter_words(statement(self.kind).to_json()['parameters'])}"
        yield KeyValues((("who", self.who), ("how", how), ("one report", one), self.more_reports))

    @abstractmethod
    def tables(self, *, everything: bool) -> Iterator[Block]:
        """Yield what was learned next to the truth: as many rows as a terminal shows, or everything."""

    @abstractmethod
    def sentences(self) -> Iterable[str]:
        """Return what was learned, and how near it came to the truth; without the notes."""

    def blocks(self) -> Iterator[Block]:
        """Yield what the terminal shows."""
        yield from self.tables(everything=False)
        yield Lines(*self.sentences())
        yield from self.cost()
        yield from [Lines(*self.note_lines())] if self.notes else []

    def note_lines(self) -> Iterator[str]:
        """Yield the notes as a terminal and a page write them."""
        return (f"note: {note}" for note in self.notes)

    def _screen(self) -> Iterator[Block]:
        return self.blocks()

    def page_blocks(self, command: str = "") -> Iterator[Block]:
        """Yield what the page shows, and the command that made it."""
        yield Heading(1, self.title)
        yield Paragraph(self.lead, is_lead=True)
        yield Figure(self.plot())
        yield Heading(2, "What was learned")
        yield from self.tables(everything=True)
        yield Heading(2, "What was true, and what it cost")
        yield Lines(*self.sentences(), *self.note_lines())
        yield from self.cost()
        yield Folded("All that can be said of privacy", (Paragraph(self.privacy),))
        if command:
            yield Heading(2, "How to get this page again")
            yield Preformatted(command)

    def write_csv(self, text: TextIO) -> None:
        """Write every estimate with the truth."""
        text.writelines(csv_lines(self.columns, ([row[column.name] for column in self.columns] for row in self.rows())))

    def write_page(self, path: Path, command: str) -> Path:
        """Write the page, and return its path."""
        with writing_text(path) as text:
            text.write(as_page(self.page_blocks(command), title=f"Overstory: {self.title}"))
        return path


MOST_BARS: Final = 40


def truth_picture(name: str, rows: Sequence[Mapping[str, Any]], true: str, *, most: int = MOST_BARS) -> Picture:
    """Draw estimates of shares with their 95% intervals, and the truth, which `true` names, next to each."""
    shown = rows[:most]
    left = len(rows) - len(shown)
    more = f" The {most} most frequent; {left:,} more are in the table." if left else ""
    caption = f"What was true (upright strokes), and what was learned, with 95% intervals of these reports.{more}"
    truth = np.array([row[true] for row in shown])
    return estimate_picture(name, caption, shown, truth=truth, of="share of the rows with a value")


@dataclass(frozen=True)
class TrialBudget:
    """What a person may reveal, and how often she is asked."""

    epsilon: float = 1.0  # of one report
    epsilon_permanent: float | None = None  # of any number of reports of one value; None: those of one are all there is
    reports: int = 1  # of each device, where a row is a device

    def __post_init__(self) -> None:
        if not check_reports_per_device(self.reports).is_integer():
            raise ParameterError(f"--reports-per-device {self.reports}: give a whole number from 1")

    def ranking(self, domain_size: int, num_reports: int) -> tuple[Choice, ...]:
        """Return the oracles that keep the budget, the most accurate first."""
        return _ranking(domain_size, self.epsilon, num_reports, self.epsilon_permanent)

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


@lru_cache(maxsize=64)
def _ranking(domain_size: int, epsilon: float, num_reports: int, ever: float | None) -> tuple[Choice, ...]:
    """Rank the oracles once for all columns and questions of one size: it takes a quarter of a second."""
    return rank(domain_size, epsilon, num_reports, epsilon_permanent=ever)


@dataclass(frozen=True, eq=False)
class TrialResult:
    """What was collected over any transport, and what its counts show; the estimate is unbiased."""

    population: Population  # who took part: the truth
    oracle: FrequencyOracle  # what they randomized with
    estimate: Estimate  # in rows: its counts compare with `population.counts`
    seed: int  # what all randomness followed from
    budget: TrialBudget  # what people were to reveal at most

    @property
    def mechanism(self) -> Mechanism:
        return self.oracle.mechanism

    @property
    def reports_per_device(self) -> float:
        """Of a device; where they are uneven, the mean over the reports."""
        devices = self.population.devices
        return float(self.budget.reports) if devices is None else devices.reports_per_device

    @cached_property
    def shown(self) -> Processed:
        """The estimate as table, picture and files show it: counts and intervals that are possible."""
        return postprocess(self.estimate, "clip")

    @property
    def inside(self) -> int:
        """How many of the 95% intervals, as they are shown, hold the truth."""
        low, high = self.shown.interval(0.95)
        return int(np.count_nonzero((low <= self.population.counts) & (self.population.counts <= high)))

    @property
    def rmse(self) -> float:
        """Root mean square error of the unbiased shares."""
        return float(np.sqrt(np.mean((self.estimate.raw_frequencies - self.population.shares) ** 2)))

    @property
    def limit(self) -> float | None:
        """The root mean square error that the best unbiased decoder of filters can expect; None for other reports."""
        mechanism, shares, num_reports = self.mechanism, self.population.shares.tolist(), len(self.population)
        if not mechanism.encoding.decoded or self.reports_per_device != 1:
            return None
        errors = [count_error(mechanism, num_reports, share, len(shares)) / num_reports for share in shares]
        return float(np.sqrt(np.mean(np.square(errors))))


Transport = Callable[[Kind, Iterable[ReportBatch]], SupportCounts]
"""How reports travel from the devices to whoever counts them: it takes every batch, and returns the counts of all."""


def count_here(mechanism: Kind, batches: Iterable[ReportBatch]) -> SupportCounts:
    """Count reports that never leave this process."""
    return reduce(add, (count_reports(mechanism, batch) for batch in batches))


def collect(
    population: Population,
    budget: TrialBudget,
    oracle: str | Mechanism,  # or its name at this budget; ``auto`` is the best
    seed: int,
    advance: Advance = lambda _: None,
    transport: Transport = count_here,
    size: int = CHUNK,  # devices that report at a time
) -> TrialResult:
    """Let every device report, count what they send, and decode it."""
    if population.devices is not None and budget.reports != 1:
        raise ParameterError("with --device-column the rows say how many reports a device sends")
    if isinstance(oracle, str):
        oracle = budget.mechanism(oracle, len(population.labels), len(population))
    pair = FrequencyOracle(oracle)
    values: Sequence[Any] = population.labels if oracle.encoding.decoded else range(oracle.domain_size or 0)
    rng = np.random.default_rng([seed, 1])
    sent = (
        send(oracle, values, population.counts, rng, size, advance, budget.reports)
        if population.devices is None
        else _send_rows(oracle, values, population.devices, rng, size, advance)
    )
    estimate = _estimate(population, budget, pair, transport(oracle, sent))
    return TrialResult(population, pair, estimate, seed, budget)


def send(
    mechanism: Kind,
    values: Sequence[Any],  # that there are
    counts: np.ndarray[Any, Any],  # how many devices hold each
    rng: np.random.Generator,
    size: int,  # devices that report at a time
    advance: Advance,
    reports: int = 1,  # of each device
) -> Iterator[ReportBatch]:
    """Yield what devices send that hold these values."""
    for symbols in chunks(counts, size):
        fleet = SimulatedDevices.holding(mechanism, values, symbols, rng)
        for index in range(reports):
            yield fleet.report(index)
            advance(len(symbols))


def _send_rows(
    mechanism: Mechanism, values: Sequence[Any], devices: Devices, rng: np.random.Generator, size: int, advance: Advance
) -> Iterator[ReportBatch]:
    """Yield the reports of devices that have several rows: all first ones, then all second ones, and so on."""
    rounds = list(devices.rounds())
    fleet = SimulatedDevices.holding(mechanism, values, rounds[0], rng)
    for index, symbols in enumerate(rounds):
        reporting = replace(fleet, symbols=symbols, cohorts=fleet.cohorts[: len(symbols)])
        for batch in reporting.batches(index, size=size):
            yield batch
            advance(len(batch.cohorts))


def chunks(counts: np.ndarray[Any, Any], size: int = CHUNK) -> Iterator[np.ndarray[Any, Any]]:
    """Yield what devices hold, `size` of them at a time, whose histogram is `counts`."""
    ends = np.cumsum(counts)
    for start in range(0, int(ends[-1]), size):
        numbers = np.arange(start, min(start + size, int(ends[-1])))
        yield np.searchsorted(ends, numbers, side="right").astype(np.int32)


def _estimate(population: Population, budget: TrialBudget, oracle: FrequencyOracle, counts: SupportCounts) -> Estimate:
    names = list(population.labels)
    each = float(budget.reports) if population.devices is None else population.devices.reports_per_device
    estimate = oracle.estimate(counts, names, reports_per_device=each)
    if budget.reports == 1:
        return estimate
    scale = 1 / budget.reports
    in_rows = {name: getattr(estimate, name) * scale for name in ("counts", "raw_counts", "standard_errors")}
    about = {"num_reports": len(population), "reports_per_device": each * scale, "joint_errors": None}
    return converted(Estimate, estimate, **in_rows, **about)
