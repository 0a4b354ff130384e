"""The exact law of a sampler, read off the sampler itself: every answer that its randomness could give is tried.

Nothing here knows a formula of the package. A sampler asks for bits; a script answers. Where it asks for 32 bits, it
compares them with a threshold, which is searched for; where it asks for few, all answers are tried; where it starts
over (rejection), that it really does so is checked, and the rest is scaled up.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from unittest import mock

from overstory.protocol.kinds import sets

Law = dict[int, Fraction]
Run = Callable[["Script"], int]

WHOLE = 1 << 32


class Asked(Exception):  # noqa: N818 - no error: the script has come to its end
    """The sampler wants one more answer, out of so many."""

    def __init__(self, choices: int) -> None:
        super().__init__(choices)
        self.choices = choices


class Script:  # entropy that gives the answers it was made with
    def __init__(self, answers: Sequence[int]) -> None:
        self._answers = list(answers)
        self._asked = 0

    def below(self, choices: int) -> int:
        if self._asked == len(self._answers):
            raise Asked(choices)
        self._asked += 1
        answer = self._answers[self._asked - 1]
        assert answer < choices
        return answer

    def bits(self, count: int) -> int:
        return self.below(1 << count)


def law(run: Run) -> Law:
    """Return the law of what `run` returns."""
    total: dict[int, Fraction] = defaultdict(Fraction)
    for prefix, weight in beginnings(run):
        for outcome, part in rest(run, prefix).items():
            total[outcome] += weight * part
    assert sum(total.values()) == 1
    return dict(total)


def beginnings(run: Run) -> list[tuple[list[int], Fraction]]:
    """Split the first answer, if it is one of 32 bits, where the sampler's behaviour changes."""
    if choices(run, []) != WHOLE:
        return [([], Fraction(1))]
    low, high = behaviour(run, [0]), behaviour(run, [WHOLE - 1])
    below, above = 0, WHOLE - 1
    while low != high and above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if behaviour(run, [middle]) == low else (below, middle)
    threshold = above if low != high else WHOLE
    rng = random.Random(1)
    tried = [rng.randrange(WHOLE) for _ in range(16)] + [max(threshold - 2, 0), min(threshold + 1, WHOLE - 1)]
    assert all(behaviour(run, [one]) == (low if one < threshold else high) for one in tried), "more than one threshold"
    parts = [([0], Fraction(threshold, WHOLE)), ([WHOLE - 1], 1 - Fraction(threshold, WHOLE))]
    return [(prefix, weight) for prefix, weight in parts if weight]


def choices(run: Run, answers: Sequence[int]) -> int | None:
    """Return out of how many the sampler wants its next answer; None when it has returned."""
    return behaviour(run, answers)[0]


def behaviour(run: Run, answers: Sequence[int]) -> tuple[int | None, int | None]:
    """Return out of how many it wants its next answer, or what it returned."""
    try:
        return None, run(Script(answers))
    except Asked as asked:
        return asked.choices, None


def rest(run: Run, prefix: list[int]) -> Law:
    """Try all answers after `prefix`; what starts over is checked to start over, and shared out among the others."""
    outcomes, pending = step(run, {tuple(prefix): Fraction(1)})
    while not outcomes:
        outcomes, pending = step(run, pending)
    if pending:
        start = after(run, tuple(prefix))
        assert all(after(run, answers) == start for answers in pending), "it does not start over"
    accepted = sum(outcomes.values())
    return {outcome: weight / accepted for outcome, weight in outcomes.items()}


def step(run: Run, states: dict[tuple[int, ...], Fraction]) -> tuple[Law, dict[tuple[int, ...], Fraction]]:
    """Give every state one answer more, if it wants one."""
    outcomes: dict[int, Fraction] = defaultdict(Fraction)
    pending = {}
    for answers, weight in states.items():
        wants, outcome = behaviour(run, answers)
        if wants is None:
            outcomes[outcome] += weight
            continue
        assert wants <= 1 << 10, "too many to try"
        for answer in range(wants):
            longer = (*answers, answer)
            further, outcome = behaviour(run, longer)
            if further is None:
                outcomes[outcome] += weight / wants
            else:
                pending[longer] = weight / wants
    return dict(outcomes), pending


def after(run: Run, answers: tuple[int, ...], depth: int = 3) -> object:
    """Describe what comes after these answers, some answers deep."""
    wants, outcome = behaviour(run, answers)
    if wants is None:
        return outcome
    return wants if not depth else [after(run, (*answers, one), depth - 1) for one in range(wants)]


class BitLaw:
    """P(output bit i is 1 | input bit i) of a sampler of bit vectors; that bits are independent is checked.

    One question is asked: a number U for every bit, digit by digit. An output bit is 1 when its U is below a threshold
    of its own, another one for either value of the input bit.
    """

    def __init__(self, draw: Callable[[int, Callable[[int], int]], int], num_bits: int) -> None:
        self.draw, self.num_bits = draw, num_bits
        self.full = (1 << num_bits) - 1
        asked: list[int] = []
        self.draw(0, lambda count: asked.append(count) or 0)  # type: ignore[func-returns-value]
        self.digits = sum(asked) // num_bits
        assert sum(asked) == self.digits * num_bits
        assert len(asked) <= 1
        self.thresholds = [(self.threshold(bit, 0), self.threshold(bit, 1)) for bit in range(num_bits)]
        self.check()

    def out(self, word: int, numbers: Sequence[int]) -> int:
        pool = 0
        for bit, number in enumerate(numbers):
            for digit in range(self.digits):
                pool |= (number >> digit & 1) << (digit * self.num_bits + bit)
        return self.draw(word, lambda _: pool)

    def threshold(self, bit: int, value: int) -> int:
        """Return how many of the 2**digits numbers make this output bit 1."""

        def lit(number: int) -> int:
            numbers = [0] * self.num_bits
            numbers[bit] = number
            return self.out(value << bit, numbers) >> bit & 1

        if not lit(0):
            return 0
        below, above = 0, 1 << self.digits
        while above - below > 1:
            middle = (below + above) // 2
            below, above = (middle, above) if lit(middle) else (below, middle)
        return above

    def check(self) -> None:
        rng = random.Random(1)
        for _ in range(60):
            word = rng.randint(0, self.full)
            numbers = []
            for bit in range(self.num_bits):
                limit = self.thresholds[bit][word >> bit & 1]
                near = [limit - 1, limit, rng.getrandbits(self.digits) if self.digits else 0]
                numbers.append(min(max(rng.choice(near), 0), (1 << self.digits) - 1))
            expected = sum((n < self.thresholds[b][word >> b & 1]) << b for b, n in enumerate(numbers))
            assert self.out(word, numbers) == expected, "bits do not follow thresholds of their own"

    def chance(self, bit: int, value: int) -> Fraction:
        """P(output bit `bit` is 1 | it was `value`)."""
        return Fraction(self.thresholds[bit][value], 1 << self.digits)


def scripted(mechanism: object, value: object, cohort: int) -> Law:
    """Return the law of the permanent response to a value, of mechanisms whose response is one symbol or one set."""

    def run(script: Script) -> int:
        return int(mechanism.draw_permanent(value, cohort, script))  # type: ignore[attr-defined]

    with mock.patch.object(sets, "uniform_below", lambda bound, entropy: entropy.below(bound)):
        return law(run)
