"""Oracles by their names and parameters, and those of a user's own file: `FILE.py` or `FILE.py:NAME` in a name's place.

The file is run, as Python runs it. Nothing that a device, a relay, a collector or a console starts comes here.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, TypeVar

from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.kinds.registry import BUILDERS, REGISTRY, Builders, build_from, names_for, own_names

Text = TypeVar("Text", str, "str | None")


def load_oracles(path: str) -> list[str]:
    """Run a Python file, and return the names of the oracles that it registers."""
    before = {name: REGISTRY[name] for name in own_names()}
    spec = spec_from_file_location(f"_own_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"{path}: give a Python file, FILE.py")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for annotations
    try:
        spec.loader.exec_module(module)
    except (OverstoryError, OSError) as error:
        raise ParameterError(f"{path}: {error}") from error
    except Exception as error:
        last = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == spec.origin]
        line = getattr(error, "lineno", None) or (last[-1] if last else 1)
        raise ParameterError(f"{path}, line {line}: {type(error).__name__}: {error}") from error
    names = [name for name in own_names() if REGISTRY[name] is not before.get(name)]
    if not names:
        raise ParameterError(f'{path} registers no oracle: write @overstory.oracle_kind("NAME") above a function')
    return names


def oracle_named(text: Text) -> Text:
    """Return an oracle's name; one that is written FILE.py:NAME, or FILE.py if it has one alone, is loaded."""
    path, _, name = (text or "").rpartition(":")
    if text is not None and text.endswith(".py"):
        path, name = text, ""
    if not path.endswith(".py"):
        return text
    names = load_oracles(path)
    if (name or len(names) > 1) and name not in names:
        raise ParameterError(f"{path} has no oracle {name!r}: give {path}:NAME, with one of {', '.join(names)}")
    return name or names[0]


def makers() -> Builders[Kind]:
    names = names_for(("symbols", "strings", "ordered", "numbers", "sets"))
    return Builders({name: BUILDERS.places[name] for name in names})


def mechanism_from(name: str, texts: list[str]) -> Kind:
    """Build a mechanism from texts, each read by the annotation of its parameter."""
    name = oracle_named(name)
    known = makers()
    accepted = inspect.signature(known[name]).parameters if name in known else {}
    parameters: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or key in parameters:
            raise ParameterError(f"--param {text}: give NAME=VALUE, once for each name")
        parameters[key] = _read(key, value, accepted[key].annotation) if key in accepted else value
    return build_from(known, name, parameters)


def _read(name: str, text: str, annotation: Any) -> Any:
    kind = str(getattr(annotation, "__name__", annotation))  # a text, where annotations are not evaluated
    try:
        if kind.startswith("bool"):
            return {"true": True, "false": False}[text.lower()]
        return int(text) if kind.startswith("int") else float(text) if kind.startswith("float") else text
    except (KeyError, ValueError):
        wanted = {"bool": "true or false", "int": "a whole number"}.get(kind.partition(" ")[0], "a number")
        raise ParameterError(f"--param {name}={text}: give {wanted}") from None
