"""Every experiment: one module and one line here. Modules are imported only when they run.

What an experiment is run with: quick or full, its seed, its options, and whom to tell how far it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

from overstory.experiments.comparison import Comparison
from overstory.experiments.result import Result, Table
from overstory.presentation.svg import Picture
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np


RAPPOR: Final = "RAPPOR (Erlingsson, Pihur, Korolova, CCS 2014)"
EPIDEMIC: Final = "Frequency feature extraction by local differential privacy (Computer Science 49(7), 2022)"
LECTURE: Final = "Local differential privacy, lecture 6 (after Dwork and Roth)"
PROTECTING: Final = "ProTECting (Vidal, SBBD 2019 and SBRC 2020)"
BEYOND: Final = "Beyond the papers"


@dataclass(frozen=True)
class Experiment:
    """A published result that can be recomputed.

    Attributes
    ----------
    paper, section
        Where it was published.
    """

    name: str  # what the command calls it
    title: str  # what it shows
    paper: str
    section: str
    module: str  # the module under `overstory.experiments` whose ``run(context) -> Result`` computes it
    takes: tuple[str, ...] = ()  # the options it reads (``value``, ``params``, ``readings``)

    def run(self, context: Context) -> Result:
        """Compute it."""
        result: Result = import_module(self.path).run(context)
        return result

    @property
    def path(self) -> str:
        """The module's full name."""
        return f"overstory.experiments.{self.module}"


_ALL: Final = (
    Experiment("rappor-75-of-100", "What 75 noisy yeses of 100 say", RAPPOR, "sections 1 and 3", "rappor.coins"),
    Experiment(
        "rappor-averaging", "The averaging attack, and what stops it", RAPPOR, "section 1.3", "rappor.averaging"
    ),
    Experiment(
        "rappor-figure-1", "Life of a report", RAPPOR, "section 2, figure 1", "rappor.figure_1", ("value", "params")
    ),
    Experiment("rappor-epsilons", "Every epsilon the paper states", RAPPOR, "sections 3 and 5", "rappor.epsilons"),
    Experiment(
        "rappor-figure-2", "Recall and precision over k, h and m", RAPPOR, "section 4.1, figure 2", "rappor.figure_2"
    ),
    Experiment(
        "rappor-figure-3", "How many strings can be learned", RAPPOR, "section 4.2, figure 3", "rappor.figure_3"
    ),
    Experiment("rappor-figure-4", "A normal distribution, learned", RAPPOR, "section 5.1, figure 4", "rappor.figure_4"),
    Experiment(
        "rappor-figure-5", "Strings found, and what can be found", RAPPOR, "section 5.2, figure 5", "rappor.figure_5"
    ),
    Experiment("rappor-table-1", "Counts of the strings found", RAPPOR, "section 5.2, table 1", "rappor.table_1"),
    Experiment(
        "rappor-table-2", "Process names, and their right variance", RAPPOR, "section 5.3, table 2", "rappor.table_2"
    ),
    Experiment(
        "rappor-figure-6", "Homepages, and the least share found", RAPPOR, "section 5.4, figure 6", "rappor.figure_6"
    ),
    Experiment("rappor-figure-7", "False discoveries of an attacker", RAPPOR, "section 6, figure 7", "rappor.figure_7"),
    Experiment("rappor-figure-8", "What two bits say", RAPPOR, "section 6, figure 8", "rappor.figure_8"),
    Experiment(
        "epidemic-fit", "Infections by state, estimated and true", EPIDEMIC, "sections 3 and 4.4", "epidemic.fit"
    ),
    Experiment("epidemic-attacker", "What an attacker rebuilds", EPIDEMIC, "section 4.4, figure 8", "epidemic.attack"),
    Experiment(
        "epidemic-shortcomings", "Three shortcomings, answered", EPIDEMIC, "conclusion", "epidemic.shortcomings"
    ),
    Experiment(
        "lecture-bounds",
        "Errors of two protocols against their bounds",
        LECTURE,
        "both constructions",
        "lecture.bounds",
    ),
    Experiment(
        "lecture-heavy-hitters", "From a frequency oracle to heavy hitters", LECTURE, "Theorem 2", "lecture.reduction"
    ),
    Experiment(
        "protecting-window",
        "WB and OPT-WB over homes and epsilon",
        PROTECTING,
        "section 5.3.2.1, figures 11 and 12, table 6",
        "smart_homes.window_based",
        ("readings",),
    ),
    Experiment(
        "protecting-double",
        "OPT-DR against RAPPOR, by every definition",
        PROTECTING,
        "section 5.3.2.2, figures 13 to 16",
        "smart_homes.double_randomization",
        ("readings",),
    ),
    Experiment(
        "protecting-cumulative",
        "Each time step alone, or all reports so far",
        PROTECTING,
        "section 4.4",
        "smart_homes.cumulative",
        ("readings",),
    ),
    Experiment(
        "protecting-shapes", "What bins and shapes do", PROTECTING, "section 6.2, future work", "smart_homes.shapes"
    ),
    Experiment("beyond-oracles", "The papers' problems by every oracle", BEYOND, "at equal epsilon", "beyond.oracles"),
    Experiment(
        "beyond-people-needed", "How many people a share needs", BEYOND, "epsilon 0.5 to 4", "beyond.people_needed"
    ),
)

EXPERIMENTS: Final[dict[str, Experiment]] = {experiment.name: experiment for experiment in _ALL}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise ParameterError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


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
    """One run of one experiment."""

    experiment: Experiment  # which
    quick: bool = True  # whether it is to take seconds (tests, a first look) or as long as the paper's sizes need
    options: Mapping[str, Any] = field(default_factory=dict)  # what the user gave: a value, a file
    key: str = ""  # the digest that a finished result is known by
    tell: Tell = silent  # whom to tell how far it is
    seed: int = SEED  # what all randomness follows from

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
