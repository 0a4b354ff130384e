"""What the best attacker achieves, instead of what odds move: a guess that is right, a suspicion that is confirmed.

*Guess.* d values are equally likely before. Whoever sees a report names the likeliest, and is right with probability
(1/d) times the sum over reports of the largest P(report | value): in closed form for every oracle, by counting which
reports some value makes likely. For filters, whose candidates are anybody's choice, and for numbers it is at most
e^epsilon / (e^epsilon + d - 1): the share of a value whose likelihood is e^epsilon times that of each of the others.

*True positives.* Somebody who asks "is it this value or that one?", and accepts to be wrong for 1% of those who hold
that one, is right for so many of those who hold this one: the test of Neyman and Pearson between the two values that
are easiest to tell apart, one report's trade-off function at 1%. For numbers: at most min(.01 e^eps, 1 - .99 e^-eps).

*Any number of reports of an unchanged value* show the permanent response at most: the same for the first round alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product
from typing import Any, Final

from overstory.privacy.histories.pairs import PRECISE
from overstory.privacy.payload_terms import domain_size
from overstory.privacy.text import rounded_up
from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.encodings.bits import OneHot, SampledBits
from overstory.protocol.encodings.sets import Subsets
from overstory.protocol.encodings.symbols import Direct
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.ranges import RangeRandomizer
from overstory.protocol.numeric.registry import NumericMechanism
from overstory.protocol.probability import round_up

CANDIDATES: Final = 100
"""Among how many strings, or positions of a number, the attacker guesses, where no domain says."""
FALSE_POSITIVES: Final = Fraction(1, 100)

# P(report | this value), P(report | that value) of reports that are alike.
Atom = tuple[Decimal, Decimal]


@dataclass(frozen=True)
class Success:
    """Probabilities, rounded up."""

    guess: float  # that the best guess among the values is right
    true_positives: float  # that the worst pair's value is recognized, at 1% false positives

    def to_json(self) -> dict[str, float]:
        """Return JSON values."""
        return {"guess": self.guess, "true_positives_at_1_percent": self.true_positives}


@dataclass(frozen=True)
class Attack:
    """What the best attacker achieves on a device whose value does not change.

    Attributes
    ----------
    values
        d, all equally likely before: the domain, or `CANDIDATES` strings or positions of a number.
    report
        What one report lets the attacker guess or suspect.
    unchanged
        The same from any number of reports of the unchanged value.
    exact
        Whether the guesses are what the best attacker achieves; otherwise they are bounds: where strings, or numbers,
        may be any, and for hashes, whose worst function is meant.
    """

    values: int
    report: Success
    unchanged: Success
    exact: bool

    @property
    def prior(self) -> float:
        """What a guess without a report achieves."""
        return 1 / self.values

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        given = {"values": self.values, "prior": self.prior, "exact": self.exact}
        return given | self.report.to_json() | {"unchanged": self.unchanged.to_json()}

    def plain_words(self) -> str:
        """Say it to a person."""
        most = "" if self.exact else "at most "
        one, ever = self.report, self.unchanged
        return (
            f"The best guess among {self.values:,} equally likely values is right in {percent(self.prior)} of cases "
            f"without a report, in {most}{percent(one.guess)} with one, and in {most}{percent(ever.guess)} with any "
            "number of reports of an unchanged value. Somebody who suspects one of two values, and is wrong about 1% "
            f"of those who hold the other, recognizes at most {percent(one.true_positives)} of those who hold it from "
            f"one report, and {percent(ever.true_positives)} from any number."
        )


def percent(share: float) -> str:
    """Return a probability in percent, rounded up to two digits after the point, or to three digits below 1%.

    Examples
    --------
    >>> percent(0.25), percent(0.10001), percent(1 / 65536)
    ('25.00%', '10.01%', '0.00153%')
    """
    step = Decimal(10) ** (Decimal(share).adjusted() - 2 if 0 < share < 0.01 else -4)
    shown = rounded_up(share, step) * 100
    return f"{shown:.2f}%" if share >= 0.01 else f"{shown.normalize():f}%"


def attack(mechanism: Mechanism | NumericMechanism, values: int | None = None) -> Attack:
    """Return what the best attacker achieves against a mechanism.

    Parameters
    ----------
    mechanism
        The mechanism, or what takes numbers.
    values
        How many values are equally likely before; ignored where there is a domain. None: `CANDIDATES`.

    Raises
    ------
    ParameterError
        When `values` is not at least two.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> grr = attack(mechanism("grr", domain_size=4, epsilon=1.0))
    >>> percent(grr.prior), percent(grr.report.guess), percent(grr.report.true_positives)
    ('25.00%', '47.54%', '2.72%')
    """
    if values is not None and (not isinstance(values, int) or isinstance(values, bool) or values < 2):
        raise ParameterError(f"values = {values!r}: give a whole number, at least 2")
    if isinstance(mechanism, NumericRandomizer | RangeRandomizer):
        held = domain_size(mechanism) or CANDIDATES
        size = min(held, values or CANDIDATES) if isinstance(mechanism, NumericRandomizer) else held
        one, ever = (_bounded(epsilon, size) for epsilon in (mechanism.epsilon_report, mechanism.epsilon_permanent))
        return Attack(size, one, ever, exact=False)
    if isinstance(mechanism, BitMechanism):
        return _on_bits(mechanism, values or CANDIDATES)
    if isinstance(mechanism, SymbolMechanism):
        return _on_symbols(mechanism, values or CANDIDATES)
    if isinstance(mechanism, SetMechanism):
        return _on_sets(mechanism)
    raise ParameterError(f"nothing is known of the attacks on a {type(mechanism).__name__}")


def _bounded(epsilon: float, values: int) -> Success:
    """Every mechanism of that epsilon."""
    return Success(_most_guess(epsilon, values), _pure_positives(epsilon))


def _most_guess(epsilon: float, values: int) -> float:
    if epsilon > 700:
        return 1.0
    with localcontext(PRECISE):
        # e^epsilon / (e^epsilon + d - 1): one value e^epsilon times as likely as each of the others.
        odds = Decimal(epsilon).exp()
        return round_up(odds / (odds + values - 1))


def _pure_positives(epsilon: float) -> float:
    if epsilon > 700:
        return 1.0
    with localcontext(PRECISE):
        odds, wrong = Decimal(epsilon).exp(), _decimal(FALSE_POSITIVES)
        # Trade-off function of pure epsilon-DP at false positives a: min(a e^eps, 1 - (1 - a) e^-eps).
        return round_up(min(odds * wrong, 1 - (1 - wrong) / odds))


def _on_bits(mechanism: BitMechanism, candidates: int) -> Attack:
    encoding, rounds = mechanism.encoding, mechanism.rounds
    given = getattr(encoding, "domain_size", None)
    values = given or candidates
    ends = []
    for channel, epsilon in ((rounds.combined, mechanism.epsilon_report), (rounds.permanent, math.inf)):
        positives = max(_positives(_bit_atoms(channel, *pair)) for pair in encoding.differences)
        if isinstance(encoding, OneHot):
            guess = _guess_of_bits(channel, values, values)
        elif isinstance(encoding, SampledBits):
            guess = _guess_of_bits(channel, encoding.sampled_bits, values)
        else:
            guess = _most_guess(min(epsilon, mechanism.epsilon_permanent), values)
        ends.append(Success(guess, positives))
    one, ever = ends
    return Attack(values, one, ever, exact=given is not None)


def _guess_of_bits(channel: BinaryChannel, asked: int, values: int) -> float:
    """Best guess where `asked` of the values have a bit of their own: any value whose bit is 1, if there is one.

    With t ones among the `asked` bits, a value whose bit is 1 has likelihood p q^(t-1) (1-q)^(asked-t). So the sum over
    reports is (p/q) (1 - (1-q)^asked), and where all bits are 0 the likelihood of a value without a bit, or with one.
    """
    high, low = channel.keep_one, channel.raise_zero
    if high < low:
        high, low = 1 - high, 1 - low
    with localcontext(PRECISE):
        p, q = _decimal(high), _decimal(low)
        # Sum over t >= 1 of C(asked, t) p q^(t-1) (1-q)^(asked-t) = (p/q) (1 - (1-q)^asked).
        lit = p / q * (1 - (1 - q) ** asked) if q else p * asked
        unlit = (1 - q) ** asked if asked < values else (1 - p) * (1 - q) ** (asked - 1)
        return _share(lit + unlit, values)


def _on_symbols(mechanism: SymbolMechanism, candidates: int) -> Attack:
    encoding, rounds = mechanism.encoding, mechanism.rounds
    given: int | None = getattr(encoding, "domain_size", None)
    values, size = given or candidates, encoding.num_symbols
    ends = []
    for channel in (rounds.permanent.then(rounds.instantaneous), rounds.permanent):
        with localcontext(PRECISE):
            keep, other = _decimal(channel.keep), _decimal(channel.other)
            # Symbols that a value has, and those that none has; hash functions that reach the most are the worst.
            reached = min(size, values)
            guess = _share(reached * keep + (size - reached) * other, values)
        ends.append(Success(guess, _positives(_symbol_atoms(channel))))
    one, ever = ends
    return Attack(values, one, ever, exact=isinstance(encoding, Direct))


def _on_sets(mechanism: SetMechanism) -> Attack:
    total, own, shared = mechanism.encoding.sizes
    values = domain_size(mechanism) or CANDIDATES
    with localcontext(PRECISE):
        inside, outside = _decimal(mechanism.inside / own), _decimal((1 - mechanism.inside) / (total - own))
        guess = _share(total * max(inside, outside), values)
        sizes = (own - shared, own - shared, shared, total - 2 * own + shared)
        likely = ((inside, outside), (outside, inside), (inside, inside), (outside, outside))
        atoms = [(size * one, size * other) for size, (one, other) in zip(sizes, likely, strict=True)]
    one = Success(guess, _positives(atoms))
    return Attack(values, one, one, exact=isinstance(mechanism.encoding, Subsets))


def _share(total: Decimal, values: int) -> float:
    return min(round_up(total / values), 1.0)


def _bit_atoms(channel: BinaryChannel, lowered: int, raised: int) -> list[Atom]:
    """Reports by how many ones the two values' own bits have."""
    with localcontext(PRECISE):
        one, zero = ([_decimal(rate), _decimal(1 - rate)] for rate in (channel.keep_one, channel.raise_zero))
        found = []
        for mine, others in product(range(lowered + 1), range(raised + 1)):
            ways = math.comb(lowered, mine) * math.comb(raised, others)
            chances = [
                _power(first[0], mine)
                * _power(first[1], lowered - mine)
                * _power(second[0], others)
                * _power(second[1], raised - others)
                for first, second in ((one, zero), (zero, one))
            ]
            found.append((ways * chances[0], ways * chances[1]))
        return found


def _symbol_atoms(channel: SymbolChannel) -> list[Atom]:
    keep, other = _decimal(channel.keep), _decimal(channel.other)
    with localcontext(PRECISE):
        rest = (channel.domain_size - 2) * other
    return [(keep, other), (other, keep), (rest, rest)]


def _positives(atoms: Iterable[Atom]) -> float:
    """True positives at 1% false ones: the most telling reports first, a coin for the last of them."""
    pairs = [(one, other) for one, other in atoms if one or other]
    best = Decimal(0)
    with localcontext(PRECISE):
        for way in (pairs, [(other, one) for one, other in pairs]):
            left, found = _decimal(FALSE_POSITIVES), Decimal(0)
            for one, other in sorted(way, key=lambda atom: atom[1] / (atom[0] + atom[1])):
                taken = min(left / other, Decimal(1)) if other else Decimal(1)
                found, left = found + taken * one, left - taken * other
            best = max(best, found)
    return min(round_up(best), 1.0)


def _power(base: Decimal, exponent: int) -> Decimal:
    return base**exponent if exponent else Decimal(1)


def _decimal(share: Fraction) -> Decimal:
    return PRECISE.divide(Decimal(share.numerator), Decimal(share.denominator))
