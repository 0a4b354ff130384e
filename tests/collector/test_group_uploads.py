"""Uploads that name a group: which a collector takes, and that the fast path tells groups apart."""

from __future__ import annotations

from typing import Any

import pytest

from overstory.collector.ingest.ingest import JSON, Ingest
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from support.collector_in_process import NOW, TODAY, batch_id, packed, sound
from support.registry_texts import COLOURS, registry_of

GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
REGISTRY = parse_registry(registry_of({"grouped": {"domain": COLOURS, "groups": GROUPS}, "plain": {"domain": COLOURS}}))


def body(group: str, metric: str = "grouped") -> bytes:
    reports = packed(REGISTRY[metric], sound(REGISTRY[metric], 1))
    return encode_upload(Upload(batch_id(), metric, TODAY, reports, group))


def decided(ingest: Ingest, raw: bytes) -> Any:
    return ingest.decide(raw, MEDIA_TYPE, NOW)


@pytest.mark.parametrize("group", ["1.0", "1.1", "other", ""])
def test_a_listed_group_is_taken_and_so_is_a_report_that_names_none(group: str) -> None:
    """Devices with the registry of before the groups name none: their reports go on to count."""
    decision = decided(Ingest(REGISTRY), body(group))
    assert [received.group for received in decision.received] == [group]
    assert decision.results[0].reason is None


@pytest.mark.parametrize(
    ("metric", "group"), [("grouped", "1.2"), ("grouped", "1"), ("plain", "1.0"), ("plain", "other")]
)
def test_a_group_that_the_metric_does_not_list_is_refused_by_a_reason_of_its_own(metric: str, group: str) -> None:
    decision = decided(Ingest(REGISTRY), body(group, metric))
    assert decision.received == []
    assert [result.reason for result in decision.results] == [Reason.UNKNOWN_GROUP]
    assert (Reason.UNKNOWN_GROUP.status, Reason.UNKNOWN_GROUP.final) == (409, False), "a device waits for the operator"


def test_an_unlisted_group_does_not_stop_the_other_uploads_of_a_request() -> None:
    decision = decided(Ingest(REGISTRY), body("1.0") + body("1.2") + body("other") + body("", "plain"))
    assert [result.reason for result in decision.results] == [None, Reason.UNKNOWN_GROUP, None, None]
    assert [received.group for received in decision.received] == ["1.0", "other", ""]


@pytest.mark.parametrize("spoiled", [b"1\0", b"1\n", b"\x1b1", b" 1", b"=1", b"\xc3\xa9", b"1" * 33])
def test_a_group_that_cannot_travel_is_damaged(spoiled: bytes) -> None:
    raw = body("1.0", "grouped")
    changed = raw[:7] + bytes((len(spoiled),)) + raw[8:39] + spoiled + raw[42:]
    decision = decided(Ingest(REGISTRY), changed)
    assert (decision.refused, decision.received) == (Reason.DAMAGED, [])
    assert "is no group" in decision.where


def test_the_fast_path_names_the_group_of_each_upload() -> None:
    ingest = Ingest(REGISTRY)
    for group in ("1.0", "1.1", "", "other") * 2:  # the second time each has a template
        decision = decided(ingest, body(group))
        assert [received.group for received in decision.received] == [group]
    assert len(ingest._templates._by_key) == 4
    fast = [ingest._templates.recognise(body(group), NOW) for group in ("1.0", "1.1", "", "other")]
    assert [received.group for received in fast if received is not None] == ["1.0", "1.1", "", "other"]
    assert ingest._templates.recognise(body("1.2"), NOW) is None


def test_json_names_the_group_as_well() -> None:
    import json

    mechanism = REGISTRY["grouped"].mechanism
    entry = {"batch": batch_id().hex(), "metric": "grouped", "period": TODAY, "digest": mechanism.digest.hex()}
    raw = json.dumps({"uploads": [entry | {"reports": [[0, "01"]], "group": "1.1"}]}).encode()
    (received,) = Ingest(REGISTRY).decide(raw, JSON, NOW).received
    assert (received.group, received.num_reports) == ("1.1", 1)
