"""The game's bound: right as often as it says at exactly the declared epsilon, sharp enough, and printed as proved."""

import math
import re
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest

from overstory.analysis.selection import at_least
from overstory.audit.answers import Answers, Questions, declare, fresh
from overstory.audit.audit import AuditResult, Game, Settings, audit, detectable_excess, play
from overstory.audit.conformance import conformance_of
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from support.audited_clients import OtherMechanism, OtherRates, SimulatedClient, TruthNowAndThen, small_rappor
from support.contract_cases import SMALL


def chance_of(epsilon):
    return 1 / (1 + math.exp(-epsilon))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_at_the_declared_epsilon_it_alarms_at_most_as_often_as_alpha(epsilon):
    """Exactly, for every number of guesses: every guess is right with the largest probability that epsilon allows."""
    tight = 0.0
    for guesses in (*range(1, 300), 1000, 10_000, 100_000):
        game = Game("likelihood", guesses, 0, 0.001)
        needed = game.needed(epsilon)
        if needed is None:
            assert Game("likelihood", guesses, guesses, 0.001).lower <= epsilon
            continue
        alarm = float(at_least(needed, guesses, chance_of(epsilon)))
        tight = max(tight, alarm)
        assert alarm < 0.001
        assert Game("likelihood", guesses, needed, 0.001).lower > epsilon
        assert Game("likelihood", guesses, needed - 1, 0.001).lower <= epsilon
    assert tight > 0.0005
    assert Game("likelihood", 0, 0, 0.001).lower == 0.0


@pytest.mark.slow
def test_false_alarms_of_audits_at_exactly_the_declared_epsilon():
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


def printed(correct, declared):
    """The bound and the declared epsilon in the lines of an audit with 2,001 guesses, and the verdict's sentence."""
    game = Game("likelihood", 2001, correct, 0.0008)
    grr = SimpleNamespace(mechanism=SimpleNamespace(name="grr"), texts=("0", "1"), epsilon=declared)
    result = AuditResult(grr, Settings(2001), 2001, [], [game], [])
    _, _, lines, verdict, _ = result.blocks()
    numbers = re.findall(r"(?:at least|declared:) (\d+\.\d+)", "\n".join(lines.texts))
    return result, [Decimal(number) for number in numbers], verdict.text


@pytest.mark.sampled(10)
@pytest.mark.parametrize("correct", range(1100, 2002, 17))
def test_a_bound_is_rounded_down_and_what_is_declared_up(correct):
    result, (lower, declared), _ = printed(correct, 20.00001)
    assert 0 <= Decimal(result.lower) - lower < Decimal("0.01")
    assert declared == Decimal("20.1")


@pytest.mark.parametrize("correct", [1200, 1600, 1999])
@pytest.mark.parametrize("less", [0.1, 1e-4, 1e-6, 1e-10, 0.0])
def test_a_violation_shows_which_epsilon_is_larger(correct, less):
    """Also where they differ in the last digit of a float."""
    bound = Game("likelihood", 2001, correct, 0.0008).lower
    epsilon = math.nextafter(bound - less, 0.0)
    result, (lower, declared), sentence = printed(correct, epsilon)
    assert result.verdict == "violates"
    rounding = 4 * Decimal(math.ulp(epsilon))  # what `rounded_up` takes for a float's own
    assert Decimal(epsilon) - rounding <= declared < lower <= Decimal(bound)
    assert f"epsilon at least {lower}, declared {declared}" in sentence


AUDITS = 100
FEWEST, MOST = 78, 98
"""Of a hundred audits that each see a fault nine times in ten, fewer or more see it once in two thousand seeds."""


def excess_of(declared, reports):
    """What an audit of a right client states."""
    result = audit(declared, SimulatedClient(3), Settings(reports=reports), rng=np.random.default_rng(1))
    assert result.verdict == "no fault found"
    assert result.detectable_excess is not None
    return result.detectable_excess


def seen(declared, make, reports):
    """How many audits find that the epsilon is above the declared one."""
    settings = Settings(reports=reports, repeats=2)
    results = (audit(declared, make((9, s)), settings, rng=np.random.default_rng((8, s))) for s in range(AUDITS))
    return sum(result.verdict == "violates" for result in results)


def rates(declared, excess, part):
    """P(1 | set) and P(1 | unset) with a larger epsilon, of which `part` is in what a 1 says."""
    combined = declared.mechanism.rounds.combined
    p, q = (float(chance) for chance in (combined.keep_one, combined.raise_zero))
    lit, dark = math.log(p / q), math.log((1 - q) / (1 - p))
    more = excess * (lit + dark)
    lit, dark = lit + part * more, dark + (1 - part) * more
    zero = (1 - math.exp(-dark)) / (math.exp(lit) - math.exp(-dark))
    return zero * math.exp(lit), zero


def test_the_limits_are_those_of_nine_times_in_ten():
    assert 1 - float(at_least(FEWEST, AUDITS, 0.9)) < 0.0005
    assert float(at_least(MOST + 1, AUDITS, 0.9)) < 0.0005


@pytest.mark.sampled(1)
@pytest.mark.parametrize("reports", [500, 2000])
@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
def test_less_noise_in_every_bit_is_seen_nine_times_in_ten(part, reports):
    """500 reports are guessed on where they say half of epsilon, too: that excess is larger than of sure guesses."""
    declared = small_rappor()
    one, zero = rates(declared, excess_of(declared, reports), part)
    assert seen(declared, lambda seed: OtherRates(seed, one, zero), reports) >= FEWEST


@pytest.mark.slow
def test_the_excess_is_no_larger_than_need_be():
    """Three quarters of it, in the way that is hardest to see, are not seen nine times in ten."""
    declared = small_rappor()
    one, zero = rates(declared, 0.75 * excess_of(declared, 2000), 0.0)
    assert 10 < seen(declared, lambda seed: OtherRates(seed, one, zero), 2000) < FEWEST


@pytest.mark.sampled(1)
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_a_larger_epsilon_of_symbols_is_seen_nine_times_in_ten(epsilon):
    declared = declare(mechanism("grr", domain_size=4, epsilon=epsilon))
    really = mechanism("grr", domain_size=4, epsilon=(1 + excess_of(declared, 2000)) * declared.epsilon)
    assert FEWEST <= seen(declared, lambda seed: OtherMechanism(seed, really), 2000) <= MOST


def test_truth_sent_rarely_is_not_promised_to_be_seen():
    """The truth in one report of a thousand has an epsilon above 19, and 4,000 reports show nothing."""
    declared, p, q = small_rappor(), 0.6875, 0.5625
    ratio = (0.999 * p**2 * (1 - q) ** 30 + 0.001) / (0.999 * q**2 * (1 - p) ** 2 * (1 - q) ** 28)
    assert math.log(ratio) > 19 > 10 * declared.epsilon
    settings = Settings(reports=4000)
    results = [
        audit(declared, TruthNowAndThen((7, s), 0.001), settings, rng=np.random.default_rng((6, s))) for s in range(20)
    ]
    assert sum(result.verdict == "no fault found" for result in results) >= 15
    for result in results:
        if result.verdict == "no fault found":
            *_, verdict, _ = result.blocks()
            assert "too little noise in every report" in verdict.text
            assert "a fault in only some of the reports can be larger and not be seen" in verdict.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("oracle", "epsilon", "excess", "reports"),
    [("oue", 1, 0.05, 79_000), ("oue", 1, 0.10, 20_000), ("sue", 4, 0.10, 10_000), ("hadamard", 1, 0.25, 3400)],
)
def test_reports_that_certify_an_excess(oracle, epsilon, excess, reports):
    """The exact binomial's numbers for alpha .001 and power .9, all reports being of the pair, within 8%."""
    declared = declare(mechanism(oracle, domain_size=100, epsilon=epsilon))
    asked = fresh(declared, reports, np.random.default_rng(1), choose=False)
    asked = Questions("", "c", asked.clients, asked.cohorts, asked.values % 2)
    answers = Answers(asked, asked.cohorts, np.zeros((reports, 1), np.uint8))
    found = detectable_excess(conformance_of(declared).levels(answers), float(epsilon), 0.001)
    assert found is not None
    assert abs(found - excess) < 0.08 * excess


def test_of_too_few_reports_nothing_is_said():
    declared = declare(mechanism("grr", domain_size=1000, epsilon=4.0))
    result = audit(declared, SimulatedClient(3), Settings(reports=200, alpha=1e-4), rng=np.random.default_rng(1))
    assert result.detectable_excess is None
    assert "too few to say how large a fault would have been seen" in str(list(result.blocks()))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", SMALL)
def test_scores_guesses_and_right_ones_are_those_of_exact_likelihoods(name):
    """Every report that there is, of every cohort, weighed by its exact probability."""
    declared = declare(mechanism(name, **SMALL[name][0]))
    exact, conformance = declared.mechanism, conformance_of(declared)
    weight = exact.payload_weight
    every = [y for y in range(exact.payload_limit) if weight is None or y.bit_count() == weight]
    cohorts = np.repeat(np.arange(min(declared.num_cohorts, 16)), len(every))
    payloads = np.tile(every, min(declared.num_cohorts, 16)).tolist()
    asked = Questions("", "c", np.arange(len(payloads)), cohorts, np.zeros(len(payloads), np.int64))
    answers = Answers(asked, cohorts, declared.packed(payloads))
    scores = conformance.scores(answers)
    likely = np.array(
        [
            [float(exact.likelihood(Report(cohort, payload), value)) for value in declared.values[:2]]
            for cohort, payload in zip(cohorts.tolist(), payloads, strict=True)
        ]
    )
    assert np.allclose(scores, np.log(likely[:, 1] / likely[:, 0]), rtol=0, atol=1e-9)
    assert np.abs(scores).max() <= declared.epsilon + 1e-9
    guessed = np.abs(scores) > 1e-9
    one_each = answers.take(slice(None, None, len(every)))  # a report of each cohort
    levels = next(conformance.levels(one_each)(0.0))
    at = levels.ratios > 1e-9
    right = np.where(scores > 0, likely[:, 1], likely[:, 0])[guessed].sum() / 2
    assert math.isclose(levels.counts[at].sum(), likely[guessed].sum() / 2, rel_tol=1e-9)
    assert math.isclose((levels.counts * levels.right)[at].sum(), right, rel_tol=1e-9)


@pytest.mark.parametrize(("name", "more"), [("grr", {}), ("sue", {}), ("subset", {"subset_size": 3}), ("hadamard", {})])
def test_a_larger_epsilon_has_the_levels_of_the_mechanism_with_it(name, more):
    declared, larger = (declare(mechanism(name, domain_size=10, epsilon=epsilon, **more)) for epsilon in (1.0, 1.3))
    asked = fresh(declared, 1000, np.random.default_rng(1), choose=False)
    answers = Answers(asked, asked.cohorts, np.zeros((1000, 1), np.uint8))
    stated, true = (list(conformance_of(of).levels(answers)(more)) for of, more in ((declared, 0.3), (larger, 0.0)))
    halves = stated[len(stated) // 2]  # of bits with the same noise for 1 and 0
    at, also = halves.ratios > 1e-9, true[0].ratios > 1e-9
    assert math.isclose(halves.counts[at].sum(), true[0].counts[also].sum(), rel_tol=1e-9)
    assert np.allclose(halves.right[at], 1 / (1 + math.exp(-1.3)))
