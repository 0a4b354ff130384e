"""Every fault that a client was made with on purpose is seen, and one that does as declared is not accused."""

from collections import Counter

import numpy as np
import pytest

from overstory.audit.answers import OwnClient, declare
from overstory.audit.audit import Settings, audit
from overstory.audit.conformance import pairs_of
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from support import audited_clients as clients
from support import contract_cases
from support.audited_clients import SMALL, OtherMechanism, SimulatedClient, TruthNowAndThen, f_for, small_rappor

RAPPOR = small_rappor()
DECLARED = {
    "grr": {"domain_size": 6, "epsilon": 1.0},
    "olh": {"domain_size": 50, "epsilon": 1.0},
    "linear-hash": {"domain_size": 50, "epsilon": 1.0},
    "hadamard": {"domain_size": 50, "epsilon": 1.0},
    "l-grr": {"domain_size": 6, "epsilon_permanent": 2.0, "epsilon_report": 1.0},
    "subset": {"domain_size": 10, "epsilon": 1.0},
    "projective": {"domain_size": 40, "epsilon": 1.0},
}


def with_f(f):
    """Return what makes a RAPPOR client of another f than declared."""
    return lambda seed: OtherMechanism(seed, mechanism("rappor", **SMALL, f=f))


QUICK = {
    "p and q swapped": (clients.Swapped, 500, "rate of set bits"),
    "permanent response drawn again": (clients.Redrawn, 1000, "memory of set bits"),
    "one noise for all devices": (clients.SharedNoise, 500, "bits alike"),
    "seeded by the second": (clients.SameEachTime, 500, "processes started at once"),
    "one number for all bits": (clients.OneUniform, 500, "pairs of bits"),
    "bit 5 never randomized": (clients.TrueBit, 500, "bits alike"),
    "true bit never cleared": (clients.NeverCleared, 500, "rate of set bits"),
    "f halved": (with_f(0.25), 1000, "rate of unset bits"),
    "second value with the first one's noise": (clients.OneNoisePerDevice, 1000, "two values of a device"),
    "two metrics with one noise": (clients.OneNoiseForMetrics, 1000, "two metrics of a device"),
}
LONG = {
    "epsilon 10% too large": (with_f(f_for(1.1 * RAPPOR.epsilon)), 32_000),
    "epsilon 5% too large": (with_f(f_for(1.05 * RAPPOR.epsilon)), 128_000),
    "truth in 1% of reports": (lambda seed: TruthNowAndThen(seed, 0.01), 32_000),
    "truth in 0.1% of reports": (lambda seed: TruthNowAndThen(seed, 0.001), 256_000),
}


def caught(make, reports):
    """Audit ten clients, each with a fixed seed of its own: nine must be caught. Return the checks that failed."""
    settings = Settings(reports=reports)
    results = [audit(RAPPOR, make((1, seed)), settings, rng=np.random.default_rng(seed)) for seed in range(10)]
    failed = [name for result in results for name in result.failed]
    assert sum(result.verdict != "no fault found" for result in results) >= 9, Counter(failed)
    return failed


@pytest.mark.sampled(5)
@pytest.mark.parametrize("fault", QUICK)
def test_a_broken_client_is_caught(fault):
    """In as few reports as docs/how-to/audit.md says."""
    make, reports, check = QUICK[fault]
    assert check in caught(make, reports)


@pytest.mark.slow
@pytest.mark.parametrize("fault", LONG)
def test_a_client_that_is_a_little_wrong_is_caught(fault):
    caught(*LONG[fault])


def weaker(name):
    """Return what makes a client of the same encoding at epsilon 1.5."""
    exact = mechanism(name, **DECLARED[name])
    sizes = {"olh": "hash_range", "subset": "subset_size", "projective": "field_size"}
    same = {size: getattr(exact.encoding, size) for one, size in sizes.items() if one == name}
    return lambda seed: OtherMechanism(seed, mechanism(name, **{**exact.parameters, **same, "epsilon": 1.5}))


def audited(name, client, reports=4000, **settings):
    declared = RAPPOR if name == "rappor" else declare(mechanism(name, **DECLARED[name]))
    return audit(declared, client, Settings(reports=reports, **settings), rng=np.random.default_rng(1))


SETS, MANY, OWN = ("subset", "projective"), {"reports": 10_000}, {"reports": 2000, "own_cohorts": True}
FAULTS = [
    ("rappor", clients.ManyOrFew, "number of ones", {}),
    ("rappor", clients.Redrawn, "memory of unset bits", {}),
    ("rappor", clients.OneCohortSwapped, "cohorts alike", {}),
    ("rappor", clients.TwoByTwo, "agreement of neighbouring devices", {}),
    ("rappor", clients.TwoByTwo, "identical neighbouring reports", {}),
    *((name, clients.Redrawn, f"memory of the {'report' if name in SETS else 'symbol'}", MANY) for name in DECLARED),
    *((name, clients.OneNoiseForMetrics, "two metrics of a device", MANY) for name in DECLARED),
    *((name, weaker(name), "rate of the own symbol", {}) for name in ("grr", "olh", "hadamard")),
    *((name, weaker(name), "rate of reports in the own set", {}) for name in SETS),
    ("grr", clients.NeverTheLast, "reported symbols", {}),
    ("subset", clients.NeverTheLast, "other values alike", {}),
    ("projective", clients.NeverTheLast, "points alike", {}),
    ("grr", clients.NextSymbol, "other symbols even", {}),
    *((name, clients.OneValueTrue, "values alike", {}) for name in ("rappor", "grr", "subset")),
    ("hadamard", clients.FewCohortsTrue, "cohorts alike", {}),
    ("subset", clients.Neighbours, "pairs of other values", {}),
    *((name, clients.Repeated, "identical neighbouring reports", {}) for name in ("grr", *SETS)),
    *((name, clients.CohortOfTheValue, "cohorts and values", OWN) for name in ("olh", "linear-hash", "hadamard")),
    *((name, clients.LowCohorts, "cohorts uniform", OWN) for name in ("olh", "linear-hash", "hadamard")),
    ("linear-hash", clients.FewSeeds, "seeds drawn twice", OWN),
    ("olh", clients.CohortForgotten, "memory of the cohort", OWN),
]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(("name", "make", "check", "settings"), FAULTS)
def test_the_check_that_fails_names_the_fault(name, make, check, settings):
    assert check in audited(name, make(1), **settings).failed


@pytest.mark.sampled(6)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", ["rappor", *DECLARED])
def test_a_right_client_passes(name, own):
    assert audited(name, SimulatedClient(1), 2000, own_cohorts=own).failed == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DECLARED)
def test_runs_that_draw_the_same_numbers_are_noticed(name):
    failed = audited(name, clients.SameEachTime(1), 2000).failed
    assert failed == ["processes started at once", "two metrics of a device"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", DECLARED)
def test_noise_that_two_values_share_is_noticed(name):
    reports = 40_000 if name == "hadamard" else 10_000  # a sign says less, and half of the values have the same one
    assert audited(name, clients.OneNoisePerDevice(1), reports).failed == ["two values of a device"]


def test_a_fault_that_reveals_more_than_declared_violates():
    result = audited("rappor", TruthNowAndThen(1, 0.1), 20_000)
    assert result.verdict == "violates"
    assert result.lower > RAPPOR.epsilon
    assert max(result.games, key=lambda game: game.lower).name == "truth"


def test_a_leak_that_no_declaration_names_is_learned():
    """Bit 30 is the value's parity, in reports that are right otherwise; of the pair, neither value sets it."""

    class Parity(SimulatedClient):
        def sent(self, declared, asked, cohorts, reports):
            reports[:, 30] = asked.values % 2
            return reports

    result = audited("rappor", Parity(1))
    assert (result.verdict, max(result.games, key=lambda game: game.lower).name) == ("violates", "learned")
    assert result.lower > 4


def test_a_restart_that_forgets_is_noticed():
    """Each run of the simulated client draws its devices' permanent responses again."""
    result = audited("rappor", SimulatedClient(1), restart=True)
    assert result.failed == ["memory of set bits after a restart", "memory of unset bits after a restart"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("grr", {"domain_size": 1 << 20, "epsilon": 8.0}),
        ("olh", {"domain_size": 10**6, "epsilon": 9.0}),
        ("subset", {"domain_size": 400, "epsilon": 1.0}),
        ("oue", {"domain_size": 600, "epsilon": 1.0}),
    ],
)
def test_large_domains_are_checked_in_groups(name, parameters):
    declared = declare(mechanism(name, **parameters))
    result = audit(declared, SimulatedClient(1), Settings(reports=500), rng=np.random.default_rng(1))
    assert result.verdict == "no fault found", result.failed


def test_more_bits_than_the_memory_holds_are_refused():
    declared = declare(mechanism("oue", domain_size=60_000, epsilon=1.0), most=2)
    with pytest.raises(ParameterError, match=r"60,000 bits each are too many for the memory; give at most 8,947"):
        audit(declared, SimulatedClient(1), Settings(reports=100_000))


def test_pairs_of_bits_are_counted_block_by_block(monkeypatch):
    rng = np.random.default_rng(1)
    ones, lines = (rng.integers(0, 2, (50, 7)) for _ in range(2))
    raised, lowered = ones * lines, (1 - ones) * lines
    for block in (1 << 14, 8):
        monkeypatch.setattr("overstory.audit.conformance.BLOCK", block)
        high, low, asked = pairs_of(ones, lines)
        assert np.array_equal(high, raised.T @ raised)
        assert np.array_equal(low, lowered.T @ lowered)
        assert np.array_equal(asked, lines.T @ lines)


CASES = [
    pytest.param(name, parameters, id=name, marks=[pytest.mark.slow] * (cases is contract_cases.SMALL))
    for cases in (contract_cases.TYPICAL, contract_cases.SMALL)
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
def test_a_large_audit_accuses_nobody(reports):
    declared = small_rappor()
    for seed in range(3):
        result = audit(declared, SimulatedClient((4, seed)), Settings(reports=reports), rng=np.random.default_rng(seed))
        assert result.verdict == "no fault found", result.failed
        assert result.detectable_excess < 0.2


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_our_own_client_is_as_declared(name, parameters):
    """The client's noise is the system's: at alpha 1e-9 these audits fail once in a million runs of all of them."""
    declared = declare(mechanism(name, **parameters))
    settings = Settings(reports=1000, alpha=1e-9, own_cohorts=True, restart=True)
    result = audit(declared, OwnClient(), settings)
    assert result.verdict == "no fault found", result.failed
    assert 0 <= result.lower <= declared.epsilon
