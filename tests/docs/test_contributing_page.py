"""CONTRIBUTING.md answers where to change five things: the modules, names and tests that it gives are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ROW = re.compile(
    r"^\| (?P<what>an? |the )(?P<rest>[^|]+) \| (?P<module>[^|]+) \| (?P<names>[^|]+) \| `(?P<test>[^|`]+)` \|$"
)
ROWS = [found for line in PAGE.splitlines() if (found := ROW.match(line))]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_there_are_five_rows_and_what_they_name_is_there():
    assert len(ROWS) == 5
    for row in ROWS:
        modules = quoted(row["module"])
        assert modules, row["rest"]
        assert all(re.fullmatch(r"src/overstory/[\w/]+\.py", module) for module in modules)
        first = (ROOT / modules[0]).read_text("utf-8")
        for name in quoted(row["names"]):
            assert re.search(rf"^(?:def |class )?{name}\b", first, re.MULTILINE), f"{name} in {modules[0]}"
        assert all((ROOT / module).is_file() for module in [*modules, row["test"]])
