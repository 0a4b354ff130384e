"""Every experiment: one module and one line here. Modules are imported only when they run."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.experiments.context import Context
    from overstory.experiments.result import Result

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
    name
        What the command calls it.
    title
        What it shows.
    paper, section
        Where it was published.
    module
        The module under `overstory.experiments` whose ``run(context) -> Result`` computes it.
    takes
        The options it reads (``value``, ``params``, ``readings``).
    """

    name: str
    title: str
    paper: str
    section: str
    module: str
    takes: tuple[str, ...] = ()

    def run(self, context: Context) -> Result:
        """Compute it."""
        result: Result = import_module(self.path).run(context)
        return result

    @property
    def path(self) -> str:
        """The module's full name."""
        return f"overstory.experiments.{self.module}"


_ALL: Final = (
    Experiment("rappor-75-of-100", "What 75 noisy yeses of 100 say", RAPPOR, "sections 1 and 3", "rappor.coin_example"),
    Experiment(
        "rappor-averaging", "The averaging attack, and what stops it", RAPPOR, "section 1.3", "rappor.averaging"
    ),
    Experiment(
        "rappor-figure-1", "Life of a report", RAPPOR, "section 2, figure 1", "rappor.bit_rows", ("value", "params")
    ),
    Experiment("rappor-epsilons", "Every epsilon the paper states", RAPPOR, "sections 3 and 5", "rappor.epsilons"),
    Experiment(
        "rappor-figure-2", "Recall and precision over k, h and m", RAPPOR, "section 4.1, figure 2", "rappor.parameters"
    ),
    Experiment("rappor-figure-3", "How many strings can be learned", RAPPOR, "section 4.2, figure 3", "rappor.limits"),
    Experiment("rappor-figure-4", "A normal distribution, learned", RAPPOR, "section 5.1, figure 4", "rappor.normal"),
    Experiment(
        "rappor-figure-5", "Strings found, and what can be found", RAPPOR, "section 5.2, figure 5", "rappor.strings"
    ),
    Experiment("rappor-table-1", "Counts of the strings found", RAPPOR, "section 5.2, table 1", "rappor.string_counts"),
    Experiment(
        "rappor-table-2", "Process names, and their right variance", RAPPOR, "section 5.3, table 2", "rappor.processes"
    ),
    Experiment(
        "rappor-figure-6", "Homepages, and the least share found", RAPPOR, "section 5.4, figure 6", "rappor.homepages"
    ),
    Experiment(
        "rappor-figure-7", "False discoveries of an attacker", RAPPOR, "section 6, figure 7", "rappor.false_discoveries"
    ),
    Experiment("rappor-figure-8", "What two bits say", RAPPOR, "section 6, figure 8", "rappor.posteriors"),
    Experiment(
        "epidemic-fit", "Infections by state, estimated and true", EPIDEMIC, "sections 3 and 4.4", "epidemic.fit"
    ),
    Experiment(
        "epidemic-attacker", "What an attacker rebuilds", EPIDEMIC, "section 4.4, figure 8", "epidemic.attacker"
    ),
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
        "protecting.window_based",
        ("readings",),
    ),
    Experiment(
        "protecting-double",
        "OPT-DR against RAPPOR, by every definition",
        PROTECTING,
        "section 5.3.2.2, figures 13 to 16",
        "protecting.double_randomization",
        ("readings",),
    ),
    Experiment(
        "protecting-cumulative",
        "Each time step alone, or all reports so far",
        PROTECTING,
        "section 4.4",
        "protecting.cumulative",
        ("readings",),
    ),
    Experiment(
        "protecting-shapes", "What bins and shapes do", PROTECTING, "section 6.2, future work", "protecting.shapes"
    ),
    Experiment("beyond-oracles", "The papers' problems by every oracle", BEYOND, "at equal epsilon", "beyond.oracles"),
    Experiment(
        "beyond-people-needed", "How many people a share needs", BEYOND, "epsilon 0.5 to 4", "beyond.people_needed"
    ),
)

EXPERIMENTS: Final[dict[str, Experiment]] = {experiment.name: experiment for experiment in _ALL}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name.

    Raises
    ------
    ParameterError
        When there is none; the message lists those there are.
    """
    if name not in EXPERIMENTS:
        raise ParameterError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
