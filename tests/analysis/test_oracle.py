"""The pair of a device's half and a server's: what is special to some oracles; what all share is under contract."""

import math

import pytest

import overstory
from overstory.analysis.variance import frequency_variance
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism

E = math.e


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("grr", lambda d, e: (d - 2 + e) / (e - 1) ** 2),
        ("sue", lambda d, e: math.sqrt(e) / (math.sqrt(e) - 1) ** 2),
        ("oue", lambda d, e: 4 * e / (e - 1) ** 2),
        ("blh", lambda d, e: (e + 1) ** 2 / (e - 1) ** 2),
        ("hadamard", lambda d, e: (e + 1) ** 2 / (e - 1) ** 2),
        ("random-matrix", lambda d, e: (e + 1) ** 2 / (e - 1) ** 2),
        ("linear-hash", lambda d, e: min((e - 1 + g) ** 2 / ((e - 1) ** 2 * (g - 1)) for g in (2, 4, 8, 16, 32, 64))),
    ],
)
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_variance_is_the_papers_formula(name, formula, epsilon):
    oracle = overstory.oracle(name, domain_size=100, epsilon=epsilon)  # of few seeds: test_seed_estimates.py
    assert oracle.variance(10**4) == pytest.approx(formula(100, math.exp(epsilon)) / 10**4, rel=1e-6)


@pytest.mark.parametrize("sampled", [1, 3, 20])
def test_sampled_bits_cost_the_share_that_is_not_asked(sampled):
    built = mechanism("dbitflip", domain_size=20, epsilon=1.0, sampled_bits=sampled)
    p, q, share = float(built.p_star), float(built.q_star), sampled / 20
    one = q * (1 - q) / (p - q) ** 2
    assert frequency_variance(built, 100) == pytest.approx(one / (100 * share))
    mixed = (0.3 * p * (1 - p) + 0.7 * q * (1 - q)) / (p - q) ** 2 + 0.21 * (1 - share)
    assert frequency_variance(built, 100, 0.3) == pytest.approx(mixed / (100 * share))


def test_one_sampled_bit_needs_half_the_noise():
    """Values differ in one bit alone: P(1|1) = e^eps / (e^eps + 1), where two bits need e^(eps/2)."""
    one, two = (mechanism("dbitflip", domain_size=20, epsilon=1.0, sampled_bits=bits) for bits in (1, 2))
    assert float(one.p_star) == pytest.approx(E / (E + 1), abs=1e-9)
    assert float(two.p_star) == pytest.approx(math.sqrt(E) / (math.sqrt(E) + 1), abs=1e-9)


@pytest.mark.parametrize(
    ("name", "size", "ever", "once", "exact"),
    [
        ("loloha", None, 2, 1, 3.692),
        ("loloha", None, 4, 2, 0.725),
        ("l-grr", 100, 4, 2, 2.58),
        ("l-grr", 10, 2, 1, 3.63),
    ],
)
def test_the_variance_of_the_exact_chain(name, size, ever, once, exact):
    oracle = overstory.oracle(name, domain_size=size, epsilon_permanent=ever, epsilon_report=once)
    assert oracle.variance(1) == pytest.approx(exact, rel=2e-3)


def test_l_osue_costs_nothing_over_one_round():
    chain = overstory.oracle("l-osue", domain_size=100, epsilon_permanent=2.0, epsilon_report=1.0)
    assert chain.variance(1) == pytest.approx(
        overstory.oracle("oue", domain_size=100, epsilon=1.0).variance(1), rel=1e-6
    )


def test_reports_in_place_of_counts_are_one_clear_error():
    grr = overstory.oracle("grr", domain_size=3, epsilon=1.0)
    with pytest.raises(ParameterError, match=r"reports, not counts: give oracle\.accumulate\(reports\)"):
        grr.estimate(grr.simulate([0, 1, 2], rng=1))
