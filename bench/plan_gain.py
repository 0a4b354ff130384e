"""Print every figure of docs/explanation/privacy.md and docs/explanation/planning.md: `python bench/plan_gain.py`."""

from __future__ import annotations

import math

import numpy as np

from overstory.planning import RapporPlan, plan_from_needs, plan_from_parameters
from overstory.planning.detection import count_error, critical_value, detectable_frequency, reports_needed
from overstory.planning.needs import design, sufficient_permanent
from overstory.privacy import statement, terms_of
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.registry import mechanism

BUDGETS = (1.0742858641667283, 4.394449154672439)  # RAPPOR's f = .5, p = .5, q = .75, h = 2
REPORTS, CANDIDATES = 10**6, 200
PAPER = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)


def privacy() -> None:
    """Statements about the paper's parameters."""
    said = statement(PAPER, reports=(1, 2, 3, 5, 10, 20, 100))
    print("epsilon of n reports      ", {n: round(e, 4) for n, e in said.epsilon_n.items()})
    print("epsilon for ever          ", round(said.epsilon_permanent, 4))
    print("epsilon of any n reports   ", {n: round(e, 2) for n, e in said.epsilon_any.items()})
    for k in (16, 32, 64, 128, 256):
        sized = mechanism("rappor", num_bits=k, num_hashes=2, num_cohorts=16)
        print(f"  any 2 reports, k={k:<3}", round(terms_of(sized).epsilon_any(2), 2))


def bound(built: BitMechanism) -> float:
    """Mean Cramer-Rao bound over the strings nobody has, from the (cohort, bit) counts of section 5.2."""
    tail = np.exp(-5 * np.arange(100) / 99)
    population = np.concatenate((tail / tail.sum(), np.zeros(100)))
    cohorts, bits = built.encoding.num_cohorts, built.encoding.num_bits
    matrix = np.zeros((cohorts, bits, len(population)))
    for cohort in range(cohorts):
        for i in range(len(population)):
            matrix[cohort, list(built.encoding.positions(f"s{i}", cohort)), i] = 1
    matrix = matrix.reshape(-1, len(population))
    kept, raised = float(built.channel.keep_one), float(built.channel.raise_zero)
    ones = matrix @ population * REPORTS / cohorts
    noise = ones * kept * (1 - kept) + (REPORTS / cohorts - ones) * raised * (1 - raised)
    information = (matrix * ((kept - raised) / cohorts) ** 2 / noise[:, None]).T @ matrix
    return float(np.sqrt(np.diag(np.linalg.inv(information)))[100:].mean())


def line(name: str, plan: RapporPlan) -> None:
    """Print one plan."""
    letters = " ".join(f"{letter}={value:.4f}".rstrip("0").rstrip(".") for letter, value in plan.parameters.items())
    errors = f"standard error {plan.standard_error:6.0f}  bound {bound(plan.mechanism):6.0f}"
    epsilons = f"eps {plan.privacy.epsilon_report:.4f} {plan.privacy.epsilon_permanent:.4f}"
    several = " ".join(f"{n}:{plan.privacy.epsilon_n[n]:.3f}" for n in (2, 3, 5, 10, 20))
    print(f"{name:<12} {letters:<44} {errors}  {epsilons}  eps_n {several}  any two {plan.privacy.epsilon_any[2]:.2f}")


def sized(permanent: float, *, num_bits: int = 128, num_hashes: int = 1) -> RapporPlan:
    """Return the best plan of these sizes within the paper's epsilon of a report, and `permanent`."""
    built = design(BUDGETS[0], permanent, num_bits=num_bits, num_hashes=num_hashes, num_cohorts=16)
    return plan_from_parameters(built, REPORTS, CANDIDATES)


def gain() -> None:
    """The paper's parameters and ours at the same two epsilons, on section 5.2's collection."""
    paper = plan_from_parameters(PAPER, REPORTS, CANDIDATES)
    line("paper", paper)
    plan = sized(BUDGETS[1])
    line("ours", plan)
    line("ours", sized(BUDGETS[1], num_bits=256))
    line("ours, sized", plan_from_needs(*BUDGETS, REPORTS, CANDIDATES))
    line("two hashes", sized(BUDGETS[1], num_hashes=2))
    ratio, (less, more) = paper.standard_error / plan.standard_error, (of.privacy.epsilon_n for of in (paper, plan))
    higher = [n for n in more if more[n] > less[n] + 1e-6]
    print(f"gain: {ratio:.3f} in standard error, {ratio**2:.2f} in reports; higher eps_n at n = {higher}")


def trade() -> None:
    """The permanent budget against any two reports, at one standard error."""
    enough = sufficient_permanent(BUDGETS[0])
    for permanent in (BUDGETS[0], 1.2, enough, 2.0, 3.0, BUDGETS[1], 6.0, 10.0):
        plan = sized(permanent)
        shown = f"standard error {plan.standard_error:6.0f}  any 2 reports {plan.privacy.epsilon_any[2]:8.2f}"
        print(f"eps_permanent {permanent:7.4f}  {shown}  eps_2 {plan.privacy.epsilon_n[2]:.3f}")


def learning() -> None:
    """Section 4.2 and the appendix: reports against shares, and against strings."""
    basic = mechanism("basic-rappor-one-time", domain_size=2, p=0.5, q=0.75)
    for candidates in (100, 10**4, 10**5, 10**6):
        quantile = critical_value(0.05, candidates)
        needed = [f"{reports_needed(basic, candidates, share, quantile):.2e}" for share in (0.01, 0.001, 0.0001)]
        limits = [f"{1 / detectable_frequency(basic, 10.0**n, candidates, quantile):.0f}" for n in range(4, 12)]
        print(f"M={candidates:<8} Q={quantile:.2f}  N for 1%, .1%, .01%: {needed}  strings at 10^4..10^11: {limits}")
    print("rule of thumb             ", [f"{math.sqrt(10.0**power) / 10:.0f}" for power in range(4, 12)])


def figure_6() -> None:
    """The large collection of section 5.4: 14 million reports, 8,616 candidates."""
    built = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=32, f=0.75, p=0.5, q=0.75)
    for name, plan in (
        ("paper", plan_from_parameters(built, 14_000_000, 8616)),
        ("ours", plan_from_needs(built.epsilon_report, built.epsilon_permanent, 14_000_000, 8616)),
    ):
        error = count_error(plan.mechanism, 14_000_000, 0.0, plan.num_fitted) / 14_000_000
        detectable = f"Bonferroni {plan.detectable_frequency:.3%}, FDR {plan.detectable_frequency_fdr:.3%}"
        print(f"{name:<6} standard error {error:.4%} of the reports; detectable {detectable}; fitted {plan.num_fitted}")


if __name__ == "__main__":
    for part in (privacy, gain, trade, learning, figure_6):
        print(f"\n{part.__doc__}")
        part()
