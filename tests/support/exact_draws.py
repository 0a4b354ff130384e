"""The exact distribution of what a randomizer draws: every way its random bits can fall is run through it.

A draw of 32 bits is only ever compared with thresholds, so it is run once for each interval between them (and at both
ends of the interval, where the outcome must be the same: another threshold would show). Other draws are enumerated.
"""

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

from overstory.audit import laws

ONE = 1 << 32


class _NeedsBits(Exception):  # noqa: N818 - a question, not an error
    pass


class _Script:  # an entropy source that answers as told, and asks when it was not told
    def __init__(self, answers):
        self.answers, self.at, self.asked = answers, 0, None

    def bits(self, count):
        return self._next(("bits", count))

    def below(self, bound):
        """A uniform number, when a test stands it in for `uniform_below`, whose rejections never end."""
        return self._next(("below", bound))

    def _next(self, question):
        if self.at == len(self.answers):
            self.asked = question
            raise _NeedsBits
        self.at += 1
        return self.answers[self.at - 1]


def _options(question, thresholds):
    """(answers that must act alike, probability), for a draw of so many bits or below a bound."""
    kind, count = question
    if kind == "below":
        return [((value,), Fraction(1, count)) for value in range(count)]
    if count != 32:
        assert count <= 8, "only small draws are enumerated"
        return [((value,), Fraction(1, 1 << count)) for value in range(1 << count)]
    cuts = sorted({0, ONE, *thresholds})
    return [((low, high - 1), Fraction(high - low, ONE)) for low, high in pairwise(cuts)]


def exact_distribution(draw, thresholds):
    """P(outcome) of ``draw(entropy)``, as exact fractions."""
    chances = defaultdict(Fraction)
    open_scripts = [((), Fraction(1))]
    while open_scripts:
        answers, chance = open_scripts.pop()
        script = _Script(answers)
        try:
            chances[draw(script)] += chance
        except _NeedsBits:
            for alike, share in _options(script.asked, thresholds):
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
    return {payload: chance for payload, chance in law.items() if channel.valid(payload) and chance}


def law_of_no_number(randomizer) -> dict[int, Fraction]:
    """P(payload | nothing to report): the mixture of all positions'."""
    mixed: dict[int, Fraction] = defaultdict(Fraction)
    for position in range(randomizer.domain_size):
        for payload, chance in law_of_number(randomizer, position).items():
            mixed[payload] += chance / randomizer.domain_size
    return mixed
