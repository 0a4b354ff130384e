"""The exact distribution of what a randomizer draws: every way its random bits can fall is run through it.

A draw of 32 bits is only ever compared with thresholds, so it is run once for each interval between them (and at both
ends of the interval, where the outcome must be the same: another threshold would show). Other draws are enumerated.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from overstory.audit import laws
from support.referee_laws import WHOLE, Asked, Script


def _alike(choices, thresholds):
    """(answers that must act alike, probability), of a draw with so many outcomes."""
    if choices != WHOLE:
        assert choices <= 1 << 8, "only small draws are enumerated"
        return [((value,), Fraction(1, choices)) for value in range(choices)]
    cuts = sorted({0, WHOLE, *thresholds})
    return [((low, high - 1), Fraction(high - low, WHOLE)) for low, high in pairwise(cuts)]


def exact_distribution(draw, thresholds):
    """P(outcome) of ``draw(entropy)``, as exact fractions."""
    chances = defaultdict(Fraction)
    open_scripts = [((), Fraction(1))]
    while open_scripts:
        answers, chance = open_scripts.pop()
        try:
            chances[draw(Script(answers))] += chance
        except Asked as asked:
            for alike, share in _alike(asked.choices, thresholds):
                weight = chance * share / len(alike)
                open_scripts += [((*answers, value), weight) for value in alike]
    assert sum(chances.values()) == 1
    return dict(chances)


def worst_ratio(distributions):
    """The largest P(outcome | one) / P(outcome | other); infinite when an outcome gives an input away."""
    outcomes = {outcome for chances in distributions for outcome in chances}
    worst = laws.worst_ratio([chances.get(outcome, 0) for outcome in outcomes] for chances in distributions)
    return float("inf") if worst is None else worst


def law_of_number(randomizer, position: int) -> dict[int, Fraction]:
    """P(payload | position) by the channel's formulas; `test_numeric_privacy` enumerates that draws follow them."""
    channel = randomizer.channel
    law = {payload: channel.probability(payload, position) for payload in range(channel.num_cells)}
    return {payload: chance for payload, chance in law.items() if randomizer.valid(payload) and chance}


def law_of_no_number(randomizer) -> dict[int, Fraction]:
    """P(payload | nothing to report): the mixture of all positions'."""
    mixed: dict[int, Fraction] = defaultdict(Fraction)
    for position in range(randomizer.domain_size):
        for payload, chance in law_of_number(randomizer, position).items():
            mixed[payload] += chance / randomizer.domain_size
    return mixed
