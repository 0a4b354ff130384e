"""Groups over HTTP: a collector's counts by group, as the library and `decode` read them."""

import json
import random
from typing import Any

import httpx
import pytest

from overstory.collector.store import open_store
from overstory.protocol.metrics import parse_registry
from overstory.queries.counts import read_store
from overstory.queries.sources import remote
from overstory.queries.sources.remote import RemoteError, read_remote
from support.registry_texts import COLOURS, registry_of
from support.running import within
from support.served import served
from support.store_samples import received, reports

GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
REGISTRY = parse_registry(
    registry_of({"colour": {"groups": GROUPS}}, domain=COLOURS, expires="2099-01-01", version="2")
)
METRIC = REGISTRY["colour"]
SENT = {"1.0": 12, "1.1": 8, "0.9": 3}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: Any) -> Any:
    """A collector with the reports of 23 devices: its store, its address, an admin token."""
    url, rng = str(tmp_path_factory.mktemp("served") / "store.db"), random.Random(1)
    with open_store(url, REGISTRY, create=True) as store:
        store.add([received(METRIC, 20_000, reports(METRIC, n, rng))._replace(group=g) for g, n in SENT.items()])
        token = store.add_token("admin", "test")
        with served(store=store, metrics=REGISTRY) as (_, (host, port)):
            yield url, f"http://{host}:{port}", token


def test_each_group_is_counted_apart_and_read_as_from_the_store(
    collector: Any, tmp_path: Any, monkeypatch: Any
) -> None:
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


def test_the_page_of_counts_takes_a_group(collector: Any) -> None:
    _, url, token = collector

    def page(query: str) -> tuple[int, Any]:
        asked = f"{url}/v1/metrics/colour/counts{query}"
        answer = httpx.get(asked, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
        return answer.status_code, answer.json()

    status, answer = page("?group=1.1")
    assert (status, answer["group"], answer["reports"]) == (200, "1.1", 8)
    status, answer = page("")
    assert (status, answer["reports"], "group" in answer) == (200, 23, False)
    status, answer = page("?group=3%0A")
    assert (status, answer["reason"]) == (400, "parameters")


def test_an_answer_of_another_group_is_noticed(collector: Any, monkeypatch: Any) -> None:
    _, url, token = collector
    fetch = remote._fetch_json
    monkeypatch.setattr(remote, "_fetch_json", lambda address, *rest: fetch(address.partition("?")[0], *rest))
    with pytest.raises(RemoteError, match=r"the answer is of the group None: upgrade the collector"):
        read_remote(url, token, METRIC, group="1.1")
