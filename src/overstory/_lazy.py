"""Packages that load a name's module when the name is first used (PEP 562), so that importing them costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package, from each lazy name to its module below `overstory`.

    No name may be a module's of the same package: importing that module would replace it.
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"overstory.{modules[name]}"), name)

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules})

    return load, names
