"""Law 8: a device takes no other parameters than those that its program was built with."""

import math

import pytest

from overstory.client import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.registry import mechanism

SECRET = b"a device's secret, long enough"
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
