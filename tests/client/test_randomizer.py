import enum
import os
from collections import Counter

import pytest

from overstory.client import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.sampling import SeededEntropy

SECRET = bytes(range(32))


def device(name="rappor", metric="engine", **choices):
    parameters = {"domain_size": 4} if name.startswith("basic") else {}
    return Randomizer(mechanism(name, **parameters), **({"secret": SECRET, "metric": metric} | choices))


def test_a_seeded_experiment_repeats():
    first, second = (device(entropy=SeededEntropy(5)) for _ in range(2))
    assert [first.report(v) for v in "abca"] == [second.report(v) for v in "abca"]


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
    """1, True and 1.0 are one key to a dictionary; only 1 is a symbol."""
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
    assert not one._memo


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"secret": b"short"}, "at least 16 bytes"),
        ({"secret": "a string of enough letters"}, "secret is bytes"),
        ({"metric": ""}, "metric = ''"),
        ({"metric": None}, "metric = None"),
        ({"metric": 5}, "metric = 5"),
        ({"cohort": 16}, "cohort 16 does not exist"),
        ({"memo_size": -1}, "memo_size = -1"),
        ({"memo_size": None}, "memo_size = None"),
    ],
)
def test_what_no_device_can_be_made_of(choices, words):
    with pytest.raises(ParameterError, match=words):
        device(**choices)


def test_the_memo_is_bounded():
    one = device(memo_size=10)
    for i in range(100):
        one.report(f"value-{i}")
        assert len(one._memo) <= 10
    none = device(memo_size=0)
    none.report("value")
    assert not none._memo


def test_a_cohort_belongs_to_the_secret_and_the_metric():
    assert device().cohort == device().cohort
    assert len({device(metric=f"m{i}").cohort for i in range(60)}) > 8
    counts = Counter(device(secret=i.to_bytes(16, "big")).cohort for i in range(1600))
    assert set(counts) == set(range(16))
