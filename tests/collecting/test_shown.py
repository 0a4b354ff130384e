"""Every result of Python's functions shows itself alike: a table, a frame, a picture, a page and its notes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import overstory
from overstory.discovery import CodedIntegers, Discovered, discover, find, simulate
from overstory.presentation.formats import epsilon_text, guess_text
from overstory.presentation.svg import Picture
from support.running import within

NAMES = ["a", "b", "b", "<i>c</i>"] * 2_000
HOSTILE = "<script>x</script>"


def searched():
    plan = discover(epsilon=4.0, domain=CodedIntegers(16), step=8, beam=8)
    return find(plan, simulate(plan, np.array([7] * 600 + [4711] * 400), np.random.default_rng(1)))


RESULTS = {
    "survey": lambda: overstory.survey([HOSTILE, *NAMES], rng=1),
    "difference": lambda: overstory.difference(overstory.survey(NAMES, rng=1), overstory.survey(NAMES[:-800], rng=2)),
    "table": lambda: overstory.survey_table({"x": NAMES, HOSTILE: NAMES[::-1]}, epsilon=3, rng=1),
    "sets": lambda: overstory.survey_sets(["a;b", "b", HOSTILE] * 2_000, epsilon=4, rng=1),
    "mean": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, rng=1),
    "distribution": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, learn="distribution", rng=1),
    "ranges": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, learn="ranges", rng=1),
    "search": searched,
}


@pytest.fixture(scope="module", params=RESULTS)
def result(request):
    return RESULTS[request.param]()


def test_the_table_and_the_page_say_every_note(result):
    page = result.page()
    assert page.startswith("<!doctype html>")
    assert page.count("<h1") == 1
    assert "<svg" in page
    for note in result.notes:
        assert f"note: {note}" in str(result)
        assert note.replace("'", "&#x27;") in page
    assert len(result.table().splitlines()) >= 2


TRIALS = {name: RESULTS[name] for name in ("table", "sets", "mean", "distribution", "ranges")}


@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_says_what_it_cost_in_a_sentence_and_four_lines(name):
    trial = TRIALS[name]()
    sentence, table = trial.cost()
    assert sentence.text == f"W{guess_text(trial.kind.epsilon_report, 'one report', f'{trial.of}s it is of')[1:]}."
    assert [about for about, _ in table.pairs] == ["who", "how", "one report", "more reports"]
    assert f"epsilon {epsilon_text(trial.kind.epsilon_report)}: " in dict(table.pairs)["one report"]
    assert (
        f"epsilon {epsilon_text(trial.kind.epsilon_permanent)} for any number of reports of one "
        in dict(table.pairs)["more reports"]
    )
    assert str(trial).count("  who  ") == str(trial).count(sentence.text) == 1
    assert "Privacy:" not in str(trial)


def test_the_command_says_it_in_the_same_words(tmp_path):
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(["a", "b"] * 200))
    shown = within("collect", "t.csv", "--column", "x", "--epsilon", 1, "--seed", 1, cwd=tmp_path).stdout
    assert f"\nW{guess_text(1.0, 'one report', 'values it is of')[1:]}.\n" in shown
    assert "\n  one report    epsilon 1: odds move by a factor of at most 2.72\n" in shown
    assert "Privacy:" not in shown


def test_a_frame_has_a_row_for_every_estimate(result):
    every = {"everything": True} if isinstance(result, Discovered) else {}  # a search's rows are what was detected
    frame, rows = result.to_pandas(), list(result.rows(**every))
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) == len(rows) == len(pl.DataFrame(result)) > 0
    assert set(rows[0]) - {"source"} <= set(frame.columns)


def test_a_notebook_shows_a_headline_a_picture_and_the_table(result):
    html, picture = result._repr_html_(), result.plot()
    assert isinstance(picture, Picture)
    assert picture.caption
    assert 'src="data:image/svg+xml;base64,' in html
    assert "<table" in html
    assert len(repr(result)) < 200
    assert "array(" not in repr(result)


def test_a_value_is_only_ever_text(result):
    assert HOSTILE not in result._repr_html_()
    assert HOSTILE not in result.page()
