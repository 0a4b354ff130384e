import enum
import math
import os
from collections import Counter

import pytest

from overstory.client import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

SECRET = bytes(range(32))


def device(name="rappor", metric="engine", **choices):
    parameters = {"domain_size": 4} if name.startswith("basic") else {}
    return Randomizer(mechanism(name, **parameters), **({"secret": SECRET, "metric": metric} | choices))


def test_the_operating_system_is_asked_for_every_report(monkeypatch):
    """Nothing is drawn ahead: a buffer of randomness would be shared by a fork and its parent."""
    asked = []
    real = os.urandom
    monkeypatch.setattr("overstory.protocol.sampling._from_system", lambda count: asked.append(count) or real(count))
    one = device()
    for number in range(1, 4):
        one.report("value")
        assert asked == [32] * number


def test_equal_values_of_other_types_are_told_apart():
    one = device("basic-rappor")
    one.report(1)
    for impostor in (True, 1.0):
        with pytest.raises(ParameterError, match="outside the domain"):
            one.report(impostor)


class Engine(int, enum.Enum):
    GOOSE = 2


class Renamed(int, enum.Enum):
    DUCK = 2


class Plain(enum.IntEnum):
    TWO = 2


def test_an_enumeration_is_its_number_whatever_its_class_is_called():
    """Its text has changed between Python versions, and changes with every renaming; a permanent response must not."""
    expected = device("basic-rappor").permanent(2)
    many = [device("basic-rappor", secret=SECRET + bytes([i])) for i in range(20)]
    for member in (Engine.GOOSE, Renamed.DUCK, Plain.TWO):
        assert device("basic-rappor").permanent(member) == expected
        assert [d.permanent(member) for d in many] == [d.permanent(2) for d in many]


def test_a_string_and_its_bytes_are_one_value():
    assert device().permanent("Ohio") == device().permanent(b"Ohio")


@pytest.mark.parametrize("value", [["a"], {"a": 1}, bytearray(b"a"), None, 1.5])
def test_values_that_cannot_be_reported(value):
    one = device()
    for ask in (one.report, one.permanent):
        with pytest.raises(ParameterError, match="string or bytes"):
            ask(value)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"secret": b"short"}, "at least 16 bytes"),
        ({"secret": "a string of enough letters"}, "secret is bytes"),
        ({"metric": ""}, "metric = ''"),
        ({"metric": None}, "metric = None"),
        ({"metric": 5}, "metric = 5"),
        ({"cohort": 16}, "cohort 16 does not exist"),
    ],
)
def test_what_no_device_can_be_made_of(choices, words):
    with pytest.raises(ParameterError, match=words):
        device(**choices)


def test_a_cohort_belongs_to_the_secret_and_the_metric():
    assert device().cohort == device().cohort
    assert len({device(metric=f"m{i}").cohort for i in range(60)}) > 8
    counts = Counter(device(secret=i.to_bytes(16, "big")).cohort for i in range(1600))
    assert set(counts) == set(range(16))


# --- law 8: no other parameters than those that the program was built with --------------------------------------------

BUILT = mechanism("rappor", f=0.5, p=0.5, q=0.75)
OTHERS = {
    "less noise": mechanism("rappor", f=0.25, p=0.5, q=0.75),
    "no permanent noise": mechanism("rappor", f=0.0, p=0.5, q=0.6),
    "more hashes": mechanism("rappor", num_hashes=3, f=0.5, p=0.5, q=0.75),
    "more noise": mechanism("rappor", f=0.5, p=0.5, q=0.7),
    "fewer bits": mechanism("rappor", num_bits=64, f=0.5, p=0.5, q=0.75),
    "another oracle": mechanism("oue", domain_size=100, epsilon=1.0),
}
GRR = [mechanism("grr", domain_size=4, epsilon=1.0 - number * 1e-6) for number in range(51)]
MOST = math.exp(1.0) / (math.exp(1.0) + 3)  # how often the best guess at epsilon 1 is right: 47.5%


@pytest.mark.parametrize("offered", OTHERS.values(), ids=OTHERS)
def test_other_parameters_are_refused(offered):
    Randomizer(mechanism("rappor", f=0.5, p=0.5, q=0.75), secret=SECRET, metric="m", built_with=BUILT)
    with pytest.raises(ParameterError, match="not the parameters that this program was built with"):
        Randomizer(offered, secret=SECRET, metric="m", built_with=BUILT)


def attacked(reports_of, devices=120):
    """The share of values guessed from all that fifty offers get out of each device, by the posterior."""
    right = 0
    for device in range(devices):
        secret, value = device.to_bytes(16, "big"), device % 4
        odds = [0.0] * 4
        for report in reports_of(secret, value):
            odds[report] += math.log(MOST / ((1 - MOST) / 3))
        right += max(range(4), key=lambda guess: (odds[guess], guess)) == value
    return right / devices


def taken(secret, value, built_with):
    """The reports that a device makes by each offer that it takes; none of them is weaker than the first."""
    for offered in GRR:
        try:
            device = Randomizer(offered, secret=secret, metric="m", built_with=built_with)
        except ParameterError:
            continue
        yield device.report(value).bits


def test_fifty_offers_say_no_more_than_the_parameters_built_with():
    """Five standard errors of 120 devices: less than one false alarm in a million."""
    guessed = attacked(lambda secret, value: taken(secret, value, GRR[0]))
    assert 0.25 < guessed <= MOST + 5 * math.sqrt(MOST * (1 - MOST) / 120)


def test_the_attack_takes_all_values_where_every_offer_is_taken():
    assert attacked(lambda secret, value: taken(secret, value, None)) > 0.9
