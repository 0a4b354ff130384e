"""The game's bound: right as often as it says at exactly the declared epsilon, sharp enough, and printed as proved."""

import math
import re
from decimal import Decimal

import numpy as np
import pytest

from overstory.audit.answers import declare, fresh
from overstory.audit.audit import AuditResult
from overstory.audit.conformance import conformance_of
from overstory.audit.game import Game, odds, play, threshold
from overstory.audit.probabilities import at_least
from overstory.protocol.kinds.registry import mechanism
from support.audited_clients import SimulatedClient, small_rappor


def chance_of(epsilon: float) -> float:
    return 1 / (1 + math.exp(-epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_at_the_declared_epsilon_it_alarms_at_most_as_often_as_alpha(epsilon: float) -> None:
    """Exactly, for every number of guesses: every guess is right with the largest probability that epsilon allows."""
    tight = 0.0
    for guesses in (*range(1, 300), 1000, 10_000, 100_000):
        game = Game("likelihood", guesses, 0, 0.001)
        needed = game.needed(epsilon)
        if needed is None:
            continue
        alarm = float(at_least(needed, guesses, chance_of(epsilon)))
        tight = max(tight, alarm)
        assert alarm < 0.001
        assert Game("likelihood", guesses, needed, 0.001).lower > epsilon
        assert Game("likelihood", guesses, needed - 1, 0.001).lower <= epsilon
    assert tight > 0.0005


@pytest.mark.slow
def test_false_alarms_of_audits_at_exactly_the_declared_epsilon() -> None:
    """Of 2,000 games of a right client at alpha .01, at most 35 alarm: more would, once in a thousand seeds."""
    declared = declare(mechanism("oue", domain_size=4, epsilon=1.0))
    conformance, client, rng = conformance_of(declared), SimulatedClient(1), np.random.default_rng(1)
    alarms = 0
    for _ in range(2000):
        (answers,) = client.answer(declared, [fresh(declared, 2000, rng, choose=False)])
        alarms += any(game.lower > declared.epsilon for game in play(conformance, answers, 0.01))
    assert float(at_least(36, 2000, 0.01)) < 0.001
    assert alarms <= 35
    assert alarms > 2  # and it is a test at all


def test_few_guesses_can_certify_nothing() -> None:
    assert Game("likelihood", 20, 20, 0.001).needed(4.0) is None
    assert Game("likelihood", 0, 0, 0.001).lower == 0.0
    assert (odds(0.0), odds(1.0)) == (-math.inf, math.inf)


def test_levels_are_those_that_scores_have_and_as_frequent() -> None:
    declared, rng = small_rappor(), np.random.default_rng(1)
    conformance = conformance_of(declared)
    (answers,) = SimulatedClient(1).answer(declared, [fresh(declared, 40_000, rng, choose=False)])
    pair = answers.take(answers.values < 2)
    (levels, *_), scores = conformance.levels(pair)(0.0), np.abs(conformance.scores(pair))
    assert math.isclose(levels.counts.sum(), len(pair))
    assert np.allclose(levels.right, 1 / (1 + np.exp(-levels.ratios)))
    for ratio in np.unique(levels.ratios.round(9)):
        expected = levels.counts[np.isclose(levels.ratios, ratio)].sum()
        assert abs(np.isclose(scores, ratio).sum() - expected) < 5 * math.sqrt(expected) + 1
    assert 0 < threshold(levels, 0.001) <= declared.epsilon


def printed(correct: int, declared: float) -> tuple[AuditResult, list[Decimal], str]:
    """The bound and the declared epsilon in the lines of an audit with 2,001 guesses, and the verdict's sentence."""
    game = Game("likelihood", 2001, correct, 0.0008)
    result = AuditResult("grr", ("0", "1"), 2001, 2001, 0.001, declared, (), (game,))
    _, _, lines, verdict, _ = result.blocks()
    numbers = re.findall(r"(?:at least|declared:) (\d+\.\d+)", "\n".join(lines.texts))
    return result, [Decimal(number) for number in numbers], verdict.text


@pytest.mark.sampled(10)
@pytest.mark.parametrize("correct", range(1100, 2002, 17))
def test_a_bound_is_rounded_down_and_what_is_declared_up(correct: int) -> None:
    result, (lower, declared), _ = printed(correct, 20.00001)
    assert 0 <= Decimal(result.lower) - lower < Decimal("0.0001")
    assert declared == Decimal("20.0001")


@pytest.mark.parametrize("correct", [1200, 1600, 1999])
@pytest.mark.parametrize("less", [0.1, 1e-4, 1e-6, 1e-10, 0.0])
def test_a_violation_shows_which_epsilon_is_larger(correct: int, less: float) -> None:
    """Also where they differ in the last digit of a float."""
    bound = Game("likelihood", 2001, correct, 0.0008).lower
    epsilon = math.nextafter(bound - less, 0.0)
    result, (lower, declared), sentence = printed(correct, epsilon)
    assert result.verdict == "violates"
    rounding = 4 * Decimal(math.ulp(epsilon))  # what `rounded_up` takes for a float's own
    assert Decimal(epsilon) - rounding <= declared < lower <= Decimal(bound)
    assert f"epsilon at least {lower}, declared {declared}" in sentence
