"""Every result of Python's functions shows itself alike: a table, a frame, a picture, a page and its notes."""

import csv
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest

import overstory
from overstory.discovery import CodedIntegers, Discovered, discover, find, simulate
from overstory.planning import plan_from_needs
from overstory.planning.kinds import plan_for_domain, plan_for_metric
from overstory.planning.yearly import YearPlan
from overstory.presentation.svg import Picture
from overstory.protocol.domains import Categories, Interval

NAMES = ["a", "b", "b", "<i>c</i>"] * 2_000
HOSTILE = "<script>x</script>"


def searched():
    plan = discover(epsilon=4.0, domain=CodedIntegers(16), step=8, beam=8)
    return find(plan, simulate(plan, np.array([7] * 600 + [4711] * 400), np.random.default_rng(1)))


def planned(metric, domain):
    return plan_for_metric(metric, domain, None, {"epsilon_report": 1.0}, 10_000)


RESULTS = {
    "survey": lambda: overstory.survey([HOSTILE, *NAMES], rng=1),
    "difference": lambda: overstory.difference(overstory.survey(NAMES, rng=1), overstory.survey(NAMES[:-800], rng=2)),
    "table": lambda: overstory.survey_table({"x": NAMES, HOSTILE: NAMES[::-1]}, epsilon=3, rng=1),
    "sets": lambda: overstory.survey_sets(["a;b", "b", HOSTILE] * 2_000, epsilon=4, rng=1),
    "mean": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, rng=1),
    "distribution": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, learn="distribution", rng=1),
    "ranges": lambda: overstory.survey_numbers(np.arange(8_000) % 90, 2, learn="ranges", rng=1),
    "search": searched,
    "plan for a domain": lambda: plan_for_domain(9, 1.0, 10_000, share=0.2),
    "plan by RAPPOR": lambda: plan_from_needs(1.0, 2.0, 10_000, 20),
    "plan of a year": lambda: YearPlan(10**6, 20, 4.0),
    "plan for a metric": lambda: planned("symbols", Categories(("a", HOSTILE))),
    "plan for numbers": lambda: planned("numbers", Interval(0, 3)),
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


def test_a_table_has_four_forms(result):
    latex, lines = result.table(form="latex"), result.table(form="markdown").splitlines()
    assert latex.count("\\begin{tabular}") == sum(line.startswith("|-") for line in lines) > 0
    assert len(list(csv.reader(io.StringIO(result.table(form="csv"))))) >= 2
    assert result.table() == result.table(form="text")


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
