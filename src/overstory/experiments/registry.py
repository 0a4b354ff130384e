"""Every experiment: one module and one line here. Modules are imported only when they run."""

from __future__ import annotations

from typing import Final

from overstory.experiments.study import Experiment
from overstory.protocol.errors import ParameterError

_PAPERS: Final = {
    "rappor": "RAPPOR (Erlingsson, Pihur, Korolova, CCS 2014)",
    "epidemic": "Frequency feature extraction by local differential privacy (Computer Science 49(7), 2022)",
    "lecture": "Local differential privacy, lecture 6 (after Dwork and Roth)",
    "smart_homes": "ProTECting (Vidal, SBBD 2019 and SBRC 2020)",
    "beyond": "Beyond the papers",
}
"""By the package that holds its experiments."""

_ALL: Final = (
    ("rappor-75-of-100", "What 75 noisy yeses of 100 say", "sections 1 and 3", "rappor.coins"),
    ("rappor-averaging", "The averaging attack, and what stops it", "section 1.3", "rappor.averaging"),
    ("rappor-figure-1", "Life of a report", "section 2, figure 1", "rappor.figure_1", ("value", "params")),
    ("rappor-epsilons", "Every epsilon the paper states", "sections 3 and 5", "rappor.epsilons"),
    ("rappor-figure-2", "Recall and precision over k, h and m", "section 4.1, figure 2", "rappor.figure_2"),
    ("rappor-figure-3", "How many strings can be learned", "section 4.2, figure 3", "rappor.figure_3"),
    ("rappor-figure-4", "A normal distribution, learned", "section 5.1, figure 4", "rappor.figure_4"),
    ("rappor-figure-5", "Strings found, and what can be found", "section 5.2, figure 5", "rappor.figure_5"),
    ("rappor-table-1", "Counts of the strings found", "section 5.2, table 1", "rappor.table_1"),
    ("rappor-table-2", "Process names, and their right variance", "section 5.3, table 2", "rappor.table_2"),
    ("rappor-figure-6", "Homepages, and the least share found", "section 5.4, figure 6", "rappor.figure_6"),
    ("rappor-figure-7", "False discoveries of an attacker", "section 6, figure 7", "rappor.attacker:figure_7"),
    ("rappor-figure-8", "What two bits say", "section 6, figure 8", "rappor.attacker:figure_8"),
    ("epidemic-fit", "Infections by state, estimated and true", "sections 3 and 4.4", "epidemic.fit"),
    ("epidemic-attacker", "What an attacker rebuilds", "section 4.4, figure 8", "epidemic.attack"),
    ("epidemic-shortcomings", "Three shortcomings, answered", "conclusion", "epidemic.shortcomings"),
    ("lecture-bounds", "Errors of two protocols against their bounds", "both constructions", "lecture.bounds"),
    ("lecture-heavy-hitters", "From a frequency oracle to heavy hitters", "Theorem 2", "lecture.reduction"),
    (
        "protecting-window",
        "WB and OPT-WB over homes and epsilon",
        "section 5.3.2.1, figures 11 and 12, table 6",
        "smart_homes.window_based",
        ("readings",),
    ),
    (
        "protecting-double",
        "OPT-DR against RAPPOR, by every definition",
        "section 5.3.2.2, figures 13 to 16",
        "smart_homes.double_randomization",
        ("readings",),
    ),
    (
        "protecting-cumulative",
        "Each time step alone, or all reports so far",
        "section 4.4",
        "smart_homes.cumulative",
        ("readings",),
    ),
    ("protecting-shapes", "What bins and shapes do", "section 6.2, future work", "smart_homes.shapes"),
    ("beyond-oracles", "The papers' problems by every oracle", "at equal epsilon", "beyond.oracles"),
    ("beyond-people-needed", "How many people a share needs", "epsilon 0.5 to 4", "beyond.people_needed"),
)
"""Name, title, section, module, and the options that it takes."""

EXPERIMENTS: Final[dict[str, Experiment]] = {
    name: Experiment(name, title, _PAPERS[module.partition(".")[0]], section, module, *options)
    for name, title, section, module, *options in _ALL
}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise ParameterError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
