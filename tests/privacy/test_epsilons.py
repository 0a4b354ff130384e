"""Every stated epsilon against the enumeration of a real device, and against devices broken on purpose."""

from decimal import Decimal

import pytest

from overstory.privacy import change_leak, statement, terms_of
from overstory.protocol.mechanisms.registry import mechanism
from support.contract_cases import TYPICAL
from support.enumerated_device import Device, LazyBit, Redrawn, worst_of_changes, worst_of_reports

BLOOM = {"num_bits": 4, "num_hashes": 2, "num_cohorts": 1}
CASES = [
    ("rappor", {**BLOOM, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("rappor", {**BLOOM, "num_bits": 3, "num_hashes": 1, "f": 0.25, "p": 0.25, "q": 0.75}),
    ("rappor", {**BLOOM, "num_bits": 3, "f": 0.5, "p": 0.75, "q": 0.25}),
    ("rappor", {**BLOOM, "num_bits": 3, "f": 0.5, "p": 0.0, "q": 0.5}),
    ("rappor", {**BLOOM, "num_bits": 3, "f": 0.0, "p": 0.25, "q": 0.75}),
    ("rappor", {**BLOOM, "f": 0.501, "p": 0.5, "q": 0.75, "hash_family": "google-rappor-python"}),
    ("rappor-one-time", {**BLOOM, "f": 0.5}),
    ("rappor-one-time", {**BLOOM, "p": 0.5, "q": 0.75}),
    ("basic-rappor", {"domain_size": 3, "f": 0.5, "p": 0.5, "q": 0.75}),
    ("basic-rappor", {"domain_size": 4, "f": 0.25, "p": 0.25, "q": 0.5}),
    ("basic-rappor-one-time", {"domain_size": 3, "f": 0.5}),
    ("basic-rappor-one-time", {"domain_size": 3, "p": 0.5, "q": 0.75}),
]


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0]}-{'-'.join(map(str, case[1].values()))}")
def built(request):
    name, parameters = request.param
    return mechanism(name, **parameters)


def holds(stated, exact):
    """Never below what is true, and above it by less than 1e-9."""
    if exact.is_infinite():
        return stated == float("inf")
    return Decimal(stated) >= exact and Decimal(stated) - exact < Decimal("1e-9")


def test_the_epsilons_of_reports(built):
    said = statement(built, reports=(1, 2, 3), change_reports=())
    device = Device(built)
    assert said.epsilon_report == said.epsilon_n[1]
    for reports in (1, 2) if built.encoding.num_bits > 3 else (1, 2, 3):
        assert holds(said.epsilon_n[reports], worst_of_reports(device, reports)), reports


def test_the_permanent_epsilon_is_that_of_seeing_the_response(built):
    device = Device(built)
    device.instantaneous = {word: {word: 1} for word in device.instantaneous}
    assert holds(statement(built).epsilon_permanent, worst_of_reports(device, 1))


def test_many_reports_approach_the_permanent_epsilon_from_below(built):
    if built.epsilon_permanent == float("inf"):
        assert built.epsilon_n(2000) > 100
    else:
        assert built.epsilon_permanent - 1e-6 < built.epsilon_n(2000) <= built.epsilon_permanent


def test_the_leak_of_a_change(built):
    for reports in (2,) if built.encoding.num_bits > 3 else (2, 3):
        assert holds(change_leak(built, reports), worst_of_changes(Device(built), reports)), reports


@pytest.mark.parametrize("broken", [LazyBit, Redrawn])
def test_a_broken_device_is_caught(broken):
    built = mechanism("rappor", **BLOOM)
    assert holds(built.epsilon_n(2), worst_of_reports(Device(built), 2))
    assert not holds(built.epsilon_n(2), worst_of_reports(broken(built), 2))
    assert not holds(change_leak(built), worst_of_changes(broken(built), 2))


def test_an_epsilon_for_the_wrong_number_of_hashes_is_caught():
    real = Device(mechanism("rappor", **BLOOM))
    stated = mechanism("rappor", **{**BLOOM, "num_hashes": 1})
    assert not holds(stated.epsilon_report, worst_of_reports(real, 1))
    assert not holds(stated.epsilon_permanent, worst_of_reports(real, 2))
    assert not holds(change_leak(stated), worst_of_changes(real, 2))


def test_the_methods_figures():
    rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    said = statement(rappor)
    assert [round(e, 3) for e in said.epsilon_n.values()] == [1.074, 2.017, 2.756, 3.656, 4.299]
    assert round(said.epsilon_permanent, 5) == 4.39445
    assert round(said.change_leak[2], 2) == 8.61
    weaker = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=32, f=0.75, p=0.5, q=0.75)
    assert (round(weaker.epsilon_report, 4), round(weaker.epsilon_permanent, 4)) == (0.5343, 2.0433)


@pytest.mark.parametrize("name", sorted(TYPICAL))
def test_a_mechanism_and_its_terms_agree_on_whether_all_noise_is_fresh(name):
    for parameters in TYPICAL[name]:
        built = mechanism(name, **parameters)
        assert built.fresh is terms_of(built).fresh, parameters
