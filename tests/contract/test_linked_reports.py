"""The laws for linked reports: by enumeration of every output of two small oracles, and on the parts' noise."""

import math

import numpy as np
import pytest
from test_kind_laws import GRR, KINDS, OUE

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.client import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.joint import joint
from support.likelihoods import payloads_of

SECRET = bytes(range(32))
FILTER = {"oracle": "rappor", "num_bits": 5, "num_hashes": 2, "num_cohorts": 2}
LINKED = {name: kind for name, kind in KINDS.items() if kind[0].name == "joint"}
each_kind = pytest.mark.parametrize(("built", "values"), LINKED.values(), ids=LINKED)
CELLS, _ = LINKED["grr with unary"]


@each_kind
def test_law_2_a_value_outside_is_refused(built, values):
    device = Randomizer(built, secret=SECRET, metric="pair")
    for wrong in ((0,), (0, 1, 2), "ash", None, (99, 99), -1):
        with pytest.raises(ParameterError):
            device.report(wrong)


def test_a_cell_is_a_pair():
    device = Randomizer(CELLS, secret=SECRET, metric="pair")
    assert [device.permanent(2 * x + y) for x in range(3) for y in range(2)] == [
        device.permanent((x, y)) for x in range(3) for y in range(2)
    ]


@each_kind
def test_law_4_a_change_of_one_part_does_not_redraw_the_other(built, values):
    for number in range(40):
        device = Randomizer(built, secret=number.to_bytes(16, "big"), metric="pair")
        seen: dict[tuple[int, object], set[int]] = {}
        for value in values:
            for place, permanent in enumerate(built.payloads(device.permanent(value))):
                seen.setdefault((place, value[place]), set()).add(permanent)
        assert all(len(permanents) == 1 for permanents in seen.values())


def agreement(first, second):
    """How many standard deviations the agreement of two lists of bits is from chance."""
    p, q, n = np.mean(first), np.mean(second), len(first)
    both = np.sum(np.logical_and(first, second))
    return abs(both - n * p * q) / math.sqrt(n * p * (1 - p) * q * (1 - q))


def test_law_4_equal_parts_draw_independent_noise():
    """One bit of each part over 4,000 devices; false alarms at 5 standard deviations: 6e-7."""
    built, _ = LINKED["the same twice"]
    pairs = []
    for number in range(4000):
        respond = built.responder(number.to_bytes(16, "big"), "pair", 0)
        pairs.append(built.payloads(respond((1, 1))))
    x, y = np.array(pairs).T & 1
    assert agreement(x, y) < 5
    # A part that took the other's noise would be caught: both then derive from one name.
    one = built.components[0]
    shared = [one.responder(number.to_bytes(16, "big"), "pair", 0)(1) & 1 for number in range(4000)]
    assert agreement(shared, shared) > 5


@each_kind
def test_law_3_simulated_devices_follow_the_devices_own_law(built, values):
    """Every payload's frequency over 60,000 simulated devices of one value; false alarms below 1e-6 for each case."""
    value = values[1]
    devices = SimulatedDevices.holding(built, [value], np.zeros(60_000, np.int64), np.random.default_rng(5))
    batch = devices.report()
    for cohort in range(built.num_cohorts):
        sent = batch.bits[batch.cohorts == cohort, 0]
        law = np.array([float(built.likelihood(Report(cohort, y), value)) for y in payloads_of(built, cohort)])
        seen = np.array([np.count_nonzero(sent == y) for y in payloads_of(built, cohort)])
        assert seen.sum() == len(sent)  # nothing that is not valid
        chi_square = ((seen - len(sent) * law) ** 2 / (len(sent) * law)).sum()
        degrees = len(law) - 1
        assert chi_square < degrees + 6 * math.sqrt(2 * degrees) + 20
        other = np.roll(law, 1)  # a law that is not this value's is caught
        assert ((seen - len(sent) * other) ** 2 / (len(sent) * other)).sum() > degrees + 6 * math.sqrt(2 * degrees) + 20


@each_kind
def test_every_number_below_the_limit_is_a_payload_of_valid_parts(built, values):
    """So a collector refuses what no device sends by one comparison."""
    seen = set()
    for payload in range(built.payload_limit):
        parts = built.payloads(payload)
        assert built.valid(payload)
        assert all(part.valid(each) for part, each in zip(built.components, parts, strict=True))
        seen.add(parts)
    assert len(seen) == built.payload_limit
    assert not built.valid(built.payload_limit)
    assert not built.valid(-1)


@pytest.mark.parametrize(
    ("of", "problem"),
    [
        ([GRR], "2 variables"),
        ([GRR, {"epsilon": 1.0}], r"of\[1\] names no oracle"),
        ([GRR, {"oracle": "olh", "epsilon": 1.0, "domain_size": 4}], "cannot link olh"),
        ([GRR, {"oracle": "oue", "epsilon": 1.0}], r"of\[1\]: oue needs the parameter domain_size"),
        ([FILTER, {**FILTER, "num_cohorts": 4}], "share one cohort"),
        ("grr", "give an oracle"),
    ],
)
def test_what_cannot_be_linked_is_refused(of, problem):
    with pytest.raises(ParameterError, match=problem):
        joint(of=of)


def test_the_domains_sizes_fill_in_and_must_agree():
    bare = [{"oracle": "grr", "epsilon": 1.0}, {"oracle": "oue", "epsilon": 0.7}]
    assert joint(of=bare, domain_sizes=[3, 2]) == CELLS
    with pytest.raises(ParameterError, match="there are 4 values"):
        joint(of=[GRR, OUE], domain_sizes=[4, 2])
    assert CELLS.domain_size == 6
