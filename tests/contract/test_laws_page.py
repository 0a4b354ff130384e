"""The page of laws numbers them, and the tests that hold each are there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "laws.md").read_text(encoding="utf-8")


def laws(page):
    """Each law's number, and what its column "held by" names."""
    found = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|", page, re.MULTILINE)
    return {int(number): re.findall(r"`([^`]+)`", held) for number, held in found}


def is_there(name):
    """Whether a name is that of a folder, a module or a test in one; without a folder, of tests/contract."""
    file, _, test = name.partition("::")
    path = ROOT / (file if "/" in file else f"tests/contract/{file}.py")
    if not test:
        return path.is_file() or (path.is_dir() and any(path.glob("test_*.py")))
    return path.is_file() and test in {getattr(node, "name", "") for node in ast.parse(path.read_text("utf-8")).body}


def faults(page):
    """Laws that are left out, and names of tests that are not there."""
    found = laws(page)
    missing = [number for number in range(1, 12) if not found.get(number)]
    return missing, [name for held in found.values() for name in held if not is_there(name)]


def test_eleven_laws_each_name_tests_that_are_there():
    assert sorted(laws(PAGE)) == list(range(1, 12))
    assert faults(PAGE) == ([], [])


def test_a_law_without_a_test_and_a_test_that_is_gone_are_noticed():
    assert faults(PAGE.replace("`test_law3_rates`", "us"))[0] == [3]
    assert faults(PAGE.replace("test_law7_wire", "test_law7_string"))[1] == ["test_law7_string"]
    again = "test_a_day_reported_again_after_every_restore_is_one_upload"
    assert faults(PAGE.replace(again, "test_a_day"))[1] == ["tests/client/test_restored.py::test_a_day"]
