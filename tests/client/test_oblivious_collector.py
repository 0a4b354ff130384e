"""A client, a relay that passes on, and the real collector's endpoint: what each answer of the collector becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overstory.client.state.rows import RowState
from overstory.collector.oblivious.opening import KeyRing
from overstory.protocol.metrics import MetricRegistry
from support.collector_in_process import NOW
from support.devices import Clock, device, rows_of
from support.oblivious_receiver import hop, passing_on
from support.sealed_reports import KEYS, METRICS, RING
from support.served import served

SERVER = "https://collector.example.com"  # nothing may be posted there: there is no such host
HIDDEN = replace(METRICS, metrics={"hidden": METRICS["hidden"]})


def sent_through(folder, registry: MetricRegistry, *, metrics: MetricRegistry = METRICS, ring: KeyRing | None = RING):
    """Return the row of a report that went through a relay to a collector, the device, and what the relay saw."""
    with (
        served(metrics=metrics, ring=ring, clock=lambda: NOW) as (_, (host, port)),
        hop(passing_on(f"http://{host}:{port}/v1/oblivious")) as (relay, seen),
    ):
        listed = replace(registry, oblivious=replace(registry.oblivious, relay=relay))
        client = device(folder, registry=listed, server=SERVER, spread=0.0, clock=Clock(NOW))
        assert client.record("hidden", "red") == "recorded"
        client.flush()
    (row,) = rows_of(client)
    return row, client, seen


@pytest.mark.parametrize(
    ("ring", "answer", "why"),
    [
        (KeyRing(KEYS[:1]), "relay: keys refused", "the collector refuses the registry's keys"),
        (None, None, "the answers are not a relay's"),
    ],
    ids=["the key was retired", "a collector without keys"],
)
def test_a_collector_that_cannot_open_the_message_keeps_it_waiting_and_status_says_so(tmp_path, ring, answer, why):
    row, client, _ = sent_through(tmp_path, HIDDEN, ring=ring)
    assert row.state is RowState.WAITING
    assert answer in {None, row.answer}
    assert client.status().relay.waits["hidden"].startswith(why)


def test_a_collector_that_does_not_list_the_metric_keeps_it_waiting_as_one_that_is_asked_directly(tmp_path):
    row, client, _ = sent_through(tmp_path, HIDDEN, metrics=replace(METRICS, metrics={"plain": METRICS["plain"]}))
    assert (row.state, row.answer) == (RowState.WAITING, "unknown-metric")
    assert client.status().problem.startswith("the collector refuses hidden (unknown-metric) since ")


def test_a_report_of_a_registry_in_which_the_metric_is_direct_is_refused_for_good(tmp_path):
    """Both sides' guards: a device whose registry is out of date posts directly, and the collector takes nothing."""
    direct = replace(METRICS["hidden"], transport="direct")
    with served(metrics=METRICS, ring=RING, clock=lambda: NOW) as (_, (host, port)):
        registry = replace(METRICS, metrics={"hidden": direct}, oblivious=None)
        client = device(tmp_path, registry=registry, server=f"http://{host}:{port}", spread=0.0, clock=Clock(NOW))
        client.record("hidden", "red")
        assert dict(client.flush().sent.dropped) == {"wrong-transport": 1}
