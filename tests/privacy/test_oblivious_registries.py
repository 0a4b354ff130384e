"""What a reviewer is told of a registry with a relay: what a change weakens, and what deserves a second look."""

import datetime as dt

import pytest

from overstory.privacy.registry.changes import Change, compare_registries
from overstory.privacy.registry.warnings import registry_notes, registry_warnings
from overstory.protocol.metrics import MetricRegistry, parse_registry
from support.devices import DEFAULT, OBLIVIOUS, oblivious_registry
from support.oblivious_receiver import Receiver
from support.running import within

FIRST, SECOND, THIRD = Receiver(key_id=1), Receiver(key_id=2), Receiver(key_id=3)
RELAY, TODAY = "https://relay.example.net/", dt.date(2026, 11, 23)


def registry(relay: str = RELAY, keys: bytes = FIRST.keys, version: str = "1", **named: str) -> MetricRegistry:
    text = oblivious_registry(relay, keys, **named).text
    return parse_registry(text.replace("2026-11-21", version, 1))


def changes(old: MetricRegistry, new: MetricRegistry) -> list[Change]:
    return [change for change in compare_registries(old, new) if change.what != "registry"]


def test_a_key_more_is_counted():
    (keys,) = changes(registry(), registry(keys=SECOND.keys + FIRST.keys, version="2"))
    assert keys.detail.startswith("1 (")
    assert " becomes 2 (" in keys.detail


def test_a_key_of_the_same_id_is_another_key():
    (keys,) = changes(registry(), registry(keys=Receiver(key_id=1).keys, version="2"))
    before, after = keys.detail.partition(":")[0].split(" becomes ")
    assert before != after


def warned(registry: MetricRegistry, server: str | None = None) -> list[tuple[str, str]]:
    found = registry_warnings(registry, registry.text, TODAY, server=server)
    return [(fault.field, fault.message) for fault in found if fault.field.startswith("oblivious")]


OF_P256 = bytes.fromhex("0045" + "02" + "0010" + "04" * 64 + "00" * 2)


@pytest.mark.parametrize(
    ("relay", "keys", "server", "field", "message"),
    [
        ("http://relay.example.net/", FIRST.keys, None, "relay", "over plain http anybody on the way sees who sends"),
        (RELAY, FIRST.keys, "https://relay.example.net:8443", "relay", "this is the collector's own host"),
        (RELAY, OF_P256, None, "keys", "devices can use none of these, so that nothing is sent"),
        (RELAY, Receiver(ciphers=(1,)).keys, None, "keys", "devices can use none of these"),
        (RELAY, FIRST.keys + SECOND.keys + THIRD.keys, None, "keys", "3 keys, where a rotation needs 2"),
        (RELAY, FIRST.keys + Receiver(key_id=1).keys, None, "keys", "two keys have one id"),
    ],
    ids=["plain http", "the collector's host", "of another curve", "by another cipher", "three keys", "one id"],
)
def test_lint_warns_of_a_relay_or_keys_that_cannot_do_what_they_are_for(relay, keys, server, field, message):
    ((where, says),) = warned(registry(relay, keys), server)
    assert where == f"oblivious.{field}"
    assert message in says


@pytest.mark.parametrize("relay", [RELAY, "http://127.0.0.1:9000/", "http://localhost/", "http://[::1]:9000/"])
def test_lint_is_silent_where_all_is_well(relay):
    assert warned(registry(relay, FIRST.keys + SECOND.keys), "https://collector.example.com") == []
    assert warned(registry(relay), "http://127.0.0.1:8000") == []


def test_lint_warns_of_a_relay_that_nothing_goes_through():
    text = registry().text.replace(OBLIVIOUS, "")
    ((where, says),) = warned(parse_registry(text))
    assert where.startswith("oblivious")
    assert says == 'no metric has transport = "oblivious": nothing goes through the relay'


def test_lint_names_the_line_and_takes_the_collectors_address(tmp_path):
    (tmp_path / "metrics.toml").write_text(registry("http://relay.example.net/").text)
    out = within("metrics", "lint", "metrics.toml", "--server", "http://relay.example.net", cwd=tmp_path).stdout
    line = registry("http://relay.example.net/").text.splitlines().index('relay = "http://relay.example.net/"') + 1
    assert f"metrics.toml:{line}: warning: oblivious.relay: over plain http" in out
    assert f"metrics.toml:{line}: warning: oblivious.relay: this is the collector's own host" in out


def test_a_note_says_that_direct_reports_of_the_same_device_may_give_the_time_away():
    (note,) = [note for note in registry_notes(registry()) if "relay" in note]
    assert note.startswith("colour through the relay, first directly: a device may send both at about the same time")
    only = oblivious_registry(RELAY, FIRST.keys, colour=DEFAULT["colour"] + OBLIVIOUS)
    assert not [note for note in registry_notes(only) if "relay" in note]
