"""The developer: docs/tutorial/first-application.md as it is written, and the mistakes of a first hour.

Every command of the page runs in `tests/cli/test_docs_commands.py`; here it is counted, and played with an own program.
"""

import re
import socket
import sys
from contextlib import closing
from pathlib import Path

import pytest

from support.playing import INIT, PLAYS, Newcomer

if sys.platform == "win32":
    pytest.skip("signals and shells of POSIX", allow_module_level=True)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial" / "first-application.md"
SERVE = "overstory serve --registry metrics.toml --store reports.db --port 0 --open-writes"
PROGRAM = """\
import sys
import time
from overstory.client import Client

minutes = int(sys.argv[2])
now = lambda: time.time() + 60 * minutes
with Client("notes", registry="metrics.toml", server=sys.argv[1], spread=0, clock=now, strict={strict}) as client:
    client.consent("on")
    print(client.record("{metric}", "dark"))
    print(client.flush().sent)
"""


def program(metric="theme", strict="False"):
    return PROGRAM.replace("{metric}", metric).replace("{strict}", strict)


def run(developer, url, minutes=0):
    """Run the program so many minutes from now; return what it printed."""
    return developer.shell(f"python program.py {url} {minutes}")


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """Return a collector that runs, to which other developers' programs report too."""
    newcomer = Newcomer(tmp_path_factory.mktemp("collector"))
    newcomer.shell(INIT)
    with newcomer.serving(SERVE) as serving:
        yield serving


@pytest.fixture(params=PLAYS)
def developer(request, tmp_path):
    newcomer = Newcomer(tmp_path, processes=request.param)
    newcomer.write("program.py", program())
    newcomer.shell(INIT)
    return newcomer


def test_the_first_hour_has_six_steps_at_most():
    """A17: there were twelve."""
    page = PAGE.read_text(encoding="utf-8").partition("\n## ")[0]
    steps = [int(number) for number in re.findall(r"^\*\*(\d+)\.", page, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    assert 3 <= len(steps) <= 6
    for command in ("metrics init", "simulate", "serve", "python notes.py", "decode --store"):
        assert re.search(rf"^\$ .*{command}", page, re.MULTILINE), command
    assert "client.consent(" in page


def test_from_nothing_to_an_estimate(developer):
    with developer.serving(SERVE) as serving:
        assert run(developer, serving.url).startswith("recorded\nRound(sent=1,")
        assert run(developer, serving.url).startswith("already\nRound(sent=0,")
        assert "waiting: 0, sent: 1" in developer.shell("overstory status")
    decode = "overstory decode --store reports.db --registry metrics.toml --metric theme --all"
    assert "1 report of theme in 1 period " in developer.shell(decode)


def test_a_program_before_its_collector_loses_nothing(developer):
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    assert "put_off=1, error='no connection: Connection refused'" in run(developer, url)
    status = developer.shell("overstory status")
    assert re.search("^waiting: 1, due.*sent: 0", status, re.MULTILINE), status
    assert "what waits is tried again later" in status
    with developer.serving(SERVE.replace("--port 0", f"--port {port}")):
        assert run(developer, url, minutes=2).startswith("already\nRound(sent=1,")


def test_a_typo_in_the_collector_s_address_loses_nothing(developer, collector):
    """A1: a stranger's 404 dropped the report."""
    said = run(developer, f"{collector.url}/reports")
    assert "sent=0, dropped={}, put_off=1" in said
    assert "waiting: 1" in developer.shell("overstory status")
    assert run(developer, collector.url, minutes=2).startswith("already\nRound(sent=1,")


def test_another_collector_is_another_choice(developer, collector):
    """What the page says under step 5 of a host or port that is put right."""
    run(developer, "http://127.0.0.1:9")
    assert run(developer, collector.url).startswith("already\nRound(sent=0,")
    assert "waiting: 0, sent: 0" in developer.shell("overstory status")
    assert "forgotten" in developer.shell("overstory forget --yes")
    assert run(developer, collector.url).startswith("recorded\nRound(sent=1,")


def test_a_typo_in_a_metric_s_id_is_noticed(developer):
    """A17 (2): it was silent unless logging was set up."""
    developer.write("program.py", program("thme"))
    quiet = run(developer, "http://127.0.0.1:9")
    assert quiet.startswith("unknown-metric\n")
    assert "Warning" not in quiet, "the program's users are not bothered"
    warned = developer.shell("python -X dev program.py http://127.0.0.1:9 0")
    assert "UserWarning: a metric that the registry does not list was not recorded; it lists theme" in warned
    developer.write("program.py", program("thme", "True"))
    assert "did you mean theme?" in developer.shell("python program.py http://127.0.0.1:9 0 2>&1 | tail -1")
