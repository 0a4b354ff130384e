"""A client that does as declared is not accused: simulated ones, our own for every oracle, `encode` as a command."""

import sys
from pathlib import Path

import numpy as np
import pytest

from overstory.audit.answers import declare
from overstory.audit.audit import Settings, audit
from overstory.audit.clients import OwnClient, Program
from overstory.protocol.kinds.registry import mechanism
from support.audited_clients import SimulatedClient, small_rappor
from support.contract_cases import SMALL, TYPICAL

CASES = [
    pytest.param(name, parameters, id=name, marks=[pytest.mark.slow] * (cases is SMALL))
    for cases in (TYPICAL, SMALL)
    for name in cases
    for parameters in cases[name]
]


@pytest.mark.slow
def test_400_audits_of_a_right_client_hardly_alarm():
    """Of 400 audits, each with a chance of an alarm of at most .002, at most .8 alarm: 5 or more, once in 700 times."""
    declared, settings = small_rappor(), Settings(reports=4000, own_cohorts=True)
    results = [
        audit(declared, SimulatedClient((2, seed)), settings, rng=np.random.default_rng((3, seed)))
        for seed in range(400)
    ]
    assert sum(result.verdict != "no fault found" for result in results) < 5
    smallest = np.array([min(check.p_value for check in result.checks) for result in results])
    assert 0 < (smallest < 0.05).mean() < 0.7  # the checks are live, and together no more often low than 14 may be


@pytest.mark.slow
def test_the_noise_of_two_values_and_metrics_is_seldom_called_alike():
    """Of 120 right clients at most 12 are expected below .1; 31 or more come once in 10^6 times. Seeds are fixed."""
    declared, settings = small_rappor(), Settings(reports=200, repeats=3, own_cohorts=True)
    results = [
        audit(declared, SimulatedClient((5, seed)), settings, rng=np.random.default_rng((6, seed)))
        for seed in range(120)
    ]
    for name in ("two values of a device", "two metrics of a device"):
        p_values = [check.p_value for result in results for check in result.checks if check.name == name]
        assert len(p_values) == 120
        assert 0 < np.count_nonzero(np.array(p_values) < 0.1) < 31


@pytest.mark.slow
@pytest.mark.parametrize("reports", [100_000, 1_000_000])
def test_a_large_audit_accuses_nobody(reports: int) -> None:
    declared = small_rappor()
    for seed in range(3):
        result = audit(declared, SimulatedClient((4, seed)), Settings(reports=reports), rng=np.random.default_rng(seed))
        assert result.verdict == "no fault found", result.failed
        assert result.detectable_excess < 0.2


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_our_own_client_is_as_declared(name: str, parameters) -> None:
    """The client's noise is the system's: at alpha 1e-9 these audits fail once in a million runs of all of them."""
    declared = declare(mechanism(name, **parameters))
    settings = Settings(reports=1000, alpha=1e-9, own_cohorts=True, restart=True)
    result = audit(declared, OwnClient(), settings)
    assert result.verdict == "no fault found", result.failed
    assert 0 <= result.lower <= declared.epsilon


def test_encode_is_as_declared(tmp_path: Path) -> None:
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n32,2,8,0.5,0.75,0.5\n")
    encode = [sys.executable, "-m", "overstory", "encode", "--params", str(tmp_path / "params.csv")]
    result = audit(small_rappor(), Program([*encode, "--values", "-", "-o", "-"]), Settings(reports=20_000, alpha=1e-9))
    assert result.verdict == "no fault found", result.failed
    assert result.lines == 20_000 + 3 * 2000 + 2 * 400 * 16
