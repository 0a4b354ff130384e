"""Pages of tables, sets, searches and numbers, and of a panel: words, the command line's numbers, files, a browser."""

import csv
import io
import json
import re
from contextlib import closing
from html import unescape
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from overstory.console.data import ConsoleData
from support.console_browser import NARROW, axe_violations, logged_in, served_console
from support.console_in_process import analyst_of
from support.console_readings import BEFORE, DAY, DAYS, DEVICES, METRICS, NOW, READINGS, make_reading_store
from support.decoding import shared_estimates
from support.devices import Clock
from support.running import within

MOST_BYTES = 300_000
each_metric = pytest.mark.parametrize("metric", METRICS)


@pytest.fixture(scope="module")
def data(folder):
    registry, store = make_reading_store(folder)
    with store:
        decoder = shared_estimates(120)
        yield ConsoleData(registry, store, Clock(NOW), decoder)
        decoder.close()


def words_of(html):
    return unescape(re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html)))


@each_metric
@pytest.mark.parametrize("path", ["/m/{}", "/m/{}/" + DAY, "/m/{}/compare", "/about/{}"])
def test_every_page_of_a_metric_answers(client, metric, path):
    page = client.get(path.format(metric))
    assert page.status_code == 200, page.text
    assert "<script>alert" not in page.text
    assert len(page.content) < MOST_BYTES


def rows_of(answer):
    for part in answer.get("readings", [answer]):
        ends = {name: part[name] for name in ("from", "to") if "readings" in answer}
        rows = part.get("estimates") or part.get("differences")
        for table in part.get("tables", [{"variables": (), "cells": rows}]):
            names = dict(zip(("row_variable", "column_variable"), table["variables"], strict=False))
            yield from ({**ends, **names, **row} for row in table["cells"])


RANGES = {DAY: ("--from", DAY, "--to", DAY), "compare": ("--compare", DAY, BEFORE)}
FILES = [(metric, page) for metric in METRICS for page in RANGES if (metric, page) != ("port", "compare")]
"""What two searches found is not compared on a page."""


@pytest.mark.parametrize(("metric", "page"), FILES)
def test_files_of_every_kind_have_the_rows_of_decode(client, folder, metric, page):
    """Their names and all their digits, in each form; a label that looks like a number stays a text."""
    command = ("decode", "--store", "readings.db", "--registry", "metrics.toml", "--metric", metric)
    options = (*command, *RANGES[page], "--interval", "population")
    printed, written = (within(*options, *form, cwd=folder).stdout for form in (("--json", "--all"), ("-o", "-")))
    facts = client.get(f"/m/{metric}/{page}.json").json()
    rows, expected = facts["rows"], list(rows_of(json.loads(printed)))
    assert facts["metric"] == metric
    assert rows
    assert rows == [{name: row[name] for name in rows[0]} for row in expected]
    shown = list(csv.reader(io.StringIO(client.get(f"/m/{metric}/{page}.csv").text)))
    assert [[cell.lstrip("'") for cell in row] for row in shown] == list(csv.reader(io.StringIO(written)))
    assert pq.read_table(io.BytesIO(client.get(f"/m/{metric}/{page}.parquet").content)).to_pylist() == rows


@each_metric
def test_a_series_has_every_period_and_its_picture(client, metric):
    rows = list(csv.DictReader(io.StringIO(client.get(f"/m/{metric}.csv").text)))
    assert rows
    if READINGS[metric] != "search":  # a device answers once: all periods together
        assert len({row["from"] for row in rows}) == 3
    ET.fromstring(client.get(f"/m/{metric}.svg").text)
    assert f"/m/{metric}/{DAY}" in client.get(f"/m/{metric}").text


RANGES_SHOWN = "Share of the devices in each range"
KINDS = ("a table of several variables", "sets of items", "a search for values that nobody listed", "a mean")
PARTS_OF_A_TABLE = (
    "crash <b> in each version",
    "version and crash <b> together",
    "depend on each other: chi-square",
    "Cramer's V",
    "Each variable by itself",
    "more than in all rows",
)
SHOWS = [  # address, status, what it shows, what it does not
    ("/m/", 200, KINDS, "cannot be computed"),
    (f"/m/crashes/{DAY}", 200, PARTS_OF_A_TABLE, ""),
    ("/m/start", 200, ("The mean of each day",), RANGES_SHOWN),
    ("/m/load", 200, ("The mean of each day", RANGES_SHOWN), "The median of each day"),
    ("/m/age", 200, ("The median of each day", RANGES_SHOWN), "The mean of each day"),
    ("/m/plugins", 200, ("adblock",), "adds up"),  # shares of items need not add up to 1
    (f"/m/plugins/{DAY}", 200, ("A set of more than 2 items counts as 2 items", "tems of a device: 1."), ""),
    ("/m/port", 200, (" 80 ", " 443 ", f"in {DEVICES} answers"), ""),
    ("/m/crashes/compare", 200, ("version=1.0, crash <b>=yes", "<b>=yes in version=3.0", "No change is visible"), ""),
    ("/m/plugins/compare", 200, ("adblock",), ""),
    ("/m/port/compare", 200, ("are not compared on a page",), ""),
    ("/m/crashes?values=1.0", 400, ("values: crashes is a table of several variables, whose page has no such",), ""),
    (f"/m/plugins/{DAY}?candidates=oak", 400, ("candidates: plugins is sets of items",), ""),
    ("/m/port?reports_per_device=2", 400, ("a number of reports per device does not apply to it",), ""),
]


@pytest.mark.parametrize(("address", "status", "shown", "left_out"), SHOWS)
def test_a_page_of_each_kind_has_its_own_words_and_pictures(client, address, status, shown, left_out):
    page = client.get(address)
    assert page.status_code == status
    text = words_of(page.text)
    assert [words for words in shown if words not in text] == []
    assert not left_out or left_out not in text


def test_the_picture_of_a_table_colours_the_cell_that_differs(client):
    drawing = ET.fromstring(client.get(f"/m/crashes/{DAY}.svg").text)
    coloured = [path for path in drawing.iter() if path.get("data-cell") == "2 1"]
    assert [path.get("fill") for path in coloured] == ["#0072b2"], "version 3.0 crashes more often"


PANEL = 'panel = {cycle = "year", answers = 1}\n'
EVERYBODY = 367 * len(METRICS)  # for each device that is asked on a day


@pytest.fixture(scope="module")
def of_panel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panel")
    registry, store = make_reading_store(folder, PANEL)
    with store, closing(shared_estimates(120)) as decoder:
        yield analyst_of(ConsoleData(registry, store, Clock(NOW), decoder)), folder


@each_metric
@pytest.mark.parametrize("path", ["/m/{}", "/m/{}/" + DAY, "/about/{}"])
def test_a_page_of_a_panel_says_once_who_is_asked_and_what_an_interval_is_of(of_panel, metric, path):
    page = of_panel[0].get(path.format(metric))
    assert page.status_code == 200, page.text
    text = words_of(re.sub("<svg.*?</svg>|<figcaption.*?>", " ", page.text))
    assert text.count(f"each day 1 of {EVERYBODY:,} devices is asked") == 1
    assert re.search(r"about [\d,]+ were active in a day \(95% interval [\d,]+ to [\d,]+\)", text)
    assert text.count("of all devices like these (noise") == 1


@each_metric
def test_decode_says_the_same_of_a_panel_and_its_files_have_it(of_panel, metric):
    client, folder = of_panel
    command = ("decode", "--store", "readings.db", "--registry", "metrics.toml", "--metric", metric)
    text, printed = (within(*command, *form, cwd=folder).stdout for form in ((), ("--json",)))
    assert (text.count(f"each day 1 of {EVERYBODY:,}"), text.count("all devices like these")) == (1, 1)
    told = json.loads(printed)
    assert told["interval"] == "population"
    assert client.get(f"/m/{metric}.json").json()["devices"] == told["devices"]
    assert told["devices"]["low"] < DEVICES / DAYS * EVERYBODY < told["devices"]["high"]
    if READINGS[metric] != "search":
        written = within(*command, "--pool", "2", "-o", "-", cwd=folder).stdout
        assert client.get(f"/m/{metric}.csv?pool=2").text.replace("'", "") == written.replace("'", "")


def test_a_series_of_a_panel_says_what_is_pooled_how_many_devices_there_are_and_what_a_year_costs(of_panel):
    assert "Each share is of a period and the 1 before it" in words_of(of_panel[0].get("/m/colour?pool=2").text)
    text = words_of(of_panel[0].get("/m/colour").text)
    assert re.search(rf"Devices in the newest period \([\d,]+ to [\d,]+\) {DEVICES // DAYS * EVERYBODY:,}", text)
    assert "Epsilon, any year 3 " in text
    assert "share noise" not in words_of(of_panel[0].get(f"/m/colour/compare?a={DAY}&b={BEFORE}").text)


PATHS = ("/m/{}", "/m/{}/" + DAY)


@pytest.fixture(scope="module")
def served(data):
    with served_console(data) as serving:
        yield serving


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    "metric", ["crashes", *(pytest.param(name, marks=pytest.mark.slow) for name in list(METRICS)[1:])]
)
def test_in_a_browser_everybody_can_read_it(browser, served, metric, scheme):
    with logged_in(browser, served, scheme=scheme) as reading:
        for path in PATHS:
            reading.problems.clear()
            assert reading.open(path.format(metric)).status == 200
            assert axe_violations(reading.page) == []
            assert reading.problems == []


@pytest.mark.browser
def test_on_a_phone_a_table_is_not_cut_off_and_the_keyboard_reads_its_picture(browser, served):
    with logged_in(browser, served, width=NARROW) as reading:
        reading.open(f"/m/crashes/{DAY}")
        assert reading.page.evaluate("document.documentElement.scrollWidth") <= NARROW
    with logged_in(browser, served) as reading:
        reading.open(f"/m/crashes/{DAY}")
        figure = reading.page.locator("figure").first
        figure.focus()
        for _ in range(3):
            reading.page.keyboard.press("ArrowDown")
        said = figure.locator("output").inner_text()
        assert re.match(r"3\.0: no [\d.]+% \([\d.]+ to [\d.]+%\); yes [\d.]+%", said)
