"""The dispatcher: quick to start, one sentence for whatever goes wrong, never a traceback."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from overstory.cli import main as main_module
from overstory.cli.command import Command
from overstory.cli.main import COMMANDS, explain, main
from overstory.protocol.errors import FormatError, install_hint
from support.running import overstory, python, within


def test_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert len(lines) <= 30, "one screen"
    listed = [name for line in lines[1:] for name in line[10:29].replace(",", " ").split()]
    assert sorted(listed) == sorted(COMMANDS), "each of them once"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command, capsys):
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "example" in out
    assert f"overstory {command} " in re.split("examples?:", out)[-1]


def test_no_command_and_a_wrong_one(capsys):
    assert main([]) == 2
    assert "COMMAND --help" in capsys.readouterr().err
    assert main(["discombobulate"]) == 2
    assert capsys.readouterr().err.startswith("overstory: error: there is no command 'discombobulate'; choose one of ")
    assert main(["sum", "--sideways"]) == 2


@pytest.mark.parametrize(
    ("word", "option"),
    [
        (["help"], ["--help"]),
        (["help", "decode"], ["decode", "--help"]),
        (["help", "metrics", "lint"], ["metrics", "lint", "--help"]),
        (["version"], ["--version"]),
    ],
)
def test_help_and_version_are_words_too(word, option, capsys):
    assert main(word) == 0
    said = capsys.readouterr().out
    assert main(option) == 0
    assert said == capsys.readouterr().out


def test_options_have_the_names_of_the_design_too(tmp_path):
    needs = ("--epsilon-permanent", 2, "--reports", 1000, "--candidates", 3, "--json")
    own = within("plan", "--epsilon", 1, *needs, cwd=tmp_path).stdout
    assert own == within("plan", "--epsilon-report", 1, *needs, cwd=tmp_path).stdout
    assert own == within("plan", "--epsilon-report=1", *needs, cwd=tmp_path).stdout
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n4,2,1,.25,.75,.5\n")
    (tmp_path / "reports.csv").write_text("cohort,irr\n0,0101\n")
    for named in (["reports.csv"], ["--reports", "reports.csv"], ["--reports=reports.csv"]):
        ran = within("sum", "--params", "params.csv", *named, "-o", "-", cwd=tmp_path)
        assert ran.stdout == "1,1,0,1,0\n", ran.stderr


@pytest.mark.parametrize("reports", ["1e5", "100,000", "100000", "100_000", "1.0e5"])
def test_large_numbers_may_be_written_as_people_do(tmp_path, reports):
    ran = within("compare", "--domain-size", "4", "--epsilon", "1", "--reports", reports, "--json", cwd=tmp_path)
    assert '"reports": 100000,' in ran.stdout


@pytest.mark.parametrize("text", ["", "1e", "1e400", "1,00", "1.5", "1e-2", "0x10", "1__0"])
def test_what_is_no_whole_number_is_refused(tmp_path, text):
    ran = within("compare", "--domain-size", "4", "--epsilon", "1", "--reports", text, cwd=tmp_path)
    assert (ran.returncode, "is not a whole number" in ran.stderr) == (2, True)


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["discombobulate"], [], ["--hlep"]])
def test_what_is_no_command_loads_none(monkeypatch, argv):
    monkeypatch.setattr(main_module, "_command", lambda name: pytest.fail(f"{name} was loaded"))
    assert main(argv) == (0 if argv in (["--help"], ["--version"]) else 2)


def test_a_command_after_an_option_runs_or_is_helped(capsys):
    assert main(["--version", "decode"]) == 0
    assert main(["--help", "status"]) == 0
    assert "privacy, audit" in capsys.readouterr().out
    assert main(["--sideways", "sum", "--help"]) == 0
    assert "overstory sum" in capsys.readouterr().out


def failing(monkeypatch, error):
    class Module:
        COMMANDS: ClassVar = {"fail": Command("fail", "overstory fail", runs="fails")}

        @staticmethod
        def run(args):
            raise error

    monkeypatch.setattr(main_module, "COMMANDS", ("fail",))
    monkeypatch.setitem(main_module.SUMMARIES, "fail", "fail")
    monkeypatch.setitem(sys.modules, "overstory.cli.fails", Module)
    monkeypatch.setattr(main_module, "_command", lambda name: Module)
    return main(["fail"])


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (FormatError("wrong", source="a.csv", line=3), 2, "a.csv, line 3: wrong"),
        (FileNotFoundError(2, "No such file or directory", "a.csv"), 2, "a.csv: no such file or directory"),
        (PermissionError(13, "Permission denied", "a.csv"), 2, "a.csv: permission denied"),
        (OSError("odd"), 2, "odd"),
        (ModuleNotFoundError("No module named 'numpy'", name="numpy"), 2, "this command needs numpy: pip install "),
        (ModuleNotFoundError("No module named 'scipy.linalg'", name="scipy.linalg"), 2, "[analysis]"),
        (MemoryError(), 70, "not enough memory"),
        (ZeroDivisionError("division by zero"), 70, "a bug in overstory"),
        (ImportError("cannot import name 'x'"), 70, "a bug in overstory"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_whatever_goes_wrong_is_one_sentence(monkeypatch, capsys, error, status, says):
    monkeypatch.delenv("OVERSTORY_TRACEBACK", raising=False)
    assert failing(monkeypatch, error) == status
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == (1 if says else 0)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("origin", "says"),
    [
        ({"url": "file:///a/o", "dir_info": {}}, 'pip install "overstory[server] @ file:///a/o"'),
        ({"url": "file:///a/o.whl", "archive_info": {}}, 'pip install "overstory[server] @ file:///a/o.whl"'),
        ({"url": "https://a/o", "vcs_info": {"vcs": "git"}}, 'pip install "overstory[server] @ git+https://a/o"'),
        (None, 'pip install ".[server]" in the folder of the source'),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(monkeypatch, tmp_path, origin, says):
    about = tmp_path / "overstory-1.dist-info"
    about.mkdir()
    about.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: overstory\nVersion: 1\n")
    if origin is not None:
        about.joinpath("direct_url.json").write_text(json.dumps(origin))
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    assert install_hint("server") == says


def test_no_page_and_no_example_names_a_package_that_nobody_can_get():
    root = Path(__file__).parents[2]
    files = [
        root / "README.md",
        *(root / "docs").rglob("*.md"),
        *(root / "examples").rglob("*"),
        *(root / "src").rglob("*.py"),
    ]
    texts = {path: path.read_text(errors="replace") for path in files if path.is_file()}
    assert [path for path, text in texts.items() if re.search(r"install .{0,3}overstory\W{0,2}\[[a-z]", text)] == []


def test_a_developer_may_see_the_traceback(monkeypatch):
    monkeypatch.setenv("OVERSTORY_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        explain(ZeroDivisionError())


TABLE = ["plan", "--epsilon", "1", "--epsilon-permanent", "2", "--reports", "10000", "--candidates", "10"]


@pytest.mark.parametrize("argv", [["--version"], ["privacy", "olh", "--param", "epsilon=1"], TABLE], ids=lambda a: a[0])
def test_a_broken_pipe_is_quiet(tmp_path, argv):
    code = f"import sys; from overstory.cli.main import main; sys.exit(main({argv!r}))"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


def test_a_status_that_no_pipe_is_the_cause_of_stays(monkeypatch):
    with pytest.raises(SystemExit) as left:
        failing(monkeypatch, SystemExit(3))
    assert left.value.code == 3


def test_a_terminal_that_lacks_a_character_shows_its_escape(tmp_path):
    write = (
        "from overstory.cli.main import main\n"
        "import sys, overstory.cli.main as m\n"
        "m._run = lambda argv: print('Île') or 0\n"
        "sys.exit(main([]))"
    )
    ran = python(write, PYTHONIOENCODING="ascii")
    assert (ran.returncode, ran.stdout) == (0, "\\xcele\n")


def test_the_module_runs_like_the_command(tmp_path):
    installed = Path(sys.executable).with_name("overstory")
    assert overstory("--version", cwd=tmp_path).stdout.startswith("overstory ")
    if installed.exists():
        ran = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
        assert ran.stdout == overstory("--version", cwd=tmp_path).stdout


def test_a_file_name_cannot_steer_the_terminal(tmp_path):
    done = within("sum", "--params", "\x1b[31mred", "r.csv", "-o", "c.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "overstory: error: \\x1b[31mred: no such file or directory\n")


def test_a_collector_that_is_reloaded_while_it_starts_goes_on(monkeypatch):
    handled = {}
    monkeypatch.setattr(signal, "signal", handled.__setitem__)
    main_module._set_signals("serve")
    assert handled == {signal.SIGHUP: signal.SIG_IGN}
