"""Numbers as metrics: the laws of privacy and permanence, exactly, at small resolutions.

Every response of a device is a keyed function of its position, so over time a device sends one draw for each position
it ever had, and one for nothing. All histories of a few reports are enumerated, as fractions, from the device's code.
"""

import itertools
import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

import pytest

from overstory.client import Outcome
from overstory.client.session import MetricRecorder
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.terms import terms_of
from overstory.protocol.channels import log_ratio
from overstory.protocol.kinds.registry import any_mechanism
from overstory.protocol.metrics import parse_registry
from support.exact_draws import law_of_no_number, law_of_number
from support.registry_texts import registry_text

ROOM = '{kind = "interval", min = -10, max = 50}'
LIMITS = {"minimum": -10.0, "maximum": 50.0}


def built(name, resolution=3, epsilon=1.0):
    return any_mechanism(name, epsilon=epsilon, resolution=resolution, **LIMITS)


def history_law(laws, pattern):
    """Return P(sequence of reports | history): equal entries send one draw, different ones independent draws."""
    distinct = list(dict.fromkeys(pattern))
    joint = defaultdict(Fraction)
    for drawn in itertools.product(*(laws[entry].items() for entry in distinct)):
        sent = dict(zip(distinct, (payload for payload, _ in drawn), strict=True))
        joint[tuple(sent[entry] for entry in pattern)] += math.prod(chance for _, chance in drawn)
    return joint


def worst(first, second):
    """Return the largest log ratio of two laws, either way; infinite where one has an outcome that the other lacks."""
    if first.keys() != second.keys():
        return math.inf
    return max(abs(log_ratio(first[outcome], second[outcome])) for outcome in first)


@pytest.mark.parametrize("name", ["hybrid", "square-wave"])
def test_histories_with_one_pattern_cost_an_epsilon_per_value(name):
    """Three reports: what a ledger charges for one, two and three different values is what enumeration says."""
    mechanism = built(name, resolution=2)
    laws = {place: law_of_number(mechanism, place) for place in range(mechanism.domain_size)}
    laws["nothing"] = law_of_no_number(mechanism)
    shapes = defaultdict(list)
    for history in itertools.product(laws, repeat=3):
        order = list(dict.fromkeys(history))
        shapes[tuple(order.index(entry) for entry in history)].append(history_law(laws, history))
    for shape, joint in shapes.items():
        exact = max(worst(first, second) for first, second in itertools.combinations(joint, 2))
        charged = (max(shape) + 1) * Decimal(mechanism.epsilon_permanent)
        assert exact <= charged, shape
    assert terms_of(mechanism).proves_changes


def room(**more):
    lines = [f"{key} = {value}" for key, value in more.items()]
    text = registry_text(
        *lines, metric="room", domain=ROOM, oracle="hybrid", parameters="{epsilon = 1.0, resolution = 60}"
    )
    return parse_registry(text)


@pytest.mark.parametrize(("rule", "sent"), [("nearest", [0, 1, 0, 1, 0]), ("first", [0, 1, 0, 0, 0])])
def test_a_number_too_many_is_reported_as_the_rule_says(rule, sent):
    metric = room(max_values=2, over_cap=f'"{rule}"')["room"]
    recorder = MetricRecorder(metric, bytes(32))
    tags = [recorder.make(value, period).tag for period, value in enumerate((10.0, 30.0, 12.0, 29.0, 20.0))]
    assert [tags.index(tag) for tag in tags] == sent


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, None, "21", True, 10**400])
def test_what_is_no_number_is_reported_as_nothing(value):
    metric = room()["room"]
    recorder = MetricRecorder(metric, b"k" * 32)  # of this key, the largest number's response is not nothing's
    made = recorder.make(value, 0)
    assert made.outcome is (Outcome.RECORDED if value == 10**400 else Outcome.UNFIT)
    assert (made.permanent == recorder.nothing()) == (value != 10**400)


def test_the_page_prices_every_value():
    lines = {line.kind: line.epsilon for line in metric_cost(room(max_values=5)["room"]).lines}
    assert lines["values"] == pytest.approx(5.0, abs=1e-6)
    assert lines["any"] == math.inf
    assert lines["permanent"] == pytest.approx(1.0, abs=1e-6)
    free = {line.kind: line.epsilon for line in metric_cost(room()["room"]).lines}
    assert free["values"] == pytest.approx(62.0, abs=1e-5)  # 61 positions, and nothing
