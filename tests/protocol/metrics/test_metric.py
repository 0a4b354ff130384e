"""What a metric and a registry answer: values, times, digests, the public form."""

import datetime as dt
import json
from dataclasses import replace
from fractions import Fraction

import pytest

from overstory.protocol import channels
from overstory.protocol.channels import BinaryChannel, round_up
from overstory.protocol.domains.domains import Categories, Strings
from overstory.protocol.domains.item_sets import ItemSet
from overstory.protocol.domains.numbers import Integers
from overstory.protocol.domains.tables import Table
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import Metric, load_registry, parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.metrics.registry import EXAMPLE
from support.registry_texts import BINS, COLOURS, LISTED, STRINGS, oblivious_text, registry_text


def metric(*more, folder=None, **spoiled) -> Metric:
    return parse_registry(registry_text(*more, **spoiled), folder)["colour"]


def test_what_is_given_and_what_follows_from_it():
    colour = metric()
    assert (colour.id, colour.title, colour.owner) == ("colour", "Favourite colour", "Themes team")
    assert (colour.mechanism.name, colour.mechanism.parameters["domain_size"]) == ("grr", 3)
    assert (str(colour.period), colour.window, colour.max_values, colour.over_cap) == ("week", None, None, "first")
    assert (colour.retention_days, colour.grace_days, colour.expires) == (90, 30, dt.date(2027, 11, 21))
    assert (colour.labels, colour.candidates) == (("red", "green", "blue"), None)
    assert colour.encode("green") == 1


def test_metrics_of_equal_parameters_share_what_is_computed_of_them(monkeypatch):
    made, rounded = [], []
    monkeypatch.setattr(BinaryChannel, "of", lambda *given: made.append(given) or BinaryChannel(*map(Fraction, given)))
    monkeypatch.setattr(channels, "round_up", lambda exact: rounded.append(exact) or round_up(exact))
    text = registry_text(domain=STRINGS, oracle="rappor", parameters="{f = 0.375, p = 0.25, q = 0.625}")
    tables = text[text.index("[") :]
    parse_registry(text + "".join(tables.replace("colour", f"colour{n}") for n in range(20)))
    assert (len(made), len(rounded)) == (2, 1)


def test_a_domain_size_that_agrees_may_be_given():
    assert metric(parameters="{epsilon = 1.0, domain_size = 3}").digest == metric().digest


def test_a_window_is_the_oracles_wherever_it_is_said():
    wb = {"oracle": "opt-wb", "domain": BINS}
    inside = metric(parameters="{epsilon = 1.0, window = 48}", **wb)
    beside = metric("window = 48", **wb)
    both = metric("window = 48", parameters="{epsilon = 1.0, window = 48}", **wb)
    assert inside.window == beside.window == both.window == 48
    assert inside.digest == beside.digest == both.digest
    assert beside.mechanism.parameters["window"] == 48
    assert metric("window = 10").window == 10
    assert "window" not in metric("window = 10").mechanism.parameters


def test_strings_are_hashed_by_the_metrics_own_key(tmp_path):
    (tmp_path / "trees.txt").write_bytes("﻿oak\r\nash\n\nélan\n".encode())
    strings = {"oracle": "rappor", "domain": LISTED, "parameters": "{}"}
    listed = metric(folder=tmp_path, **strings)
    assert listed.domain == Strings("trees.txt")
    assert listed.candidates == listed.labels == ("oak", "ash", "élan")
    assert listed.mechanism.parameters["hash_key"] == "colour"
    assert metric(metric="colour", **strings | {"domain": STRINGS}).mechanism.digest == listed.mechanism.digest
    own = metric(**strings | {"parameters": '{hash_key = "own"}'})
    assert own.mechanism.parameters["hash_key"] == "own"
    google = metric(**strings | {"parameters": '{num_bits = 16, hash_family = "google-rappor-python"}'})
    assert google.mechanism.parameters["hash_key"] == ""
    assert metric(oracle="olh", domain=LISTED).mechanism.parameters["hash_key"] == "colour"


def test_candidates_are_read_only_where_they_are_wanted(tmp_path):
    path = tmp_path / "metrics.toml"
    path.write_text(registry_text(oracle="rappor", domain=LISTED, parameters="{}"))
    unread = load_registry(path, read_candidates=False)
    assert (unread["colour"].candidates, unread["colour"].labels) == (None, ())
    (tmp_path / "trees.txt").write_text("oak\n")
    read = load_registry(path)
    assert read["colour"].labels == ("oak",)
    assert (read.digest, read["colour"].digest) == (unread.digest, unread["colour"].digest)


def test_any_string_may_be_reported_and_nothing_else():
    strings = metric(oracle="rappor", domain=STRINGS, parameters="{}")
    assert strings.encode("a tree nobody listed") == "a tree nobody listed"
    assert strings.encode("") == ""
    for wrong in (b"oak", 3, None, ["oak"], "x" * 65_537, "é" * 32_769):
        with pytest.raises(ParameterError):
            strings.encode(wrong)


def test_a_metric_ends_when_the_day_of_its_expiry_begins():
    colour = metric()
    ends = dt.datetime(2027, 11, 21, tzinfo=dt.UTC).timestamp()
    assert (colour.expired(ends - 1), colour.expired(ends)) == (False, True)


def test_the_last_period_of_an_ended_metric_may_contain_the_end_and_becomes_final():
    colour = metric()
    ends = dt.datetime(2027, 11, 21, tzinfo=dt.UTC).timestamp()  # a Sunday: the last day of a week takes no report
    last = colour.period.number(ends)
    at = [colour.final_from(last) - 1, colour.final_from(last), colour.final_from(last + 9)]
    assert [colour.newest_final(now) for now in at] == [last - 1, last, last]


def test_reports_are_taken_for_the_days_of_grace_after_their_period():
    colour = metric("grace_days = 2")
    week = colour.period.number(dt.datetime(2026, 11, 21, tzinfo=dt.UTC).timestamp())
    assert colour.accept_until(week) == dt.datetime(2026, 11, 25, tzinfo=dt.UTC).timestamp()
    assert metric("grace_days = 0").accept_until(week) == colour.period.start(week + 1)
    assert metric(instead={"retention_days": "retention_days = 9"}).grace_days == 9


def test_an_unknown_metric_is_named_with_the_known_ones():
    registry = parse_registry(EXAMPLE)
    with pytest.raises(ParameterError, match="there is no metric 'color': the registry lists colour"):
        registry["color"]
    assert "color" not in registry
    assert registry.get("color") is None
    with pytest.raises(TypeError):
        registry.metrics["x"] = registry["colour"]


# What a registry may say otherwise, and whose digests that changes besides its own.
CHANGES = {
    'title = "Colour"': (),
    'purpose = "https://example.org/issues/8"': (),
    "retention_days = 91": (),
    "expires = 2027-11-22": (),
    'registry = "2026-11-22"': (),
    'domain = {kind = "categories", names = ["red", "blue", "green"]}': ("metric",),
    'period = "day"': ("metric",),
    "window = 3": ("metric",),
    "max_values = 2": ("metric",),
    'over_cap = "drop"': ("metric",),
    "parameters = {epsilon = 1.5}": ("metric", "mechanism"),
    'transport = "direct"': None,  # what is the default
}


@pytest.mark.parametrize("line", CHANGES)
def test_every_change_changes_the_registrys_digest_and_some_the_metrics(line):
    key, of = line.partition(" =")[0], CHANGES[line]
    is_there = f"{key} =" in registry_text()
    text = registry_text(instead={key: line}) if is_there else registry_text(line)
    old, new = parse_registry(registry_text()), parse_registry(text)
    assert (old.digest != new.digest) == (of is not None)
    assert (old["colour"].digest != new["colour"].digest) == ("metric" in (of or ()))
    assert (old["colour"].mechanism.digest != new["colour"].mechanism.digest) == ("mechanism" in (of or ()))


PUBLISH = 'publish = "estimates"\npublish_least = 250'
GROUPS = 'groups = {by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000, floor = 1500}'


@pytest.mark.parametrize(
    ("keys", "text", "is_of_the_metric"),
    [
        ({"groups"}, registry_text(GROUPS), True),
        ({"transport", "oblivious"}, oblivious_text(), True),
        ({"publish", "opt_out"}, f'opt_out = "Settings"\n{registry_text(PUBLISH)}', False),
    ],
    ids=["groups", "transport", "publish"],
)
def test_a_key_that_changes_no_report_is_of_the_registrys_digest_and_some_of_the_metrics(keys, text, is_of_the_metric):
    """A file without the key has the digests that it always had, and what is published is read again."""
    old, new = parse_registry(registry_text()), parse_registry(text)
    plain, changed = old["colour"], new["colour"]
    assert not keys & {*old.to_json(), *plain.to_json(), *plain.canonical()}
    assert keys <= {*new.to_json(), *changed.to_json()}
    assert old.digest != new.digest
    assert (plain.digest != changed.digest) == is_of_the_metric
    assert (plain.mechanism.digest, plain.counts_digest) == (changed.mechanism.digest, changed.counts_digest)
    assert parse_registry(EXAMPLE).digest.hex() == "8ab9f5ff470d327cbc7d8ee73d3e7406"
    assert metric_from_json(changed.to_json()) == changed


def test_tables_of_every_form_are_one():
    text = registry_text().replace("[metrics.colour]\n", "").splitlines()
    dotted = "\n".join([text[0], *(f"metrics.colour.{line}" for line in text[1:] if line)])
    nested = registry_text(without="parameters").replace(f"domain = {COLOURS}\n", "") + (
        '[metrics.colour.domain]\nkind = "categories"\nnames = [\n  "red", # first\n  "green",\n  "blue",\n]\n'
        "[metrics.colour.parameters]\nepsilon = 1.0\n"
    )
    assert parse_registry(dotted).digest == parse_registry(nested).digest == parse_registry(registry_text()).digest


def test_few_seeds_are_counted_like_cohorts_and_need_no_labels():
    few = metric(oracle="olh", domain=LISTED)
    assert (few.mechanism.num_cohorts, few.mechanism.counted_by_value) == (256, False)
    assert few.counts_digest == metric(oracle="olh", domain='{kind = "strings"}').counts_digest


def test_counts_by_label_depend_on_the_labels():
    def metric_of(oracle, *names):
        return metric(oracle=oracle, domain=f'{{kind = "categories", names = {json.dumps(names)}}}')

    own, other = metric_of("linear-hash", "oak", "ash"), metric_of("linear-hash", "oak", "elm")
    assert own.mechanism.counted_by_value
    assert own.counts_digest != other.counts_digest
    assert own.mechanism.digest == other.mechanism.digest
    few, others = metric_of("grr", "oak", "ash"), metric_of("grr", "oak", "elm")
    assert not few.mechanism.counted_by_value
    assert few.counts_digest == others.counts_digest


@pytest.mark.parametrize(
    "around",
    [
        lambda names: names,
        lambda names: ItemSet(names, 2),
        lambda names: Table((Integers(0, 2), names), ("x", "y")),
    ],
)
def test_an_order_of_names_begins_no_account_wherever_the_names_are_and_other_names_do(around):
    names = Categories(("a", "b", "c"))
    same, other = replace(names, ordered=True), replace(names, names=("a", "c", "b"))
    accounts = [replace(metric(), domain=around(each)).account for each in (names, same, other)]
    assert accounts[0] == accounts[1] != accounts[2]
