"""Every kernel is compiled through `overstory.kernels.compiled.kernel`, under one stamp of all kernel sources."""

import ast
from pathlib import Path
from typing import Any

import pytest

from overstory.kernels import compiled
from overstory.kernels.design_matrix import correlate
from overstory.kernels.random.streams import fill_blocks

FOLDER = Path(compiled.__file__).parent
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "generated_jit", "stencil", "cfunc"}


def compilers_named(source: str) -> set[str]:
    """The Numba compilers that a source imports from Numba or reaches as an attribute of it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"numba", "nb"}:
            names.add(node.attr)
    return names & COMPILERS


@pytest.mark.parametrize("source", ["from numba import njit", "import numba\n\n@numba.njit(cache=True)\ndef f(): ..."])
def test_a_bare_compiler_is_noticed(source: str) -> None:
    assert compilers_named(source) == {"njit"}


def test_only_compiled_calls_numbas_compilers() -> None:
    modules = [path for path in sorted(FOLDER.rglob("*.py")) if compilers_named(path.read_text(encoding="utf-8"))]
    assert [path.relative_to(FOLDER).as_posix() for path in modules] == ["compiled.py"]


@pytest.mark.parametrize("compiled_kernel", [fill_blocks, correlate])
def test_the_stamp_is_part_of_a_kernels_cache_entry(compiled_kernel: Any) -> None:
    # If Numba renames what `kernel` reaches into, code compiled from older sources would be used again: notice it here.
    assert compiled_kernel._cache._cache_file._source_stamp[1] == compiled.SOURCES


@pytest.mark.parametrize("changed", ["top.py", "package/inner.py"])
def test_the_stamp_changes_with_a_source_in_any_sub_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    (tmp_path / "package").mkdir()
    for name in ("compiled.py", "top.py", "package/inner.py"):
        (tmp_path / name).write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    before = compiled._digest_of_sources()
    assert compiled._digest_of_sources() == before
    (tmp_path / changed).write_text("x = 2\n", encoding="utf-8")
    assert compiled._digest_of_sources() != before
