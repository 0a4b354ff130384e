"""Every scene gives what was recorded. `python tests/golden/record.py NAME` records a change that is meant."""

import difflib
import os

import pytest
import record
from normal import cleaned, differing, near, same

MOST_LINES = 80


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("golden") / record.PLACE
    record.prepare(place)
    return place


@pytest.mark.parametrize("name", record.SCENES)
def test_what_was_recorded_is_what_comes_out(name, place):
    expected, actual = record.recorded(name).read_text("utf-8"), record.play(name, place)
    if not same(expected, actual):
        before, after = differing(expected, actual)
        lines = list(difflib.unified_diff(before, after, f"recorded/{name}", f"{name} now", lineterm="", n=2))
        more = [f"... {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else []
        pytest.fail(os.linesep.join([*lines[:MOST_LINES], *more]), pytrace=False)


def test_every_recorded_file_belongs_to_a_scene():
    assert len(record.SCENES) > 25  # a module of scenes that nobody imports plays nothing
    assert not record.unclaimed()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"said": 1.5', '"detail": 1.5'),
        ('"count": 1.5', '"count": 1.500001'),
        ('"count": 12', '"count": 13'),
        ('"why": "for ever"', '"why": "permanently"'),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}'),
        ("1.5,2.5", "1.5,2.5,3.5"),
        ('"bits": "00ff12"', '"bits": "00ff13"'),
    ],
)
def test_a_key_a_number_or_a_word_that_changes_is_seen(before, after):
    assert not same(before, after)


def test_the_last_digits_of_a_number_may_differ():
    assert same("mean 0.333333333333 of 3", "mean 0.333333333334 of 3")
    assert differing("a 0.333333333333\nb 1", "a 0.333333333334\nb 2") == (
        ["a 0.333333333333", "b 1"],
        ["a 0.333333333333", "b 2"],
    )
    assert near("1.5e-13", "-2.5e-14")
    assert not near("3000000000", "3000000001")
    assert (
        cleaned('{"p": 0.12345678901234567, "n": 12345678901234567}') == '{"p": 0.123456789012, "n": 12345678901234567}'
    )
