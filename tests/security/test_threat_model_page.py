"""Every promise of the threat model names a test, and the test is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def rows(page):
    wanted = False
    for line in page.splitlines():
        if line.startswith("| ") and line.endswith("| test |"):
            wanted = True
        elif not line.startswith("|"):
            wanted = False
        elif wanted and not line.startswith("|---"):
            yield line.strip("| ").split(" | ")


def test_the_test_that_a_promise_names_is_there():
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file, _ in NAMED}
    assert [f"{file}::{test}" for file, test in NAMED if f"def {test}(" not in texts[file]] == []


def test_every_promise_names_one():
    found = list(rows(PAGE))
    assert len(found) > 20
    assert [row for row in found if len(row) != 2 or "::test_" not in row[1]] == []


def test_a_promise_without_a_test_is_noticed():
    assert list(rows("| promised | test |\n|---|---|\n| everything | trust us |\n\n| no | more |")) == [
        ["everything", "trust us"]
    ]
