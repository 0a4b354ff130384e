"""The comparison of two ranges on a page: the numbers of the command line, the releases, and what is refused."""

import datetime as dt
import json
import re

import pytest

from overstory.collector.store import open_store
from overstory.console.data import ConsoleData
from overstory.console.screens.period import ComparisonQuery, show_comparison
from overstory.console.view import ScreenError, read_query
from overstory.presentation.document import Figure, Form, Heading, KeyValues, Lines, Link, Notice
from overstory.presentation.render_html import as_html
from overstory.protocol.errors import ParameterError
from support.compared_store import MONDAY, make, write_registry
from support.decoding import shared_estimates
from support.running import within

A, B = "2026-11-19..2026-11-21", "2026-11-16..2026-11-18"
NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC).timestamp()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("compared")
    make(path)
    return path


@pytest.fixture(scope="module")
def data(folder):
    registry = write_registry(folder, 2.0)
    with open_store(str(folder / "reports-2-1.db"), registry) as store:
        store.add_note("1.4 <b>with</b> a new menu", MONDAY + 2, "release")
        store.add_note("1.5", MONDAY + 5, "release")
        store.add_note("power cut", MONDAY + 2, "incident")
        decoder = shared_estimates(None)
        yield ConsoleData(registry, store, lambda: NOW, decoder)
        decoder.close()


def view(data, **query):
    return show_comparison(data, read_query(ComparisonQuery, query.items()), metric="theme")


def texts(view, kind):
    return [block for block in view.blocks if isinstance(block, kind)]


def test_the_facts_are_those_of_the_command_line(data, folder):
    stored = ("--store", "reports-2-1.db", "--registry", "metrics-2.toml", "--metric", "theme")
    printed = json.loads(within("decode", *stored, "--compare", A, B, "--json", cwd=folder).stdout)
    del printed["differences"], printed["title"]
    assert json.loads(json.dumps(dict(view(data, a=A, b=B).facts))) == printed


def test_what_changed_is_a_sentence_a_test_and_a_picture(data):
    shown = view(data, a=A, b=B)
    assert texts(shown, Notice)[0].text.startswith("Changed, in percentage points: dark +")
    assert texts(shown, Lines)[0].texts[1].startswith("Test that nothing changed at all: p = ")
    assert texts(shown, Figure)[0].picture == shown.picture
    assert "dark" in shown.picture.alt
    page = as_html(shown.blocks)
    assert "of all devices like these" in page
    assert "keep their values share noise" in page
    assert "21 November (over; final from " in page
    same = view(data, a="2026-11-17", b="2026-11-16")
    assert texts(same, Notice)[0].text.startswith("No change is visible; a change of ")
    assert "Reports in a, 19 November to 21 November" in dict(texts(shown, KeyValues)[0].pairs)


def test_without_ranges_the_newest_period_that_is_over_is_compared_with_the_one_before(data):
    shown = view(data)
    assert texts(shown, Heading)[0].text == "Theme: 21 November against 20 November"
    fields = {field.name: field.value for field in texts(shown, Form)[0].fields}
    assert (fields["a"], fields["b"], fields["interval"]) == ("2026-11-21", "2026-11-20", "population")


def test_a_release_with_reports_on_both_sides_is_offered_without_its_own_day(data):
    shown = view(data, a=A, b=B)
    [release] = texts(shown, Link)
    assert release.text == "1.4 <b>with</b> a new menu"
    assert release.address == "/m/theme/compare?a=2026-11-19..2026-11-22&b=2026-11-14..2026-11-17"
    assert "<b>with" not in as_html(shown.blocks)


def test_options_are_obeyed(data):
    usual, reports = (
        view(data, a=A, b=B, reports_per_device="1", **more) for more in ({}, {"interval": "reports", "alpha": "0.01"})
    )
    error = [shown.table.rows[0]["standard_error"] for shown in (usual, reports)]
    assert error[1] < error[0]
    assert (reports.facts["interval"], reports.facts["alpha"]) == ("reports", 0.01)


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ({"a": A}, "b: give both ranges"),
        ({"a": "x..y", "b": B}, "'x'"),
        ({"a": "2026-11-19..", "b": B}, "is no range of periods"),
        ({"a": A, "b": B, "interval": "both"}, "interval: "),
        ({"a": A, "b": B, "colour": "red"}, "colour: this page has no such parameter"),
        ({"a": A, "b": B, "reports_per_device": "9"}, "9 reports per device"),
    ],
)
def test_a_malformed_address_is_refused_with_a_reason(data, query, detail):
    with pytest.raises((ParameterError, ScreenError), match=re.escape(detail)):
        view(data, **query)


def test_ranges_that_cannot_be_compared_are_refused_and_can_be_changed(data):
    for query, reason in (
        ({"a": A, "b": "2026-11-18..2026-11-20"}, "Both ranges hold 2026-11-19"),
        ({"a": "2026-12-01", "b": B}, "2026-12-01 has no reports of theme"),
    ):
        shown = view(data, **query)
        assert shown.status == 400
        assert reason in texts(shown, Notice)[0].text
        assert {field.name: field.value for field in texts(shown, Form)[0].fields}["a"] == query["a"]
        assert shown.table is None


def test_a_metric_without_reports_has_an_empty_state(tmp_path):
    registry = write_registry(tmp_path, 2.0)
    with open_store(str(tmp_path / "empty.db"), registry, create=True) as store:
        shown = view(ConsoleData(registry, store, lambda: NOW))
    assert shown.status == 200
    assert texts(shown, Notice)[0].text.startswith("There are reports in fewer than two periods")
