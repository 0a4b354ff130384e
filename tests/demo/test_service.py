"""A collector in a process of its own: what is said when it does not start, refuses a batch, or is gone."""

import datetime as dt
import time

import numpy as np
import pytest

from overstory.analysis.oracle import FrequencyOracle
from overstory.cli.analysis.demo import METRIC, CollectorService, ServiceError, write_registry
from overstory.files.rappor import RapporParameters
from overstory.protocol.metrics import Period

STATES = ["Ohio", "Utah"]
PARAMETERS = RapporParameters(k=32, h=2, m=4, p=0.5, q=0.75, f=0.5)


@pytest.fixture
def service(tmp_path):
    """A collector of the demonstration's registry."""
    (tmp_path / "candidates.txt").write_text("".join(f"{state}\n" for state in STATES))
    write_registry(tmp_path / "metrics.toml", tmp_path / "candidates.txt", PARAMETERS, dt.datetime.now(dt.UTC).date())
    return CollectorService(tmp_path / "metrics.toml", tmp_path / "store.db", tmp_path / "collector.log")


def packed(parameters=PARAMETERS):
    mechanism = parameters.mechanism()
    batch = FrequencyOracle(mechanism).simulate(np.zeros(50, int), np.random.default_rng(1), candidates=STATES)
    return batch.to_wire(mechanism.digest)


def today():
    return Period.parse("day").number(time.time())


def post_and_lose(service):
    with service:
        assert service.post(METRIC, today(), packed()) == 50
        service._process.kill()
        service._process.wait()
        service.post(METRIC, today(), packed())


def test_batches_are_taken_until_the_collector_is_gone(service):
    with pytest.raises(ServiceError, match=r"does not answer .*collector\.log"):
        post_and_lose(service)


def test_reports_of_another_mechanism_are_refused_and_that_is_said(service):
    other = RapporParameters(k=32, h=2, m=4, p=0.5, q=0.75, f=0.25)
    with pytest.raises(ServiceError, match=r"refused reports.*wrong-parameters"), service:
        service.post(METRIC, today(), packed(other))


def test_a_collector_that_does_not_start_is_said_with_its_log(tmp_path):
    absent = CollectorService(tmp_path / "none.toml", tmp_path / "store.db", tmp_path / "collector.log")
    with pytest.raises(ServiceError, match=r"did not start; see .*collector\.log"), absent:
        absent.post(METRIC, today(), packed())
    assert "none.toml" in (tmp_path / "collector.log").read_text()
