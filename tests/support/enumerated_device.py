"""A device whose every possible run is counted: the real sampler, fed with every string of bits there is.

Nothing here uses a formula of the package: probabilities are counts of entropy strings, and the worst log ratio is
found by going through all outputs of all pairs of values.
"""

from __future__ import annotations

import hmac
from collections import Counter, defaultdict
from decimal import Context, Decimal
from itertools import product
from unittest import mock

from overstory.protocol.permanent_response import GooglePermanence, ResponseContext
from overstory.protocol.sampling import bit_sampler

PRECISE = Context(prec=60)


def runs(draw, word):
    """How many strings of random bits lead to each output of `draw`."""
    asked = []
    draw(word, lambda count: asked.append(count) or 0)
    assert sum(asked) <= 12, "parameters with few binary digits, please"
    return Counter(draw(word, lambda _, said=said: said) for said in range(1 << sum(asked)))


class Device:
    """Both rounds of a mechanism as tables of counts: permanent[bits][response], instantaneous[response][report]."""

    def __init__(self, mechanism):
        self.mechanism, self.num_bits = mechanism, mechanism.encoding.num_bits
        words = range(1 << self.num_bits)
        self.permanent = {word: self.permanent_runs(word) for word in words}
        self.instantaneous = {word: runs(mechanism.instantaneous, word) for word in words}

    def permanent_runs(self, word):
        if isinstance(self.mechanism.permanence, GooglePermanence) and not self.mechanism.rounds.permanent.is_identity:
            return self.google_runs(word)
        return runs(bit_sampler(self.mechanism.rounds.permanent, self.num_bits), word)

    def google_runs(self, word):
        """Every byte of the digest, for every bit: bytes of a digest are independent."""
        permanent = self.mechanism.rounds.permanent
        responder = self.mechanism.permanence.responder(
            permanent, self.num_bits, b"s" * 16, ResponseContext("m", b"", 0)
        )
        responses = []
        for byte in range(256):
            with mock.patch.object(hmac, "digest", lambda *_, byte=byte: bytes([byte]) * 32):
                responses.append(responder(b"", word))
        ones = [sum(response >> i & 1 for response in responses) for i in range(self.num_bits)]
        table = Counter()
        for response in range(1 << self.num_bits):
            table[response] = 1
            for i, one in enumerate(ones):
                table[response] *= one if response >> i & 1 else 256 - one
        return table

    def label(self, value, time):
        """Which permanent response a report of `value` at `time` is read through."""
        del time
        return self.mechanism.encode(value, 0) if isinstance(self.mechanism.permanence, GooglePermanence) else value

    def reports(self, history):
        """How many runs lead to each sequence of reports; zero counts are left out."""
        times = defaultdict(list)
        for time, value in enumerate(history):
            times[self.label(value, time)].append(time)
        words = [self.mechanism.encode(history[when[0]], 0) for when in times.values()]
        parts = [(when, self.one_response(word, len(when))) for when, word in zip(times.values(), words, strict=True)]
        total = Counter()
        for choice in product(*(part.items() for _, part in parts)):
            outcome, count = [0] * len(history), 1
            for (when, _), (seen, runs_of_it) in zip(parts, choice, strict=True):
                count *= runs_of_it
                for time, report in zip(when, seen, strict=True):
                    outcome[time] = report
            total[tuple(outcome)] += count
        return total

    def one_response(self, word, reports):
        """Marginalize the memoized permanent response of one value seen `reports` times."""
        total = Counter()
        for response, count in self.permanent[word].items():
            for seen in product(self.instantaneous[response].items(), repeat=reports):
                weight = count
                for _, runs_of_it in seen:
                    weight *= runs_of_it
                total[tuple(report for report, _ in seen)] += weight
        return total


class LazyBit(Device):
    """Broken: bit 0 is never randomized permanently (OpenDP's RAPPOR left one bit alone for 20 months)."""

    def permanent_runs(self, word):
        table = Counter()
        for response, count in super().permanent_runs(word).items():
            table[(response & ~1) | (word & 1)] += count
        return table


class Redrawn(Device):
    """Broken: the permanent response is drawn again for every report."""

    def label(self, value, time):
        return value, time


def values_of(mechanism):
    """One value for every encoding that occurs, and a second one with the same bits where there is one."""
    if mechanism.encoding.domain_size is not None:
        return list(range(mechanism.encoding.domain_size))
    found = defaultdict(list)
    for number in range(300):
        found[mechanism.encode(f"v{number}", 0)].append(f"v{number}")
    return [value for values in found.values() for value in values[:2]]


def log_worst(one, other):
    """Worst log ratio over all outcomes of `one` against `other`, to 60 digits."""
    assert sum(one.values()) * len(other) > 0
    high, low = 0, 1  # the worst ratio of two counts
    for outcome, count in one.items():
        if not (against := other[outcome]):
            return Decimal("Infinity")
        if count * low > high * against:
            high, low = count, against
    return PRECISE.ln(PRECISE.divide(Decimal(high * sum(other.values())), Decimal(low * sum(one.values()))))


def worst_of_reports(device, reports, values=None):
    """Worst over pairs of values that never change."""
    one_each = {device.mechanism.encode(v, 0): v for v in values or values_of(device.mechanism)}
    seen = {word: device.reports([value] * reports) for word, value in one_each.items()}
    return max(log_worst(seen[a], seen[b]) for a in seen for b in seen if a != b)


def worst_of_changes(device, reports):
    """Worst over pairs of values and times of a change, both ways."""
    found = []
    for a, b in product(values_of(device.mechanism), repeat=2):
        if a == b:
            continue
        same = device.reports([a] * reports)
        for before in range(1, reports):
            changed = device.reports([a] * before + [b] * (reports - before))
            found += [log_worst(same, changed), log_worst(changed, same)]
    return max(found)
