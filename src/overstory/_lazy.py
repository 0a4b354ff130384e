"""Packages that load a name's module when the name is first used (PEP 562), so that importing them costs nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, modules: Mapping[str, str | tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package: from each lazy name to its module below `overstory`.

    Instead of a name, a module may stand before the names that it has. No name may be a module's of the same package:
    importing that module would replace it.
    """
    places: dict[str, str] = {}
    for key, value in modules.items():
        places |= {key: value} if isinstance(value, str) else dict.fromkeys(value, key)

    def load(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"overstory.{places[name]}"), name)

    def names() -> list[str]:
        module = vars(sys.modules[package])
        return sorted({*places, *module["__all__"], *(name for name in module if name.startswith("__"))})

    return load, names
