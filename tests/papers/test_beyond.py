"""Beyond the papers: every registered oracle is there at one budget, and what theory states is compared honestly."""

import numpy as np
import pytest

from overstory.planning import detection
from overstory.protocol.kinds.registry import REGISTRY
from papers.beyond import oracles, people_needed
from papers.beyond.oracles import ONE, PERMANENT, REPORT, WINDOW, contenders
from papers.comparison import AGREES, DIFFERS
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


def test_a_wrong_theory_is_noticed():
    """Squared errors that are half as large again as what is stated differ, for most oracles."""
    order = contenders(26)[:6]
    rng = np.random.default_rng(1)
    theory = {(problem, one.name): 0.01 for problem in oracles.PROBLEMS for one in order}
    for factor, verdict in ((1.0, AGREES), (1.5, DIFFERS)):
        errors = {key: (factor * 1e-4 * rng.chisquare(50, 5) / 50).tolist() for key in theory}
        found = oracles._against_theory(order, errors, theory)
        assert [one.verdict for one in found].count(verdict) >= 5


def test_too_few_people_are_noticed(monkeypatch):
    """With half the people the share is seen less often than nine times in ten, and the verdict says so."""
    name = "beyond-people-needed"
    context = Context(EXPERIMENTS[name])
    honest = people_needed._tried(context, 0, 200)
    monkeypatch.setattr(
        people_needed, "required_sample_size", lambda *args, **more: detection.required_sample_size(*args, **more) // 2
    )
    half = people_needed._tried(context, 0, 200)
    assert half.people < honest.people
    verdicts = [one.verdict for one in people_needed._rates([honest, half], 200)]
    assert verdicts == [AGREES, DIFFERS]
