"""Run one experiment, or read its finished result: written completely, and taken again for the same inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from overstory import __version__
from overstory.experiments.comparison import Comparison
from overstory.experiments.study import SEED, Context, Experiment, Progress, Result, Table, silent
from overstory.files.io import writing, writing_text
from overstory.presentation.svg import Picture
from overstory.protocol.errors import ParameterError


def key_of(experiment: Experiment, *, quick: bool, options: Mapping[str, Any], seed: int = SEED) -> str:
    """Return the digest of what a result depends on: version, mode, seed, options, files they name, modules.

    The modules are all of the paper's, for they share populations and settings. A change of what lies below them, a
    decoder say, shows in the version alone: between versions compute afresh.
    """
    spec = find_spec(experiment.path)
    assert spec is not None
    assert spec.origin is not None
    given = sorted((name, _content(value)) for name, value in options.items())
    digest = blake2b(json.dumps([__version__, experiment.name, quick, seed, given]).encode(), digest_size=16)
    for module in sorted(Path(spec.origin).parent.glob("*.py")):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def _content(value: Any) -> Any:
    """Return what distinguishes one option from another: for a file its name, size and time, for it may be large."""
    if isinstance(value, Path):
        status = value.stat()
        return [str(value), status.st_size, status.st_mtime_ns]
    return value


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
    svg = (folder / f"{saved['name']}.svg").read_text(encoding="utf-8")
    png = (folder / f"{saved['name']}.png").read_bytes()
    return Picture(saved["name"], saved["caption"], saved["alt"], svg, png)


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    quick: bool,
    options: Mapping[str, Any] | None = None,
    fresh: bool = False,
    progress: Progress = silent,
) -> tuple[Result, bool]:
    """Compute an experiment and write it into `folder`; return it, and whether it was there already.

    A finished result is taken when its key says that it was made by the same version and modules, in the same mode,
    with the same seed and options (`key_of`).
    """
    given = dict(options or {})
    check_options(experiment, given)
    key = key_of(experiment, quick=quick, options=given)
    if not fresh and (finished := load(experiment.name, folder, key)) is not None:
        return finished, True
    result = experiment.run(Context(experiment, quick=quick, options=given, key=key, progress=progress))
    save(result, folder)
    return result, False


def check_options(experiment: Experiment, given: Mapping[str, Any]) -> None:
    """Raise ParameterError for an option that the experiment would ignore."""
    for name in given:
        if name not in experiment.takes:
            takes = ", ".join(f"--{option}" for option in experiment.takes) or "no option of its own"
            raise ParameterError(f"{experiment.name} does not take --{name}; it takes {takes}")
