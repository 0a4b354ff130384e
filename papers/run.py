"""Every experiment, one line each; runs one, or reads its finished result: written completely, and taken again.

Modules are imported only when they run.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory import __version__
from overstory.files.io import writing, writing_text
from overstory.protocol.errors import ParameterError
from papers.comparison import Comparison
from papers.study import SEED, Context, Experiment, Progress, Result, Table, silent

if TYPE_CHECKING:
    from papers.figures import Picture

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
    ("rappor-figure-1", "Life of a report", "section 2, figure 1", "rappor.figure_1"),
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
    ),
    (
        "protecting-double",
        "OPT-DR against RAPPOR, by every definition",
        "section 5.3.2.2, figures 13 to 16",
        "smart_homes.double_randomization",
    ),
    (
        "protecting-cumulative",
        "Each time step alone, or all reports so far",
        "section 4.4",
        "smart_homes.cumulative",
    ),
    ("protecting-shapes", "What bins and shapes do", "section 6.2, future work", "smart_homes.shapes"),
    ("beyond-people-needed", "How many people a share needs", "epsilon 0.5 to 4", "beyond.people_needed"),
    ("beyond-crafted-reports", "What liars gain, and which alarms", "1% liars", "beyond.crafted_reports"),
)
"""Name, title, section, module."""

EXPERIMENTS: Final[dict[str, Experiment]] = {
    name: Experiment(name, title, _PAPERS[module.partition(".")[0]], section, module)
    for name, title, section, module in _ALL
}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    if name not in EXPERIMENTS:
        raise ParameterError(f"there is no experiment {name!r}; there are: {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


def key_of(experiment: Experiment, *, quick: bool, seed: int = SEED) -> str:
    """Return the digest of what a result depends on: version, mode, seed, modules.

    The modules are all of the paper's, for they share populations and settings. A change of what lies below them, a
    decoder say, shows in the version alone: between versions compute afresh.
    """
    spec = find_spec(experiment.path)
    assert spec is not None
    assert spec.origin is not None
    digest = blake2b(json.dumps([__version__, experiment.name, quick, seed]).encode(), digest_size=16)
    for module in sorted(Path(spec.origin).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def save(result: Result, folder: Path) -> None:
    """Write NAME.json and the pictures; the JSON comes last, so that the files that it names exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in result.figures:
        with writing(folder / f"{figure.name}.png") as image:
            image.write(figure.png)
        with writing_text(folder / f"{figure.name}.svg") as text:
            text.write(figure.svg)
    with writing_text(folder / f"{result.name}.json") as text:
        json.dump(result.to_json(), text, indent=2, allow_nan=False)
        text.write("\n")


def load(name: str, folder: Path, key: str | None = None) -> Result | None:
    """Read a result back; None when it is missing, incomplete, or (given a key) was made from something else."""
    try:
        saved = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        if key is not None and saved["key"] != key:
            return None
        return _result(saved, folder)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _result(saved: dict[str, Any], folder: Path) -> Result:
    return Result(
        **{name: saved[name] for name in ("name", "title", "paper", "section", "quick", "key", "inputs", "seed")},
        comparisons=tuple(Comparison.from_json(row) for row in saved["comparisons"]),
        tables=tuple(Table(**table) for table in saved["tables"]),
        figures=tuple(_picture(figure, folder) for figure in saved["figures"]),
        notes=tuple(saved["notes"]),
    )


def _picture(saved: dict[str, Any], folder: Path) -> Picture:
    from papers.figures import Picture

    svg = (folder / f"{saved['name']}.svg").read_text(encoding="utf-8")
    png = (folder / f"{saved['name']}.png").read_bytes()
    return Picture(saved["name"], saved["caption"], saved["alt"], svg, png=png)


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    quick: bool,
    progress: Progress = silent,
) -> tuple[Result, bool]:
    """Compute an experiment and write it into `folder`; return it, and whether it was there already.

    A finished result is taken when its key says that it was made by the same version and modules, in the same mode,
    with the same seed (`key_of`).
    """
    key = key_of(experiment, quick=quick)
    if (finished := load(experiment.name, folder, key)) is not None:
        return finished, True
    result = experiment.run(Context(experiment, quick=quick, key=key, progress=progress))
    save(result, folder)
    return result, False
