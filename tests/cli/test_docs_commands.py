"""Every command in README.md and docs/*.md runs, in order, and prints what the page says it prints."""

import doctest
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from console_blocks import shown_commands

from overstory.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if shown_commands(path)]
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def environment() -> Any:
    """Put this interpreter's own commands first."""
    return os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize("page", PAGES, ids=[path.name for path in PAGES])
def test_the_commands_of_a_page_run_in_order(page: Any, tmp_path: Any) -> None:
    for shown in shown_commands(page):
        ran = subprocess.run(
            ["bash", "-o", "pipefail", "-c", shown.command],
            cwd=tmp_path,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode in {0, 141}, f"$ {shown.command}\n{ran.stdout}"  # 141: `head` had seen enough
        alike = doctest.OutputChecker().check_output(shown.output, ran.stdout, LIKE)
        assert not shown.output or alike, f"$ {shown.command}\n--- the page\n{shown.output}--- really\n{ran.stdout}"


def test_there_are_pages() -> None:
    assert {"README.md", "cli.md", "formats.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_documented(command: Any) -> None:
    assert f"overstory {command}" in (ROOT / "docs" / "cli.md").read_text()
