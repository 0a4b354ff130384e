"""The page of counts: what is asked, what is refused, and bounds of an answer."""

import json
import random

import httpx
import pytest

from overstory.collector import server
from overstory.collector.store import open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from overstory.queries.counts import read_store
from overstory.queries.sources import remote
from overstory.queries.sources.remote import RemoteError, read_remote
from support.registry_texts import COLOURS, registry_of
from support.running import within
from support.served import served
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


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("tree/counts?colour=red", "colour: this page has no such parameter"),
        ("tree/counts?candidates=x", "candidates: this page has no such parameter"),
        ("tree/counts?from=2026-11-21&from=2026-11-22", "from: give it once"),
    ],
)
def test_what_is_unknown_or_malformed_is_refused_with_a_reason(metrics, url, path, detail):
    (page,) = pages_of(metrics, url, path)
    assert (page.status_code, page.json()["reason"]) == (400, "parameters")
    assert detail in page.json()["detail"]


def test_an_answer_is_bounded_and_says_what_to_ask_instead(metrics, url, monkeypatch):
    with pytest.raises(ParameterError, match="an answer has at most 10,000,000"):
        server.check_counts(metrics["tree"], 10_000_000)
    monkeypatch.setattr(server, "MOST_COUNTS", 100)
    page, one = pages_of(metrics, url, "bloom/counts", "colour/counts")
    assert (page.status_code, one.status_code) == (400, 200)
    assert "overstory decode --store" in page.json()["detail"]


# Counts over HTTP: which range is meant, and what to do where a range cannot be read
HALF_HOURLY = parse_registry(EXAMPLE.replace('period = "week"', 'period = "30 minutes"'))
PERIOD = 20_000


def test_a_day_names_all_of_its_shorter_periods(tmp_path):
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


def test_what_can_never_be_read_is_no_trouble_that_passes(tmp_path):
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


# Groups over HTTP: a collector's counts by group, as the library and `decode` read them
GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
REGISTRY = parse_registry(
    registry_of({"colour": {"groups": GROUPS}}, domain=COLOURS, expires="2099-01-01", version="2")
)
METRIC = REGISTRY["colour"]
SENT = {"1.0": 12, "1.1": 8, "0.9": 3}


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    url, rng = str(tmp_path_factory.mktemp("served") / "store.db"), random.Random(1)
    with open_store(url, REGISTRY, create=True) as store:
        store.add([received(METRIC, 20_000, reports(METRIC, n, rng))._replace(group=g) for g, n in SENT.items()])
        token = store.add_token("admin", "test")
        with served(store=store, metrics=REGISTRY) as (_, (host, port)):
            yield url, f"http://{host}:{port}", token


def test_each_group_is_counted_apart_and_read_as_from_the_store(collector, tmp_path, monkeypatch):
    store_url, url, token = collector
    read = {group: read_remote(url, token, METRIC, group=group) for group in (None, "1.0", "1.1", "other")}
    sizes = {group: counted.num_reports for group, counted in read.items()}
    assert sizes == {None: 23, "1.0": 12, "1.1": 8, "other": 3}
    with open_store(store_url) as store:
        for group, counted in read.items():
            assert counted.to_json() == read_store(store, METRIC, group=group).to_json()
    monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", token)
    ran = within("decode", "--store", url, "--metric", "colour", "--by-group", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    parts = json.loads(ran.stdout)["groups"]
    assert [(part["group"], part["reports"]) for part in parts] == [("1.0", 12), ("1.1", 8), ("other", 3)]


def test_the_page_of_counts_takes_a_group(collector):
    _, url, token = collector

    def page(query):
        asked = f"{url}/v1/metrics/colour/counts{query}"
        answer = httpx.get(asked, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        return answer.status_code, answer.json()

    status, answer = page("?group=1.1")
    assert (status, answer["group"], answer["reports"]) == (200, "1.1", 8)
    status, answer = page("")
    assert (status, answer["reports"], "group" in answer) == (200, 23, False)
    status, answer = page("?group=3%0A")
    assert (status, answer["reason"]) == (400, "parameters")


def test_an_answer_of_another_group_is_noticed(collector, monkeypatch):
    _, url, token = collector
    fetch = remote._fetch_json
    monkeypatch.setattr(remote, "_fetch_json", lambda address, *rest: fetch(address.partition("?")[0], *rest))
    with pytest.raises(RemoteError, match=r"the answer is of the group None: upgrade the collector"):
        read_remote(url, token, METRIC, group="1.1")
