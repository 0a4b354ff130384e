"""Tables: several variables in one value, each cell a symbol."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.gateway.readings import Alignment
from overstory.planning.kinds import plan_registry
from overstory.protocol.domains import Bins, domain_from
from overstory.protocol.domains.domains import Categories
from overstory.protocol.domains.numbers import Integers
from overstory.protocol.domains.tables import Table
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from support.registry_texts import registry_of

VERSION = Categories(("1.0", "2.0"), other="another version")
CRASH = Categories(("no", "yes"))
CELLS = Table((VERSION, CRASH), ("version", "crash"))

YES_OR_NO = '{kind = "categories", names = ["no", "yes"]}'
VERSIONS = '{kind = "categories", names = ["1.0", "2.0"], other = "another version"}'
DOMAIN = f'{{kind = "table", names = ["version", "crash"], of = [{VERSIONS}, {YES_OR_NO}]}}'
REGISTRY = registry_of({"crashes": {"domain": DOMAIN, "oracle": '"oue"', "max_values": "4"}})

PARTS = st.one_of(
    st.builds(Categories, st.lists(st.text("abc", min_size=1), min_size=2, max_size=4, unique=True).map(tuple)),
    st.builds(lambda low, size: Integers(low, low + size), st.integers(-5, 5), st.integers(1, 4)),
    st.builds(lambda count: Bins(0, 1, count), st.integers(2, 4)),
)


@given(st.lists(PARTS, min_size=2, max_size=3))
def test_each_cell_has_one_symbol_and_one_label(parts):
    table = Table(tuple(parts), tuple("xyz"[: len(parts)]))
    values = table.examples()
    assert [table.symbol(value) for value in values] == list(range(table.size))
    assert [table.symbol(dict(zip(table.names, value, strict=True))) for value in values] == list(range(table.size))
    assert len(set(table.labels)) == table.size == len(table.labels)
    assert domain_from(json.loads(json.dumps(table.canonical()))) == table


def test_texts_are_read_as_values():
    assert CELLS.label(3) == "version=2.0, crash=yes"
    for text in ("version=2.0, crash=yes", "2.0,yes", "2.0, yes"):
        assert CELLS.symbol(CELLS.read(text)) == 3
    commas = Table((Categories(("a, b", "c")), CRASH), ("x", "y"))
    assert commas.symbol(commas.read("x=a, b, y=yes")) == 1
    with pytest.raises(ParameterError, match="give a value each of version, crash"):
        CELLS.read("2.0")


def test_other_values_go_where_each_variable_puts_them():
    """One variable has a name for others, the other refuses them, and so the cell is refused."""
    assert CELLS.symbol(("3.1", "yes")) == CELLS.symbol(("another version", "yes")) == 5
    assert CELLS.refuses
    assert not Table((VERSION, VERSION), ("a", "b")).refuses
    with pytest.raises(ParameterError, match="crash: "):
        CELLS.symbol(("1.0", "maybe"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (("1.0",), "a value each of version, crash, not 1 values"),
        ("1.0, no", "a value each of version, crash, not str"),
        ({"version": "1.0"}, "crash is missing"),
        ({"version": "1.0", "crash": "no", "os": "x"}, "'os' is none of them"),
    ],
)
def test_what_is_no_cell_is_refused(value, message):
    with pytest.raises(ParameterError, match=message):
        CELLS.symbol(value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"of": (CRASH,), "names": ("a",)}, "two variables or more"),
        ({"of": (CRASH, CRASH), "names": ("a",)}, "1 names for 2 variables"),
        ({"of": (CRASH, CRASH), "names": ("a", "a")}, "a name of its own"),
        ({"of": (CRASH, CRASH), "names": "ab"}, "give a list of texts"),
        ({"of": (Integers(0, 2000), Integers(0, 2000)), "names": ("a", "b")}, "symbols"),
        ({"of": (CRASH, CRASH), "names": ("a", "b"), "tables": (("a", "c"),)}, "'c' is none of the variables"),
        ({"of": (CRASH, CRASH), "names": ("a", "b"), "tables": (("a",),)}, "b is in none of them"),
        ({"of": (CRASH, CRASH), "names": ("a", "b"), "tables": (("a", "b"), ("b", "a"))}, "listed twice"),
        ({"of": (CRASH, CRASH), "names": ("a", "b"), "tables": "pairs"}, "give lists of variables, or 'all pairs'"),
    ],
)
def test_what_is_no_table_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        Table(**given)


def test_a_value_appended_to_the_first_variable_moves_no_cell():
    """Mixed radix, the last variable first: only the first may grow."""
    grown = Categories(("1.0", "2.0", "another version", "3.0"))
    old = Table((Categories(("1.0", "2.0", "another version")), CRASH), ("version", "crash"))
    new = Table((grown, CRASH), ("version", "crash"))
    assert [new.symbol(cell) for cell in old.examples()] == [old.symbol(cell) for cell in old.examples()]


def test_a_registry_has_tables():
    metric = parse_registry(REGISTRY)["crashes"]
    assert metric.mechanism.domain_size == 6
    assert metric.reading == "table"
    assert metric.encode(("2.0", "yes")) == 3
    assert metric_from_json(json.loads(json.dumps(metric.to_json()))) == metric
    described = metric.domain.describe()
    assert "a change of any of them is another value" in described
    assert "version: one of 3: 1.0, 2.0" in described


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"1.0", "2.0"', '"1.0", 2', "domain 1: the category 2 is no string"),
        (YES_OR_NO, '{kind = "texts"}', "domain 2: there is no domain 'texts'"),
        (YES_OR_NO, '{kind = "strings"}', "domain 2 is no list of values: choose categories, integers or bins"),
        ('names = ["version", "crash"], of', "of", "'names'"),
        ('oracle = "oue"', 'oracle = "rappor"', "rappor takes strings"),
    ],
)
def test_a_registry_names_what_is_wrong(old, new, message):
    with pytest.raises(FormatError, match=message):
        parse_registry(REGISTRY.replace(old, new))


def test_a_gateway_refuses_a_table():
    with pytest.raises(ParameterError, match="several values together"):
        Alignment(parse_registry(REGISTRY)["crashes"])


def test_devices_divided_over_tables_have_no_plan_either_and_are_said_to_be_divided_at_random():
    domain = f'{{kind = "table", names = ["a", "b"], tables = "all pairs", of = [{YES_OR_NO}, {YES_OR_NO}]}}'
    text = registry_of({"crashes": {"domain": domain, "oracle": '"divided"', "parameters": "{}"}})
    drawn = parse_registry(text.replace("= {}", '= {oracle = "grr", epsilon = 1.0}'))["crashes"]
    # A device of a panel draws a table for each answer, another one for good.
    assert "one of these, chosen at random: a and b" in drawn.domain.describe()
    with pytest.raises(FormatError, match="no plan is made for combinations, divided over tables"):
        plan_registry(needs(text), None)


def needs(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith(("oracle", "parameters"))]
    return "\n".join([*lines, "needs = {epsilon_report = 1.0, reports = 10000}", ""])
