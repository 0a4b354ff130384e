"""Linkability against real devices, and against the audit's table (finding F3); `test_kind_laws` enumerates it."""

import math
import os
import re
from collections import Counter

import pytest

from overstory.client.randomizer import Randomizer
from overstory.privacy.attacks import linkability
from overstory.privacy.payloads.shared import Constant
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import REGISTRY, mechanism
from support.privacy_cases import some_mechanism

HUNDRED = {"domain_size": 100, "epsilon": 1.0}
ALONE = [  # the audit's table, measured over a million devices of one value
    ("linear-hash", HUNDRED, 0.9995, 1.0),
    ("oue", HUNDRED, 0.9999, 1.0),
    ("sue", HUNDRED, 0.9999, 1.0),
    ("subset", HUNDRED, 0.9999, 1.0),
    ("rappor-one-time", {"f": 0.5}, 0.9999, 1.0),
    ("basic-rappor-one-time", {"domain_size": 100, "f": 0.5}, 0.9999, 1.0),
    ("dbitflip", HUNDRED, 0.715, 0.735),
]
FEW = [("rappor", {}, 4.0), ("hadamard", HUNDRED, 7.7), ("grr", HUNDRED, 6.6), ("projective", HUNDRED, 8.1)]
NOTHING = ("basic-rappor", "wb", "opt-wb", "opt-dr", "l-grr", "l-sue", "l-osue", "l-soue")


@pytest.mark.parametrize(("name", "parameters", "least", "most"), ALONE, ids=str)
def test_the_audits_table_of_devices_that_are_alone(name, parameters, least, most):
    assert least <= linkability(mechanism(name, **parameters)).alone(10**6) <= most + 1e-9


@pytest.mark.parametrize(("name", "parameters", "bits"), FEW, ids=str)
def test_the_audits_table_of_few_bits(name, parameters, bits):
    stated = linkability(mechanism(name, **parameters))
    assert round(stated.bits, 1) == bits
    assert stated.alone(10**6) < 1e-9


@pytest.mark.parametrize("name", NOTHING)
def test_the_audits_table_of_what_carries_nothing(name):
    stated = linkability(some_mechanism(name))
    assert (stated.bits, stated.alone(2), stated.crowd(10**6)) == (0, 0, 10**6)
    fresh = name in {"wb", "opt-wb"}  # no permanent response lies behind their reports
    assert stated.are_alike is not fresh
    assert (stated.words() == "nothing stays the same from report to report") is fresh
    assert stated.words().startswith("nothing stays" if fresh else "nothing is equal in every report, but reports")


def devices_of(built, value, count, secret=lambda: os.urandom(32)):
    return [Randomizer(built, secret=secret(), metric="linked") for _ in range(count)]


def seen(device, value, reports=24):
    """What of a device's reports stays the same: the cohort, and the payload where all of them have one."""
    sent = [device.report(value) for _ in range(reports)]
    payload = {report.bits for report in sent}
    return sent[0].cohort, payload.pop() if len(payload) == 1 else None


def pairs_alike(keys):
    return sum(many * (many - 1) // 2 for many in Counter(keys).values())


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_real_devices_are_alike_as_often_as_stated(name):
    """Pairs of 300 devices with one cohort and one constant payload, against the stated chance, at five sigma."""
    built, count = some_mechanism(name), 300
    value = 1 if built.domain_size else "example.org"
    alike = pairs_alike(seen(device, value) for device in devices_of(built, value, count))
    assert near(alike, linkability(built), count), alike


def near(alike, stated, count):
    """Whether a number of pairs is within five standard deviations; pairs that share a device are not independent."""
    pairs, c = count * (count - 1) / 2, 2.0**-stated.bits
    triples = sum(math.exp(n + 3 * p) for n, p in stated.unchanged.groups)  # three devices alike
    spread = math.sqrt(pairs * c * (1 - c) + count * (count - 1) * (count - 2) * max(triples - c * c, 0))
    return abs(alike - pairs * c) <= 5 * spread + 1e-6


@pytest.mark.parametrize("name", ["grr", "hadamard", "oue"])
def test_devices_that_share_a_secret_are_seen_by_this_test(name):
    built, few = some_mechanism(name), [os.urandom(32) for _ in range(2)]
    devices = devices_of(built, 1, 300, secret=lambda: few[os.urandom(1)[0] & 1])
    assert not near(pairs_alike(seen(device, 1) for device in devices), linkability(built), 300)


def test_words_name_their_condition():
    oue, hadamard = (linkability(mechanism(name, **HUNDRED)).words() for name in ("oue", "hadamard"))
    assert oue.startswith("the same in every report while the value does not change: ")
    assert hadamard == (
        "the same in every report: 7 bits; of a million devices 7,813 share it; with the payload, the same in every "
        "report while the value does not change: 7.8 bits; of a million devices with that value 4,741 share it"
    )
    seed = linkability(mechanism("linear-hash", **HUNDRED))
    assert seed.words().startswith("the same in every report: 31 bits; of a million devices 1 shares it; with the")


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_crowd_of_one_payload_is_counted_among_devices_with_one_value(name):
    """A second audit: of a million devices far fewer share the payload of a value that few of them hold."""
    stated = linkability(some_mechanism(name))
    crowds = re.findall(r"of a million (devices.*?) [\d,]+ shares? it", stated.words())
    assert crowds == ["devices"] * (stated.always.bits > 0) + ["devices with that value"] * stated.has_payload


def test_json_has_every_number():
    shown = linkability(mechanism("hadamard", **HUNDRED)).to_json()
    assert shown["always"]["bits"] == 7
    payload = shown["unchanged"]["shannon_bits"]
    assert shown["shared"] == {"two_reports": payload, "thirty_and_thirty": payload, "thirty_is_exact": True}
    assert set(shown["unchanged"]) == {"bits", "shannon_bits", "min_bits", "crowd_of_a_million", "alone_of_a_million"}


@pytest.mark.parametrize("devices", [0, -1, 1.5, True])
def test_a_number_of_devices_that_is_none(devices):
    with pytest.raises(ParameterError, match="whole number above 0"):
        Constant.uniform(4).crowd(devices)
