"""A mechanism of a dozen lines, put in the registry for a test, passes through everything there is."""

from typing import Any

import numpy as np
import pytest

import overstory
from overstory.client import Randomizer
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.kinds.bits import BitMechanism, OneHot
from overstory.protocol.kinds.registry import REGISTRY
from overstory.protocol.wire.upload import decode_batch, encode_reports
from support.contract_devices import sample_bulk, sample_devices, sample_strangers
from support.contract_enumeration import exact_epsilon
from support.contract_statistics import check_pairs, check_rates, check_repeats


def toy(*, domain_size: int, tilt: float = 0.125) -> BitMechanism:
    """Two one-hot rounds that no paper has."""
    parameters: dict[str, Any] = dict(locals())
    rounds = Rounds(BinaryChannel.of(0.75 + tilt, tilt), BinaryChannel.of(0.625, 0.125))
    return BitMechanism("toy", parameters, OneHot(domain_size), rounds)


@pytest.fixture
def oracle(monkeypatch):
    monkeypatch.setitem(REGISTRY.places, "toy", f"{__name__}:toy")
    return overstory.oracle("toy", domain_size=5)


def test_its_epsilon_is_exact(oracle):
    for reports in (1, 2, 0):
        declared = oracle.mechanism.epsilon_n(reports) if reports else oracle.epsilon_permanent
        assert 0 <= declared - float(exact_epsilon(oracle.mechanism, reports)) < 1e-9


@pytest.mark.parametrize("collect", [sample_devices, sample_strangers, sample_bulk])
def test_its_bits_follow_its_channels(oracle, collect):
    sample = collect(oracle.mechanism, 1000)
    check_rates(sample, oracle.channel)
    check_pairs(sample, oracle.channel)
    if len(sample.reports) > 1:
        check_repeats(sample, oracle.mechanism.rounds.permanent, oracle.mechanism.rounds.instantaneous)


def test_its_reports_travel_and_add_up_to_an_estimate(oracle):
    symbols = np.repeat(np.arange(5), [5000, 3000, 1500, 500, 0])
    batch = oracle.simulate(symbols, np.random.default_rng(1))
    received = decode_batch(batch.to_wire(oracle.mechanism.digest))
    assert received.digest == oracle.mechanism.digest
    counts = oracle.accumulate(received)
    assert counts == oracle.accumulate(batch)
    estimate = oracle.estimate(counts)
    spread = np.sqrt([oracle.variance(len(symbols), x) for x in (0.5, 0.3, 0.15, 0.05, 0.0)]) * len(symbols)
    assert np.allclose(estimate.standard_errors, spread, rtol=0.1)
    assert np.all(np.abs(estimate.raw_counts - [5000, 3000, 1500, 500, 0]) < 7 * spread)


def test_a_device_reports_it(oracle):
    device = Randomizer(oracle.mechanism, secret=bytes(16), metric="toy")
    reports = [device.report(3) for _ in range(20)]
    assert list(decode_batch(encode_reports(oracle.mechanism, reports))) == reports
