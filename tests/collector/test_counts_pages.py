"""Counts and estimates over HTTP: which range is meant, and what to do where a range cannot be read."""

import csv
import io
import random

from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.store_samples import DAY, NOW, pages_of, received, registry, reports

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
