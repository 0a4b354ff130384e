"""F2: every number that a person is shown bounds any two histories, or names its condition in the same line."""

import itertools
import json
import math
import re
from dataclasses import replace
from datetime import date
from functools import lru_cache
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.client import Client
from overstory.client.person.question import Asked, question
from overstory.presentation.document import KeyValues
from overstory.privacy import Account, Ledger
from overstory.privacy.payloads.registry import epsilon_between, terms_of
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.text import epsilon_text
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


ON = ("on", "--yes", "--state", "state", "--registry", "metrics.toml")
STATUS = ("status", "--state", "state", "--registry", "metrics.toml")
VIEW = ("view", "--state", "state", "--registry", "metrics.toml")


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
        found = re.search(r"(?i)epsilon (\d+\.\d+)", line)
        cells = re.match(
            r"\W*(whatever .*?|[\d,]+ reports,.*?|any number .*?|one report)(?: {2,}| \| )(no bound|\d+\.\d+)\s", line
        )
        if not found and not cells and not re.search(r"(?i)no bound", line):
            continue
        amount = found[1] if found else cells[2] if cells else "no bound"
        counted = REPORTS.search(line)
        reports = 1 if counted is None or counted[1] == "one" else int(counted[1].replace(",", ""))
        yield line, math.inf if amount == "no bound" else float(amount), reports


@lru_cache
def worst(mechanism, reports, domain=4):
    """Return the largest epsilon between any two histories of so many reports, by enumeration.

    All values are alike to these oracles, so the values of the first history are named in order of appearance.
    """
    histories = list(itertools.product(range(domain), repeat=reports))
    first = [one for one in histories if all(value <= max(one[:i], default=-1) + 1 for i, value in enumerate(one))]
    return max(epsilon_between(mechanism, one, other) for one in first for other in histories)


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


@pytest.mark.parametrize("reports", [1, 3])
@pytest.mark.parametrize("oracle", CASES)
def test_every_number_is_true_as_worded(oracle, reports, capsys):
    values = ["a", "b", "a"][:reports]
    registry = reported(values, f'oracle = "{oracle}"\n{CASES[oracle]}\nover_cap = "first"', capsys)
    built = registry["theme"].mechanism
    known = {n: worst(built, n) for n in range(1, reports + 1)}
    for text in surfaces(capsys, reports).values():
        assert_true_as_worded(text, lambda number: known[min(number, reports)])


def headlines(text):
    """Return the epsilon of every line that holds whatever the person holds, by its number of reports."""
    found = {}
    for line, epsilon, reports in numbers(text):
        if "whatever you hold" in line:
            found.setdefault(reports, epsilon)
    return found


def numbered(entries):
    return [entries.index(each) for each in entries]


def alike(first, second):
    """Whether the same entries of both are equal to each other."""
    return numbered(first) == numbered(second)


# Which pairs of histories a condition admits, as it is worded: `held` are values, `used` the symbols whose noise their
# reports share; of a pair, one for each part.
ADMITS = {
    UNCHANGED: lambda held, used: all(len(set(history)) == 1 for history in held),
    SHARED: lambda held, used: all(alike(*part) for part in zip(*map(by_part, used), strict=True)),
    "only with the same pattern of changes": lambda held, used: alike(*held),  # withdrawn: it was false
}


def by_part(history):
    """Return the symbols of each part of the pairs of a history; of what is no pair there is one part."""
    return list(zip(*(symbol if isinstance(symbol, tuple) else (symbol,) for symbol in history), strict=True))


def used_by(history, rule, cap):
    """Return the values whose noise the reports of a history of values share."""
    kept, used = [], []
    for value in history:
        if value not in kept and len(kept) < cap:
            kept.append(value)
        nearest = min(kept, key=lambda each: (abs(each - value), each)) if rule == "nearest" else kept[0]
        used.append(value if value in kept else nearest)
    return tuple(used)


def false_claims(lines, metric, own, histories, used):
    """Yield each line that names a bound and two histories that it admits and that differ by more."""
    for line in lines:
        about, epsilon = line["about"], line["epsilon"]
        if line["kind"] in {"any", "report"} or epsilon is None:
            continue
        (condition,) = (condition for condition in ADMITS if condition in about)
        for first, second in itertools.product([own] if "your" in about else histories, histories):
            held, answers = (first, second), (used[first], used[second])
            if ADMITS[condition](held, answers):
                encoded = [[metric.encode(value) for value in answer] for answer in answers]
                if epsilon_between(metric.mechanism, *encoded) > epsilon + 1e-9:
                    yield about, first, second


PAIR = '{{kind = "categories", names = ["{}", "{}"]}}'
WORDED = {
    "pair": (
        f'{{kind = "table", names = ["v", "c"], of = [{PAIR.format("x", "y")}, {PAIR.format("u", "v")}]}}',
        'oracle = "joint"\nparameters = {of = [{oracle = "grr", epsilon = 1.0}, {oracle = "basic-rappor"}]}',
        list(itertools.product("xy", "uv")),
        [("x", "u"), ("y", "u")],
    ),
    **{
        rule: (
            '{kind = "integers", min = 0, max = 9}',
            f'oracle = "grr"\nparameters = {{epsilon = 1.0}}\nmax_values = 2\nover_cap = "{rule}"',
            [0, 1, 8, 9],
            [0, 9, 1],
        )
        for rule in ("nearest", "first")
    },
    "no cap": (None, f'oracle = "l-grr"\n{CASES["l-grr"].partition(chr(10))[0]}', [*"abc"], [*"aba"]),
}


@pytest.mark.parametrize("case", list(WORDED))
def test_no_line_names_a_bound_under_a_condition_that_histories_beyond_it_meet(case, capsys):
    """By enumeration of all pairs of histories, before there are reports and after.

    A second audit: (x, u), (y, u) against (x, u), (x, v), and (0, 9, 1) against (0, 9, 8) with at most two values, have
    no bound. "The same pattern of changes" admitted both.
    """
    domain, rest, values, own = WORDED[case]
    beside = entry('oracle = "basic-rappor"', "beside")  # the totals are of both
    Path("metrics.toml").write_text(HEAD + entry(rest, domain=domain) + beside)
    asked = json.loads(printed(capsys, *ON, "--json"))
    metric = reported(own, rest, capsys, domain=domain, beside=beside)["theme"]
    spent = json.loads(printed(capsys, *STATUS, "--json"))
    histories = list(itertools.product(values, repeat=len(own)))
    used = {each: used_by(each, case, 2) if case in {"nearest", "first"} else each for each in histories}
    costs = (asked["metrics"][0]["cost"], spent["budget"][0], *asked["totals"], *spent["totals"])
    lines = [line for cost in costs for line in cost["lines"]]
    assert {"values", "pattern", "permanent"} <= {line["kind"] for line in lines if line["epsilon"] is not None}
    assert list(false_claims(lines, metric, tuple(own), histories, used)) == []
    worded_before = json.loads(json.dumps(lines).replace(SHARED, "only with the same pattern of changes"))
    found = {(first, second) for _, first, second in false_claims(worded_before, metric, tuple(own), histories, used)}
    expected = {"pair": ((("x", "u"), ("y", "u")), (("x", "u"), ("x", "v"))), "nearest": ((0, 9, 1), (0, 9, 8))}
    assert expected.get(case) in {*found, None}
    assert bool(found) is (case in expected)


@pytest.mark.parametrize("oracle", CASES)
def test_what_a_metric_costs_is_told_in_at_most_five_lines(oracle):
    """What is planned, the reports so far, and those under two accounts; as a table, and in the question."""
    registry = parse_registry(HEAD + entry(f'oracle = "{oracle}"\n{CASES[oracle]}'))
    metric = registry["theme"]
    mine = [Account("theme", metric.account.hex(), terms_of(metric.mechanism), numbered) for numbered in REPORTED]
    for accounts in ((), *((one,) for one in mine), *((one, replace(one, digest="0")) for one in mine)):
        cost = metric_cost(metric, so_far=Ledger(accounts))
        ends = {"theme": metric_cost(metric, 400).headline}
        blocks = question(Asked(registry, date(2026, 12, 24), None, None, {"theme": cost}, ends, (), {}))
        (table,) = [block for block in blocks if isinstance(block, KeyValues) and block.kind == "lines"]
        assert len(cost.lines) <= len(table.pairs) <= 5, table.pairs


REPORTED = [((0, 1),), ((0, 2),), ((0, 20), (1, 10))]
GROUPS = 'groups = {by = "release", shares = {"1.0" = 0.6, "1.1" = 0.35}, devices = 500000}'


@pytest.mark.parametrize("oracle", ["opt-wb", "grr"])
def test_a_group_in_clear_is_counted_among_what_links_reports(oracle, capsys):
    """On the page and in the question the rarest group's, on the device's own pages its own."""
    reported(["a", "b"], f'oracle = "{oracle}"\n{CASES[oracle]}\n{GROUPS}', capsys, groups={"release": "1.1"})
    shown = {
        "show": printed(capsys, "metrics", "show", "metrics.toml"),
        "on": printed(capsys, *ON),
        "privacy": printed(capsys, "privacy", "--registry", "metrics.toml", "theme"),
        "view": printed(capsys, *VIEW),
    }
    for name, text in shown.items():
        words = " ".join(text.split())
        assert "nothing stays the same" not in words, name
        own = "1.1 (35%" if name == "view" else "other (5%"
        assert f"in the group {own} of all devices, whatever their value), the same in every report: " in words, name
        # log2(1 / .35) and log2(1 / .05), and for grr with the payload: the sum of p^2 is .3177 of that.
        bits, crowd, rare = ("1.6", "350,000", "111,202") if name == "view" else ("4.4", "50,000", "15,886")
        assert f"{bits} bits; of a million devices {crowd} share it" in words, name
        assert (f"of a million devices with that value {rare} share it" in words) is (oracle == "grr"), name


def test_a_page_of_fresh_noise_speaks_of_no_answer_that_is_kept(capsys):
    reported(["a", "b", "a"], f'oracle = "opt-wb"\n{CASES["opt-wb"]}', capsys)
    for argv in (VIEW, STATUS, ON):
        assert not re.search("noisy answer|permanent response|used again", printed(capsys, *argv)), argv
    (line,) = [line for line in printed(capsys, *STATUS).splitlines() if "your 3 reports" in line]
    assert "epsilon 1.5000" in line


@pytest.mark.parametrize("oracle", CASES)
def test_four_surfaces_print_one_number(oracle, capsys):
    reported(["a", "b", "a"], f'oracle = "{oracle}"\n{CASES[oracle]}\nover_cap = "first"', capsys)
    found = {name: headlines(text)[3] for name, text in surfaces(capsys, 3).items()}
    assert len(set(found.values())) == 1, found
    json_of = {
        "status": json.loads(printed(capsys, *STATUS, "--json"))["budget"][0],
        "view": json.loads(printed(capsys, *VIEW, "--json"))["metrics"][0]["budget"],
        "on": json.loads(printed(capsys, *ON, "--json"))["metrics"][0]["cost"],
        "show": json.loads(printed(capsys, "metrics", "show", "metrics.toml", "--reports", "3", "--json"))["metrics"][
            0
        ]["privacy"]["cost"],
    }
    assert len({of["epsilon_any"] for of in json_of.values()}) == 1
    assert {of["reports"] for of in json_of.values()} == {3}


def test_a_metric_without_a_cap_is_bounded_by_its_domain_everywhere(capsys):
    """One surface said 20 values and the other that there is no bound."""
    twenty = ", ".join(f'"v{i}"' for i in range(20))
    rest = 'oracle = "basic-rappor"'
    Path("metrics.toml").write_text(HEAD + entry(rest).replace('"a", "b", "c", "d"', twenty))
    said = {}
    show = ("metrics", "show", "metrics.toml", "theme")
    for name, argv in {"show": show, "on": ON, "view": VIEW}.items():
        (line,) = [line for line, _, _ in numbers(printed(capsys, *argv)) if "of 20 values" in line]
        said[name] = re.search(r"\d+\.\d{4}", line)[0]
    assert set(said.values()) == {"46.1418"}, "ln 9 for each of 20 values, and for nothing"


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
    (asked,) = json.loads(printed(capsys, *ON, "--json"))["metrics"]
    (seen,) = json.loads(printed(capsys, *VIEW, "--json"))["metrics"]
    (page,) = json.loads(printed(capsys, "metrics", "show", "metrics.toml", "--json"))["metrics"]
    assert asked["cost"]["lines"] == seen["budget"]["lines"] == page["privacy"]["cost"]["lines"]
    for fact in ("How many values", "How often"):
        for argv in (ON, VIEW):
            assert page["facts"][fact] in " ".join(printed(capsys, *argv).split())
    reported(["a", "b", "a"], rest, capsys)
    (asked,) = json.loads(printed(capsys, *ON, "--json"))["metrics"]
    (seen,) = json.loads(printed(capsys, *VIEW, "--json"))["metrics"]
    (spent,) = json.loads(printed(capsys, *STATUS, "--json"))["budget"]
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
        assert "epsilon 8.7889" in of_age
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
    total, of_age = json.loads(printed(capsys, *STATUS, "--json"))["totals"]
    one = registry["other"].mechanism.epsilon_n(2)
    assert total["epsilon_same_pattern"] == pytest.approx(5 * one)
    assert of_age["epsilon_same_pattern"] == pytest.approx(4 * one)
