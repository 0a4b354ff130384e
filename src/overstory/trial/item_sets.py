"""A collection of a column of sets: several answers with a separator between them, or lists; counted are the items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Final, cast

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import Rng
from overstory.analysis.kinds.bits import ItemEstimate
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.tables.output import label_text
from overstory.files.columns import ANY_FORM
from overstory.files.io import Advance
from overstory.files.recognition import look_alikes, recognize
from overstory.planning.kinds import other_mechanism, rank_item_mechanisms
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.item_sets import Items
from overstory.protocol.kinds.registry import FAMILIES
from overstory.trial.population import OF_COLUMN, ONE_SPELLING, READ_OFF, People, count_texts
from overstory.trial.run import CHUNK, TrialBudget, count_here, seed_of, send
from overstory.trial.values import CountTrial

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]
MOST_ITEMS: Final = 10_000
SIZES_READ: Final = (
    "the padding length was chosen by the sizes of these very sets; a real collection must know them before"
)


@dataclass(frozen=True, eq=False)
class SetPeople(People):
    """People that hold a set of items each."""

    labels: tuple[str, ...]  # what each item is called
    sets: tuple[Items, ...]  # the distinct ones
    counts: I64  # how many rows hold each set, shape (len(sets),)

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def sizes(self) -> I64:
        """How many rows hold a set of each size, from 0."""
        sizes = np.array([len(items) for items in self.sets])
        return np.bincount(sizes, weights=self.counts).astype(np.int64)

    @property
    def holders(self) -> I64:
        return self.counted(len(self.labels)).astype(np.int64)

    def counted(self, most: int) -> F64:
        """Return how many rows hold each item, where each of s > `most` items counts as ``most / s`` of a row."""
        holders = np.zeros(len(self.labels))
        for items, count in zip(self.sets, self.counts.tolist(), strict=True):
            holders[list(items)] += count * min(1.0, most / max(len(items), 1))
        return holders


def count_sets(path: str, column: str, separator: str, **how: Any) -> SetPeople:
    """Count the rows of every set of a column's texts, in one pass; spaces around an item are not part of it."""
    if not separator:
        raise ParameterError("--separator: give the text between two items, such as ';'")
    rows, missing = count_texts(path, column, **how)
    held = [(_split(text, separator), count) for text, count in rows.items()]
    items: Counter[str] = Counter()
    for names, count in held:
        items.update(dict.fromkeys(names, count))
    found = recognize(column, items, replace(how.get("form", ANY_FORM), words=True))
    name_of = dict(zip(items, found.labels, strict=True))
    notes = (READ_OFF, *found.notes)
    return arranged((([name_of[item] for item in names], count) for names, count in held), missing).noted(*notes)


def _split(text: str, separator: str) -> list[str]:
    return [item for part in text.split(separator) if (item := part.strip())]


def arranged(rows: Iterable[tuple[Iterable[str], int]], missing: int) -> SetPeople:
    """Return the people of these sets, items in the order of their names."""
    given = [(frozenset(items), count) for items, count in rows]
    names = sorted({item for items, _ in given for item in items})
    if not 2 <= len(names) <= MOST_ITEMS:
        raise ParameterError(f"{len(names):,} different items: give a column of 2 to {MOST_ITEMS:,}")
    numbers = {name: number for number, name in enumerate(names)}
    counts: Counter[Items] = Counter()
    for items, count in given:
        counts[tuple(sorted(numbers[item] for item in items))] += count
    rows = np.array(list(counts.values()), np.int64)
    return SetPeople(tuple(names), tuple(counts), rows, missing=missing).absent_noted()


@dataclass(frozen=True, eq=False, repr=False)
class SetTrial(CountTrial):
    """What a collection of sets learned, next to the truth.

    Attributes
    ----------
    people
        The rows that took part, and the set that each holds: the truth that no collector would see.
    oracle
        The mechanism that every row randomized its set with, and the server's half.
    estimate
        The counts of items, with errors and intervals, and the mean size of a set.
    instead
        The best mechanism of the other kind, in words; none where the mechanism was asked for.
    is_fitted
        Whether the sizes of the rows' sets chose how many items of one set count.
    """

    of: ClassVar[str] = "set"
    thing: ClassVar[str] = "item"

    people: SetPeople
    oracle: FrequencyOracle
    estimate: ItemEstimate
    instead: str = ""
    is_fitted: bool = False

    @cached_property
    def truth(self) -> F64:
        """How many rows hold each item, a set that is too large counted as the mechanism counts it."""
        return self.people.counted(self.estimate.mean_size.most)

    @property
    def true_size(self) -> float:
        """The mean size of the rows' sets, of larger ones as many items as count."""
        return float(self.truth.sum()) / len(self.people)

    def facts(self) -> dict[str, Any]:
        return {
            **self.estimate.summary(),
            "rows": len(self.people),
            "missing": self.people.missing,
            "items": len(self.people.labels),
            "true_mean_size": self.true_size,
            "inside": self.inside,
            "estimates": list(self.rows()),
        }

    @property
    def who(self) -> str:
        return f"{len(self.people):,} rows, one report of its set each; {len(self.people.labels):,} items"

    def _headline(self) -> str:
        rows, items = len(self.people), len(self.people.labels)
        detected = int(np.count_nonzero(self.estimate.detected()))
        return f"{rows:,} rows, {items:,} items, {detected:,} detected, {self.oracle.name}"

    def warnings(self) -> Iterator[str]:
        if self.is_fitted:
            yield SIZES_READ
        most, reports = self.estimate.mean_size.most, len(self.people)
        if larger := int(self.people.sizes[most + 1 :].sum()):
            lost = (self.people.holders - self.truth) / reports
            yield (
                f"{larger / reports:.2%} of the rows have more than {most} item{'s' * (most != 1)}, and the truth "
                f"shown counts them as the estimates do; in full, shares are up to {100 * lost.max():.2f} points "
                f"higher, and a row has {self.true_size + lost.sum():.2f} items"
            )

    def sentences(self) -> list[str]:
        size = self.estimate.mean_size
        low, high = size.interval()
        mean = f"{size.mean:.2f} on average, 95% interval {low:.2f} to {high:.2f}; truth {self.true_size:.2f}"
        return [
            f"Items of a row: {mean} (of a larger set {size.most} count)",
            f"Intervals: {self.inside:,} of the {len(self.people.labels):,} items' 95% intervals hold the truth",
            *([f"Instead: {self.instead}"] if self.instead else []),
        ]


def collect_sets(
    people: SetPeople,
    budget: TrialBudget,
    oracle: str = "auto",  # the mechanism of least error, or one of them by name
    seed: int = 0,
    *,
    most: int | None = None,  # items of one set that count; as many as make the least error, unless given
    advance: Advance = lambda _: None,
) -> SetTrial:
    """Let every row report its set, count what is sent, and estimate the items."""
    if budget.epsilon_permanent is not None:
        raise ParameterError("sets are reported in one round: leave out --epsilon-permanent")
    builders = FAMILIES["sets"]
    if oracle != "auto" and oracle not in builders:
        raise ParameterError(f"there is no mechanism {oracle!r} for sets: choose auto, {', '.join(builders)}")
    counted = max(len(people.sizes) - 1, 1) if most is None else most
    size, instead = len(people.labels), ""
    if oracle == "auto":
        ranking = rank_item_mechanisms(size, counted, budget.epsilon, len(people), people.sizes.tolist())
        if most is not None:  # as many count, and no fewer
            ranking = tuple(choice for choice in ranking if choice.parameters.get("length", most) == most)
        mechanism, instead = ranking[0].mechanism, other_mechanism(ranking)
    else:
        mechanism = cast("Mechanism", builders[oracle](domain_size=size, most=counted, epsilon=budget.epsilon))
    pair, rng = FrequencyOracle(mechanism), np.random.default_rng([seed, 1])
    counts = count_here(mechanism, send(mechanism, people.sets, people.counts, rng, CHUNK, advance))
    learned = cast("ItemEstimate", pair.estimate(counts, people.labels))
    return SetTrial(people, pair, learned, instead, oracle == "auto" and most is None)


def survey_sets(
    column: Any,
    epsilon: float = 1.0,
    *,
    separator: str = ";",
    most: int | None = None,
    oracle: str = "auto",
    rng: Rng = None,
) -> SetTrial:
    """Simulate a survey of a question with several answers: each row reports its set, and only items are counted.

    Parameters
    ----------
    column
        A column of lists, of pandas, Polars or Arrow, or a list of lists or sets; or of texts with a separator between
        their items. A missing value sends nothing.
    epsilon
        What a row's report may reveal of its set, in nats; smaller is more private.
    separator
        The text between two items, where rows are texts.
    most
        As many items of one set count; as many as make the least error, unless given.
    oracle
        "auto" for the mechanism of least error, "padding-and-sampling", or "item-bits".
    rng
        Randomness for the simulation, as NumPy takes it: a seed, a generator, or None.

    Returns
    -------
    SetTrial
        Its `estimate` is what was learned; `people` are the truth.

    Raises
    ------
    ParameterError
        When the column holds no sets, or too many items; or a choice is unknown.

    Examples
    --------
    >>> learned = survey_sets([["rain"], ["rain", "wind"], [], None] * 5_000, epsilon=3, rng=1)
    >>> [(row["value"], round(row["frequency"], 1)) for row in learned.rows()], learned.people.missing
    ([('rain', 0.7), ('wind', 0.3)], 5000)
    """
    rows: Counter[frozenset[str]] = Counter()
    missing = 0
    for value in _values(column):
        if value is None or value != value:  # noqa: PLR0124 - a number that is none
            missing += 1
        else:
            rows[frozenset(_split(value, separator) if isinstance(value, str) else _names(value))] += 1
    people = arranged(rows.items(), missing)
    spelt = look_alikes("the column", dict(zip(people.labels, people.holders.tolist(), strict=True)), ONE_SPELLING)
    people = people.noted(OF_COLUMN.format(""), *spelt)
    return collect_sets(people, TrialBudget(epsilon), oracle, seed_of(rng), most=most)


def _values(column: Any) -> Sequence[Any]:
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(column, method):
            values: Sequence[Any] = getattr(column, method)()
            return values
    return list(column)


def _names(value: Any) -> list[str]:
    if not isinstance(value, Iterable):
        raise ParameterError(f"{value!r:.100} is no set of items: give lists, or texts with a separator")
    return [label_text(item) for item in value]
