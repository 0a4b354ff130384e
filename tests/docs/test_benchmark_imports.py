"""What a benchmark takes from the package is there: no other test runs most of them, and no type checker reads them."""

import ast
import importlib
import importlib.util
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"


def is_there(module: str, name: str) -> bool:
    return hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}") is not None


def missing(source: str) -> list[str]:
    """The names that a script imports from the package, and that are not there."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    ours = [node for node in nodes if (node.module or "").partition(".")[0] in {"overstory", "papers"}]
    names = [(node.module, alias.name) for node in ours for alias in node.names]
    return [f"{module}.{name}" for module, name in names if not is_there(module, name)]


def test_every_imported_name_is_there():
    scripts = sorted(BENCH.glob("*.py"))
    assert scripts
    assert {script.name: gone for script in scripts if (gone := missing(script.read_text(encoding="utf-8")))} == {}


def test_a_name_that_is_gone_is_noticed():
    assert missing("from overstory.analysis import nothing_such") == ["overstory.analysis.nothing_such"]
    assert missing("from overstory import analysis\nfrom overstory.analysis import oracle\nimport json") == []
