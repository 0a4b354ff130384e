"""Every kernel is compiled through `overstory.kernels.compiled.kernel`, under one stamp of all kernel sources."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from overstory.kernels import compiled
from overstory.kernels.design_matrix import correlate, descend
from support.registry_texts import plain_registry

FOLDER = Path(compiled.__file__).parent
COMPILERS = {"njit", "jit", "vectorize", "guvectorize", "generated_jit", "stencil", "cfunc"}


def compilers_named(source):
    """The Numba compilers that a source imports from Numba or reaches as an attribute of it."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba":
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"numba", "nb"}:
            names.add(node.attr)
    return names & COMPILERS


@pytest.mark.parametrize("source", ["from numba import njit", "import numba\n\n@numba.njit(cache=True)\ndef f(): ..."])
def test_a_bare_compiler_is_noticed(source):
    assert compilers_named(source) == {"njit"}


def test_only_compiled_calls_numbas_compilers():
    modules = [path for path in sorted(FOLDER.rglob("*.py")) if compilers_named(path.read_text(encoding="utf-8"))]
    assert [path.relative_to(FOLDER).as_posix() for path in modules] == ["compiled.py"]


@pytest.mark.parametrize("compiled_kernel", [descend, correlate])
def test_the_stamp_is_part_of_a_kernels_cache_entry(compiled_kernel):
    # If Numba renames what `kernel` reaches into, code compiled from older sources would be used again: notice it here.
    assert compiled_kernel._cache._cache_file._source_stamp[1] == compiled.SOURCES


@pytest.mark.parametrize("changed", ["top.py", "package/inner.py"])
def test_the_stamp_changes_with_a_source_in_any_sub_package(tmp_path, monkeypatch, changed):
    (tmp_path / "package").mkdir()
    for name in ("compiled.py", "top.py", "package/inner.py"):
        (tmp_path / name).write_text("x = 1\n", encoding="utf-8")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "compiled.py"))
    before = compiled._digest_of_sources()
    assert compiled._digest_of_sources() == before
    (tmp_path / changed).write_text("x = 2\n", encoding="utf-8")
    assert compiled._digest_of_sources() != before


READ_ONLY = """
import sys
from numba.core import caching

def refuse(locator):
    raise OSError(30, "Read-only file system")

caching._CacheLocator.ensure_cache_path = refuse
"""
COUNT = """
from overstory.analysis.reports import load_kernels
from overstory.cli.main import main
load_kernels(compiling=True)
sys.exit(main(["doctor"]))
"""
SERVE = """
import overstory.analysis.reports

def broken(*, compiling):
    raise OSError("no memory that may be executed")

overstory.analysis.reports.load_kernels = broken
from overstory.cli.main import main
sys.exit(main(["serve", "--registry", "metrics.toml", "--store", "new.db", "--port", "0"]))
"""


def ran(code, folder):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_where_nothing_can_be_written_kernels_are_compiled_without_a_cache(tmp_path):
    """Package and home read-only: importing a kernel raised, and a collector took reports that it never counted."""
    done = ran(READ_ONLY + COUNT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [compiled.WITHOUT_CACHE]
    assert "warning  counting: compiled code is not kept" in done.stdout


def test_a_collector_that_cannot_count_does_not_start(tmp_path):
    (tmp_path / "metrics.toml").write_text(plain_registry(), encoding="utf-8")
    done = ran("import sys" + SERVE, tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines() == [
        "overstory: error: reports cannot be counted here: OSError: no memory that may be executed"
    ]
    assert not (tmp_path / "new.db").exists()
