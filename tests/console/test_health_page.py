"""The page of an operator: reports against their median, refusals, collectors, the store; each from real rows."""

import random

import pytest

from overstory.collector.store import open_store
from overstory.collector.store.operations import CollectorState
from overstory.console.data import ConsoleData
from overstory.console.screens.overview import HealthQuery, show_health
from overstory.console.view import ScreenError, read_query
from overstory.presentation.document import Notice, Table
from overstory.presentation.render_html import as_html
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from overstory.protocol.wire.reasons import Reason
from support.console_in_process import SAME_ORIGIN, client_of, console_on, log_in
from support.console_store import NOW
from support.devices import Clock
from support.store_samples import received, reports

DAY = 86_400
TODAY = int(NOW) // DAY
REGISTRY = parse_registry(EXAMPLE)
COLOUR = REGISTRY["colour"]
WEEK = COLOUR.period.number(NOW)


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "store.db"), REGISTRY, create=True) as opened:
        yield opened


def show(store, **query):
    return show_health(ConsoleData(REGISTRY, store, lambda: NOW), HealthQuery(**query))


def notices(view):
    return [block.text for block in view.blocks if isinstance(block, Notice)]


def report(store, rng, by_week):
    for week, number in by_week.items():
        store.add([received(COLOUR, week, reports(COLOUR, number, rng))])
    store.compact(int(NOW))


@pytest.fixture
def rng():
    return random.Random(1)


def test_an_empty_store_says_what_is_missing(store):
    view = show(store)
    assert notices(view) == ["No collector has sent a heartbeat within a week."]
    page = as_html(view.blocks)
    assert "Nothing was refused in the last 14 days." in page


def test_a_collector_that_is_silent_for_a_minute_is_red_with_since_when(store):
    for name, age in (("aaaa0000", 60), ("bbbb0000", 61)):
        store.report_state(CollectorState(name, "0.2.0", int(NOW) - 900, int(NOW) - age, 0), {})
    view = show(store)
    assert view.blocks[0].text == "Health: 1 of 2 collectors answer"
    assert notices(view) == ["Collector bbbb0000 has been silent since 21 November, 11:58 UTC."]
    (table,) = (block for block in view.blocks if isinstance(block, Table) and block.caption.startswith("Collectors"))
    tones = {row["id"]: table.columns[1].tone(row["state"]) for row in table.rows}
    assert tones == {"aaaa0000": "good", "bbbb0000": "bad"}
    assert [state["silent"] for state in view.facts["collectors"]] == [False, True]


@pytest.mark.parametrize(("newest", "stands_out"), [(49, True), (50, False), (200, False), (201, True), (0, True)])
def test_a_period_is_compared_with_the_median_of_the_eight_before(store, rng, newest, stands_out):
    before = dict(zip(range(WEEK - 9, WEEK - 1), (100, 90, 110, 100, 5, 100, 300, 100), strict=True))
    report(store, rng, before | {WEEK - 1: newest, WEEK: 3})
    view = show(store)
    (row,) = view.table.rows
    assert (row["reports"], row["median"], row["running"]) == (newest, 100, 3)
    said = f"Favourite colour: {newest:,} reports in the week of 9 November, the median of the 8 periods before is 100."
    assert (said in notices(view)) == stands_out


def test_a_metric_that_is_younger_or_has_ended_stands_out_by_nothing(store, rng):
    report(store, rng, dict.fromkeys(range(WEEK - 5, WEEK - 1), 100))
    assert show(store).table.rows[0]["median"] is None
    report(store, rng, dict.fromkeys(range(WEEK - 12, WEEK - 5), 100))
    assert len(notices(show(store))) == 2
    ended = parse_registry(EXAMPLE.replace("2027-11-21", "2026-11-01"))
    view = show_health(ConsoleData(ended, store, lambda: NOW), HealthQuery())
    assert len(notices(view)) == 1


def test_refusals_are_by_day_and_by_metric_with_their_sentence_and_without_rows_of_zero(store):
    store.report_state(
        None,
        {
            (None, TODAY, "bits"): 3,
            (None, TODAY - 13, "cohort"): 2,
            (None, TODAY - 14, "damaged"): 1,
            (None, TODAY, "store"): 0,
            ("colour", WEEK, "bits"): 3,
            ("colour", WEEK - 9, "cohort"): 2,
            ("another", TODAY, "bits"): 1,
        },
    )
    view = show(store)
    assert [(row["day"], row["reason"], row["refused"]) for row in view.facts["refused_by_day"]] == [
        ("2026-11-21", "bits", 3),
        ("2026-11-08", "cohort", 2),
    ]
    assert view.facts["refused_by_day"][0]["detail"] == Reason.BITS.detail
    assert [(row["metric"], row["period"]) for row in view.facts["refused_by_metric"]] == [("colour", "2026-W47")]
    assert len(show(store, days=15).facts["refused_by_day"]) == 3
    with pytest.raises(ScreenError, match="days: Input should be less than or equal to 400"):
        read_query(HealthQuery, [("days", "401")])


def test_an_analyst_writes_and_removes_notes_and_a_viewer_reads_them(store):
    console = console_on(store, registry=REGISTRY, clock=Clock(NOW))
    analyst, viewer = client_of(console), client_of(console)
    log_in(analyst, console.gate.sessions.make_link("analyst"))
    log_in(viewer, console.gate.sessions.make_link("viewer"))
    note = {"text": "<b>=cmd()</b>", "day": "2026-11-16", "kind": "release", "metric": "colour"}
    answer = analyst.post("/health", data=note, headers=SAME_ORIGIN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/health#notes")
    (stored,) = store.notes("colour")
    assert {**stored.to_json(), "id": ""} == {**note, "id": ""}
    page = viewer.get("/health").text
    assert "&lt;b&gt;=cmd()&lt;/b&gt;" in page
    assert "<b>=cmd()" not in page
    assert ("Add the note" in page, "Add the note" in analyst.get("/health").text) == (False, True)
    assert viewer.post("/health", data=note, headers=SAME_ORIGIN).status_code == 403
    assert analyst.post("/health", data=note, headers={"sec-fetch-site": "same-site"}).status_code == 403
    assert len(store.notes()) == 1
    removing = analyst.post("/health", data={"note": stored.id}, headers=SAME_ORIGIN)
    assert (removing.status_code, store.notes()) == (303, [])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"day": "2026-W47"}, "day: give a date such as 2026-11-21"),
        ({"text": ""}, "A note has 1 to 500 characters"),
        ({"kind": "rumour"}, "A note is of kind release, incident or note"),
        ({"metric": "tree"}, "The store remembers no metric tree"),
        ({"note": "00"}, "There is no note 00"),
    ],
)
def test_a_note_that_makes_no_sense_is_a_page_that_says_so(store, change, why):
    console = console_on(store, registry=REGISTRY, clock=Clock(NOW))
    client = client_of(console)
    log_in(client, console.gate.sessions.make_link("admin"))
    answer = client.post("/health", data={"text": "x", "day": "2026-11-16"} | change, headers=SAME_ORIGIN)
    assert (answer.status_code, why in answer.text or why.capitalize() in answer.text) == (400, True)
    assert store.notes() == []
