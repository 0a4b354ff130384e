"""``overstory metrics`` as a person and a script use it: faults, the public page, what a change weakens, a plan."""

import datetime as dt
import json
import math
import os
import pty
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from overstory.client import Outcome
from overstory.client.person.view import view_metrics
from overstory.client.state.state import State
from overstory.planning.yearly import YearPlan
from overstory.privacy.registry.cost import yearly
from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.errors import FormatError
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE as REGISTRY_OF_ONE
from overstory.protocol.metrics.toml_fields import RegistryError, positions
from support.devices import Clock, device
from support.registry_texts import registry_of
from support.running import within

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "metrics.toml"
NAMES = ("search-engine", "theme", "open-tabs", "misspelling", "meter-window", "meter-memo")


@pytest.fixture
def folder(tmp_path):
    for path in EXAMPLES.glob("*"):
        if path.suffix in {".toml", ".txt"}:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def spoil(folder, old, new, name="metrics.toml"):
    text = (folder / "metrics.toml").read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def renewed(folder):
    """Let its metrics expire late: what lint says of the rest holds in any year."""
    path = folder / "metrics.toml"
    text, count = re.subn(r"^expires = 2027-.*$", "expires = 2999-01-01", path.read_text(), flags=re.MULTILINE)
    assert count
    path.write_text(text)


def test_the_example_has_no_fault_and_shows_the_variety(folder):
    renewed(folder)
    ran = within("metrics", "lint", "metrics.toml", "--strict", cwd=folder)
    note, said = ran.stdout.splitlines()
    assert (ran.returncode, said, ran.stderr) == (0, "metrics.toml: 6 metrics, no fault", "")
    assert note.startswith("metrics.toml: note: search-engine, theme,")
    assert "name no attribute" in note
    registry = load_registry(EXAMPLE)
    assert tuple(registry) == NAMES
    assert len({metric.mechanism.name for metric in registry.values()}) == 6
    assert {metric.over_cap for metric in registry.values()} == {"first", "nearest"}
    domains = {type(metric.domain).__name__ for metric in registry.values()}
    assert domains == {"Strings", "Categories", "Integers", "Bins"}


def test_an_expiry_in_the_past_is_a_warning_to_lint_and_no_fault(folder):
    spoil(folder, "expires = 2027-05-31", "expires = 2020-05-31")
    renewed(folder)
    ran = within("metrics", "lint", "metrics.toml", cwd=folder)
    assert ran.returncode == 0
    first, _, last = ran.stdout.splitlines()
    assert first == (
        "metrics.toml:40: warning: metrics.theme.expires: expired on 2020-05-31: nothing is collected any more; "
        "renew it or remove it"
    )
    assert last == "metrics.toml: 6 metrics, no fault, 1 warning"
    assert within("metrics", "lint", "metrics.toml", "--strict", cwd=folder).returncode == 1
    assert within("metrics", "show", "metrics.toml", "theme", cwd=folder).returncode == 0


def test_what_could_steer_a_terminal_is_shown_escaped(folder):
    spoil(folder, 'title = "Colour theme"', 'title = "Colour \\u001b[31m*theme* <b>"')
    assert "Colour \\x1b[31m*theme* <b>" in within("metrics", "show", "metrics.toml", "theme", cwd=folder).stdout
    markdown = within("metrics", "show", "metrics.toml", "theme", "--markdown", cwd=folder).stdout
    assert "## Colour \\\\x1b[31m\\*theme\\* \\<b>" in markdown


def test_every_earlier_registry_is_compared_and_named(folder):
    spoil(folder, "retention_days = 90", "retention_days = 120", "second.toml")
    spoil(folder, "retention_days = 90", "retention_days = 120", "third.toml")
    for name in ("second", "third"):
        text = (folder / f"{name}.toml").read_text()
        (folder / f"{name}.toml").write_text(text.replace('registry = "2026-11-21"', f'registry = "{name}"'))
    alone = within("metrics", "diff", "second.toml", "third.toml", cwd=folder)
    assert (alone.returncode, "retention_days" in alone.stdout) == (0, False)
    ran = within("metrics", "diff", "metrics.toml", "second.toml", "third.toml", "--json", cwd=folder)
    read = json.loads(ran.stdout)
    assert (ran.returncode, read["old"], read["new"]) == (1, ["metrics.toml", "second.toml"], "third.toml")
    said = {change["detail"] for change in read["changes"] if change["kind"] == "weakens-privacy"}
    assert said == {"since version 2026-11-21: reports are kept for 120 days, not for 90"}


def test_a_metric_that_comes_with_more_for_a_year_is_no_matter_of_the_budget(folder):
    text = (folder / "metrics.toml").read_text()
    (folder / "one.toml").write_text(text[: text.index("\n[metrics.", text.index("[metrics.") + 1)] + "\n")
    ran = within("metrics", "diff", "one.toml", "metrics.toml", cwd=folder)
    assert ran.returncode == 1
    assert "weakens-privacy  any year: of all metrics together: epsilon" in ran.stdout
    assert "a year tells more than people agreed to" in ran.stdout
    assert "the budget allows more" not in ran.stdout


def test_broken_counts_alone_are_status_0(folder):
    spoil(folder, 'period = "day"', 'period = "week"')
    ran = within("metrics", "diff", str(EXAMPLES / "metrics.toml"), "metrics.toml", cwd=folder)
    assert ran.returncode == 0
    assert "open-tabs: its stored counts cannot be continued under this id" in ran.stdout


NEEDS = {
    'oracle = "rappor"\nparameters = {num_bits = 128, num_hashes = 2, num_cohorts = 16, f = 0.5, p = 0.5, q = 0.75}': (
        "needs = {epsilon_report = 1.0, epsilon_permanent = 4.0, reports = 1000000}"
    ),
    'oracle = "grr"\nparameters = {epsilon = 4.0}': ("needs = {epsilon_report = 1.0, reports = 50000}  # as agreed"),
    'oracle = "opt-wb"\nparameters = {epsilon = 1.0}': "needs = {epsilon_window = 1.0, window = 48, reports = 1000000}",
    'oracle = "l-osue"\nparameters = {epsilon_permanent = 2.0, epsilon_report = 0.5}': (
        "  needs = {epsilon_report = 0.5, epsilon_permanent = 2.0, reports = 1000000}"
    ),
}


def unplanned(folder, ending="\n"):
    text = (folder / "metrics.toml").read_text()
    for old, new in NEEDS.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "metrics.toml").write_bytes(text.replace("\n", ending).encode())
    return text


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_plan_writes_parameters_within_the_needs_and_leaves_the_rest(folder, ending):
    before = unplanned(folder, ending)
    linted = within("metrics", "lint", "metrics.toml", cwd=folder).stdout
    assert "not planned yet: run `overstory plan --registry FILE`" in linted
    ran = within("plan", "--registry", "metrics.toml", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("4 metrics planned in metrics.toml\n")
    after = (folder / "metrics.toml").read_bytes().decode()
    assert after.count("\r\n") == (after.count("\n") if ending == "\r\n" else 0)

    def without_parameters(text):
        return [line for line in text.splitlines() if not line.lstrip().startswith(("oracle =", "parameters ="))]

    kept, expected = without_parameters(after), without_parameters(before)
    shown = [line.replace("# needs", "needs", 1).replace("  # as agreed", "") for line in kept]
    assert shown == [line.replace("  # as agreed", "") for line in expected]
    assert "# needs = {epsilon_report = 1.0, reports = 50000}  # as agreed" in after
    assert f"{ending}  # needs = {{epsilon_report = 0.5" in after
    assert f"{ending}  oracle = " in after
    assert f"{ending}  parameters = " in after
    registry = load_registry(folder / "metrics.toml")
    string, theme, window, memo = (
        registry[name].mechanism for name in ("search-engine", "theme", "meter-window", "meter-memo")
    )
    assert (string.name, theme.name, window.name) == ("rappor", "grr", "opt-wb")
    assert string.epsilon_report <= 1.0
    assert string.epsilon_permanent <= 4.0
    assert string.parameters["hash_key"] == "search-engine"
    assert theme.epsilon_report <= 1.0
    assert window.epsilon_n(48) <= 1.0
    assert (memo.epsilon_report <= 0.5, memo.epsilon_permanent <= 2.0) == (True, True)
    again = within("plan", "--registry", "metrics.toml", cwd=folder)
    assert (again.returncode, again.stdout) == (0, "every metric has its parameters\n")
    assert (folder / "metrics.toml").read_bytes().decode() == after


@pytest.mark.parametrize(
    ("needs", "says"),
    [
        ("needs = 3", "field metrics.theme.needs: 3 is no table"),
        ("needs = {}", "metrics.theme.needs.reports: missing"),
        ("needs = {reports = 10}", "needs lack epsilon_report"),
        ("needs = {epsilon_report = 1.0, reports = 0}", "reports = 0: give how many reports are expected"),
        ("needs = {epsilon_report = -1.0, reports = 10}", "epsilon = -1.0"),
        ("needs = {epsilon_report = 'x', reports = 10}", "needs.epsilon_report: 'x': give a number"),
        ("needs = {epsilon_report = true, reports = 10}", "needs.epsilon_report: True: give a number"),
        ("needs = {epsilon_report = 1.0, reports = 1e5}", "needs.reports: 100000.0: give a whole number"),
        ("needs = {epsilon_window = 1.0, window = 'week', reports = 9}", "needs.window: 'week': give a whole number"),
        ("needs = {epsilon_report = 1.0, epsilon_permanent = 0.5, reports = 10}", "must be below"),
        (
            "needs = {epsilon_reprot = 1.0, reports = 10}",
            "needs.epsilon_reprot: no such key; did you mean epsilon_report?",
        ),
        ("needs = {epsilon_window = 1.0, reports = 10}", "needs lack window"),
        ("needs.reports = 10", "as one inline table"),
    ],
)
def test_needs_that_cannot_be_met_are_said_and_nothing_is_written(folder, needs, says):
    spoil(folder, 'oracle = "grr"\nparameters = {epsilon = 4.0}', needs)
    before = (folder / "metrics.toml").read_bytes()
    ran = within("plan", "--registry", "metrics.toml", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert (folder / "metrics.toml").read_bytes() == before


def test_strings_without_candidates_need_a_number_of_them(folder):
    spoil(folder, *next(iter(NEEDS.items())))
    spoil(folder, 'domain = {kind = "strings", candidates = "search-engines.txt"}', 'domain = {kind = "strings"}')
    ran = within("plan", "--registry", "metrics.toml", cwd=folder)
    assert "give candidates, how many strings are looked for" in ran.stderr
    spoil(folder, "reports = 1000000}", "reports = 1000000, candidates = '200', alpha = 'low'}")
    ran = within("plan", "--registry", "metrics.toml", cwd=folder)
    assert "needs.candidates: '200': give a whole number" in ran.stderr
    assert "needs.alpha: 'low': give a number" in ran.stderr
    spoil(folder, "candidates = '200', alpha = 'low'}", "candidates = 200}")
    assert within("plan", "--registry", "metrics.toml", cwd=folder).returncode == 0


def test_a_registry_inside_a_zip_is_read_with_its_candidates(folder):
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        for path in (*folder.glob("*.toml"), *folder.glob("*.txt")):
            archive.write(path, f"data/{path.name}")
    packed = zipfile.Path(folder / "packed.zip") / "data"
    assert load_registry(packed / "metrics.toml") == load_registry(folder / "metrics.toml")
    with pytest.raises(FormatError, match=r"none.toml: there is no such file in the package"):
        load_registry(packed / "none.toml")


def test_lint_names_faults_of_parameters_where_the_domain_has_one_too(folder):
    text = (folder / "metrics.toml").read_text()
    text = text.replace('names = ["light", "dark", "high contrast", "system"]', "names = []")
    text = text.replace("{epsilon = 4.0}", "{epsilon = -1}", 1)
    (folder / "bad.toml").write_text(text.replace('oracle = "olh"', 'oracle = "olhh"'))
    out = within("metrics", "lint", "bad.toml", cwd=folder).stdout
    assert "metrics.theme.domain: " in out
    assert "metrics.theme.parameters.epsilon: epsilon = -1: give a number above 0" in out
    assert "metrics.misspelling.oracle: 'olhh'; did you mean olh? choose one of " in out
    assert "bad.toml: 3 faults" in out


def test_the_warnings_look_keys_up_and_walk_through_them_for_no_metric(monkeypatch):
    """3,000 metrics took 22 s: four times the metrics took sixteen times as long."""
    head, body = REGISTRY_OF_ONE.split("[metrics.colour]")
    text, walks = head + "".join(f"[metrics.m{n}]{body}" for n in range(20)), []

    class Watched(dict):
        def __iter__(self):
            walks.append(1)
            return super().__iter__()

    monkeypatch.setattr("overstory.privacy.registry.warnings.positions", lambda text: Watched(positions(text)))
    assert len(registry_warnings(parse_registry(text), text, dt.date(2026, 11, 22))) == 21
    assert not walks


def test_a_plan_says_what_will_not_be_seen(folder):
    needs = "needs = {epsilon_report = 1.0, reports = 200}"
    domain = '{kind = "bins", min = 0, max = 20, count = 20}'
    text = REGISTRY_OF_ONE.replace('oracle = "grr"\nparameters = {epsilon = 1.0}', needs)
    (folder / "few.toml").write_text(re.sub("domain = .*", f"domain = {domain}", text))
    said = within("plan", "--registry", "few.toml", "-o", "out.toml", cwd=folder).stdout
    assert "a value is detected about half the time from a share of 36%, nine times in ten from 56%" in said
    (planned,) = json.loads(within("plan", "--registry", "few.toml", "--json", cwd=folder).stdout)["planned"]
    assert 0.355 < planned["detected_half"] < 0.365 < planned["detected_nine_in_ten"] < 0.57
    (folder / "few.toml").write_text(re.sub("domain = .*", f"domain = {domain}", text.replace("200", "9")))
    said = within("plan", "--registry", "few.toml", cwd=folder).stdout
    assert "no value will be detected: plan for more reports, or a larger epsilon" in said


# ``overstory metrics init``: from answers or options to a registry that lint has nothing to say about
GIVEN = {
    "--id": "theme",
    "--description": "Which theme is in use.",
    "--owner": "Design team",
    "--purpose": "https://example.org/issues/7",
}
KINDS = {
    "choice": {"--values": "light,dark,system"},
    "yes-no": {},
    "number": {"--values": "0..50"},
    "words": {},
}


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
        given = options("--yes", kind="yes-no", epsilon=epsilon)
        ran = within("metrics", "init", f"{epsilon}.toml", *given, cwd=tmp_path)
        assert ran.returncode == 0
        registry = load_registry(tmp_path / f"{epsilon}.toml")
        panels = {way.panel: way.error for way in YearPlan(100_000, 2, float(epsilon)).ways() if way.panel is not None}
        assert registry.panel == min(panels, key=panels.get)
        assert registry.panel.answers == answers_a_year
        assert yearly(registry.values()).epsilon <= float(epsilon)


def test_a_number_of_few_whole_values_is_counted_one_by_one(tmp_path):
    within("metrics", "init", *options("--yes", kind="number", values="1..5"), cwd=tmp_path)
    assert load_registry(tmp_path / "metrics.toml")["theme"].domain.size == 5


def test_a_choice_that_has_an_other_gets_another_name_for_the_rest_and_text_is_quoted(tmp_path):
    given = options("--yes", kind="choice", values="a, other", description='What "is" in use.')
    assert within("metrics", "init", *given, cwd=tmp_path).returncode == 0
    metric = tomllib.loads((tmp_path / "metrics.toml").read_text())["metrics"]["theme"]
    assert (metric["title"], metric["description"]) == ("Theme", 'What "is" in use.')
    assert metric["domain"] == {"kind": "categories", "names": ["a", "other"], "other": "other (1)"}


def test_a_person_is_asked_again_after_a_wrong_answer(tmp_path):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "overstory", "metrics", "init", *options("--values", "a,b", without=["--id"])]
    command += ["--kind", "choice", "--epsilon", "1", "--devices", "9", "--title", "T", "--period", "day"]
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


# A metric of sets, live: recorded by devices, sent over HTTP, counted in a store, decoded, explained, and shown
PLUGINS = '{kind = "set", of = ["adblock", "grammar", "vpn", "dark mode"], most = 3, other = "another"}'
SETS = {
    "sampled": {"domain": PLUGINS, "oracle": '"padding-and-sampling"', "parameters": "{epsilon = 4.0}"},
    "hashed": {
        "domain": PLUGINS,
        "oracle": '"padding-and-sampling"',
        "parameters": '{epsilon = 4.0, inner = "olh", length = 2}',
    },
    "bits": {"domain": PLUGINS, "oracle": '"item-bits"', "parameters": "{epsilon = 6.0}"},
}
TEXT = registry_of(SETS, max_values="3", expires="2999-01-01")
REGISTRY = parse_registry(TEXT)


@pytest.mark.parametrize("metric", SETS)
def test_a_device_records_sets_and_the_person_sees_what_they_become(tmp_path, metric):
    clock = Clock()
    client = device(tmp_path, registry=REGISTRY, clock=clock)
    days = [{"adblock", "vpn"}, ["vpn", "adblock"], [], {"unlisted"}, {"grammar"}, "adblock", {"adblock", 3}]
    outcomes = []
    for value in days:
        outcomes.append(client.record(metric, value))
        client.flush()
        clock.tomorrow()
    assert outcomes == [*[Outcome.RECORDED] * 5, *[Outcome.UNFIT] * 2]
    with State(client.paths).snapshot() as rows:
        assert len(rows._responses_of(metric)) == 3  # another order is no new set, and the fourth is over the cap
        told = next(shown.newest for shown in view_metrics(rows, REGISTRY) if shown.id == metric)
    assert told.candidates == 1 + 5 + 10 + 10
    assert told.likeliest[0]["probability"] <= math.exp(told.epsilon) / 26
    assert math.isclose(sum(one["probability"] for one in told.likeliest), 1) or len(told.likeliest) == 5
    client.close()


@pytest.mark.parametrize(
    ("domain", "oracle", "words"),
    [
        (PLUGINS, "grr", "grr takes symbols, not sets of items: choose one of item-bits, padding-and-sampling"),
        ('{kind = "integers", min = 0, max = 3}', "item-bits", "item-bits takes sets of items, not symbols"),
        (PLUGINS.replace("most = 3", "most = 9"), "item-bits", "most = 9: of 5 items, give a whole number"),
        (PLUGINS.replace("of =", "names ="), "item-bits", "names"),
    ],
)
def test_a_wrong_registry_is_refused_with_what_would_be_right(domain, oracle, words):
    with pytest.raises(RegistryError, match=words):
        parse_registry(registry_of({"m": {"domain": domain, "oracle": f'"{oracle}"', "parameters": "{epsilon = 1.0}"}}))
