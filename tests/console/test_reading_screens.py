"""Pages of tables, sets, searches and numbers: right words, the numbers of the command line, files, and a browser."""

import csv
import io
import json
import re
from xml.etree import ElementTree as ET

import pyarrow.parquet as pq
import pytest

from overstory.console.data import ConsoleData
from overstory.queries.counts import read_store
from overstory.queries.readings import read
from support.console_browser import NARROW, axe_violations, logged_in, served_console
from support.console_readings import BEFORE, DAY, DEVICES, METRICS, NOW, READINGS, make_reading_store
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


def words_of(page):
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", page.text))


def test_the_store_has_each_kind_of_reading(data):
    assert {name: metric.reading for name, metric in data.registry.items()} == READINGS


def test_the_overview_says_what_each_metric_is(client):
    text = words_of(client.get("/m/"))
    for words in ("a table of several variables", "sets of items", "a search for values that nobody listed", "a mean"):
        assert words in text
    assert "cannot be computed" not in text


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


def test_the_page_of_a_table_has_its_picture_its_test_its_rows_and_its_marginals(client):
    page = client.get(f"/m/crashes/{DAY}")
    text = words_of(page)
    for words in (
        "crash &lt;b&gt; in each version",
        "version and crash &lt;b&gt; together",
        "depend on each other: chi-square",
        "Cramer's V",
        "Each variable by itself",
        "more than in all rows",
    ):
        assert words in text.replace("&#39;", "'").replace("&#x27;", "'"), words
    drawing = ET.fromstring(client.get(f"/m/crashes/{DAY}.svg").text)
    coloured = [path for path in drawing.iter() if path.get("data-cell") == "2 1"]
    assert [path.get("fill") for path in coloured] == ["#0072b2"], "version 3.0 crashes more often"


@pytest.mark.parametrize(
    ("page", "shown", "left_out"),
    [
        ("start", "The mean of each day", "Share of the devices in each range"),
        ("load", "The mean of each day", "The median of each day"),
        ("load", "Share of the devices in each range", ""),
        ("age", "The median of each day", "The mean of each day"),
        ("age", "Share of the devices in each range", ""),
        ("plugins", "adblock", "adds up"),  # shares of items need not add up to 1
        (f"plugins/{DAY}", "A set of more than 2 items counts as 2 items", ""),
        (f"plugins/{DAY}", "tems of a device: 1.", ""),
    ],
)
def test_pages_of_numbers_and_sets_have_their_own_words_and_pictures(client, page, shown, left_out):
    text = words_of(client.get(f"/m/{page}"))
    assert shown in text
    assert not left_out or left_out not in text


@pytest.mark.parametrize("metric", ["start", "load", "age"])
def test_the_page_of_a_period_has_the_numbers_that_decode_prints(client, data, metric):
    period = data.registry[metric].period.parse_label(DAY)
    reading = read(read_store(data.store, data.registry[metric], period, period))
    text = words_of(client.get(f"/m/{metric}/{DAY}"))
    for row in reading.parts[0].estimate.quantities[:3]:
        shown = row.value if isinstance(row.value, str) else f"{row.value:.4g}"
        assert f"{row.value:.2%}" in text if row.kind == "share" else shown in text


def test_a_search_finds_on_the_page_what_devices_hold(client):
    text = words_of(client.get("/m/port"))
    assert re.search(r"\b443\b.*\b80\b|\b80\b.*\b443\b", text)
    assert f"in {DEVICES} answers" in text


def test_what_a_reading_has_not_is_refused_with_a_reason(client):
    for address, words in (
        ("/m/crashes?values=1.0", "values: crashes is a table of several variables, whose page has no such choice"),
        (f"/m/plugins/{DAY}?candidates=oak", "candidates: plugins is sets of items"),
        ("/m/port?reports_per_device=2", "have no meaning for it"),
    ):
        page = client.get(address)
        assert page.status_code == 400
        assert words in words_of(page)
    assert "are not compared on a page" in words_of(client.get("/m/port/compare"))


def test_two_periods_of_tables_and_sets_are_compared(client):
    words = words_of(client.get("/m/crashes/compare"))
    assert "version=1.0, crash &lt;b&gt;=yes" in words
    assert "crash &lt;b&gt;=yes in version=3.0" in words
    assert "No change is visible" in words
    assert "adblock" in words_of(client.get("/m/plugins/compare"))
    rows = list(csv.DictReader(io.StringIO(client.get("/m/crashes/compare.csv").text)))
    assert len(rows) == 12
    assert {row["changed"] for row in rows} == {"false"}


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
