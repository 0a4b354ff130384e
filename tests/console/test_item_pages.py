"""The console shows a metric of sets as it shows any: every page of it, and the numbers of the command line."""

import json
import re

import pytest

from overstory.queries.counts import read_store
from overstory.queries.estimates import EstimateOptions
from overstory.queries.readings import read
from support.console_in_process import analyst_of
from support.console_store import store_of_days

NOW = 1_795_262_400.0  # 2026-11-21 12:00 UTC
DAY = "2026-11-20"
PLUGINS = (
    '{kind = "set", of = ["adblock", "grammar", "vpn", "dark mode", "e", "f", "g", "h"], most = 3, other = "another"}'
)
SETS = {
    "sampled": {"domain": PLUGINS, "oracle": '"padding-and-sampling"', "parameters": "{epsilon = 3.0}"},
    "bits": {"domain": PLUGINS, "oracle": '"item-bits"', "parameters": "{epsilon = 9.0}"},
}
HELD = [(), (0,), (0, 2), (1, 2, 3), (0, 4)]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with store_of_days(tmp_path_factory.mktemp("store"), SETS, HELD, NOW) as made:
        yield made


@pytest.fixture(scope="module")
def client(store):
    with analyst_of(*store, NOW) as browser:
        yield browser


@pytest.mark.parametrize("metric", SETS)
@pytest.mark.parametrize("page", ["/m/{}", f"/m/{{}}/{DAY}", "/m/{}/privacy", "/m/{}/compare", "/about/{}"])
def test_every_page_of_the_metric_answers(client, metric, page):
    answer = client.get(page.format(metric))
    assert answer.status_code == 200, answer.text[:2000]
    assert metric in answer.text


@pytest.mark.parametrize("metric", SETS)
def test_a_period_shows_the_numbers_of_decode(client, store, metric):
    registry, made = store
    built = registry[metric]
    number = built.period.parse_label(DAY)
    series = read(read_store(made, built, number, number), "total", EstimateOptions(interval_kind="population"))
    expected = {row["value"]: row for row in series.to_json()["readings"][0]["estimates"]}
    rows = {row["string"]: row for row in json.loads(client.get(f"/m/{metric}/{DAY}.json").text)["rows"]}
    assert set(rows) == set(expected) == set(built.labels)
    for value, row in rows.items():
        assert row["raw_estimate"] == pytest.approx(expected[value]["raw_count"])
    page = re.sub("<[^>]*>", "", client.get(f"/m/{metric}/{DAY}").text)
    assert "A set of more than 3 items counts as 3 items" in page
    assert re.search(r"(?i)items of a device: \d\.\d\d on average", page)


@pytest.mark.parametrize("metric", SETS)
def test_items_that_are_not_drawn_are_not_added_up(client, metric):
    """Shares of items need not add up to 1: "other" would be no share of devices."""
    page = client.get(f"/m/{metric}").text
    assert "adblock" in page
    assert "adds up" not in page


def test_the_overview_lists_the_metrics(client):
    page = client.get("/").text
    assert all(metric in page for metric in SETS)
