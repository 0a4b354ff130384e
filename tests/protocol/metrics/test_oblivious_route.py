"""The table [oblivious] and the key `transport`: read, checked, part of a digest only where a metric is oblivious."""

from __future__ import annotations

import subprocess
import sys

import pytest

from overstory.protocol.metrics import parse_registry
from support.registry_texts import KEYS_HEX, OBLIVIOUS, oblivious_text, registry_text, the_fault


def test_they_are_read():
    registry = parse_registry(oblivious_text())
    route = registry.oblivious
    assert route is not None
    assert (route.relay, route.operator, route.keys.hex()) == (*OBLIVIOUS.values(),)
    assert registry["colour"].is_oblivious
    assert registry.to_json()["oblivious"] == OBLIVIOUS
    assert registry["colour"].to_json()["transport"] == registry["colour"].canonical()["transport"] == "oblivious"


def test_a_table_that_no_metric_needs_is_read_and_is_part_of_the_registrys_digest():
    registry = parse_registry(oblivious_text(transport="direct"))
    assert registry.oblivious is not None
    assert registry.digest != parse_registry(registry_text()).digest


def test_an_oblivious_metric_without_a_relay_is_a_fault_at_its_key():
    fault = the_fault(registry_text('transport = "oblivious"'))
    assert (fault.line, fault.field) == (14, "metrics.colour.transport")
    assert fault.message.startswith("reports of this metric need a relay: give [oblivious], a table such as {relay = ")
    dotted = registry_text('transport = "oblivious"').replace("[metrics.colour]", '[metrics."ui.colour"]')
    assert (the_fault(dotted).line, the_fault(dotted).field) == (14, "metrics.ui.colour.transport")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("relay", None, "missing: give the URL that encrypted reports are posted to"),
        ("relay", '"relay.example.org"', "is no link: give the URL that encrypted reports are posted to"),
        ("relay", '"ftp://relay.example.org"', "is no link"),
        ("relay", '"https://me:secret@relay.example.org/"', "a name, a password or a fragment is no part of it"),
        ("relay", '"https://relay.example.org/#here"', "a name, a password or a fragment is no part of it"),
        ("operator", None, "missing: give who runs the relay"),
        ("operator", '" "', "give who runs the relay"),
        ("keys", None, "missing: give the line that `overstory keys show` prints"),
        ("keys", '"secret"', "'secret' is no list of keys"),
        ("keys", f'"{KEYS_HEX[:-2]}"', "is no list of keys: give what `overstory keys show` prints, in hexadecimal"),
        ("keys", f'"{KEYS_HEX}00"', "is no list of keys"),
        ("keys", f'"{KEYS_HEX.replace("0029", "0028")}"', "is no list of keys"),
        ("keys", f'"{KEYS_HEX * 100}"', "text of 1 to 4000 characters"),
        ("keys", "7", "give the line"),
        ("token", '"ovw_"', "no such key; the keys are relay, operator, keys"),
    ],
)
def test_a_wrong_table_is_a_fault_with_what_would_be_right(key, value, message):
    assert message in the_fault(oblivious_text(**{key: value})).message
    assert the_fault(oblivious_text(**{key: value})).field == f"oblivious.{key}"


def test_what_is_no_table_is_a_fault():
    assert "is no table: give a table such as {relay = " in the_fault("oblivious = 7\n" + registry_text()).message
    assert "choose one of direct, oblivious" in the_fault(registry_text('transport = "tor"')).message


def test_keys_of_a_kind_that_this_version_cannot_use_are_read():
    of_p256 = "0045" + "02" + "0010" + "04" * 64 + "00" * 2
    registry = parse_registry(oblivious_text(keys=f'"{of_p256}"'))
    assert registry.oblivious is not None
    assert registry.oblivious.keys.hex() == of_p256


@pytest.mark.parametrize(("text", "loaded"), [(registry_text(), []), (oblivious_text(), ["formats"])])
def test_reading_a_registry_loads_no_cipher_and_without_the_table_nothing_at_all(text, loaded):
    program = """
import sys
from overstory.protocol.metrics import parse_registry
parse_registry(sys.stdin.read())
print([name for name in sys.modules if name.startswith("overstory.protocol.oblivious.")])
"""
    names = [f"overstory.protocol.oblivious.{name}" for name in loaded]
    run = subprocess.run([sys.executable, "-c", program], input=text, text=True, capture_output=True, check=True)
    assert run.stdout.strip() == str(names)
