"""Beyond the papers: every registered oracle is there at one budget, and what theory states is compared honestly."""

import math
from dataclasses import replace

import numpy as np
import pytest

from overstory.planning import sample_size
from overstory.protocol.mechanisms.registry import REGISTRY
from papers.beyond import oracles, people_needed
from papers.beyond.oracles import ONE, PERMANENT, REPORT, WINDOW, contenders
from papers.comparison import AGREES, DIFFERS
from papers.epidemic import fit
from papers.run import EXPERIMENTS
from papers.study import Context


@pytest.mark.parametrize("size", [26, 100])
def test_every_registered_oracle_takes_part_within_the_budget_and_uses_it(size):
    found = contenders(size)
    assert {one.mechanism.name for one in found} == set(REGISTRY) - {"linear-hash"}
    assert len({one.name for one in found}) == len(found)
    for one in found:
        built = one.mechanism
        assert REPORT - 1e-6 < built.epsilon_report <= REPORT + 1e-8
        assert (built.epsilon_permanent <= PERMANENT + 1e-8) == (one.kind != WINDOW)
        assert (built.epsilon_permanent == built.epsilon_report) == (one.kind == ONE)


def test_the_populations_are_those_of_the_papers():
    rng = np.random.default_rng(0)
    strings, meters, states = (oracles.shares_of(problem, rng) for problem in oracles.PROBLEMS)
    assert [len(shares) for shares in (strings, meters, states)] == [100, 100, 26]
    assert all(math.isclose(shares.sum(), 1) for shares in (strings, meters, states))
    assert strings[0] / strings[-1] == pytest.approx(math.exp(5))
    assert states == pytest.approx(fit.CASES / fit.CASES.sum())


def test_a_wrong_theory_is_noticed():
    """Squared errors that are half as large again as what is stated differ, for most oracles."""
    order = contenders(26)[:6]
    rng = np.random.default_rng(1)
    theory = {(problem, one.name): 0.01 for problem in oracles.PROBLEMS for one in order}
    for factor, verdict in ((1.0, AGREES), (1.5, DIFFERS)):
        errors = {key: (factor * 1e-4 * rng.chisquare(50, 5) / 50).tolist() for key in theory}
        found = oracles._against_theory(order, errors, theory)
        assert [one.verdict for one in found].count(verdict) >= 5


def test_the_error_in_theory_is_that_of_the_shares():
    oue = next(one for one in contenders(10) if one.name == "oue")
    even = oue.error([0.1] * 10, 1_000)
    assert even == pytest.approx(math.sqrt(sample_size.variance_per_person(oue.mechanism, 0.1, 10) / 1_000))
    assert oue.error([1.0] + [0.0] * 9, 1_000) == pytest.approx(even)  # linear in the share: only their sum counts
    assert oue.error([0.1] * 10, 4_000) == pytest.approx(even / 2)


def test_the_best_families_are_what_the_theory_of_wang_says():
    needed = {
        epsilon: {
            name: sample_size.required_sample_size(people_needed.family(name, epsilon), 0.01, people_needed.VALUES)
            for name in people_needed.FAMILIES
        }
        for epsilon in people_needed.EPSILONS
    }
    assert all(min(row, key=row.get) in {"subset", "projective", "grr"} for row in needed.values())
    assert needed[0.5]["grr"] > 10 * needed[0.5]["oue"]
    assert needed[4.0]["hadamard"] > 10 * needed[4.0]["oue"]
    for name in people_needed.FAMILIES:
        assert [row[name] for row in needed.values()] == sorted((row[name] for row in needed.values()), reverse=True)


def test_too_few_people_are_noticed(monkeypatch):
    """With half the people the share is seen less often than nine times in ten, and the verdict says so."""
    name = "beyond-people-needed"
    context = Context(EXPERIMENTS[name])
    honest = people_needed._tried(context, 0, 200)
    monkeypatch.setattr(
        people_needed,
        "required_sample_size",
        lambda *args, **more: sample_size.required_sample_size(*args, **more) // 2,
    )
    half = people_needed._tried(context, 0, 200)
    assert half.people < honest.people
    verdicts = [one.verdict for one in people_needed._rates([honest, half], 200)]
    assert verdicts == [AGREES, DIFFERS]


def test_never_and_always_have_intervals():
    one = people_needed.Tried("grr", 1.0, 0.1, 100, 0)
    never, always = people_needed._rates([one, replace(one, family="oue", detected=50)], 50)
    assert (never.low, always.high) == (0.0, 1.0)
    assert never.verdict == DIFFERS
    assert always.low is not None
    assert always.low < 0.9


@pytest.mark.parametrize(("epsilon", "most"), [(0.5, 6), (2.0, 24)])
def test_direct_answers_are_best_up_to_a_size(epsilon, most):
    assert people_needed._largest_direct(epsilon) == most
