"""Alarms of half-hours: a year of them is compared at the same time of the week, and nothing else of it is read."""

import datetime as dt
import time
from dataclasses import replace

import numpy as np
import pytest

from overstory.collector.store import open_store
from overstory.console.alarms import find_alarms, read_history
from overstory.console.data import ConsoleData
from overstory.console.estimates.estimates import Estimates
from overstory.console.screens.series import ASK_AGAIN, SeriesQuery, SeriesScreen
from overstory.protocol.metrics.period import Period
from support.console_alarms import batch_of
from support.console_weeks import registry
from support.decoding import shared_estimates

NOW = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC).timestamp()
YEAR = 17_520


def half_hours():
    """Return a registry of a metric of half-hours and one of strings, whose estimates are decoded."""
    parsed = registry(candidates=3, grace=0)
    theme = replace(parsed["theme"], period=Period.parse("30 minutes"))
    return replace(parsed, metrics={"theme": theme, "pages": parsed["pages"]})


def batches(metric, periods, newest):
    """Yield 60 reports a period; from `newest` on, most of them are of another value."""
    usual, odd = np.repeat([0, 1], [50, 10]), np.repeat([0, 1], [10, 50])
    before, after = (batch_of(metric, newest, held, np.random.default_rng(3), b"") for held in (usual, odd))
    for period in periods:
        sent = after if period >= newest else before
        yield sent._replace(period=period, batch=period.to_bytes(16, "big"))


def console(folder, periods_of):
    """Return the pages of a store with reports of `periods_of(newest, lag)`."""
    metrics = half_hours()
    theme, newest = metrics["theme"], metrics["theme"].newest_final(NOW)
    with open_store(str(folder / "store.db"), create=True) as store:
        store.remember(metrics)
        store.add(list(batches(theme, periods_of(newest, 336), newest)))
        weeks = range(metrics["pages"].period.number(NOW) - 9, metrics["pages"].period.number(NOW))
        rng = np.random.default_rng(5)
        store.add([batch_of(metrics["pages"], week, np.zeros(200, int), rng, b"week%d" % week) for week in weeks])
    return ConsoleData(metrics, open_store(str(folder / "store.db")), lambda: NOW, shared_estimates(None))


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    data = console(tmp_path_factory.mktemp("year"), lambda newest, _: range(newest - YEAR + 1, newest + 1))
    with data.store:
        yield data
        data.decoder.close()


def test_a_year_of_half_hours_takes_well_under_a_second_and_only_what_is_compared_is_read(year, monkeypatch):
    history, counts, asked = read_history(year, year.registry["theme"]), year.store.counts, []

    def counting(metric, *wanted):
        answer = counts(metric, *wanted)
        asked.append((metric.id, len(answer)))
        return answer

    monkeypatch.setattr(year.store, "counts", counting)
    find_alarms(year)
    begin = time.process_time()
    assert find_alarms(year)
    assert time.process_time() - begin < 1.5, "13 s where every period asked which one is the newest"
    assert len(history.reports) == YEAR
    assert asked == 2 * [("theme", len(history.wanted())), ("pages", 9)]


def test_the_alarms_are_those_of_a_store_that_has_no_other_periods(year, tmp_path):
    def compared(newest, lag):
        recent = {newest - ago - lag * week for ago in range(3) for week in range(9)}
        return recent | {newest - lag * week for week in range(26 + 13)}

    fewer = console(tmp_path, compared)
    with fewer.store:
        few = [alarm.to_json() for alarm in find_alarms(fewer)]
        fewer.decoder.close()
    assert [alarm.to_json() for alarm in find_alarms(year)] == few
    assert ("step", "theme", "amber") in {(alarm["kind"], alarm["metric"], alarm["severity"]) for alarm in few}


def notices(view):
    return [block.text for block in view.blocks if type(block).__name__ == "Notice"]


def test_the_page_of_a_metric_shows_its_alarms_and_asks_again_while_others_are_decoded(year, monkeypatch):
    monkeypatch.setattr(year, "decoder", Estimates(patience=0.0))
    path, query = {"metric": "theme"}, SeriesQuery(first="2026-11-18")
    early = SeriesScreen().view(year, query, **path)
    assert notices(early)[0].startswith("Alarms are not there yet")
    assert early.refresh == ASK_AGAIN
    year.decoder.patience = None
    late = SeriesScreen().view(year, query, **path)
    year.decoder.close()
    assert notices(late)[0].startswith("Amber, step, 2026-11-18T10:30Z: ")
    assert late.refresh == 0
