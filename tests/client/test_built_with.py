"""Law 8: a device never takes parameters weaker than those its program was built with."""

import math

import pytest

from overstory.client import Randomizer
from overstory.client.randomizer import refuse_weaker
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.registry import mechanism

SECRET = b"a device's secret, long enough"
BUILT = mechanism("rappor", f=0.5, p=0.5, q=0.75)

WEAKER = {
    "less permanent noise": mechanism("rappor", f=0.25, p=0.5, q=0.75),
    "less instantaneous noise": mechanism("rappor", f=0.5, p=0.25, q=0.75),
    "more hashes": mechanism("rappor", num_hashes=3, f=0.5, p=0.5, q=0.75),
    "no permanent noise": mechanism("rappor", f=0.0, p=0.5, q=0.6),
}
NO_WEAKER = {
    "the same": mechanism("rappor", f=0.5, p=0.5, q=0.75),
    "more noise": mechanism("rappor", f=0.75, p=0.5, q=0.75),
    "other bits": mechanism("rappor", num_bits=256, f=0.5, p=0.5, q=0.75),
    "another oracle": mechanism("oue", domain_size=100, epsilon=1.0),
}


@pytest.mark.parametrize("offered", WEAKER.values(), ids=WEAKER)
def test_weaker_parameters_are_refused(offered):
    with pytest.raises(ParameterError, match="protect less"):
        Randomizer(offered, secret=SECRET, metric="m", built_with=BUILT)


@pytest.mark.parametrize("offered", NO_WEAKER.values(), ids=NO_WEAKER)
def test_parameters_that_protect_as_much_are_taken(offered):
    refuse_weaker(offered, BUILT)
    Randomizer(offered, secret=SECRET, metric="m", built_with=BUILT)


def test_weaker_only_in_between_is_weaker():
    """The redesign at RAPPOR's own two epsilons reveals a little more in 2 to 19 reports: that is seen."""
    redesigned = mechanism("rappor", num_hashes=1, f=0.2002, p=0.2239, q=0.5306)
    assert redesigned.epsilon_report <= BUILT.epsilon_report
    assert redesigned.epsilon_permanent <= BUILT.epsilon_permanent
    with pytest.raises(ParameterError, match=r"epsilon of \d+ reports"):
        refuse_weaker(redesigned, BUILT)


def test_without_permanent_noise_anything_permanent_is_taken():
    fresh = mechanism("basic-rappor", domain_size=5, f=0.0, p=0.25, q=0.75)
    assert fresh.epsilon_permanent == math.inf
    refuse_weaker(mechanism("basic-rappor", domain_size=5, f=0.25, p=0.25, q=0.75), fresh)
