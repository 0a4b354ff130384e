"""What an experiment is run with: quick or full, its seed, its options, and whom to tell how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

from overstory.experiments.comparison import Comparison
from overstory.experiments.result import Picture, Result, Table

if TYPE_CHECKING:
    import numpy as np

    from overstory.experiments.registry import Experiment

SEED: Final = 20140814
THREADS: Final = 2

T = TypeVar("T")
U = TypeVar("U")
Tell = Callable[[float, str], object]
"""Called with the share that is done, 0 to 1, and what is being done."""


def silent(share: float, doing: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Context:
    """One run of one experiment.

    Attributes
    ----------
    experiment
        Which.
    quick
        Whether it is to take seconds (tests, a first look) or as long as the paper's sizes need.
    options
        What the user gave: a value, a file.
    key
        The digest that a finished result is known by.
    tell
        Whom to tell how far it is.
    seed
        What all randomness follows from.
    """

    experiment: Experiment
    quick: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    tell: Tell = silent
    seed: int = SEED

    def pick(self, quick: T, full: T) -> T:
        """Return what this mode uses."""
        return quick if self.quick else full

    def rng(self, *path: int) -> np.random.Generator:
        """Return a generator of its own for every path of numbers, the same in every run.

        Use one path per replicate and parameter set: what one part draws then never depends on another part.
        """
        import numpy as np

        return np.random.default_rng([self.seed, crc32(self.experiment.name.encode()), *path])

    def steps(self, items: Sequence[T], doing: str = "") -> Iterator[T]:
        """Go through `items`, telling how far."""
        for done, item in enumerate(items):
            self.tell(done / len(items), doing)
            yield item
        self.tell(1.0, doing)

    def parallel(self, work: Callable[[T], U], items: Sequence[T], doing: str = "") -> list[U]:
        """Return ``[work(item) for item in items]``, on two threads, telling how far."""
        found: list[U] = []
        with ThreadPoolExecutor(THREADS) as pool:
            for outcome in pool.map(work, items):
                found.append(outcome)
                self.tell(len(found) / len(items), doing)
        return found

    def result(
        self,
        comparisons: Iterable[Comparison],
        *,
        inputs: Mapping[str, Any],
        random: bool,
        tables: Iterable[Table] = (),
        figures: Iterable[Picture] = (),
        notes: Iterable[str] = (),
    ) -> Result:
        """Return the result under the experiment's name."""
        about = self.experiment
        return Result(
            name=about.name,
            title=about.title,
            paper=about.paper,
            section=about.section,
            quick=self.quick,
            key=self.key,
            inputs=dict(inputs),
            seed=self.seed if random else None,
            comparisons=tuple(comparisons),
            tables=tuple(tables),
            figures=tuple(figures),
            notes=tuple(notes),
        )
