"""Where keys stand: in every document the parser accepts, exactly its keys, each with its own value's text."""

import re
import tomllib

import pytest
from hypothesis import HealthCheck, assume, given, settings

from overstory.protocol.metrics.toml_positions import positions
from support.toml_documents import DOCUMENTS


def paths(value, path=()):
    """All paths of a parsed document, with what lies there."""
    if path:
        yield path, value
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from paths(inner, (*path, key))


def parsed(text):
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


@settings(max_examples=300, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow], deadline=None)
@given(DOCUMENTS)
def test_every_key_is_found_and_nothing_else(text):
    document = parsed(text)
    assume(document is not None)
    found, really = positions(text), dict(paths(document))
    assert set(found) == set(really)
    for path, place in found.items():
        assert place.line == text[: place.start].count("\n") + 1
        if place.value > place.start or isinstance(path[-1], int):  # written as key = value, or as an element
            written = text[place.value : place.stop]
            if not written.startswith("[["):
                assert repr(tomllib.loads(f"v = {written}")["v"]) == repr(really[path])


def test_the_generated_documents_use_the_whole_language():
    """The property above would say little of documents that are all refused, or all alike."""
    seen = {"documents": 0, "headers": 0, "arrays of tables": 0, "dotted": 0, "multi-line": 0}

    @settings(max_examples=200, suppress_health_check=list(HealthCheck), deadline=None, database=None, derandomize=True)
    @given(DOCUMENTS)
    def look(text):
        if parsed(text):
            seen["documents"] += 1
            seen["headers"] += re.search(r"^\[[^\[]", text, re.MULTILINE) is not None
            seen["arrays of tables"] += "[[" in text
            seen["dotted"] += ".a" in text
            seen["multi-line"] += '"""' in text

    look()
    assert all(seen.values()), seen
    assert seen["documents"] > 60


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ("a = 1\nb = 2\n", ("b",), 2),
        ("[metrics.x]\ntitle = 't'\n\n[metrics.y]\n", ("metrics", "y"), 4),
        ("[metrics.x]\n[metrics.y]\n", ("metrics",), 1),
        ("[a.b]\n[a]\nc = 1\n", ("a",), 2),
        ("a = '''\n]\n\n'''\nb = [1,\n2]", ("b", 1), 6),
        ("[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 2\n", ("a", 1, "c", "d"), 5),
        ("x = {y = 1, z = [\n{w = 2}]}\n", ("x", "z", 0, "w"), 2),
    ],
)
def test_lines_read_by_a_person(text, path, line):
    assert positions(text)[path].line == line
