"""Symbols, sets and unary bits, every outcome counted: tables read off the real samplers, histories in fractions.

A sampler compares a 32-bit word with a threshold and then draws uniformly. How many of the 2**32 words keep the
symbol is found by bisecting the sampler itself; what it draws afterwards, by giving it every word. Nothing here uses
a formula of the package.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from decimal import Context, Decimal
from fractions import Fraction
from itertools import product
from math import prod
from unittest import mock

from overstory.protocol.encodings import sets
from overstory.protocol.sampling import bit_sampler

WORDS = 2**32
PRECISE = Context(prec=60)


class ExhaustedError(Exception):
    """More randomness was asked for than this run has."""


def words_until(turns):
    """The number of 32-bit words, from 0 up, for which `turns` is true: it is true first and then false for ever."""
    low, high = 0, WORDS
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if turns(middle) else (low, middle)
    return low


def scripted(*words):
    """A source of bits that says these words, and then has no more."""
    rest = list(words)

    def bits(count):
        if not rest:
            raise ExhaustedError
        return rest.pop(0) if count == 32 else rest.pop(0) % (1 << count)

    return bits


def symbol_table(draw, size):
    """P(output | symbol) of a sampler of `symbol_sampler`."""
    return {symbol: _symbol_row(draw, symbol, size) for symbol in range(size)}


def _symbol_row(draw, symbol, size):
    def stops(word):
        try:
            return draw(symbol, scripted(word)) == symbol
        except ExhaustedError:
            return False

    kept = words_until(stops)
    row = Counter({symbol: Fraction(kept, WORDS)})
    if kept == WORDS:
        return row
    drawn = [_drawn(draw, symbol, word) for word in range(1 << (size - 1).bit_length())]
    accepted = [output for output in drawn if output is not None]
    for output in accepted:
        row[output] += Fraction(WORDS - kept, WORDS * len(accepted))
    return row


def _drawn(draw, symbol, word):
    try:
        return draw(symbol, scripted(WORDS - 1, word))
    except ExhaustedError:
        return None  # rejected: it would draw again


def bit_table(channel, num_bits):
    """P(output bits | bits) of a channel whose thresholds have many binary digits, from its one-bit sampler."""
    if channel.is_identity:
        return {word: Counter({word: Fraction(1)}) for word in range(1 << num_bits)}
    ones = [Fraction(_ones(bit_sampler(channel, 1), bit), WORDS) for bit in (0, 1)]
    table = {}
    for word, output in product(range(1 << num_bits), repeat=2):
        chances = ((ones[word >> i & 1], output >> i & 1) for i in range(num_bits))
        table.setdefault(word, Counter())[output] = prod(one if bit else 1 - one for one, bit in chances)
    return table


def _ones(draw, bit):
    """How many uniform numbers of 32 digits give a one; the sampler reads only the digits that it needs."""
    digits = []
    draw(bit, lambda count: digits.append(count) or 0)
    return words_until(lambda word: draw(bit, lambda _: word >> (32 - digits[0])) == 1) if digits[0] else None


def set_table(mechanism, values):
    """P(output | value) of a set mechanism: the coin by bisection, the draws after it by every choice there is."""
    return {value: _set_row(mechanism, value) for value in values}


def _set_row(mechanism, value):
    inside = words_until(lambda word: _runs_inside(mechanism, value, word))
    row = Counter()
    for word, share in ((0, Fraction(inside, WORDS)), (WORDS - 1, Fraction(WORDS - inside, WORDS))):
        runs = list(_all_runs(mechanism, value, word))
        total = sum(weight for _, weight in runs)
        for output, weight in runs:
            row[output] += share * weight / total
    return row


def _runs_inside(mechanism, value, word):
    with mock.patch.object(sets, "uniform_below", lambda count, entropy: count - 1):
        return mechanism.encoding.contains(mechanism.draw_permanent(value, 0, Source(word)), value)


def _all_runs(mechanism, value, word):
    """Every run of one attempt: (output, probability); an attempt that is rejected is left out."""
    # A point inside takes a choice per coordinate, and one outside another for its inner product.
    longest = getattr(mechanism.encoding, "dimension", mechanism.encoding.domain_size) + (word > 0)
    pending = [()]
    while pending:
        choices = pending.pop()
        weight, given = Fraction(1), iter(choices)

        def choose(count, entropy, given=given, choices=choices):
            nonlocal weight
            chosen = next(given, None)
            if chosen is None:
                if len(choices) < longest:
                    pending.extend((*choices, option) for option in range(count))
                raise ExhaustedError
            weight /= count
            return chosen

        try:
            with mock.patch.object(sets, "uniform_below", choose):
                yield mechanism.draw_permanent(value, 0, Source(word)), weight
        except ExhaustedError:
            continue


class Source:
    """Entropy whose only word is the coin."""

    def __init__(self, word):
        self.word = word

    def bits(self, count):
        assert count == 32
        return self.word


class TableDevice:
    """A device as two tables and a memo: permanent[input][response], instantaneous[response][report]."""

    def __init__(self, permanent, instantaneous, encode=None, label=None):
        self.permanent, self.instantaneous = permanent, instantaneous
        self.encode = encode or (lambda value: value)
        self.label = label or (lambda value, time: self.encode(value))

    def reports(self, history):
        """P(each sequence of reports), exact; impossible ones are left out."""
        times = defaultdict(list)
        for time, value in enumerate(history):
            times[self.label(value, time)].append(time)
        total = {(): Fraction(1)}
        for when in times.values():
            seen = self.seen(self.encode(history[when[0]]), len(when))
            total = {
                (*before, *zip(when, reports, strict=True)): p * q
                for before, p in total.items()
                for reports, q in seen.items()
            }
        return Counter({tuple(report for _, report in sorted(outcome)): p for outcome, p in total.items()})

    def seen(self, symbol, reports):
        """P(the reports read through one permanent response)."""
        total = Counter()
        for response, chance in self.permanent[symbol].items():
            rows = product(self.instantaneous[response].items(), repeat=reports)
            for row in rows if chance else ():
                total[tuple(report for report, _ in row)] += chance * prod(p for _, p in row)
        return +total


def log_worst(one, other):
    """Worst log ratio over all outcomes of `one` against `other`, to 60 digits."""
    high, low = 1, 1  # the worst ratio, as integers: fractions look for common divisors
    for outcome, chance in one.items():
        if not (against := other[outcome]):
            return Decimal("Infinity")
        above, below = chance.numerator * against.denominator, chance.denominator * against.numerator
        if above * low > high * below:
            high, low = above, below
    return PRECISE.ln(PRECISE.divide(Decimal(high), Decimal(low)))


def apart(device, first, second):
    """Worst log ratio of two histories, either way."""
    one, other = device.reports(first), device.reports(second)
    return max(log_worst(one, other), log_worst(other, one))


def worst_of_reports(device, values, reports):
    """Worst over pairs of values that never change."""
    return max(apart(device, [a] * reports, [b] * reports) for a, b in product(values, repeat=2) if a != b)


def worst_of_changes(device, values, reports):
    """Worst over pairs of values and times of a change."""
    return max(
        apart(device, [a] * reports, [a] * before + [b] * (reports - before))
        for a, b in product(values, repeat=2)
        if a != b
        for before in range(1, reports)
    )


def worst_of_pattern(device, values, pattern):
    """Worst over pairs of histories of one pattern: value number pattern[i] in report i."""
    held = [dict(enumerate(chosen)) for chosen in product(values, repeat=max(pattern) + 1)]
    histories = [[named[i] for i in pattern] for named in held if len({*named.values()}) == len(named)]
    return max(apart(device, one, other) for one, other in product(histories, repeat=2) if one != other)
