"""What an experiment is, what it runs with, and what it gives: inputs, comparisons, rows and figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from operator import add
from typing import TYPE_CHECKING, Any, Final, TypeVar
from zlib import crc32

from overstory.protocol.errors import ParameterError
from papers.comparison import AGREES, DIFFERS, NEW, Comparison

if TYPE_CHECKING:
    import numpy as np

    from overstory.analysis.kinds.base import SimulatedDevices
    from overstory.analysis.oracle import FrequencyOracle
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.kinds.bits import BitMechanism
    from papers.figures import Picture

SEED: Final = 20140814
THREADS: Final = 2

Cell = str | int | float | bool | None
T = TypeVar("T")
U = TypeVar("U")
Progress = Callable[[float, str], object]
"""Called with the share that is done, 0 to 1, and what is being done."""


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ParameterError(f"table {self.caption!r}: a row does not have {len(self.columns)} cells")

    @classmethod
    def of(cls, caption: str, columns: Mapping[str, Iterable[Cell]]) -> Table:
        """Make a table from its columns, each under its heading."""
        return cls(caption, tuple(columns), tuple(zip(*columns.values(), strict=True)))

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"caption": self.caption, "columns": list(self.columns), "rows": [list(row) for row in self.rows]}


@dataclass(frozen=True)
class Study:
    """What one run of an experiment gives."""

    inputs: Mapping[str, Any]  # parameters and sizes, as JSON values
    comparisons: Iterable[Comparison]  # with what was published
    tables: Iterable[Table] = ()
    figures: Iterable[Picture] = ()
    notes: str = ""  # paragraphs, with an empty line between them
    random: bool = True  # whether anything was drawn


@dataclass(frozen=True)
class Result:
    """A study under the name, the title and the place of its experiment, as it is written and read back."""

    name: str
    title: str
    paper: str
    section: str
    quick: bool  # whether it was made in quick mode
    key: str  # a digest of what it was computed from and by: equal keys, equal results
    inputs: Mapping[str, Any]
    seed: int | None  # the source of all randomness; None where nothing is random
    comparisons: tuple[Comparison, ...]
    tables: tuple[Table, ...] = ()
    figures: tuple[Picture, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdicts(self) -> dict[str, int]:
        """How many comparisons agree, differ, are new."""
        counts = Counter(comparison.verdict for comparison in self.comparisons)
        return {verdict: counts[verdict] for verdict in (AGREES, DIFFERS, NEW)}

    @property
    def unexplained(self) -> tuple[Comparison, ...]:
        """The comparisons that differ without a reason."""
        return tuple(comparison for comparison in self.comparisons if comparison.unexplained)

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "name": self.name,
            "title": self.title,
            "paper": self.paper,
            "section": self.section,
            "quick": self.quick,
            "key": self.key,
            "inputs": dict(self.inputs),
            "seed": self.seed,
            "verdicts": self.verdicts,
            "comparisons": [comparison.to_json() for comparison in self.comparisons],
            "tables": [table.to_json() for table in self.tables],
            "figures": [figure.to_json() for figure in self.figures],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Experiment:
    """A published result that can be recomputed."""

    name: str  # what the command calls it
    title: str
    paper: str
    section: str
    module: str  # MODULE or MODULE:FUNCTION under `papers`; ``run(context) -> Study`` computes it

    @property
    def path(self) -> str:
        """The module's full name."""
        return f"papers.{self.module.partition(':')[0]}"

    def run(self, context: Context) -> Result:
        """Compute it."""
        study: Study = getattr(import_module(self.path), self.module.partition(":")[2] or "run")(context)
        return Result(
            name=self.name,
            title=self.title,
            paper=self.paper,
            section=self.section,
            quick=context.quick,
            key=context.key,
            inputs=dict(study.inputs),
            seed=context.seed if study.random else None,
            comparisons=tuple(study.comparisons),
            tables=tuple(study.tables),
            figures=tuple(study.figures),
            notes=tuple(" ".join(note.split()) for note in study.notes.split("\n\n") if note.strip()),
        )


def silent(share: float, doing: str) -> None:
    """Show no progress."""


@dataclass(frozen=True)
class Context:
    """What one run of an experiment runs with."""

    experiment: Experiment
    quick: bool = True  # seconds, for tests and a first look; or as long as the paper's sizes need
    key: str = ""  # the digest by which a finished result is recognized
    progress: Progress = silent
    seed: int = SEED  # the source of all randomness

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
        """Go through `items` and show the progress."""
        for done, item in enumerate(items):
            self.progress(done / len(items), doing)
            yield item
        self.progress(1.0, doing)

    def parallel(self, work: Callable[[T], U], items: Sequence[T], doing: str = "") -> list[U]:
        """Return ``[work(item) for item in items]``, computed on two threads."""
        outcomes: list[U] = []
        with ThreadPoolExecutor(THREADS) as pool:
            for outcome in pool.map(work, items):
                outcomes.append(outcome)
                self.progress(len(outcomes) / len(items), doing)
        return outcomes


def each(runs: Iterable[Any], name: str) -> list[float]:
    """Return one attribute of every run."""
    return [getattr(run, name) for run in runs]


def mean(values: Any) -> float:
    """Return the mean of numbers."""
    import numpy as np

    return float(np.mean(values))


def letters(mechanism: BitMechanism, chosen: str = "khmfpq") -> dict[str, float]:
    """Return RAPPOR's parameters by the paper's letters.

    Examples
    --------
    >>> from overstory.protocol.kinds.bits import rappor
    >>> letters(rappor())
    {'k': 128, 'h': 2, 'm': 16, 'f': 0.5, 'p': 0.5, 'q': 0.75}
    """
    names = {"k": "num_bits", "h": "num_hashes", "m": "num_cohorts"}
    return {letter: mechanism.parameters[names.get(letter, letter)] for letter in chosen}


def accumulate(oracle: FrequencyOracle, devices: SimulatedDevices, index: int = 0) -> SupportCounts:
    """Return the support counts of report number `index` of every device, in memory that does not grow with them.

    Examples
    --------
    >>> import numpy as np
    >>> import overstory
    >>> oracle = overstory.oracle("oue", domain_size=4, epsilon=1.0)
    >>> accumulate(oracle, oracle.devices(np.zeros(1000, np.int32), np.random.default_rng(1))).num_reports
    1000
    """
    return reduce(add, (oracle.accumulate(batch) for batch in devices.batches(index)))
