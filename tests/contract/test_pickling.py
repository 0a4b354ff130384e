"""Mechanisms travel between processes: pickled and copied they are equal, draw alike, and are as frozen."""

import copy
import pickle
from dataclasses import replace
from fractions import Fraction

import pytest

from overstory.client import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.sampling import SeededEntropy
from support.contract_cases import SMALL_CASES, TYPICAL_CASES, some_values

SECRET = bytes(range(32))
UNREGISTERED = replace(mechanism("linear-hash", domain_size=1 << 16, epsilon=1.0), name="of-no-registry")


def answers(built):
    value = some_values(built, 3)[-1]
    device = Randomizer(built, secret=SECRET, metric="m", entropy=SeededEntropy(1))
    return [device.report(value), device.permanent(value), built.randomize(value, SeededEntropy(2))]


@pytest.mark.sampled(28)
@pytest.mark.parametrize(
    "built", [c.build() for c in SMALL_CASES + TYPICAL_CASES] + [UNREGISTERED], ids=lambda b: b.name
)
def test_a_pickled_mechanism_is_the_same(built):
    before = answers(built)  # what it has computed and kept does not matter
    for again in (pickle.loads(pickle.dumps(built)), copy.deepcopy(built), copy.copy(built)):
        assert again == built
        assert hash(again) == hash(built)
        assert (again.digest, again.canonical()) == (built.digest, built.canonical())
        assert answers(again) == before
        with pytest.raises(TypeError):
            again.parameters["epsilon"] = 9


def test_one_made_by_hand_under_a_known_name_does_not_pass_for_it():
    built = mechanism("subset", domain_size=9, epsilon=1.0)
    weaker = replace(built, inside=built.inside + Fraction(1, 1 << 10))
    with pytest.raises(ParameterError, match="the subset that was pickled is another"):
        pickle.loads(pickle.dumps(weaker))
