"""Every promise of the threat model names a test, and the test is there."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def rows(page):
    """The rows of the tables of promises: what is promised, and what stands behind it."""
    wanted = False
    for line in page.splitlines():
        if line.startswith("| ") and line.endswith("| test |"):
            wanted = True
        elif not line.startswith("|"):
            wanted = False
        elif wanted and not line.startswith("|---"):
            yield line.strip("| ").split(" | ")


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_the_test_that_a_promise_names_is_there(file, test):
    defined = {node.name for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body if hasattr(node, "name")}
    assert test in defined


def test_every_promise_names_one():
    found = list(rows(PAGE))
    assert len(found) > 20
    assert [row for row in found if len(row) != 2 or "::test_" not in row[1]] == []


def test_a_promise_without_a_test_is_noticed():
    assert list(rows("| promised | test |\n|---|---|\n| everything | trust us |\n\n| no | more |")) == [
        ["everything", "trust us"]
    ]
