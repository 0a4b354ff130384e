"""Where keys stand: in every document that the parser accepts, each where it is written first."""

import json
import tomllib

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from overstory.protocol.metrics.toml_fields import positions

LETTERS = st.sampled_from(list("ab#\"'=[]{},.\\ \té\n"))
TEXTS = st.lists(LETTERS, max_size=6).map("".join)
PLAIN = st.sampled_from(
    ["0", "-17", "0x1F", "1_000", "6.5e-3", "inf", "-nan", "true", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00"]
)
GAPS = st.sampled_from(["", " ", "\t"])
WIDE_GAPS = st.sampled_from(["", " ", "\n", " # a ] comment, } with = signs \" and ' quotes\n", "\n\n\t"])
ENDS = st.sampled_from(["\n", " \n", " # a comment [here] = 'x'\n", "\n\n", "\r\n"])


@st.composite
def strings(draw):
    text, form = draw(TEXTS), draw(st.integers(0, 3))
    if form == 1 and "'" not in text and "\n" not in text:
        return f"'{text}'"
    if form == 2:
        escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
        return f'"""{draw(st.sampled_from(["", chr(10), chr(92) + chr(10)]))}{escaped}"""'
    if form == 3 and "'''" not in text:
        return f"'''{text}'''"
    return json.dumps(text, ensure_ascii=False)


@st.composite
def keys(draw):
    parts = st.one_of(st.sampled_from(["a", "b", "c-1", "2_d"]), st.sampled_from(['"a"', "'x.y'", '"\\u00e9 ="', '""']))
    gap = draw(GAPS)
    return f"{gap}.{gap}".join(draw(st.lists(parts, min_size=1, max_size=3)))


@st.composite
def arrays(draw, inner):
    items = draw(st.lists(inner, max_size=3))
    body = ",".join(f"{draw(WIDE_GAPS)}{item}{draw(WIDE_GAPS)}" for item in items)
    return f"[{body}{',' if items and draw(st.booleans()) else ''}{draw(WIDE_GAPS)}]"


@st.composite
def inline_tables(draw, inner):
    pairs = [f"{draw(GAPS)}{draw(keys())} = {draw(inner)}{draw(GAPS)}" for _ in range(draw(st.integers(0, 3)))]
    return "{" + ",".join(pairs) + "}"


VALUES = st.recursive(st.one_of(PLAIN, strings()), lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)


@st.composite
def lines(draw):
    kind, key = draw(st.sampled_from(["pair", "pair", "pair", "table", "array"])), draw(keys())
    if kind == "pair":
        return f"{draw(GAPS)}{key}{draw(GAPS)}={draw(GAPS)}{draw(VALUES)}{draw(ENDS)}"
    opening, closing = ("[", "]") if kind == "table" else ("[[", "]]")
    return f"{opening}{draw(GAPS)}{key}{draw(GAPS)}{closing}{draw(ENDS)}"


DOCUMENTS = st.lists(lines(), max_size=7).map("".join)
"""Texts that are TOML unless they define a key twice."""


def paths(value, path=()):
    """Of tables alone, and of those in arrays: what an array of tables holds has a header of its own."""
    for inner in value if isinstance(value, list) else ():
        yield from paths(inner, path) if isinstance(inner, dict) else ()
    for key, inner in value.items() if isinstance(value, dict) else ():
        yield (*path, key)
        yield from paths(inner, (*path, key))


def of_tables(table):
    return [full for full in paths(table) if all(isinstance(part, dict) for part in on_the_way(table, full))]


def on_the_way(table, path):
    for key in path[:-1]:
        table = table[key] if isinstance(table, dict) else None
        yield table


def parsed(text):
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(DOCUMENTS)
def test_every_key_is_found_and_nothing_else(text):
    document = parsed(text)
    assume(document is not None)
    found = positions(text)
    assert {*of_tables(document)} <= set(found) <= {*paths(document)}
    for path, place in found.items():
        assert place.line == text[: place.start].count("\n") + 1
        before, after = (set(paths(tomllib.loads(text[:end]))) for end in (place.start, place.stop))
        assert path in after
        assert path not in before or text[place.start] == "[", "the first time"


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("[metrics.x]\ntitle = 't'\n\n[metrics.y]\n", ("metrics", "y"), 4),
        ("[metrics.x]\n[metrics.y]\n", ("metrics",), 1),
        ("[a.b]\n[a]\nc = 1\n", ("a",), 2),
        ("a = '''\n]\n\n'''\nb = [1,\n2]\nc = 1", ("c",), 7),
        ("[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 2\n", ("a", "c", "d"), 5),
        ("x = {y = 1, z = [\n{w = 2}]}\nv = 1\n", ("v",), 3),
    ],
)
def test_lines_read_by_a_person(text, path, line):
    assert positions(text)[path].line == line
