"""Oracles of a user's own file, for the commands of analysis: `FILE.py` or `FILE.py:NAME` where an oracle is named.

The file is run, as Python runs it. Nothing that a device, a relay, a collector or a console starts comes here.
"""

from __future__ import annotations

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TypeVar

from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.kinds.registry import REGISTRY, own_names

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
