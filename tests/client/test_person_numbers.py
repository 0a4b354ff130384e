"""F2: every number that a person is shown bounds any two histories, or names its condition in the same line."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.client import Client
from overstory.client.person.question import Asked, question
from overstory.presentation.document import KeyValues
from overstory.presentation.formats import epsilon_text
from overstory.privacy import Account, Ledger
from overstory.privacy.payloads.registry import epsilon_between, terms_of
from overstory.privacy.registry.cost import metric_cost
from overstory.protocol.metrics import parse_registry
from support.devices import Clock

HEAD = 'registry = "1"\n'
ENTRY = """[metrics.{id}]
title = "Theme"
description = "Which theme."
owner = "O"
purpose = "https://example.org/issues/1"
domain = {{kind = "categories", names = ["a", "b", "c", "d"]}}
period = "day"
retention_days = 9
expires = 2099-01-01
{rest}
"""
UNCHANGED = "only while the value never changes"
SHARED = "not counting which reports share their noise"
CONDITIONS = (UNCHANGED, SHARED)
REPORTS = re.compile(r"([\d,]+|one) reports?")

CASES = {
    "basic-rappor": "max_values = 2",
    "grr": "parameters = {epsilon = 1.0}",
    "l-grr": "parameters = {epsilon_permanent = 2.0, epsilon_report = 1.0}\nmax_values = 3",
    "l-osue": "parameters = {epsilon_permanent = 2.0, epsilon_report = 1.0}",
    "oue": "parameters = {epsilon = 1.0}",
    "subset": "parameters = {epsilon = 1.0}\nmax_values = 2",
    "opt-wb": "parameters = {epsilon = 2.0, window = 4}",
    "opt-dr": "parameters = {epsilon_permanent = 2.0}",
}


@pytest.fixture(autouse=True)
def here(nothing_forbids, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def entry(rest, name="theme", domain=None):
    text = ENTRY.format(id=name, rest=rest)
    return text if domain is None else re.sub("domain = .*", lambda _: f"domain = {domain}", text)


def reported(values, rest, capsys, *, domain=None, groups=None, beside=""):
    """Report values, one a day, through a client that was agreed to; return its registry."""
    Path("metrics.toml").write_text(HEAD + entry(rest, domain=domain) + beside)
    registry = parse_registry(Path("metrics.toml").read_text())
    clock = Clock()
    with Client("t", registry=registry, state="state", clock=clock, environ={}, policy="none", groups=groups) as client:
        client.consent("on")
        for value in values:
            for name in registry:
                assert client.record(name, value if name == "theme" else "a") == "recorded"
            client.flush()
            clock.tomorrow()
    capsys.readouterr()
    return registry


def printed(capsys, *argv):
    assert main([*argv]) == 0
    return capsys.readouterr().out


ON = ("on", "--yes", "--details", "--app", "./state", "--registry", "metrics.toml")
STATUS = ("status", "--details", "--app", "./state", "--registry", "metrics.toml")
ON_JSON, STATUS_JSON = (tuple(word for word in words if word != "--details") for words in (ON, STATUS))
VIEW = ("view", "--app", "./state", "--registry", "metrics.toml")


def surfaces(capsys, reports):
    show = ("metrics", "show", "metrics.toml", "theme", "--reports", str(reports))
    return {
        "status": printed(capsys, *STATUS),
        "view": printed(capsys, *VIEW),
        "on": printed(capsys, *ON),
        "show": printed(capsys, *show),
        "markdown": printed(capsys, *show, "--markdown"),
    }


def numbers(text):
    """Return (line, epsilon, reports) of every line with an epsilon; infinite without a bound, 1 for one report."""
    for line in text.splitlines():
        found = re.search(r"(?i)epsilon (\d+(?:\.\d+)?)", line)
        about = r"\W*(whatever .*?|[\d,]+ reports,.*?|any number .*?|one report)"
        cells = re.match(about + r"(?: {2,}| \| )(no bound|\d+(?:\.\d+)?)\s", line)
        if not found and not cells and not re.search(r"(?i)no bound", line):
            continue
        amount = found[1] if found else cells[2] if cells else "no bound"
        counted = REPORTS.search(line)
        reports = 1 if counted is None or counted[1] == "one" else int(counted[1].replace(",", ""))
        yield line, math.inf if amount == "no bound" else float(amount), reports


def assert_true_as_worded(text, truth):
    lines = list(numbers(text))
    assert len(lines) >= 2, text
    for line, epsilon, reports in lines:
        if not any(condition in line for condition in CONDITIONS):
            assert epsilon >= truth(reports) - 1e-9, (line, truth(reports))
    return lines


def test_thirty_days_with_one_change_are_not_stated_below_the_truth(capsys):
    """The audit's case: status printed 4.3822 for what is 22.04."""
    registry = reported(["a"] * 15 + ["b"] * 15, 'oracle = "basic-rappor"\nmax_values = 2\nover_cap = "first"', capsys)
    built = registry["theme"].mechanism
    changed = epsilon_between(built, [0] * 30, [0] * 15 + [1] * 15)
    assert changed == pytest.approx(22.04, abs=0.01)

    def truth(reports):
        return changed if reports >= 30 else built.epsilon_report

    for name, text in surfaces(capsys, 30).items():
        lines = assert_true_as_worded(text, truth)
        assert any(reports == 30 and not any(c in line for c in CONDITIONS) for line, _, reports in lines), name
        for lie in ("can ever cost", "beyond that", "for ever", "all so far"):
            assert lie not in text


def test_a_page_that_drops_its_conditions_is_caught(capsys):
    reported(["a"] * 2 + ["b"] * 2, 'oracle = "basic-rappor"\nmax_values = 2', capsys)
    text = printed(capsys, *STATUS)
    for condition in CONDITIONS:
        text = text.replace(condition, "whatever")
    with pytest.raises(AssertionError):
        assert_true_as_worded(text, lambda reports: 22.04 if reports > 1 else 0.5)


@pytest.mark.parametrize("oracle", CASES)
def test_what_a_metric_costs_is_told_in_at_most_five_lines(oracle):
    """What is planned, the reports so far, and those under two accounts; as a table, and in the question."""
    registry = parse_registry(HEAD + entry(f'oracle = "{oracle}"\n{CASES[oracle]}'))
    metric = registry["theme"]
    mine = [Account("theme", metric.account.hex(), terms_of(metric.mechanism), numbered) for numbered in REPORTED]
    for accounts in ((), *((one,) for one in mine), *((one, replace(one, digest="0")) for one in mine)):
        cost = metric_cost(metric, so_far=Ledger(accounts))
        ends = {"theme": metric_cost(metric, 400).headline}
        blocks = question(Asked(registry, None, None, {"theme": cost}, ends, (), {}))
        (table,) = [block for block in blocks if isinstance(block, KeyValues) and block.kind == "lines"]
        assert len(cost.lines) <= len(table.pairs) <= 5, table.pairs


REPORTED = [((0, 1),), ((0, 2),), ((0, 20), (1, 10))]


def test_a_metric_without_a_cap_is_bounded_by_its_domain_everywhere(capsys):
    """One surface said 20 values and the other that there is no bound."""
    twenty = ", ".join(f'"v{i}"' for i in range(20))
    rest = 'oracle = "basic-rappor"'
    Path("metrics.toml").write_text(HEAD + entry(rest).replace('"a", "b", "c", "d"', twenty))
    said = {}
    show = ("metrics", "show", "metrics.toml", "theme")
    for name, argv in {"show": show, "on": ON, "view": VIEW}.items():
        (line,) = [line for line, _, _ in numbers(printed(capsys, *argv)) if "of 20 values" in line]
        said[name] = re.search(r"\d+\.\d+", line)[0]
    assert set(said.values()) == {"46.2"}, "ln 9 for each of 20 values, and for nothing"


REGISTRIES = {
    "no cap": 'oracle = "basic-rappor"',
    "a cap": 'oracle = "basic-rappor"\nmax_values = 2\nover_cap = "drop"',
    "one round": 'oracle = "grr"\nparameters = {epsilon = 1.0}\nmax_values = 3',
    "a window": 'oracle = "opt-wb"\nparameters = {epsilon = 1.0, window = 4}',
    "a seed": 'oracle = "loloha"\nparameters = {epsilon_permanent = 2.0, epsilon_report = 1.0, hash_range = 2}',
}


@pytest.mark.parametrize("rest", REGISTRIES.values(), ids=list(REGISTRIES))
def test_public_page_question_view_and_status_say_the_same_of_every_registry(rest, capsys):
    """A5: before there are reports and after, line by line, and of how many values they are."""
    Path("metrics.toml").write_text(HEAD + entry(rest))
    (asked,) = json.loads(printed(capsys, *ON_JSON, "--json"))["metrics"]
    (seen,) = json.loads(printed(capsys, *VIEW, "--json"))["metrics"]
    (page,) = json.loads(printed(capsys, "metrics", "show", "metrics.toml", "--json"))["metrics"]
    assert asked["cost"]["lines"] == seen["budget"]["lines"] == page["privacy"]["cost"]["lines"]
    for fact in ("How many values", "How often"):
        for argv in (ON, VIEW):
            assert page["facts"][fact] in " ".join(printed(capsys, *argv).split())
    reported(["a", "b", "a"], rest, capsys)
    (asked,) = json.loads(printed(capsys, *ON_JSON, "--json"))["metrics"]
    (seen,) = json.loads(printed(capsys, *VIEW, "--json"))["metrics"]
    (spent,) = json.loads(printed(capsys, *STATUS_JSON, "--json"))["budget"]
    assert asked["cost"]["lines"] == seen["budget"]["lines"] == spent["lines"]
    text = printed(capsys, *STATUS)
    for amount, about in ((line["epsilon"], line["about"]) for line in spent["lines"]):
        shown = "no bound" if amount is None else epsilon_text(amount)
        assert any(shown in line and about in line for line in text.splitlines())


def test_metrics_of_one_attribute_are_added_up(capsys):
    four = "".join(entry('oracle = "basic-rappor"\nmax_values = 1\nattribute = "age"', f"age{i}") for i in range(4))
    Path("metrics.toml").write_text(HEAD + four + entry('oracle = "basic-rappor"\nmax_values = 1', "other"))
    shown = printed(capsys, "metrics", "show", "metrics.toml")
    asked = printed(capsys, *ON)
    for text in (shown, asked):
        (_, of_age) = text.split("Together: ")[1:3]
        assert "all that tells of age (age0, age1, age2, age3)" in of_age
        assert "epsilon 8.79" in of_age
    clock = Clock()
    registry = parse_registry(Path("metrics.toml").read_text())
    with Client("t", registry=registry, state="state", clock=clock, environ={}, policy="none") as client:
        for _ in range(2):
            for name in registry:
                client.record(name, "a")
            clock.tomorrow()
    capsys.readouterr()
    for text in (printed(capsys, *STATUS), printed(capsys, *VIEW)):
        assert "all metrics (age0, age1, age2, age3, other)" in text
        assert "all that tells of age (age0, age1, age2, age3)" in text
        assert "whatever you hold and however it changes: your 10 reports" in text
        assert f"your 8 reports, {SHARED}" in text
    total, of_age = json.loads(printed(capsys, *STATUS_JSON, "--json"))["totals"]
    one = registry["other"].mechanism.epsilon_n(2)
    assert total["epsilon_same_pattern"] == pytest.approx(5 * one)
    assert of_age["epsilon_same_pattern"] == pytest.approx(4 * one)
