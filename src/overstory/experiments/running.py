"""Run one experiment, or find its finished result."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from overstory.experiments.context import Context, Tell, silent
from overstory.experiments.registry import Experiment
from overstory.experiments.result import Result
from overstory.experiments.store import key_of, load, save
from overstory.protocol.errors import ParameterError


def reproduce(
    experiment: Experiment,
    folder: Path,
    *,
    quick: bool,
    options: Mapping[str, Any] | None = None,
    fresh: bool = False,
    tell: Tell = silent,
) -> tuple[Result, bool]:
    """Compute an experiment and write it into `folder`; return it, and whether it was found finished there.

    A finished result is taken when its key says that it was made by the same version and modules, in the same mode,
    with the same seed and options (`key_of`).

    Raises
    ------
    ParameterError
        When the experiment does not take an option that is given.
    """
    given = dict(options or {})
    check_options(experiment, given)
    key = key_of(experiment, quick=quick, options=given)
    if not fresh and (found := load(experiment.name, folder, key)) is not None:
        return found, True
    result = experiment.run(Context(experiment, quick=quick, options=given, key=key, tell=tell))
    save(result, folder)
    return result, False


def check_options(experiment: Experiment, given: Mapping[str, Any]) -> None:
    """Raise ParameterError for an option that the experiment would ignore."""
    for name in given:
        if name not in experiment.takes:
            takes = ", ".join(f"--{option}" for option in experiment.takes) or "no option of its own"
            raise ParameterError(f"{experiment.name} does not take --{name}; it takes {takes}")
