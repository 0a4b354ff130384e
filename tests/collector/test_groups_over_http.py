"""Two groups end to end: clients with a group, a collector as a process, counts by group over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from overstory.client import Client, Outcome
from overstory.client.state.rows import RowState
from overstory.client.state.state import State
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from overstory.queries.counts import read_store
from overstory.queries.sources.remote import RemoteError, read_remote
from support.collector_processes import CollectorProcess
from support.registry_texts import COLOURS, registry_of
from support.running import within

GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
DEVICES = {"1.0": 12, "1.1": 8, "0.9": 3}


@pytest.fixture(scope="module")
def served(tmp_path_factory: Any) -> Any:
    """A collector with the reports of 23 devices; the folder, its address, an admin token, and the answers."""
    folder: Path = tmp_path_factory.mktemp("served")
    text = registry_of({"colour": {"groups": GROUPS}}, domain=COLOURS, expires="2099-01-01", version="2")
    (folder / "metrics.toml").write_text(text)
    (folder / "newer.toml").write_text(text.replace('"1.1" = 0.3', '"1.1" = 0.2, "2.0" = 0.1'))
    store = str(folder / "store.db")
    with open_store(store, load_registry(folder / "metrics.toml"), create=True) as made:
        token = made.add_token("admin", "test")
    with CollectorProcess(folder / "metrics.toml", store) as process:
        url = process.url
        for group, number in DEVICES.items():
            for device in range(number):
                send(folder / f"{group}-{device}", folder / "metrics.toml", url, group)
        yield folder, url, token


def send(state: Path, registry: Path, url: str, group: str) -> dict[RowState, int]:
    """Record and send one report; return what became of it."""
    settings: Any = {"state": state, "server": url, "spread": 0.0, "environ": {}, "groups": {"release": group}}
    with Client("colours", registry=registry, policy=state / "none.json", **settings) as client:
        client.consent("on")
        assert client.record("colour", "red") is Outcome.RECORDED
        client.flush(10)
        with State(client.paths).snapshot() as rows:
            return {state: number for state, number in rows.outbox.tally().items() if number}


def test_the_collector_counts_each_group_of_the_devices_apart(served: Any) -> None:
    folder, url, token = served
    metric = load_registry(folder / "metrics.toml")["colour"]
    read = {group: read_remote(url, token, metric, group=group) for group in (None, "1.0", "1.1", "other")}
    assert {group: counted.num_reports for group, counted in read.items()} == {
        None: 23,
        "1.0": 12,
        "1.1": 8,
        "other": 3,
    }
    assert all(counted.group == group for group, counted in read.items())
    total = sum(counted.counts[counted.periods[0]].ones for group, counted in read.items() if group is not None)
    assert (total == read[None].counts[read[None].periods[0]].ones).all()
    with open_store(str(folder / "store.db")) as store:
        stored = read_store(store, metric, group="1.1")
    assert stored.to_json() == read["1.1"].to_json()


def test_decode_reads_groups_from_a_collector(served: Any, monkeypatch: Any) -> None:
    folder, url, token = served
    monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", token)
    ran = within("decode", "--store", url, "--metric", "colour", "--by-group", "--json", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    parts = json.loads(ran.stdout)["groups"]
    assert [(part["group"], part["reports"]) for part in parts] == [("1.0", 12), ("1.1", 8), ("other", 3)]


def page(url: str, token: str, path: str) -> Any:
    answer = httpx.get(f"{url}{path}", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    return answer.status_code, answer.json()


def test_the_page_of_counts_takes_a_group(served: Any) -> None:
    _, url, token = served
    counts = "/v1/metrics/colour/counts"
    status, answer = page(url, token, f"{counts}?group=1.1")
    assert (status, answer["group"], answer["reports"]) == (200, "1.1", 8)
    status, answer = page(url, token, counts)
    assert (status, answer["reports"], "group" in answer) == (200, 23, False)
    status, answer = page(url, token, f"{counts}?group=3%0A")
    assert (status, answer["reason"]) == (400, "parameters")
    assert page(url, token, "/v1/metrics/colour")[1]["groups"]["by"] == "release"


def test_a_device_with_a_newer_list_waits_for_the_collector(served: Any) -> None:
    """Its metric has another digest and the same mechanism: what it sends is refused by its group alone."""
    folder, url, _ = served
    assert send(folder / "newer", folder / "newer.toml", url, "2.0") == {RowState.WAITING: 1}
    assert send(folder / "newer-1.1", folder / "newer.toml", url, "1.1") == {RowState.SENT: 1}


def test_an_answer_of_another_group_is_noticed(served: Any, monkeypatch: Any) -> None:
    """An earlier collector does not know the parameter; this one refuses it, and any answer is checked."""
    folder, url, token = served
    from overstory.queries.sources import remote

    metric = load_registry(folder / "metrics.toml")["colour"]
    fetch = remote._fetch_json
    monkeypatch.setattr(remote, "_fetch_json", lambda address, *rest: fetch(address.partition("?")[0], *rest))
    with pytest.raises(RemoteError, match=r"the answer is of the group None: upgrade the collector"):
        read_remote(url, token, metric, group="1.1")
