"""A client that is rolled out before its collector is ready for it loses nothing (finding A1), over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from overstory.client import Client
from overstory.protocol.metrics import MetricRegistry
from support.collector_in_process import DAY, METRICS, NOW, FakeStore
from support.served import served

BEFORE = MetricRegistry({name: METRICS[name] for name in ("bloom", "colour")}, "before")
OTHER = MetricRegistry({"hashed": METRICS["hashed"], "chosen": METRICS["chosen"]}, "other")


class Device:
    """A client of today's registry that has recorded, and a clock that is set by hand."""

    def __init__(self, folder: Path, *metrics: str) -> None:
        self.folder, self.now = folder, NOW
        with self.client(None) as client:
            client.consent("on")
            for metric in metrics:
                assert client.record(metric, "red" if metric == "colour" else 7) == "recorded"

    def client(self, address: Any, path: str = "", token: str = "") -> Client:
        server = None if address is None else f"http://{address[0]}:{address[1]}{path}"
        return Client(
            "rollout",
            registry=METRICS,
            server=server,
            token=token,
            state=self.folder / "state",
            clock=lambda: self.now,
            environ={},
            policy=self.folder / "no-policy.json",
            spread=0,
        )

    def flush(self, address: Any, path: str = "", token: str = "") -> Any:
        """Send what is due, a day after the last time; return the status."""
        with self.client(address, path, token) as client:
            client.flush()
            status = client.status()
        self.now += DAY
        return status


def test_a_client_that_comes_before_its_metrics_loses_no_report(tmp_path: Path) -> None:
    device, store = Device(tmp_path, "colour", "hashed", "chosen"), FakeStore()
    with served(store=store, metrics=BEFORE) as (_, address):
        status = device.flush(address)
    assert {one.metric for one in store.kept.values()} == {"colour"}
    assert (status.outbox["waiting"], status.dropped) == (2, {})
    assert status.problem == "the collector refuses chosen, hashed (unknown-metric) since 2026-11-21"
    with served(store=store, port=address[1]) as (_, address):
        for _ in range(3):
            status = device.flush(address)
    assert {one.metric for one in store.kept.values()} == {"colour", "hashed", "chosen"}
    assert (status.outbox["waiting"], status.outbox["sent"], status.problem) == (0, 3, None)


def test_a_token_that_is_wrong_and_a_path_that_is_mistyped_lose_no_report(tmp_path: Path) -> None:
    device, store = Device(tmp_path, "colour"), FakeStore()
    problems = []
    with served(store=store, open_writes=False) as (_, address):
        problems += [device.flush(address).problem, device.flush(address, token="wrong").problem]
    with served(store=store, port=address[1]) as (_, address):
        problems += [device.flush(address, path="/typo").problem, device.flush(address).problem]
    assert problems == [
        "the collector refuses (no-token) since 2026-11-21",
        "the collector refuses (unknown-token) since 2026-11-22",
        "the answers are not the collector's (http-404, not-found) since 2026-11-23",
        None,
    ]
    assert [one.metric for one in store.kept.values()] == ["colour"]
