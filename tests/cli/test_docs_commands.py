"""Commands in README.md and docs/**/*.md run in order and print what the page says; links lead somewhere."""

import contextlib
import doctest
import io
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from overstory.cli.main import COMMANDS, main
from overstory.client.consent import CI_VARIABLES
from overstory.protocol.metrics.registry import EXAMPLE
from support.console_blocks import shown_commands
from support.running import simple_command

ROOT = Path(__file__).parents[2]
PAGES = [path for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if shown_commands(path)]
AS_PROCESSES = [path for path in PAGES if path.name in {"README.md", "collector.md", "cli.md", "first-application.md"}]
"""One page of each kind, all commands of which are also run as its reader runs them."""

SHELLS = []
"""The process groups that a test has started; what it leaves in the background is still in them."""

LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MADE = "reference/api.md"  # the page that is there in the built site only, whose build checks the links to it
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
LIKE = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FORBIDDING = {*CI_VARIABLES, "DO_NOT_TRACK", "OVERSTORY"}
FORBIDDING |= {name for name in os.environ if name.startswith("OVERSTORY_")}


def environment(**more):
    """Put this interpreter's own commands first, and leave out what would have a say in the pages' examples."""
    kept = {name: value for name, value in os.environ.items() if name not in FORBIDDING}
    return kept | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"} | more


def in_shell(command, folder):
    ran = subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        env=environment(XDG_STATE_HOME=str(folder / "home")),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    SHELLS.append(ran.pid)
    printed, _ = ran.communicate(timeout=300)
    return ran.returncode, printed


@pytest.fixture(autouse=True)
def _end_what_a_page_left_running():
    """End the servers in the background of a page that failed before it ended them: the next needs their ports."""
    yield
    while SHELLS:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(SHELLS.pop(), signal.SIGKILL)


def in_this_process(command, folder):
    arguments = simple_command(command)
    if not arguments:
        return in_shell(command, folder)
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        status = main(arguments)
    return status, printed.getvalue()


def check_commands(page, folder, run):
    if "$ cp examples/" in page.read_text("utf-8"):
        shutil.copytree(ROOT / "examples", folder / "examples")  # as in a checkout
    for shown in shown_commands(page):
        status, printed = run(shown.command, folder)
        assert status in {0, 141}, f"$ {shown.command}\n{printed}"  # 141: `head` had seen enough
        alike = doctest.OutputChecker().check_output(shown.output, printed, LIKE)
        assert not shown.output or alike, f"$ {shown.command}\n--- the page\n{shown.output}--- really\n{printed}"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("page", PAGES, ids=[path.name for path in PAGES])
def test_the_commands_of_a_page_run_in_order(page, tmp_path, monkeypatch):
    for name in FORBIDDING:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", environment()["PATH"])  # a command may run another
    check_commands(page, tmp_path, in_this_process)


@pytest.mark.slow
@pytest.mark.parametrize("page", AS_PROCESSES, ids=[path.name for path in AS_PROCESSES])
def test_the_commands_of_a_page_run_as_processes(page, tmp_path):
    check_commands(page, tmp_path, in_shell)


def test_the_python_of_the_readme_runs(tmp_path):
    (tmp_path / "metrics.toml").write_text(EXAMPLE.replace("colour", "theme"), encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        folders = dict.fromkeys(("HOME", "XDG_STATE_HOME", "LOCALAPPDATA"), str(tmp_path / "home"))
        command = [sys.executable, "-W", "error", "-c", block]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment(**folders), capture_output=True, text=True, check=False, timeout=120
        )
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr


def anchors(page: Path) -> set[str]:
    """Return what a page's headings are linked by: lower case, hyphens for spaces, no other signs."""
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """Return the links to files or headings that are not there; addresses elsewhere are not asked."""
    dead = []
    for link in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        is_elsewhere = "://" in link or name.endswith(MADE)
        if not is_elsewhere and (not target.exists() or (anchor and anchor not in anchors(target))):
            dead.append(link)
    return dead


def test_every_link_of_a_page_leads_somewhere():
    assert {page.name: dead for page in LINKED if (dead := dead_links(page))} == {}


def test_a_dead_link_is_noticed(tmp_path):
    (tmp_path / "there.md").write_text("# What is *there*, and `why`\n```\n# no heading\n```\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# Here\n[a](there.md) [b](there.md#what-is-there-and-why) [c](#here) [d](https://example.org/x)\n"
        "`[e](code.md)` [f](gone.md) [g](there.md#no-heading) [h](#there)\n"
    )
    assert dead_links(page) == ["gone.md", "there.md#no-heading", "#there"]


def test_there_are_pages():
    assert {"README.md", "cli.md", "formats.md"} <= {page.name for page in PAGES}


def test_every_command_is_documented():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert [command for command in COMMANDS if f"overstory {command}" not in page] == []


def test_the_first_hour_has_six_steps_at_most():
    page = (ROOT / "docs" / "tutorial" / "first-application.md").read_text("utf-8").partition("\n## ")[0]
    steps = [int(number) for number in re.findall(r"^\*\*(\d+)\.", page, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert 3 <= len(steps) <= 6
