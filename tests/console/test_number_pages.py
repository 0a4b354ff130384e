"""The console shows metrics of numbers: a histogram, means over time, and the numbers of the command line."""

import json

import numpy as np
import pytest

from overstory.analysis.support.registry import SimulatedDevices
from overstory.collector.store import open_store
from overstory.console.data import ConsoleData
from overstory.protocol.metrics import load_registry
from overstory.queries.counts import read_store
from overstory.queries.estimates import EstimateOptions
from overstory.queries.readings import read
from support.console_in_process import Clock, client_of, console_on, log_in
from support.console_store import add_batch
from support.decoding import shared_estimates
from support.registry_texts import registry_of

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
    folder = tmp_path_factory.mktemp("numbers")
    path = folder / "metrics.toml"
    path.write_text(registry_of(NUMBERS, max_values="3", publish='"estimates"', opt_out="", expires="2999-01-01"))
    text = path.read_text().replace("opt_out = \n", "")
    path.write_text(text.replace('registry = "1"', 'registry = "1"\nopt_out = "Settings"'))
    registry, rng = load_registry(path), np.random.default_rng(4)
    with open_store(str(folder / "store.db"), registry, create=True) as made:
        for metric in registry.metrics.values():
            for days_ago in range(4):
                held = rng.integers(0, 30, 4000).astype(np.int32)
                devices = SimulatedDevices.holding(metric.mechanism, range(30), held, rng)
                add_batch(made, metric, metric.period.number(NOW) - days_ago, devices.report())
        made.compact(int(NOW))
        yield registry, made


@pytest.fixture(scope="module")
def client(store):
    registry, made = store
    decoder = shared_estimates(120)
    console = console_on(made, clock=Clock(NOW))
    console.data = ConsoleData(registry, made, Clock(NOW), decoder)
    browser = client_of(console)
    log_in(browser, console.gate.sessions.make_link("analyst"))
    yield browser
    decoder.close()


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
