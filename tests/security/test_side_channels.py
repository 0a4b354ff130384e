"""What a collector could tell apart for nothing: sizes, headers, ids, and one metric's cohort by another's."""

import itertools
import math
import random
from pathlib import Path

import pytest

from overstory.client.randomizer import Randomizer
from overstory.client.session import MetricRecorder
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import RowState
from overstory.client.state.secret_file import DeviceSecret
from overstory.client.state.state import State
from overstory.client.upload.delivery import Collector
from overstory.client.upload.http import Response
from overstory.protocol.domains.domains import Categories, Strings
from overstory.protocol.domains.numbers import Bins, Integers
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import load_registry

REGISTRY = load_registry(Path(__file__).parents[2] / "examples" / "metrics.toml", read_candidates=False)
DEVICES = 4000
COHORTS = 8
VALUES = {
    Strings: lambda _: ["", "a", "ü" * 999],
    Categories: lambda domain: list(domain.names),
    Integers: lambda domain: [domain.minimum, domain.maximum],
    Bins: lambda domain: [domain.minimum, domain.maximum],
}


def cohorts(metric, secret):
    return Randomizer(mechanism("rappor", num_cohorts=COHORTS), secret=secret, metric=metric).cohort


def chi_square(pairs):
    table = [[0] * COHORTS for _ in range(COHORTS)]
    for first, second in pairs:
        table[first][second] += 1
    expected = len(pairs) / COHORTS**2
    return sum((count - expected) ** 2 / expected for row in table for count in row)


def limit(cells):
    """A bound that chi-square of so many cells exceeds once in a million (Wilson and Hilferty, 4.76 deviations)."""
    freedom = cells - 1
    return freedom * (1 - 2 / (9 * freedom) + 4.76 * math.sqrt(2 / (9 * freedom))) ** 3


def test_the_cohort_in_one_metric_says_nothing_about_that_in_another():
    rng = random.Random(7)
    secrets = [rng.randbytes(32) for _ in range(DEVICES)]
    independent = [(cohorts("one", secret), cohorts("two", secret)) for secret in secrets]
    assert chi_square(independent) < limit(COHORTS**2)
    the_same = [(cohorts("one", secret), cohorts("one", secret)) for secret in secrets]
    assert chi_square(the_same) > limit(COHORTS**2), "the test sees one cohort for all metrics"


@pytest.mark.parametrize("name", REGISTRY)
def test_all_reports_of_a_metric_have_one_size(name):
    metric = REGISTRY[name]
    values = VALUES[type(metric.domain)](metric.domain)
    sizes, ids = set(), set()
    for value, period in itertools.product(values, (0, 1, 20_000)):
        made = MetricRecorder(metric, DeviceSecret.fresh().key(metric.id)).make(value, period)
        sizes.add(len(made.body))
        ids.add(made.batch)
    assert len(sizes) == 1
    assert len(ids) == 3 * len(values)


def test_requests_of_two_devices_differ_in_their_bodies_alone(tmp_path):
    asked = []

    def transport(request):
        asked.append(request)
        return Response(503)

    name, metric, now = "search-engine", REGISTRY["search-engine"], 20_000.5 * 86_400
    period = metric.period.number(now)
    for device in ("one", "two"):
        state = State(StatePaths(tmp_path / device))
        made = MetricRecorder(metric, state.begin().key(metric.id)).make("x", period)
        with state.transaction() as rows:
            rows.outbox.add(made.batch, name, period, made.body, account=bytes(16), due=0.0, state=RowState.WAITING)
        Collector("http://collector.example", transport, clock=lambda: now).send_due(state, REGISTRY, seconds=5)
    first, second = asked
    assert first.headers() == second.headers() == {"Content-Type": first.media_type, "Connection": "close"}
    assert (first.url, len(first.body)) == (second.url, len(second.body))
    assert first.body != second.body
