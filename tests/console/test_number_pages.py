"""The console shows metrics of numbers: a histogram, means over time, and the numbers of the command line."""

import json

import pytest

from overstory.queries.counts import read_store
from overstory.queries.estimates import EstimateOptions
from overstory.queries.readings import read
from support.console_in_process import analyst_of
from support.console_store import store_of_days

NOW = 1_795_262_400.0  # 2026-11-21 12:00 UTC
DAY = "2026-11-20"
ROOM = '{kind = "interval", min = -10, max = 50}'
NUMBERS = {
    "mean": {"domain": ROOM, "oracle": '"hybrid"', "parameters": "{epsilon = 3.0, resolution = 60}"},
    "wave": {"domain": ROOM, "oracle": '"square-wave"', "parameters": "{epsilon = 3.0, resolution = 60}"},
    "ages": {
        "domain": '{kind = "integers", min = 0, max = 39}',
        "oracle": '"ranges"',
        "parameters": "{epsilon = 3.0}",
    },
}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with store_of_days(tmp_path_factory.mktemp("store"), NUMBERS, range(30), NOW) as made:
        yield made


@pytest.fixture(scope="module")
def client(store):
    with analyst_of(*store, NOW) as browser:
        yield browser


@pytest.mark.parametrize("metric", NUMBERS)
@pytest.mark.parametrize("page", ["/m/{}", f"/m/{{}}/{DAY}", "/m/{}/privacy", "/m/{}/compare", "/about/{}"])
def test_every_page_of_the_metric_answers(client, metric, page):
    answer = client.get(page.format(metric))
    assert answer.status_code == 200, answer.text[:2000]
    assert metric in answer.text


@pytest.mark.parametrize(
    ("metric", "words"),
    [("mean", "The mean of each day"), ("wave", "The mean of each day"), ("ages", "The median of each day")],
)
def test_a_page_has_the_picture_of_all_periods(client, metric, words):
    text = client.get(f"/m/{metric}").text
    assert words in text
    assert ("Share of the devices in each range" in text) == (metric != "mean")


@pytest.mark.parametrize("metric", NUMBERS)
def test_the_page_of_a_period_has_the_numbers_of_the_command_line(client, store, metric):
    registry, made = store
    number = registry[metric].period.parse_label(DAY)
    reading = read(read_store(made, registry[metric], number, number), "total", EstimateOptions())
    text = client.get(f"/m/{metric}/{DAY}").text
    for row in reading.parts[0].estimate.quantities[:3]:
        shown = row.value if isinstance(row.value, str) else f"{row.value:.4g}"
        assert f"{row.value:.2%}" in text if row.kind == "share" else shown in text
    answer = json.loads(client.get(f"/m/{metric}/{DAY}.json").text)
    assert json.dumps(answer)


def test_the_overview_lists_them(client):
    text = client.get("/").text
    assert all(metric in text for metric in NUMBERS)
