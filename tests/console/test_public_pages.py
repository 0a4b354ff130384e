"""The public pages: open to everybody, complete, and without any number of a metric that is not published."""

import json
from dataclasses import replace
from html import escape

import pytest

from overstory.console.data import ConsoleData
from overstory.console.screens.public import show_about, show_collected, show_registry
from overstory.console.view import Query
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.tables import ObliviousRoute
from overstory.queries.counts import read_store
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import EstimateOptions
from support.console_in_process import client_of, console_on
from support.console_store import NOW
from support.devices import Clock

UNPUBLISHED = ("start", "over", "quiet")
PUBLISHED = ("theme", "home")


@pytest.fixture(scope="module")
def client(console_data):
    console = console_on(console_data.store, registry=console_data.registry, clock=Clock(NOW))
    console.data = console_data
    return client_of(console)


def about(data, name):
    return show_about(data, Query(), metric=name)


def test_the_page_of_a_metric_says_through_which_relay_its_reports_go(console_data):
    metrics = console_data.registry
    route = ObliviousRoute("https://relay.example.net/", "Example Relays", bytes(4))
    oblivious = replace(metrics["start"], transport="oblivious")
    registry = replace(metrics, metrics={**metrics, "start": oblivious}, oblivious=route)
    client = client_of(console_on(console_data.store, registry=registry, clock=Clock(NOW)))
    page, direct = (client.get(f"/about/{name}").text for name in ("start", "quiet"))
    assert "through the relay https://relay.example.net/, run by Example Relays. The relay sees the address" in page
    assert "relay" not in direct
    assert client.get("/about/start.json").json()["facts"]["How reports travel"].startswith("encrypted for the coll")


class Refusing:
    def __init__(self, store, allowed):
        self._store, self._allowed = store, allowed

    def __getattr__(self, name):
        method = getattr(self._store, name)

        def asked(metric, *arguments):
            assert getattr(metric, "id", metric) in self._allowed, f"{name} of {metric}"
            return method(metric, *arguments)

        return asked


def test_nobody_has_to_log_in_and_pages_may_be_kept_for_five_minutes(client):
    for path in ("/", "/about/theme", "/about/start", "/registry", "/index.json", "/about/theme.csv"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "max-age=300"), path
        assert "set-cookie" not in answer.headers
    assert client.get("/health").status_code == 401


def test_nothing_of_an_unpublished_metric_is_read(console_data):
    data = ConsoleData(
        console_data.registry, Refusing(console_data.store, PUBLISHED), lambda: NOW, console_data.decoder
    )
    show_collected(data, Query())
    for name in data.registry:
        about(data, name)
    show_registry(data, Query())
    with pytest.raises(AssertionError, match="tally of theme"):  # and the store notices
        about(ConsoleData(data.registry, Refusing(console_data.store, ()), lambda: NOW), "theme")


def test_what_is_not_published_says_so(client):
    for name in UNPUBLISHED:
        page = client.get(f"/about/{name}")
        assert "Results are not published." in page.text
        assert client.get(f"/about/{name}.csv").status_code == 404
        assert client.get(f"/about/{name}.json").json()["results"] == "Results are not published."
    rows = {row["metric"]: row["results"] for row in table_rows(client)}
    assert rows == dict.fromkeys(UNPUBLISHED, "not published") | dict.fromkeys(PUBLISHED, "published")


def table_rows(client):
    answer = client.get("/index.json").json()
    return [{"metric": name["id"], **row} for name, row in zip(answer["metrics"], answer["rows"], strict=True)]


def test_the_numbers_of_page_and_files_are_those_of_one_estimate(client, console_data):
    metric = console_data.registry["theme"]
    week = metric.period.number(NOW) - 1  # the running week is not published
    series = read_estimates(
        read_store(console_data.store, metric, week, week), "total", EstimateOptions(interval_kind="population")
    )
    answer = client.get("/about/theme.json").json()
    assert answer["results"]["from"] == answer["results"]["to"] == metric.period.label(week)
    assert answer["results"]["interval"] == "population"
    rows = series.parts[0].estimate.rows()
    ends = dict.fromkeys(("from", "to"), metric.period.label(week))
    for shown, row in zip(answer["rows"], rows, strict=True):
        assert shown == {key: ({**row, **ends})[key] for key in shown}
    page = client.get("/about/theme").text
    for row in rows:
        if row["detected"]:
            assert f"{row['frequency_low']:.2%} to {row['frequency_high']:.2%}" in page
    assert f"Detected: {sum(row['detected'] for row in rows)} of {len(rows)}" in page


FRONT = (
    "adds random noise",
    "How to stop it",
    "&lt;b&gt;Send statistics&lt;/b&gt;",
    "https://example.org/issues/2",
    "Design team",
    "at most one report per device per week",
    "by a factor of at most 2.72 (epsilon 1)",
    "1 June 2027",
    "&lt;script&gt;",
    ">ended<",
)
ABOUT = ("What it costs a person", "rests on", "[1] ", "How to stop it", "Published")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("/", FRONT),
        ("/about/theme", ABOUT),
        ("/about/over", ("It ended on 1 October 2026: nothing is recorded any more.",)),
        ("/about/thema", ("did you mean theme?",)),
    ],
)
def test_a_page_says_what_why_who_how_often_until_when_and_how_to_stop(client, console_data, address, shown):
    page = client.get(address).text
    described = (escape(metric.description) for metric in console_data.registry.values() if address == "/")
    assert [words for words in (*shown, *described) if words not in page] == []
    assert "<script>alert" not in page


def test_the_registry_is_there_as_toml_and_json_with_its_digest(client, console_data):
    digest = console_data.registry.digest.hex()
    page = client.get("/registry").text
    assert digest in page
    assert "[metrics.theme]" in page
    answer = client.get("/registry.json").json()
    assert answer["digest"] == digest
    assert [metric["id"] for metric in answer["metrics"]] == sorted(console_data.registry)
    assert client.get("/index.json").json()["digest"] == digest
    file = client.get("/registry.toml")
    assert (file.text, file.headers["content-type"]) == (console_data.registry.text, "application/toml")
    assert [client.get(page).status_code for page in ("/about/theme.toml", "/registry.csv")] == [404, 404]


def test_without_a_period_that_is_final_a_page_says_when_the_next_one_is(console_data):
    quiet = parse_registry(console_data.registry.text + 'publish = "estimates"\n')
    data = ConsoleData(quiet, console_data.store, lambda: NOW)
    view = about(data, "quiet")
    assert view.facts["results"] == (
        "No period is published now. The week of 19 October 2026 is next, on 25 November 2026, 01:00 UTC, if at least "
        "100 reports of it came."
    )
    assert json.dumps(view.facts)
