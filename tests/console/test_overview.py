"""The board: every metric in a row, with its picture, what changed and its health, under the alarms."""

import datetime as dt
import re

import pytest

from overstory.collector.store import open_store
from overstory.console.data import ConsoleData
from overstory.console.screens import overview
from overstory.console.screens.overview import OverviewQuery, show_board
from overstory.console.screens.series import SeriesQuery, show_series
from overstory.presentation.document import Form, Heading, Notice, Paragraph, Preformatted, Table
from overstory.presentation.render_text import UNFOLDED, as_text
from overstory.protocol.metrics import load_registry
from overstory.protocol.metrics.period import DAY
from overstory.queries.counts import read_store
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import EstimateOptions
from support.console_alarms import TROUBLES
from support.console_alarms import make_store as troubled_store
from support.console_store import NOW, write_registry
from support.decoding import shared_estimates


@pytest.fixture(scope="module")
def data(console_data):
    return console_data


def shown(data, **query):
    return show_board(data, OverviewQuery(**query))


def rows_by_metric(view):
    return {row["metric"]: row for row in view.table.rows}


def test_every_metric_has_a_row_with_its_newest_period_that_takes_no_more_reports(data):
    rows = rows_by_metric(shown(data))
    assert list(rows) == ["over", "quiet", "theme", "home", "start"], "by title"
    assert (rows["theme"]["period"], rows["theme"]["state"]) == ("2026-W46", "final")
    assert (rows["quiet"]["period"], rows["quiet"]["state"], rows["quiet"]["newest"]) == (None, "no reports", "")
    assert rows["theme"]["reports"] == 8_000


@pytest.mark.parametrize("name", ["theme", "home", "over"])
def test_the_numbers_are_those_of_decode_for_the_same_period(data, name):
    metric, row = data.registry[name], rows_by_metric(shown(data))[name]
    period = metric.period.parse_label(row["period"])
    counted = read_store(data.store, metric, period, period)
    [part] = read_estimates(counted, "per-period", EstimateOptions(interval_kind="population")).parts
    first = part.estimate.rows(1)[0]
    share, low, high = (f"{first[end]:.1%}" for end in ("frequency", "frequency_low", "frequency_high"))
    assert row["newest"] == f"{first['value']} {share} ({low} to {high})"
    assert (row["detected"], row["candidates"]) == (part.estimate.detected().sum(), len(part.estimate))


def test_an_ended_metric_stays_marked(data):
    view = shown(data)
    [place] = [number for number, row in enumerate(view.table.rows) if row["metric"] == "over"]
    assert place in view.table.faint
    assert "ended 1 October" in as_text([view.table], UNFOLDED)


@pytest.mark.parametrize(
    ("sort", "first"), [("name", "over"), ("reports", "home"), ("detected", "home"), ("expiry", "over")]
)
def test_rows_are_sorted_by_a_field(data, sort, first):
    assert fields(view := shown(data, sort=sort))["sort"].value == sort
    assert view.table.rows[0]["metric"] == first


def fields(view):
    [form] = [block for block in view.blocks if isinstance(block, Form)]
    assert (form.method, form.action) == ("get", "/m/")
    return {field.name: field for field in form.fields}


@pytest.mark.parametrize(
    ("asked", "metrics"),
    [
        ({"owner": "Design team"}, ["theme"]),
        ({"owner": "O"}, ["over", "quiet", "home", "start"]),
        ({"search": "IN use built"}, ["theme"]),  # of its description; all words, in any order
        ({"search": "start"}, ["start"]),
        ({"search": "metric", "owner": "Design team"}, []),
        ({"search": "nowhere"}, []),
    ],
)
def test_metrics_are_chosen_by_their_owner_and_by_words(data, asked, metrics):
    view = shown(data, **asked)
    assert list(rows_by_metric(view)) == metrics
    assert {alarm["metric"] for alarm in view.facts["alarms"]} <= {None, *metrics}
    assert {name: fields(view)[name].value for name in asked} == asked
    assert {value for value, _ in fields(view)["owner"].choices} == {"", "Design team", "O"}
    heading = next(block for block in view.blocks if isinstance(block, Heading))
    assert heading.text.startswith(f"{len(metrics)} of 5 metric")
    chosen = rows_by_metric(view).items()
    assert all(row["told"] == rows_by_metric(shown(data))[name]["told"] for name, row in chosen), "the same tests"


def test_the_board_says_what_changed_since_the_release_and_draws_it(data):
    row = rows_by_metric(shown(data))["theme"]
    assert re.fullmatch(
        r"dark \+\d\.\d points since 3\.1\. No change against the week before that could be seen; a change of "
        r"\d+ points or more would have been\.",
        row["told"],
    )
    [said], heading = of_the_page(data, level=0.9)
    assert said == f"Week of 9 November: {row['told']}", "its own page says so"
    assert heading.endswith(", week of 9 November"), "though the week of 16 November runs and has reports"
    for asked in ({"first": "2026-W40"}, {"last": "2026-W46"}, {"pool": 2}, {"reports_per_device": 1.0}):
        assert of_the_page(data, **asked)[0] == [], "a further test, that the board's 5% do not hold for"
    picture = row["trend"].picture()
    assert picture.caption == "Shares of Colour theme, 3 August to 9 November"
    assert picture.svg.count("data-series=") == 3
    assert ">3.1</text>" in picture.svg
    assert row["health"] == "red: step; 8,000 reports, week of 9 November, final"
    assert "alert(2)" not in picture.svg


def of_the_page(data, **asked):
    blocks = show_series(data, SeriesQuery(**asked), metric="theme").blocks
    said = [block.text for block in blocks if isinstance(block, Paragraph) and block.text.startswith("Week of")]
    return said, next(block.text for block in blocks if isinstance(block, Heading))


def test_a_board_of_many_metrics_shows_some_and_its_files_have_all(data, monkeypatch):
    monkeypatch.setattr(overview, "MOST_ROWS", 2)
    view = shown(data)
    board, numbers = (block for block in view.blocks if isinstance(block, Table))
    assert [row["metric"] for row in board.rows] == [row["metric"] for row in numbers.rows] == ["over", "quiet"]
    assert any("3 more metrics" in block.text for block in view.blocks if isinstance(block, Paragraph))
    assert len(view.table.rows) == 5


def test_a_board_decodes_nothing_twice(data):
    shown(data)
    before = data.decoder.decoded
    shown(data)
    assert data.decoder.decoded == before


def test_a_store_without_reports_shows_how_to_send_the_first(tmp_path):
    registry = load_registry(write_registry(tmp_path))
    with open_store(str(tmp_path / "reports.db"), create=True) as store:
        view = shown(ConsoleData(registry, store, lambda: NOW))
        commands = [block.text for block in view.blocks if isinstance(block, Preformatted)]
        assert any("overstory simulate --registry" in text and store.url in text for text in commands)
        assert any('client.record("theme", value)' in text for text in commands)
    assert [row["reports"] for row in view.table.rows] == [0] * 5


def test_alarms_are_above_the_table_with_the_notes_that_may_explain_them(tmp_path):
    now = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC).timestamp()
    file, url = troubled_store(tmp_path, now, TROUBLES)
    registry = load_registry(file)
    with open_store(url) as store:
        store.remember(registry)
        store.add_note("Version 3 <b>is out", int(now // DAY) - 9, "release")
        store.add_note("long ago", int(now // DAY) - 30, "release", "step")
        made = ConsoleData(registry, store, lambda: now, shared_estimates(None))
        view = shown(made, sort="alarms")
        made.decoder.close()
    notices = [block for block in view.blocks if isinstance(block, Notice)]
    step = next(notice for notice in notices if ": step," in notice.text)
    assert re.fullmatch(
        r"Amber: step, Title of step, week of 9 November\. light -\d.*? points against the 8 periods before\.",
        step.text,
    )
    assert step.more[0].startswith("A release, another mix of devices, or the world")
    assert step.more[-1] == "Release of 9 November: Version 3 <b>is out."
    assert {notice.tone for notice in notices} == {"bad", "warn", "faint"}
    heading = next(block for block in view.blocks if isinstance(block, Heading))
    assert heading.text.startswith("5 metrics, alarms: ")
    assert view.table.rows[0]["metric"] == "fit"
    assert "amber: fit" in view.table.rows[0]["health"]
    assert [alarm["kind"] for alarm in view.facts["alarms"]]
    board = next(number for number, block in enumerate(view.blocks) if isinstance(block, Table))
    tones = [block.tone for block in view.blocks[:board] if isinstance(block, Notice)]
    assert set(tones) == {"bad", "warn"}, "notes are below the board"
