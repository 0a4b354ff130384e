"""The table of walks in docs/explanation/architecture.md has as many files as a run of `bench/walks.py` enters."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_walks_written_down_are_those_that_are_run():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = page.split("<!-- walks -->")[1].split("<!-- end of walks -->")[0]
    written = {name: int(files) for name, files in re.findall(r"^\| (.+?) \| (\d+) \|", table, re.MULTILINE)}
    command = [sys.executable, str(ROOT / "bench" / "walks.py"), "--json"]
    walks = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    assert written == {name: len(walk["files"]) for name, walk in walks.items()}, "run `python bench/walks.py --write`"
