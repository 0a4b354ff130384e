"""``overstory metrics init``: from answers or options to a registry that lint has nothing to say about."""

import io
import itertools
import os
import pty
import re
import subprocess
import sys
import tomllib

import pytest

from overstory.planning.yearly import YearPlan
from overstory.privacy.registry.yearly import yearly
from overstory.protocol.metrics import load_registry
from support.running import within

GIVEN = {
    "--id": "theme",
    "--description": "Which theme is in use.",
    "--owner": "Design team",
    "--purpose": "https://example.org/issues/7",
}
KINDS = {
    "choice": {"--values": "light,dark,system"},
    "yes-no": {},
    "number": {"--answer=min=0": "--answer=max=50"},
    "words": {},
}


def answers(*words):
    return [f"--answer={word}" for word in words]


def options(*more, without=(), **changed):
    given = GIVEN | {f"--{name}": value for name, value in changed.items()}
    return [word for pair in given.items() if pair[0] not in without for word in pair] + list(more)


@pytest.mark.parametrize("epsilon", ["0.3", "1", "3"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_passes_lint_without_a_warning(kind, epsilon, tmp_path):
    more = [word for pair in KINDS[kind].items() for word in pair]
    ran = within("metrics", "init", *options("--yes", *more, kind=kind, epsilon=epsilon), cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "metrics.toml: 1 metric, no fault\n" in ran.stdout
    assert within("metrics", "lint", "metrics.toml", "--strict", cwd=tmp_path).returncode == 0
    mechanism = load_registry(tmp_path / "metrics.toml")["theme"].mechanism
    assert 0.98 * float(epsilon) < mechanism.epsilon_report <= float(epsilon)


@pytest.mark.parametrize("kind", KINDS)
def test_a_year_comes_to_4_at_most_with_nothing_but_enter_and_with_further_metrics(kind, tmp_path):
    more = [word for pair in KINDS[kind].items() for word in pair]
    assert within("metrics", "init", *options("--yes", *more, kind=kind), cwd=tmp_path).returncode == 0
    path = tmp_path / "metrics.toml"
    head, start, metric = path.read_text().partition("[metrics.theme]\n")
    for further in range(3):
        path.write_text(head + "".join(start.replace("theme", f"theme{n}") + metric for n in range(further + 1)))
        registry = load_registry(path)
        assert 3.99 < yearly(registry.values()).epsilon <= 4.0, "by the panel, without the budget"
        assert registry.budget.epsilon == 4.0
        shown = within("metrics", "show", "metrics.toml", "theme0", cwd=tmp_path).stdout
        assert "Epsilon 4: whatever you hold and however it changes, in any year: 1 answer" in shown


def test_the_panel_is_the_one_of_least_error(tmp_path):
    """Of two values at epsilon 8, two answers of 4 are better than one of 8, which is hardly noise."""
    for epsilon, answers_a_year in (("4", 1), ("8", 2)):
        ran = within(
            "metrics", "init", f"{epsilon}.toml", *options("--yes", kind="yes-no", epsilon=epsilon), cwd=tmp_path
        )
        assert ran.returncode == 0
        registry = load_registry(tmp_path / f"{epsilon}.toml")
        panels = {way.panel: way.error for way in YearPlan(100_000, 2, float(epsilon)).ways() if way.panel is not None}
        assert registry.panel == min(panels, key=panels.get)
        assert registry.panel.answers == answers_a_year
        assert yearly(registry.values()).epsilon <= float(epsilon)


@pytest.mark.parametrize("given", [{"epsilon": "8.1"}, {"epsilon": "0"}, {"devices": "0"}, {"devices": "many"}])
def test_an_answer_out_of_range_is_refused(given, tmp_path):
    ran = within("metrics", "init", *options("--yes", kind="yes-no", **given), cwd=tmp_path)
    assert (ran.returncode, list(tmp_path.iterdir())) == (2, [])
    assert ran.stderr.startswith(f"overstory: error: --{next(iter(given))}: ")


def test_a_number_of_few_whole_values_is_counted_one_by_one(tmp_path):
    within("metrics", "init", *options("--yes", *answers("min=1", "max=5"), kind="number"), cwd=tmp_path)
    assert load_registry(tmp_path / "metrics.toml")["theme"].domain.size == 5


def test_every_key_stands_under_a_comment(tmp_path):
    within("metrics", "init", *options("--yes", "--values", "light,dark"), cwd=tmp_path)
    text = (tmp_path / "metrics.toml").read_text()
    alone = {"description", "purpose", "parameters", "over_cap"}  # explained with the key above them
    lines = text.splitlines()
    for above, line in itertools.pairwise(lines):
        key = re.match(r"(\w+) =", line)
        assert key is None or above.startswith("#") or key[1] in alone, line


def test_a_file_is_never_replaced(tmp_path):
    (tmp_path / "metrics.toml").write_text("mine")
    ran = within("metrics", "init", *options("--yes", kind="yes-no"), cwd=tmp_path)
    assert ran.returncode == 2
    assert "metrics.toml exists: give another FILE, or remove it" in ran.stderr
    assert (tmp_path / "metrics.toml").read_text() == "mine"


def test_what_is_published_has_a_sentence_on_how_to_stop_it(tmp_path):
    stop = "Settings, Privacy, Send statistics"
    more = answers("publish=estimates", f"opt-out={stop}", "retention-days=9")
    ran = within("metrics", "init", *options("--yes", *more, kind="yes-no"), cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    (path,) = tmp_path.iterdir()
    registry = load_registry(path)
    assert (registry.opt_out, [metric.publish for metric in registry.values()]) == (stop, ["estimates"])
    assert [metric.grace_days for metric in registry.values()] == [8], "a day is left to publish in"


GROUPS = ["--group-by", "release", "--groups", "1.0=0.6, 1.1=0.3", "--devices", "500000"]


def test_groups_are_asked_for_by_options_alone_and_come_with_a_comment(tmp_path):
    assert within("metrics", "init", "plain.toml", *options("--yes", kind="yes-no"), cwd=tmp_path).returncode == 0
    assert "groups" not in (tmp_path / "plain.toml").read_text()
    ran = within("metrics", "init", *options("--yes", *GROUPS, kind="yes-no"), cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "which each report names in clear: no epsilon protects it" in (tmp_path / "metrics.toml").read_text()
    groups = load_registry(tmp_path / "metrics.toml")["theme"].groups
    assert (groups.by, dict(groups.shares), groups.devices) == ("release", {"1.0": 0.6, "1.1": 0.3}, 500_000)


def test_a_script_answers_on_standard_input(tmp_path, monkeypatch):
    answers = ["theme", "", 'What "is" in use.', "Design team", "https://example.org/7", "choice", "a, b", "", "0.5"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(answers)))
    ran = within("metrics", "init", "m.toml", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    metric = tomllib.loads((tmp_path / "m.toml").read_text())["metrics"]["theme"]
    assert (metric["title"], metric["description"]) == ("Theme", 'What "is" in use.')
    assert metric["domain"] == {"kind": "categories", "names": ["a", "b"], "other": "other"}
    assert (metric["oracle"], metric["parameters"]) == ("grr", {"epsilon": 0.5})


def test_a_person_is_asked_again_after_a_wrong_answer(tmp_path):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "overstory", "metrics", "init", *options("--values", "a,b", without=["--id"])]
    command += ["--kind", "choice", "--epsilon", "1", "--devices", "9", *answers("title=T", "other=o", "period=day")]
    command += answers("expires=2999-01-01", "retention-days=9", "publish=nothing")
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=follower, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as ran:
        os.write(leader, b"Bad Id\ngood-id\n")
        out, err = ran.communicate(timeout=60)
    os.close(leader), os.close(follower)
    assert ran.returncode == 0, err
    assert err.count("the metric's id, such as colour-theme: ") == 2
    assert "  'Bad Id': give up to 64 of" in err
    assert "metrics.toml: 1 metric, no fault" in out
    assert "[metrics.good-id]" in (tmp_path / "metrics.toml").read_text()
