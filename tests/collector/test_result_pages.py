"""The pages of counts and estimates: every choice of the command line, what is refused, and bounds of an answer."""

import csv
import io
import json
import random

import pytest

from overstory.collector.http import results
from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from overstory.queries import streams
from overstory.queries.counts import read_store, with_sums
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import EstimateOptions
from overstory.queries.streams import Deferred, TooLargeError, check_cells, check_counts
from support.store_samples import DAY, NOW, pages_of, received, registry, reports

PERIODS = range(20_000, 20_004)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    return registry(folder=tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def url(metrics, tmp_path_factory):
    url, rng = str(tmp_path_factory.mktemp("store") / "store.db"), random.Random(1)
    with open_store(url, metrics, create=True) as store:
        for name in ("tree", "colour", "bloom"):
            store.add([received(metrics[name], period, reports(metrics[name], 60, rng)) for period in PERIODS])
    return url


LISTED = "candidates=ash&candidates=a%20%26b"
NAMES = {"candidates": ("ash", "a &b")}
CHOICES = [
    ("tree", "", {}, "total", None),
    ("tree", "reading=per-period&limit=1", {}, "per-period", 1),
    ("tree", "reading=cumulative&reports_per_device=1.5", {"reports_per_device": 1.5}, "cumulative", None),
    ("tree", "alpha=.2&correction=bonferroni", {"alpha": 0.2, "correction": "bonferroni"}, "total", None),
    ("bloom", LISTED, NAMES, "total", None),
    ("bloom", f"{LISTED}&method=lasso&reading=per-period", {**NAMES, "method": "lasso"}, "per-period", None),
    (
        "bloom",
        f"{LISTED}&complete=true&interval=population",
        {**NAMES, "complete": True, "interval_kind": "population"},
        "total",
        None,
    ),
    ("colour", "steps=base-cut,norm-sub", {"steps": ("base-cut", "norm-sub")}, "total", None),
]


@pytest.mark.parametrize(("name", "query", "options", "reading", "limit"), CHOICES)
def test_every_choice_of_the_command_line_is_one_of_the_page(metrics, url, name, query, options, reading, limit):
    pages = pages_of(metrics, url, f"{name}/estimates?{query}", f"{name}/estimates?{query}&format=csv")
    with open_store(url, metrics) as store:
        series = read_estimates(read_store(store, metrics[name]), reading, EstimateOptions(**options))
    assert [page.status_code for page in pages] == [200, 200]
    assert pages[0].json() == json.loads(json.dumps({**series.to_json(limit), "level": 0.95}))
    assert pages[1].text == "".join(series.csv_lines(limit))
    assert pages[0].headers["content-type"] == "application/json"


def test_a_level_is_obeyed_and_named(metrics, url):
    wide, usual, table = pages_of(
        metrics, url, *(f"colour/estimates?{q}" for q in ("level=.99", "", "level=.99&format=csv"))
    )
    assert (wide.json()["level"], usual.json()["level"]) == (0.99, 0.95)
    first, other = (page.json()["readings"][0]["estimates"][0] for page in (wide, usual))
    assert first["high"] - first["low"] > 1.3 * (other["high"] - other["low"])
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert float(rows[0]["prop_high_99"]) == pytest.approx(first["frequency_high"], rel=1e-9)


def test_counts_are_written_as_the_library_writes_them(metrics, url):
    pages = pages_of(metrics, url, *(f"tree/counts?format={form}" for form in ("json", "csv")))
    with open_store(url, metrics) as store:
        counted = with_sums(store, read_store(store, metrics["tree"]))
    assert pages[0].json() == counted.to_json()
    assert list(pages[0].json()) == list(counted.to_json())
    assert pages[1].text == "".join(counted.csv_lines())


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("tree/estimates?colour=red", "colour: this page has no such parameter"),
        ("tree/counts?candidates=x", "candidates: this page has no such parameter"),
        ("tree/counts?reading=total", "reading: this page has no such parameter"),
        ("tree/estimates?alpha=2", "alpha: "),
        ("tree/estimates?alpha=nan", "alpha: "),
        ("tree/estimates?alpha=.1&alpha=.2", "alpha: give it once"),
        ("tree/estimates?level=1", "level: "),
        ("tree/estimates?limit=0", "limit: "),
        ("tree/estimates?limit=many", "limit: "),
        ("tree/estimates?complete=perhaps", "complete: "),
        ("tree/estimates?correction=none", "correction: "),
        ("tree/estimates?method=em", "method: "),
        ("tree/estimates?interval=both", "interval: "),
        ("tree/estimates?reading=weekly", "reading: "),
        ("tree/estimates?format=xml", "format: "),
        ("tree/estimates?reports_per_device=.5", "reports_per_device: "),
        ("tree/estimates?reports_per_device=9", "9 reports per device, but there are reports in 4 periods"),
        ("tree/estimates?reports_per_device=2&reading=per-period", "in one period a device reports once"),
        ("tree/estimates?steps=magic", "there is no post-processing step 'magic'"),
        ("colour/estimates?candidates=x", "other candidates cannot be looked for"),
        ("colour/estimates?method=lasso", "a method or complete list is for Bloom"),
        ("tree/estimates?from=yesterday", "yesterday"),
    ],
)
def test_what_is_unknown_or_malformed_is_refused_with_a_reason(metrics, url, path, detail):
    (page,) = pages_of(metrics, url, path)
    assert (page.status_code, page.json()["reason"]) == (400, "parameters")
    assert detail in page.json()["detail"]


def test_without_a_token_nothing_is_said_of_parameters(metrics, url):
    pages = pages_of(metrics, url, "tree/estimates", "tree/estimates?colour=red", "tree/counts", token=False)
    assert [page.status_code for page in pages] == [401, 401, 401]


def test_an_answer_is_bounded_and_says_what_to_ask_instead(metrics, url, monkeypatch):
    monkeypatch.setattr(streams, "MOST_CELLS", 80)
    paths = ("tree/estimates?reading=per-period", "tree/estimates?reading=per-period&limit=1", "tree/estimates")
    refused, *taken = pages_of(metrics, url, *paths)
    assert refused.status_code == 400
    detail = refused.json()["detail"]
    assert "and the most is 80" in detail
    assert "fewer periods at once (from=, to=), for the 1 most frequent values of each (limit=1)" in detail
    assert "reading=total" in detail
    assert [page.status_code for page in taken] == [200, 200]
    monkeypatch.setattr(streams, "MOST_COUNTS", 100)
    page, one = pages_of(metrics, url, "bloom/counts", "colour/counts")
    assert (page.status_code, one.status_code) == (400, 200)
    assert "overstory decode --store" in page.json()["detail"]


def test_a_year_of_half_hours_of_a_hundred_values_is_refused(metrics):
    """It was an answer of 698 MB; two years of weeks with 300 candidates are not too much."""
    with pytest.raises(TooLargeError, match="make an answer of 35,040,000 cells"):
        check_cells(100, 17_520, None)
    check_cells(300, 104, None)
    check_cells(100, 17_520, 3)
    with pytest.raises(TooLargeError, match="answer rests on at most 10,000,000"):
        check_counts(metrics["tree"], 10_000_000)


def test_much_is_decoded_in_another_process_with_the_same_answer(metrics, url, monkeypatch):
    path = "tree/estimates?reading=per-period"
    (here,) = pages_of(metrics, url, path)
    monkeypatch.setattr(results, "FEW_VALUES", 0)
    started = []
    monkeypatch.setattr(Deferred, "compute", started.append)  # this process computes nothing
    there, table = pages_of(metrics, url, path, f"{path}&format=csv")
    assert there.content == here.content
    assert table.status_code == 200
    assert started == []


def test_pieces_come_one_by_one(metrics, url):
    """No piece holds more than one period: memory does not grow with the range."""
    with open_store(url, metrics) as store:
        counted = with_sums(store, read_store(store, metrics["tree"]))
    answer = streams.estimates_answer(counted, "per-period", EstimateOptions(), streams.Shape("csv"))
    assert [piece.ends["from"] for piece in answer.pieces] == [counted.label(period) for period in PERIODS]
    assert all(piece.text().count("\n") == len(metrics["tree"].labels) for piece in answer.pieces)


# Counts and estimates over HTTP: which range is meant, and what to do where a range cannot be read


HALF_HOURLY = parse_registry(EXAMPLE.replace('period = "week"', 'period = "30 minutes"'))
PERIOD = 20_000


def test_a_day_names_all_of_its_shorter_periods(tmp_path) -> None:
    url, metric, rng = str(tmp_path / "store.db"), HALF_HOURLY["colour"], random.Random(1)
    with open_store(url, HALF_HOURLY, create=True) as store:
        store.add([received(metric, 48 * PERIOD + at, reports(metric, 10, rng)) for at in (-1, 0, 47, 48)])
    day, half_hour = metric.period.label(48 * PERIOD)[:10], metric.period.label(48 * PERIOD)
    whole, one, wrong = pages_of(
        HALF_HOURLY,
        url,
        *(f"colour/counts?from={first}&to={last}" for first, last in ((day, day), (half_hour,) * 2, (day, 7))),
    )
    assert (whole.status_code, whole.json()["reports"]) == (200, 20)
    assert (one.status_code, one.json()["reports"]) == (200, 10)
    assert (wrong.status_code, wrong.json()["reason"]) == (400, "parameters")


def test_what_can_never_be_read_is_no_trouble_that_passes(tmp_path) -> None:
    first, second = registry(folder=tmp_path), registry(candidates=("yew", "oak", "elm"), folder=tmp_path)
    url = str(tmp_path / "store.db")
    with open_store(url, first, create=True) as store:
        store.add([received(first["tree"], PERIOD, reports(first["tree"], 30, random.Random(8)))])
        store.compact(NOW)
        store.retain(NOW + 1000 * DAY)
    (answer,) = pages_of(second, url, "tree/counts")
    assert answer.status_code == 400
    assert "retry-after" not in answer.headers
    assert "its reports were counted for another list of candidates" in answer.json()["detail"]


HOSTILE = ("=cmd|'/C calc'!A0", "@SUM(1)", "+1+1", "-2+3", 'a"=b', "-5", "ash", "a\rb")


def test_no_cell_for_a_spreadsheet_is_a_formula(tmp_path) -> None:
    metrics = registry(candidates=HOSTILE, folder=tmp_path)
    url = str(tmp_path / "store.db")
    with open_store(url, metrics, create=True) as store:
        store.add([received(metrics["tree"], PERIOD, reports(metrics["tree"], 30, random.Random(8)))])
    paths = [f"tree/{page}?format={form}" for page in ("counts", "estimates") for form in ("csv", "spreadsheet")]
    tables = [list(csv.reader(io.StringIO(answer.text, newline=""))) for answer in pages_of(metrics, url, *paths)]
    for plain, inert in (tables[:2], tables[2:]):
        cells = [cell for row in inert for cell in row]
        assert {f"'{value}" for value in HOSTILE[:4]} | set(HOSTILE[4:]) <= set(cells)
        assert not any(cell.startswith(("=", "@", "+", "\t", "\r")) for cell in cells)
        assert [[cell.removeprefix("'") for cell in row] for row in inert] == plain
