"""The tables that few registries have, [oblivious] and the groups of a metric's devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import RegistryError, parse_registry
from overstory.protocol.metrics.groups import FLOOR, OTHER, Groups
from support import registry_texts
from support.registry_texts import faults, oblivious_text, plain_registry, registry_of, registry_text, the_fault

OBLIVIOUS_KEYS = [
    ("relay", None, "missing: give the URL that encrypted reports are posted to"),
    ("relay", '"relay.example.org"', "is no link: give the URL that encrypted reports are posted to"),
    ("relay", '"ftp://relay.example.org"', "is no link"),
    ("relay", '"https://me:secret@relay.example.org/"', "a name, a password or a fragment is no part of it"),
    ("relay", '"https://relay.example.org/#here"', "a name, a password or a fragment is no part of it"),
    ("operator", None, "missing: give who runs the relay"),
    ("operator", '" "', "give who runs the relay"),
    ("keys", None, "missing: give the line that `overstory keys FILE` prints"),
    ("keys", '"secret"', "'secret' is no list of keys"),
    (
        "keys",
        f'"{registry_texts.KEYS_HEX[:-2]}"',
        "is no list of keys: give what `overstory keys FILE` prints, in hexadecimal",
    ),
    ("keys", f'"{registry_texts.KEYS_HEX}00"', "is no list of keys"),
    ("keys", f'"{registry_texts.KEYS_HEX.replace("0029", "0028")}"', "is no list of keys"),
    ("keys", f'"{registry_texts.KEYS_HEX * 100}"', "text of 1 to 4000 characters"),
    ("keys", "7", "give the line"),
    ("token", '"ovw_"', "no such key; the keys are relay, operator, keys"),
]
GROUPS = [
    ('"release"', "", "is no table: give a table such as {by ="),
    ('{by = "release", values = ["1.0"], devices = 5000}', ".shares", "groups are listed, not free text"),
    ('{by = "release", shares = {"1.0" = 0.6}}', ".devices", "missing: give how many devices are expected"),
    ('{shares = {"1.0" = 0.6}, devices = 500000}', ".by", "missing: give what the groups are of"),
    ('{by = "The release", shares = {a = 0.6}, devices = 500000}', ".by", "up to 64 of a-z"),
    ("{by = 7, shares = {a = 0.6}, devices = 500000}", ".by", "give a short name"),
    ('{by = "r", shares = {1.0 = 0.6}, devices = 500000}', ".shares", "with quotes"),
    ('{by = "r", shares = ["a"], devices = 500000}', ".shares", "give a table of groups with their shares"),
    ('{by = "r", shares = {a = true}, devices = 500000}', ".shares", "give a table of groups with their shares"),
    ('{by = "r", shares = {}, devices = 500000}', ".shares", "0 groups: list 1 to 256"),
    ('{by = "r", shares = {a = 0.0}, devices = 500000}', ".shares", "'a' has the share 0: give"),
    ('{by = "r", shares = {a = nan}, devices = 500000}', ".shares", "'a' has the share nan: give"),
    ('{by = "r", shares = {a = 0.7, b = 0.4}, devices = 500000}', ".shares", "the shares add up to 1.1"),
    ('{by = "r", shares = {other = 0.7}, devices = 500000}', ".shares", "'other' is the group of all devices that"),
    ('{by = "r", shares = {A = 0.3, a = 0.4}, devices = 500000}', ".shares", "differ in capital letters alone"),
    ('{by = "r", shares = {"a\\u0000" = 0.3}, devices = 500000}', ".shares", "cannot name a group"),
    ('{by = "r", shares = {"=a" = 0.3}, devices = 500000}', ".shares", "cannot name a group"),
    ('{by = "r", shares = {"" = 0.3}, devices = 500000}', ".shares", "cannot name a group"),
    (f'{{by = "r", shares = {{{"a" * 33} = 0.3}}, devices = 500000}}', ".shares", "cannot name a group"),
    ('{by = "r", shares = {a = 0.5}, devices = 0}', ".devices", "give a whole number from 1"),
    ('{by = "r", shares = {a = 0.5}, devices = 500000, floor = 0}', ".floor", "give a whole number from 1"),
    ('{by = "r", shares = {a = 0.5}, devices = 500000, flour = 9}', ".flour", "no such key; did you mean floor"),
]
WRONG = [
    *((oblivious_text(**{key: value}), f"oblivious.{key}: ", says) for key, value, says in OBLIVIOUS_KEYS),
    *((plain_registry("m", groups=groups), f"metrics.m.groups{field}: ", says) for groups, field, says in GROUPS),
]


@pytest.mark.parametrize(("text", "says"), [(text, says) for text, *says in WRONG])
def test_a_wrong_table_is_a_fault_at_its_key_with_what_would_be_right(text, says):
    found = [str(fault) for fault in faults(text)]
    assert any(all(part in fault for part in says) for fault in found), found
    assert len(found) == 1 or "m.groups" in found[0]


def test_a_relay_is_read():
    registry = parse_registry(oblivious_text())
    route = registry.oblivious
    assert (route.relay, route.operator, route.keys.hex()) == (*registry_texts.OBLIVIOUS.values(),)
    assert registry["colour"].is_oblivious
    assert registry.to_json()["oblivious"] == registry_texts.OBLIVIOUS
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


def test_what_is_no_relay_is_a_fault():
    assert "is no table: give a table such as {relay = " in the_fault("oblivious = 7\n" + registry_text()).message


def test_keys_of_a_kind_that_this_version_cannot_use_are_read():
    of_p256 = "0045" + "02" + "0010" + "04" * 64 + "00" * 2
    registry = parse_registry(oblivious_text(keys=f'"{of_p256}"'))
    assert registry.oblivious is not None
    assert registry.oblivious.keys.hex() == of_p256


RELEASES = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'


def grouped(groups=RELEASES):
    return parse_registry(plain_registry("m", groups=groups))["m"]


def faults_of(groups):
    return {fault.field: fault.message for fault in faults(plain_registry("m", groups=groups))}


def test_the_digest_has_the_names_and_no_figures():
    other_figures = RELEASES.replace("0.6", "0.5").replace("500000", "900000, floor = 2000")
    reversed_order = '{by = "release", shares = {"1.1" = 0.3, "1.0" = 0.6}, devices = 500000}'
    assert grouped().digest == grouped(other_figures).digest == grouped(reversed_order).digest
    assert grouped().digest != grouped(RELEASES.replace('"1.1"', '"1.2"')).digest
    assert grouped().digest != grouped(RELEASES.replace("release", "version")).digest


def test_every_device_is_in_one_group():
    groups = grouped().groups
    assert groups.names == ("1.0", "1.1", OTHER)
    assert [groups.of(value) for value in ("1.0", "1.1", "1.2", "", None, OTHER)] == ["1.0", "1.1", *[OTHER] * 4]
    assert sum(groups.expected(name) for name in groups.names) == pytest.approx(500_000)
    assert not any(map(groups.hidden, groups.names))
    with pytest.raises(ParameterError, match=r"there is no group '1.2': the groups are 1.0, 1.1, other"):
        groups.expected("1.2")


@given(st.integers(1, 10**6), st.integers(1, 10**7), st.floats(0.0001, 1))
def test_no_listed_group_is_below_the_floor(floor, devices, share):
    """Whatever the figures: groups that would be rare are refused, and what is not refused is not rare."""
    try:
        groups = Groups("g", {"a": share}, devices, floor)
    except ParameterError:
        assert min([share] + [1 - share] * (1 - share > 1e-9)) * devices < floor
    else:
        assert groups.expected("a") >= floor * (1 - 1e-9)
        assert groups.hidden(OTHER) == (groups.share(OTHER) <= 1e-9)


def test_a_rare_group_is_refused_and_so_is_a_rare_rest():
    rare = faults_of('{by = "r", shares = {a = 0.5, b = 0.0015}, devices = 500000}')["metrics.m.groups.shares"]
    assert rare.startswith("'b' has 750 of 500,000 devices, fewer than the floor of 1,000: a rare group singles its")
    rest = faults_of('{by = "r", shares = {a = 0.5, b = 0.4985}, devices = 500000}')["metrics.m.groups.shares"]
    assert rest.startswith("'other' has 750 of 500,000 devices, fewer than the floor of 1,000")
    assert grouped('{by = "r", shares = {a = 0.5, b = 0.5}, devices = 500000}').groups.hidden(OTHER)
    assert FLOOR == 1000


def test_all_metrics_of_a_registry_have_the_same_groups():
    """Two variables at once would put a device into the smaller group of all that share both."""
    countries = '{by = "country", shares = {DE = 0.6}, devices = 500000}'
    with pytest.raises(RegistryError, match=r"b has groups by country \(DE\), and a by release \(1.0, 1.1\): a device"):
        parse_registry(registry_of({"a": {"groups": RELEASES}, "b": {"groups": countries}, "c": {}}))
    finer = RELEASES.replace('"1.1"', '"1.1.1" = 0.1, "1.1.2"')
    with pytest.raises(RegistryError, match="give every metric of the registry the same groups"):
        parse_registry(registry_of({"a": {"groups": RELEASES}, "b": {"groups": finer}}))
    both = parse_registry(registry_of({"a": {"groups": RELEASES}, "b": {"groups": RELEASES}, "c": {}}))
    assert [metric.groups is None for metric in both.values()] == [False, False, True]
