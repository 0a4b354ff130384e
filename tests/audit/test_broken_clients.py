"""Every fault that a client was made with on purpose is seen, in as few reports as the page says."""

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from overstory.audit.audit import Settings, audit
from support.audited_clients import (
    ManyOrFew,
    NeverCleared,
    OneCohortSwapped,
    OneNoiseForMetrics,
    OneNoisePerDevice,
    OneUniform,
    OneValueTrue,
    OtherParameters,
    Redrawn,
    SeededByTheSecond,
    SharedNoise,
    SimulatedClient,
    Swapped,
    TrueBit,
    TruthNowAndThen,
    TwoByTwo,
    f_for,
    small_rappor,
)

RAPPOR = small_rappor()

QUICK = {
    "p and q swapped": (Swapped, 500),
    "permanent response drawn again": (Redrawn, 1000),
    "one noise for all devices": (SharedNoise, 500),
    "seeded by the second": (SeededByTheSecond, 500),
    "one number for all bits": (OneUniform, 500),
    "bit 5 never randomized": (TrueBit, 500),
    "true bit never cleared": (NeverCleared, 500),
    "f halved": (lambda seed: OtherParameters(seed, 0.25), 1000),
    "second value with the first one's noise": (OneNoisePerDevice, 1000),
    "two metrics with one noise": (OneNoiseForMetrics, 1000),
}
OTHERS = {
    "one value true": (OneValueTrue, 4000),
    "one cohort swapped": (OneCohortSwapped, 4000),
    "many ones or few": (ManyOrFew, 4000),
    "noise of the device before": (TwoByTwo, 4000),
}
LONG = {
    "epsilon 10% too large": (lambda seed: OtherParameters(seed, f_for(1.1 * RAPPOR.epsilon)), 32_000),
    "epsilon 5% too large": (lambda seed: OtherParameters(seed, f_for(1.05 * RAPPOR.epsilon)), 128_000),
    "truth in 1% of reports": (lambda seed: TruthNowAndThen(seed, 0.01), 32_000),
    "truth in 0.1% of reports": (lambda seed: TruthNowAndThen(seed, 0.001), 256_000),
}


def outcomes(make: Any, reports: int, audits: int) -> list[Any]:
    """Audit as many clients, each with a fixed seed of its own."""
    settings = Settings(reports=reports)
    return [audit(RAPPOR, make((1, seed)), settings, rng=np.random.default_rng(seed)) for seed in range(audits)]


def caught(results: list[Any]) -> int:
    return sum(result.verdict != "no fault found" for result in results)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("fault", QUICK)
def test_a_broken_client_is_caught(fault: str) -> None:
    results = outcomes(*QUICK[fault], audits=10)
    assert caught(results) >= 9, Counter(name for result in results for name in result.failed)


@pytest.mark.slow
@pytest.mark.parametrize("fault", LONG)
def test_a_client_that_is_a_little_wrong_is_caught(fault: str) -> None:
    results = outcomes(*LONG[fault], audits=10)
    assert caught(results) >= 9, Counter(name for result in results for name in result.failed)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ("p and q swapped", "rate of set bits"),
        ("permanent response drawn again", "memory of unset bits"),
        ("one noise for all devices", "bits alike"),
        ("seeded by the second", "processes started at once"),
        ("one number for all bits", "pairs of bits"),
        ("bit 5 never randomized", "bits alike"),
        ("true bit never cleared", "rate of set bits"),
        ("f halved", "rate of unset bits"),
        ("permanent response drawn again", "memory of set bits"),
        ("second value with the first one's noise", "two values of a device"),
        ("two metrics with one noise", "two metrics of a device"),
        ("one value true", "values alike"),
        ("one cohort swapped", "cohorts alike"),
        ("many ones or few", "number of ones"),
        ("noise of the device before", "agreement of neighbouring devices"),
        ("noise of the device before", "identical neighbouring reports"),
    ],
)
def test_the_check_that_fails_names_the_fault(fault: str, check: str) -> None:
    make, _ = (QUICK | OTHERS)[fault]
    (result,) = outcomes(make, 4000, audits=1)
    assert check in result.failed


def test_a_right_client_is_not() -> None:
    assert caught(outcomes(SimulatedClient, 4000, audits=10)) == 0


def test_a_fault_that_reveals_more_than_declared_violates() -> None:
    (result,) = outcomes(lambda seed: TruthNowAndThen(seed, 0.1), 20_000, audits=1)
    assert result.verdict == "violates"
    assert result.lower > RAPPOR.epsilon
    assert max(result.games, key=lambda game: game.lower).name == "truth"


def test_a_note_shows_the_f_that_reports_were_made_with() -> None:
    settings = Settings(reports=100_000)
    result = audit(RAPPOR, OtherParameters(1, 0.45), settings, rng=np.random.default_rng(1))
    low, high = map(float, re.findall(r"0\.\d{4}", result.notes[0]))
    assert low <= 0.45 <= high < 0.5


def test_a_leak_that_no_declaration_names_is_learned() -> None:
    """Bit 30 is the value's parity, in reports that are right otherwise; of the pair, neither value sets it."""

    class Parity(SimulatedClient):
        def run(self, declared: Any, asked: Any) -> Any:
            answers = super().run(declared, asked)
            answers.reports[:, 30] = asked.values % 2
            return answers

    result = audit(RAPPOR, Parity(1), Settings(reports=4000), rng=np.random.default_rng(1))
    assert (result.verdict, max(result.games, key=lambda game: game.lower).name) == ("violates", "learned")
    assert result.lower > 4


def test_a_restart_that_forgets_is_noticed() -> None:
    """Each run of the simulated client draws its devices' permanent responses again."""
    settings = Settings(reports=4000, restart=True)
    result = audit(RAPPOR, SimulatedClient(1), settings, rng=np.random.default_rng(1))
    assert result.failed == ["memory of set bits after a restart", "memory of unset bits after a restart"]
