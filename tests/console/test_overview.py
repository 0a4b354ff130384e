"""The overview: every metric in a row, under the alarms."""

import datetime as dt

import pytest

from overstory.collector.store import open_store
from overstory.console.data import ConsoleData
from overstory.console.screens.overview import OverviewQuery, OverviewScreen
from overstory.presentation.document import Heading, Links, Notice, Preformatted
from overstory.presentation.formats import percent
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
    return OverviewScreen().view(data, OverviewQuery(**query))


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
    assert row["newest"].startswith(f"{first['value']} {percent(first['frequency'])} (")
    assert percent(first["frequency_low"]) in row["newest"]
    assert (row["detected"], row["candidates"]) == (part.estimate.detected().sum(), len(part.estimate))
    if name == "home":
        assert row["unlisted"] == part.estimate.unallocated / part.estimate.num_reports


def test_an_ended_metric_stays_marked(data):
    view = shown(data)
    [place] = [number for number, row in enumerate(view.table.rows) if row["metric"] == "over"]
    assert place in view.table.faint
    assert "ended 2026-10-01" in as_text([view.table], UNFOLDED)


@pytest.mark.parametrize(
    ("sort", "first"), [("title", "over"), ("reports", "home"), ("detected", "home"), ("expires", "over")]
)
def test_rows_are_sorted_by_links(data, sort, first):
    view = shown(data, sort=sort)
    assert view.table.rows[0]["metric"] == first
    [links] = [block for block in view.blocks if isinstance(block, Links)]
    assert dict(links.places)["Name"] == "/m/"
    assert dict(links.places)["Reports"] == "/m/?sort=reports"
    assert links.current in dict(links.places)


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
    step = next(notice.text for notice in notices if ": step," in notice.text)
    assert step.startswith("Amber: step, Title of step, 2026-W46. light -")
    assert step.endswith("Release of 2026-11-09: Version 3 <b>is out.")
    assert {notice.tone for notice in notices} == {"bad", "warn", "faint"}
    heading = next(block for block in view.blocks if isinstance(block, Heading))
    assert heading.text.startswith("5 metrics, alarms: ")
    assert view.table.rows[0]["metric"] == "fit"
    assert view.table.rows[0]["fit"] == "past limits"
    assert [alarm["kind"] for alarm in view.facts["alarms"]]
    places = [number for number, block in enumerate(view.blocks) if block in (notices[-1], view.table)]
    assert places == sorted(places)
