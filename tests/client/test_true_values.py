"""No oracle's true encoding is ever kept: not in the queue, not in the state."""

import inspect
import sqlite3

import pytest

from overstory.client import Outcome
from overstory.client.budget import ledger_of
from overstory.client.session import MetricRecorder
from overstory.client.state.secret_file import DeviceSecret
from overstory.client.state.state import State
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.terms import terms_of
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import REGISTRY as ORACLES
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.metrics import MetricRegistry, RegistryError
from support.devices import device, registry

TRIED = (
    "{}",
    "{epsilon = 1.0}",
    "{f = 0.5}",
    "{epsilon_permanent = 2.0}",
    "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
    "{epsilon = 1.0, window = 4}",
    "{epsilon_permanent = 2.0, epsilon_report = 1.0, num_sampled = 2}",
    "{epsilon_permanent = 2.0, epsilon_report = 1.0, hash_range = 2}",
)
DOMAINS = ('domain = {kind = "integers", min = 0, max = 8}', 'domain = {kind = "strings", candidates = "unread.txt"}')


def metric_of(oracle, parameters=TRIED):
    """A metric of an oracle, by the first domain and parameters that it takes."""
    for domain in DOMAINS:
        for given in parameters:
            rest = f'{domain}\noracle = "{oracle}"\nparameters = {given}\nperiod = "day"\n'
            try:
                return registry(m=rest)["m"]
            except RegistryError:
                continue
    raise AssertionError(inspect.signature(ORACLES[oracle]))


def truth(mechanism, encoded, cohort):
    if isinstance(mechanism, BitMechanism):
        return mechanism.encode(encoded, cohort)
    return mechanism.encoding.symbol(encoded, cohort) if isinstance(mechanism, SymbolMechanism) else None


@pytest.mark.parametrize("oracle", sorted(ORACLES))
def test_what_waits_in_memory_is_not_the_true_encoding(oracle):
    metric = metric_of(oracle)
    value = 3 if "integers" in str(metric.domain.canonical()) else "value"
    alike = 0
    for _ in range(60):
        recorder = MetricRecorder(metric, DeviceSecret.fresh().key(metric.id))
        made = recorder.make(value, 1)
        if made.permanent:
            true = truth(metric.mechanism, metric.encode(value), recorder._randomizer.cohort)
            alike += int.from_bytes(made.permanent, "little") == true
    # The likeliest to be kept by chance is one sign of two: at most 3 of 4 times under these parameters.
    assert alike < 60
    assert bool(made.permanent) != terms_of(metric.mechanism).fresh


ALL = {oracle: metric_of(oracle) for oracle in sorted(ORACLES)}
FRESH = [metric for metric in ALL.values() if terms_of(metric.mechanism).fresh]


@pytest.mark.parametrize(
    "metric", [*FRESH, metric_of("rappor", ["{f = 0.0, p = 0.25, q = 0.75}"])], ids=lambda metric: metric.mechanism.name
)
def test_where_all_noise_is_fresh_nothing_of_the_value_is_kept(tmp_path, metric, clock):
    client = device(tmp_path, clock=clock, registry=MetricRegistry({"m": metric}, "now"))
    values = [0, 7, 7, 3] if "integers" in str(metric.domain.canonical()) else ["a", "b", "b", "c"]
    for value in values:
        clock.tomorrow()
        assert client.record("m", value) is Outcome.RECORDED
    assert {report.permanent for report in client._session._pending} == {b""}
    assert len({report.tag for report in client._session._pending}) == 1
    assert client.flush().written == {"queued": 4}
    clock.tomorrow()
    assert client.record("m", values[0]) is Outcome.RECORDED
    client.flush()
    connection = sqlite3.connect(client.paths.database)
    assert connection.execute("SELECT permanent, tag, reports FROM responses").fetchall() == [(b"", bytes(16), 5)]
    assert connection.execute("SELECT DISTINCT response FROM outbox").fetchall() == [(None,)]
    connection.close()
    with State(client.paths).snapshot() as rows:
        (account,) = ledger_of(rows).accounts
        assert account.numbered == ((0, 5),)  # of whatever values
        assert metric_cost(metric, so_far=ledger_of(rows)).made == 5
        assert ledger_of(rows).epsilon_any == terms_of(metric.mechanism).epsilon_any(5)


def test_the_window_mechanisms_are_among_those_whose_noise_is_fresh():
    assert {"wb", "opt-wb"} <= {metric.mechanism.name for metric in FRESH} < set(ORACLES)
