"""The standard errors that a plan states: against the Fisher information of METHODS, and simulated collections.

Statistical tests have a false-alarm rate of 1e-6 each: the sum of n squared standardized errors is chi-square with n
degrees of freedom, and must lie between its 5e-7 and 1 - 5e-7 quantiles. Each is run against broken formulas too.
"""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from overstory.planning.detection import cohort_variance, count_error, fitted_candidates
from overstory.planning.kinds import mean_error
from overstory.protocol.kinds.registry import FAMILIES, any_mechanism, mechanism

FALSE_ALARM = 1e-6
PAPER = {"num_bits": 128, "num_hashes": 2, "num_cohorts": 16, "f": 0.5, "p": 0.5, "q": 0.75}
OURS = {"num_bits": 128, "num_hashes": 1, "num_cohorts": 16, "f": 0.2, "p": 0.2239, "q": 0.5307}


def designs(rng, built, candidates, times):
    """Design matrices with hashes drawn at random, shape (times, rows, candidates)."""
    bits, hashes, cohorts = (built.parameters[name] for name in ("num_bits", "num_hashes", "num_cohorts"))
    ranks = rng.random((times, cohorts, candidates, bits)).argsort(axis=-1)
    return (ranks < hashes).swapaxes(2, 3).reshape(times, cohorts * bits, candidates)


def simulated_errors(built, population, num_reports, times, seed, batch=100):
    """Errors of the least-squares count of the first string, one new collection with new hashes for each."""
    rng = np.random.default_rng(seed)
    cohorts, bits = built.encoding.num_cohorts, built.encoding.num_bits
    kept, raised = float(built.channel.keep_one), float(built.channel.raise_zero)
    errors = []
    for _ in range(times // batch):
        matrix = designs(rng, built, len(population), batch)
        truth = np.rint(population * num_reports).astype(int)
        members = rng.multinomial(truth, np.full(cohorts, 1 / cohorts), size=(batch, len(truth))).swapaxes(1, 2)
        by_cohort = matrix.reshape(batch, cohorts, bits, len(truth))
        ones = np.einsum("tcbs,tcs->tcb", by_cohort, members)
        totals = members.sum(axis=2)[:, :, None]
        counts = rng.binomial(ones, kept) + rng.binomial(totals - ones, raised)
        shares = (counts / totals - raised) / (kept - raised)
        dense = matrix.astype(float)
        target = np.einsum("trs,tr->ts", dense, shares.reshape(batch, -1))
        found = np.linalg.solve(np.einsum("trs,tru->tsu", dense, dense), target[:, :, None])[:, 0, 0]
        errors.extend(found * num_reports - truth[0])
    return np.array(errors)


def consistent(errors, standard_error):
    """Whether the errors have that standard error, by a two-sided chi-square test."""
    total = float(np.sum((errors / standard_error) ** 2))
    return FALSE_ALARM / 2 < chi2.cdf(total, len(errors)) < 1 - FALSE_ALARM / 2


def exponential(first):
    """A first string of that share, 19 others and 20 that nobody has."""
    tail = np.exp(-np.arange(19) / 5)
    return np.concatenate(([first], (1 - first) * tail / tail.sum(), np.zeros(20)))


CASES = {
    "paper": ({"num_bits": 16, "num_hashes": 2, "num_cohorts": 8, "f": 0.5, "p": 0.5, "q": 0.75}, 0.0),
    "one hash": ({"num_bits": 16, "num_hashes": 1, "num_cohorts": 8, "f": 0.2, "p": 0.2239, "q": 0.5307}, 0.0),
    "frequent": ({"num_bits": 16, "num_hashes": 1, "num_cohorts": 8, "f": 0.05, "p": 0.05, "q": 0.5}, 0.3),
    "little noise": ({"num_bits": 16, "num_hashes": 1, "num_cohorts": 8, "f": 0.01, "p": 0.01, "q": 0.6}, 0.0),
}


@pytest.fixture(scope="module", params=sorted(CASES))
def collected(request):
    parameters, first = CASES[request.param]
    built = mechanism("rappor", **parameters)
    return built, first, simulated_errors(built, exponential(first), 10**5, 2000, seed=7)


def test_the_stated_error_is_that_of_simulated_collections(collected):
    built, first, errors = collected
    assert consistent(errors, count_error(built, 10**5, first, 40))
    assert abs(errors.mean()) < 5 * errors.std() / math.sqrt(len(errors))


def test_broken_formulas_are_caught(collected):
    built, first, errors = collected
    right = count_error(built, 10**5, first, 40)
    assert not consistent(errors, count_error(built, 10**5, first, 1)), "collisions forgotten"
    assert not consistent(errors, right * float(built.channel.span)), "not debiased"
    one_round = mechanism("rappor", **{**built.parameters, "f": 0.75})
    assert not consistent(errors, count_error(one_round, 10**5, first, 40)), "another f"


def test_the_number_of_hashes_and_the_cohorts_luck_matter():
    paper, quiet = (mechanism("rappor", **CASES[name][0]) for name in ("paper", "little noise"))
    errors = simulated_errors(paper, exponential(0.0), 10**5, 2000, seed=8)
    assert not consistent(errors, count_error(paper, 10**5, 0.0, 40) * math.sqrt(2)), "h forgotten"
    errors = simulated_errors(quiet, exponential(0.0), 10**5, 2000, seed=9)
    luck = 10**5 * math.sqrt(cohort_variance(quiet, 10**5, 0.0, 40))
    without = math.sqrt(count_error(quiet, 10**5, 0.0, 40) ** 2 - luck**2)
    assert not consistent(errors, without), "cohorts' luck forgotten"


@pytest.mark.parametrize(("parameters", "methods"), [(PAPER, 2974), (OURS, 1875), ({**OURS, "num_bits": 256}, 1822)])
def test_the_bound_of_section_5_2(parameters, methods):
    """The Cramer-Rao bound from independent (cohort, bit) counts; `bench/plan_gain.py` prints it."""
    built = mechanism("rappor", **parameters)
    assert count_error(built, 10**6, 0.0, 200) == pytest.approx(methods, rel=0.005)
    assert count_error(built, 10**6, 0.0, 1) != pytest.approx(methods, rel=0.02), "collisions forgotten"


def test_one_hot_is_the_binomial():
    basic = mechanism("basic-rappor-one-time", domain_size=50, p=0.5, q=0.75)
    assert count_error(basic, 10**6, 0.0, 50) == pytest.approx(1000 / (2 * 0.75 - 1))
    assert count_error(basic, 10**6, 1.0, 50) == pytest.approx(1000 * math.sqrt(0.75 * 0.25) / 0.25)


def test_too_many_candidates_are_screened():
    built = mechanism("rappor", **PAPER)
    assert fitted_candidates(built, 1024, 0.01) == 1024
    assert fitted_candidates(built, 1025, 0.01) == 100
    assert fitted_candidates(built, 10**6, 1e-9) == 1024
    assert fitted_candidates(mechanism("basic-rappor", domain_size=5000), 5000, 0.01) == 5000


@pytest.mark.parametrize("name", FAMILIES["numbers"])
def test_the_error_of_a_mean_is_that_of_the_worst_value_and_never_overflows(name):
    built, small, large = (
        any_mechanism(name, epsilon=1.0, minimum=low, maximum=high) for low, high in ((-1, 1), (0, 1), (0, 1e200))
    )
    assert mean_error(built, 10**4) == pytest.approx((float(max(map(built.variance, (-1, 0, 1)))) / 10**4) ** 0.5)
    assert mean_error(large, 100) == pytest.approx(1e200 * mean_error(small, 100), rel=1e-9)
