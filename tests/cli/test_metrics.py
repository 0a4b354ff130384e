"""``overstory metrics`` as a person and a script use it: faults, the public page, what a change weakens, a plan."""

import datetime as dt
import json
import re
import sys
import zipfile
from pathlib import Path

import pytest

from overstory.privacy.registry.warnings import registry_warnings
from overstory.protocol.metrics import load_registry, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE as REGISTRY_OF_ONE
from overstory.protocol.metrics.toml_positions import positions
from support.running import within

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "metrics.toml"
NAMES = ("search-engine", "theme", "open-tabs", "misspelling", "meter-window", "meter-memo")


@pytest.fixture
def folder(tmp_path):
    """A copy of the example registry with its candidate files."""
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
    assert {type(metric.domain).__name__ for metric in registry.values()} == {
        "Strings",
        "Categories",
        "Integers",
        "Bins",
    }


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
    """The second registry kept reports for longer already; the first one's promise is weakened all the same."""
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


def test_another_number_of_shards_is_of_the_registry(folder):
    (folder / "new.toml").write_text((folder / "metrics.toml").read_text() + "\n[shards]\ncount = 4\n")
    ran = within("metrics", "diff", "metrics.toml", "new.toml", cwd=folder)
    assert ran.returncode == 0
    assert ran.stdout.endswith(
        "[shards] changes for periods that have begun: collectors that have reports of them refuse it\n"
    )
    assert "its stored counts" not in ran.stdout
    read = json.loads(within("metrics", "diff", "metrics.toml", "new.toml", "--json", cwd=folder).stdout)
    assert (read["breaks_counts"], read["breaks_shards"]) == ([], True)


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
    assert (
        "not planned yet: run `overstory metrics plan FILE`"
        in within("metrics", "lint", "metrics.toml", cwd=folder).stdout
    )
    ran = within("metrics", "plan", "metrics.toml", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("4 metrics planned in metrics.toml\n")
    after = (folder / "metrics.toml").read_bytes().decode()
    assert after.count("\r\n") == (after.count("\n") if ending == "\r\n" else 0)
    kept = [
        line
        for line in after.replace("\r\n", "\n").split("\n")
        if not line.lstrip().startswith(("oracle =", "parameters ="))
    ]
    expected = [line for line in before.split("\n") if not line.lstrip().startswith(("oracle =", "parameters ="))]
    shown = [line.replace("# needs", "needs", 1).replace("  # as agreed", "") for line in kept]
    assert shown == [line.replace("  # as agreed", "") for line in expected]
    assert "parameters = {epsilon = 1.0}  # as agreed" in after
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
    again = within("metrics", "plan", "metrics.toml", cwd=folder)
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
    ran = within("metrics", "plan", "metrics.toml", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert says in ran.stderr
    assert (folder / "metrics.toml").read_bytes() == before


def test_strings_without_candidates_need_a_number_of_them(folder):
    spoil(folder, *next(iter(NEEDS.items())))
    spoil(folder, 'domain = {kind = "strings", candidates = "search-engines.txt"}', 'domain = {kind = "strings"}')
    ran = within("metrics", "plan", "metrics.toml", cwd=folder)
    assert "give candidates, how many strings are looked for" in ran.stderr
    spoil(folder, "reports = 1000000}", "reports = 1000000, candidates = '200', thrifty = 1, alpha = 'low'}")
    ran = within("metrics", "plan", "metrics.toml", cwd=folder)
    assert "needs.candidates: '200': give a whole number" in ran.stderr
    assert "needs.thrifty: 1: give true or false" in ran.stderr
    assert "needs.alpha: 'low': give a number" in ran.stderr
    spoil(folder, "candidates = '200', thrifty = 1, alpha = 'low'}", "candidates = 200, thrifty = true}")
    assert within("metrics", "plan", "metrics.toml", cwd=folder).returncode == 0


@pytest.fixture
def packed(folder, monkeypatch):
    """The example registry and its candidate files inside a package in a zip archive on the import path."""
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr("a_package_of_metrics/__init__.py", "")
        for path in (*folder.glob("*.toml"), *folder.glob("*.txt")):
            archive.write(path, f"a_package_of_metrics/data/{path.name}")
    monkeypatch.syspath_prepend(folder / "packed.zip")
    yield "package:a_package_of_metrics/data/metrics.toml"
    sys.modules.pop("a_package_of_metrics", None)


def test_a_registry_inside_a_package_is_read_with_its_candidates(folder, packed):
    assert load_registry(packed) == load_registry(folder / "metrics.toml")
    ran = within("metrics", "lint", packed, cwd=folder)
    assert (ran.returncode, f"{packed}: 6 metrics, no fault" in ran.stdout) == (0, True)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("package:a_package_of_metrics/data/none.toml", "there is no such file in the package"),
        ("package:no_such_package/metrics.toml", "there is no package 'no_such_package' here"),
        ("package:a_package_of_metrics", "give package:NAME/FILE, such as package:notes/metrics.toml"),
    ],
)
def test_what_is_no_registry_file_is_one_sentence(folder, packed, name, said):
    ran = within("metrics", "lint", name, cwd=folder)
    assert (ran.returncode, ran.stderr) == (2, f"overstory: error: {name}: {said}\n")


def test_a_plan_of_a_registry_inside_a_package_is_written_elsewhere(folder, packed):
    ran = within("metrics", "plan", packed, cwd=folder)
    assert (ran.returncode, "give -o OUT" in ran.stderr) == (2, True)
    assert within("metrics", "plan", packed, "-o", "out.toml", cwd=folder).returncode == 0


def test_lint_names_faults_of_parameters_where_the_domain_has_one_too(folder):
    text = (
        (folder / "metrics.toml")
        .read_text()
        .replace('names = ["light", "dark", "high contrast", "system"]', "names = []")
    )
    text = text.replace("{epsilon = 4.0}", "{epsilon = -1}", 1)
    (folder / "bad.toml").write_text(text.replace('oracle = "olh"', 'oracle = "olhh"'))
    out = within("metrics", "lint", "bad.toml", cwd=folder).stdout
    assert "metrics.theme.domain: " in out
    assert "metrics.theme.parameters.epsilon: epsilon = -1: give a number above 0" in out
    assert "metrics.misspelling.oracle: 'olhh'; did you mean olh? choose one of " in out
    assert "bad.toml: 3 faults" in out


def test_the_warnings_look_through_the_keys_once_and_not_for_every_metric(monkeypatch):
    """3,000 metrics took 22 s: four times the metrics took sixteen times as long."""
    head, body = REGISTRY_OF_ONE.split("[metrics.colour]")
    text, walks = head + "".join(f"[metrics.m{n}]{body}" for n in range(20)), []

    class Watched(dict):
        def __iter__(self):
            walks.append(1)
            return super().__iter__()

    monkeypatch.setattr("overstory.privacy.registry.warnings.positions", lambda text: Watched(positions(text)))
    assert len(registry_warnings(parse_registry(text), text, dt.date(2026, 11, 22))) == 21
    assert len(walks) == 1


def test_a_plan_says_what_will_not_be_seen(folder):
    needs = "needs = {epsilon_report = 1.0, reports = 200}"
    domain = '{kind = "bins", min = 0, max = 20, count = 20}'
    text = REGISTRY_OF_ONE.replace('oracle = "grr"\nparameters = {epsilon = 1.0}', needs)
    (folder / "few.toml").write_text(re.sub("domain = .*", f"domain = {domain}", text))
    said = within("metrics", "plan", "few.toml", "-o", "out.toml", cwd=folder).stdout
    assert "a value is detected about half the time from a share of 36%, nine times in ten from 56%" in said
    (planned,) = json.loads(within("metrics", "plan", "few.toml", "--json", cwd=folder).stdout)["planned"]
    assert 0.355 < planned["detected_half"] < 0.365 < planned["detected_nine_in_ten"] < 0.57
    (folder / "few.toml").write_text(re.sub("domain = .*", f"domain = {domain}", text.replace("200", "9")))
    said = within("metrics", "plan", "few.toml", cwd=folder).stdout
    assert "no value will be detected: plan for more reports, or a larger epsilon" in said
