"""The numbers that a person is shown: a year's first, by all metrics together, and the same on every surface."""

import html
import json
import re
from dataclasses import replace

import pytest

from overstory.client.outcomes import MADE
from overstory.client.person.view import Asked, question
from overstory.collector.service import public_html
from overstory.presentation.document import KeyValues
from overstory.presentation.formats import date_words, epsilon_text
from overstory.privacy import Account, Ledger
from overstory.privacy.registry.cost import in_two_sentences, metric_cost, yearly
from overstory.privacy.terms import terms_of
from overstory.protocol.kinds.registry import FAMILIES, REGISTRY
from overstory.protocol.metrics import parse_registry
from support.devices import DAY, NOON, Clock, device
from support.privacy_cases import toml_parameters
from support.registry_texts import registry_of
from support.running import within

TREE = {"parameters": "{epsilon = 4.0}", "period": '"week"'}
THREE = {"tree": TREE, "leaf": TREE, "root": TREE}
FRESH = {"oracle": '"opt-wb"', "parameters": "{epsilon = 4.0, window = 1}", "panel": '"none"'}
WITHOUT = THREE | {"root": TREE | FRESH}
YEARLY = 'panel = {cycle = "year"}\n'
ROUNDS = {"oracle": '"l-grr"', "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}", "period": '"week"'}
REGISTRIES = {
    "a panel": (YEARLY, THREE, "1 answer to one of 3 questions", 4.0),
    "one metric": (YEARLY, {"tree": TREE}, "1 answer", 4.0),
    "a budget": (f'{YEARLY}budget = {{epsilon = 5.0, per = "year"}}\n', WITHOUT, "until the budget is used up", 5.0),
    "its own panel": (YEARLY, THREE | {"root": TREE | {"panel": '{cycle = "quarter"}'}}, "4 reports of root", 20.0),
    "no panel": ("", {"tree": ROUNDS, "leaf": ROUNDS}, "54 reports of tree, 54 reports of leaf", None),
}
EPSILON = re.compile(r"(?i)epsilon ([\d.]+)|no bound")
COMMANDS = {
    "on": "on --app ./new --yes --details",
    "status": "status --app ./state --details",
    "view": "view --app ./state",
    "show": "metrics show metrics.toml",
    "markdown": "metrics show metrics.toml --markdown",
}


@pytest.fixture(params=REGISTRIES)
def case(request, tmp_path, nothing_forbids):
    head, metrics, words, epsilon = REGISTRIES[request.param]
    text = registry_of(metrics, expires="2099-01-01")
    (tmp_path / "metrics.toml").write_text(head + text)
    registry = parse_registry(head + text)
    return tmp_path, registry, words, epsilon


def first_epsilon(text):
    return EPSILON.search(text).group(0).lower()


def expected(registry):
    return yearly(registry.values(), registry.budget).amount


@pytest.mark.parametrize("page", COMMANDS)
def test_the_first_epsilon_is_a_year_s(case, page):
    folder, registry, words, epsilon = case
    claim = yearly(registry.values(), registry.budget)
    assert epsilon is None or claim.epsilon == pytest.approx(epsilon)
    with device(folder, registry=registry) as it:
        for name in registry:
            it.record(name, "a")
    arguments = COMMANDS[page].split()
    ran = within(*arguments, *([] if "metrics" in arguments else ["--registry", "metrics.toml"]), cwd=folder)
    shown = " ".join(ran.stdout.split())
    assert first_epsilon(shown) == expected(registry)
    year = "any year" if all(metric.is_afresh for metric in registry.values()) else "the first year"
    assert f"whatever you hold and however it changes, in {year}: " in shown
    assert words in shown


def test_one_metric_s_page_begins_with_its_own_year(case):
    folder, registry, _, _ = case
    for name, metric in registry.items():
        for line in (("privacy", name, "--registry", "metrics.toml"), ("metrics", "show", "metrics.toml", name)):
            shown = within(*line, cwd=folder).stdout.partition("Why  ")[0 if line[0] == "privacy" else 2]
            assert first_epsilon(shown) == yearly([metric], registry.budget).amount


LIMITED = "budget = {epsilon = 7.0, attributes = {taste = 3.0}}\n"
TASTE = ROUNDS | {"attribute": '"taste"'}


@pytest.mark.parametrize("line", ["view --app ./state", "on --app ./new --yes --details", "metrics show metrics.toml"])
def test_no_page_shows_more_than_a_budget_for_ever(tmp_path, nothing_forbids, line):
    """Not of all metrics, an attribute's, one metric, or by the day on which it ends."""
    text = LIMITED + registry_of({"tree": TASTE, "leaf": TASTE}, expires="2099-01-01")
    (tmp_path / "metrics.toml").write_text(text)
    registry = parse_registry(text)
    device(tmp_path, registry=registry).close()
    arguments = line.split()
    shown = within(*arguments, *([] if "metrics" in arguments else ["--registry", "metrics.toml"]), cwd=tmp_path)
    words = " ".join(shown.stdout.split())
    assert words.count("until the budget is used up") >= 3
    for found in re.finditer(r"whatever you hold and however it changes", words):
        amounts = EPSILON.findall(words[: found.start()])
        assert float(amounts[-1].replace(",", "")) <= 7.0, words[found.start() - 40 : found.end() + 80]
    assert "2099)" not in words
    assert "Later years can add to it" not in in_two_sentences(registry)[1]


def test_the_collector_s_front_page_begins_with_it(case):
    _, registry, words, _ = case
    text = html.unescape(re.sub("<[^>]*>", " ", public_html(registry).partition("</style>")[2]))
    assert first_epsilon(text) == expected(registry)
    assert words in text


def test_an_owner_is_told_when_the_device_is_asked_next(tmp_path, nothing_forbids):
    registry = parse_registry(YEARLY + registry_of(THREE, expires="2099-01-01"))
    clock = Clock()
    with device(tmp_path / "s", registry=registry, clock=clock) as client:
        assert client.status().next_answers is None  # no secret yet
        client.record("tree", "a")
        client.flush()
        ((name, label),) = client.status().next_answers.items()
        asked = registry[name].period.parse_label(label)
        (said,) = [line for line in client.status().words() if "asked next" in line]
        assert said == f"of its panel, this device is asked next in: {date_words(label)} ({name})"
        for week in range(54):
            clock.now = NOON + 7 * DAY * week
            made = [each for each in registry if client.record(each, "a") in MADE]
            assert made == ([name] if registry[name].period.number(clock.now) == asked else [])
            client.flush()
        assert client.status().next_answers[name] == registry[name].period.label(asked + 54)


def test_where_a_metric_has_ended_its_answer_counts_for_the_next_ones(tmp_path, nothing_forbids):
    """The first devices' places alone would name a period in which they have answered already."""
    text = YEARLY + registry_of({"tree": TREE | {"expires": "2027-04-01"}, "leaf": TREE | {"expires": "2099-01-01"}})
    registry, told = parse_registry(text), 0
    for number in range(80):  # one in five answers while the first metric lasts
        clock = Clock()
        with device(tmp_path / str(number), registry=registry, clock=clock) as client:
            for week in range(20):
                clock.now = NOON + 7 * DAY * week
                told += client.record("tree", "a") in MADE
                client.record("leaf", "a")
                client.flush()
            period = registry["leaf"].period
            clock.now = period.start(period.parse_label(client.status().next_answers["leaf"])) + 6 * DAY
            assert client.record("leaf", "a") in MADE
    assert told


def test_a_device_that_is_never_asked_again_is_told_so(tmp_path, nothing_forbids):
    ends = {**TREE, "expires": "2026-11-30"}
    registry = parse_registry(YEARLY + registry_of({"tree": ends}))
    clock, told = Clock(), set()
    for number in range(6):
        with device(tmp_path / str(number), registry=registry, clock=clock) as client:
            client.record("tree", "a")
            client.flush()
            told |= {line for line in client.status().words() if "asked next" in line}
    assert "of its panel, this device is asked next in: no period before the end" in told


KINDS = {
    "no cap": {"oracle": '"basic-rappor"', "parameters": "{}"},
    "a cap": {"oracle": '"basic-rappor"', "parameters": "{}", "max_values": "2", "over_cap": '"drop"'},
    "one round": {"oracle": '"grr"', "parameters": "{epsilon = 1.0}", "max_values": "3"},
    "a window": {"oracle": '"opt-wb"', "parameters": "{epsilon = 1.0, window = 4}"},
    "a seed": {"oracle": '"loloha"', "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0, hash_range = 2}"},
}
FOUR = '{kind = "categories", names = ["a", "b", "c", "d"]}'


@pytest.mark.parametrize("keys", KINDS.values(), ids=list(KINDS))
def test_public_page_question_view_and_status_say_the_same_of_every_registry(keys, tmp_path, nothing_forbids):
    """A5: before there are reports and after, line by line, and of how many values they are."""
    text = registry_of({"theme": {"domain": FOUR, **keys}})
    (tmp_path / "metrics.toml").write_text(text)

    def printed(page, *more):
        arguments = [part.replace("./new", "./state") for part in COMMANDS[page].split()]
        if "--json" in more:
            arguments = [part for part in arguments if part != "--details"]
        chosen = [] if "metrics" in arguments else ["--registry", "metrics.toml"]
        return within(*arguments, *chosen, *more, cwd=tmp_path).stdout

    def lines(page, entry, of):
        (metric,) = json.loads(printed(page, "--json"))[entry]
        return metric[of]["lines"] if of else metric["lines"]

    (page,) = json.loads(printed("show", "--json"))["metrics"]
    assert lines("on", "metrics", "cost") == lines("view", "metrics", "budget") == page["privacy"]["cost"]["lines"]
    for fact in ("How many values", "How often"):
        for each in ("on", "view"):
            assert page["facts"][fact] in " ".join(printed(each).split())
    clock, registry = Clock(), parse_registry(text)
    with device(tmp_path, registry=registry, clock=clock) as client:
        for value in ("a", "b", "a"):
            assert client.record("theme", value) == "recorded"
            clock.tomorrow()
    spent = lines("status", "budget", None)
    assert lines("on", "metrics", "cost") == lines("view", "metrics", "budget") == spent
    status = printed("status").splitlines()
    for amount, about in ((line["epsilon"], line["about"]) for line in spent):
        shown = "no bound" if amount is None else epsilon_text(amount)
        assert any(shown in line and about in line for line in status)


@pytest.mark.parametrize("oracle", sorted(REGISTRY))
def test_what_a_metric_costs_is_told_in_at_most_five_lines(oracle):
    """What is planned, the reports so far, and those under two accounts; as a table, and in the question."""
    entry = {"domain": FOUR, "oracle": f'"{oracle}"', "parameters": toml_parameters(oracle)}
    if oracle in FAMILIES["strings"] and oracle not in FAMILIES["symbols"]:
        entry["domain"] = '{kind = "strings"}'
    registry = parse_registry(registry_of({"theme": entry}))
    metric = registry["theme"]
    mine = [Account("theme", metric.account.hex(), terms_of(metric.mechanism), numbered) for numbered in REPORTED]
    for accounts in ((), *((one,) for one in mine), *((one, replace(one, digest="0")) for one in mine)):
        cost = metric_cost(metric, so_far=Ledger(accounts))
        ends = {"theme": metric_cost(metric, 400).headline}
        blocks = question(Asked(registry, None, None, {"theme": cost}, ends, (), {}))
        (table,) = [block for block in blocks if isinstance(block, KeyValues) and block.kind == "lines"]
        assert len(cost.lines) <= len(table.pairs) <= 5, table.pairs


REPORTED = [((0, 1),), ((0, 2),), ((0, 20), (1, 10))]
