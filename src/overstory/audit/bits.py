"""Checks of reports that are bits: unary encodings, d-bit flipping, RAPPOR.

The bits of a report are independent, given the value: so counts over bits and devices are binomial, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.selection import binomial_law, clopper_pearson
from overstory.audit.checks import (
    AS_DECLARED,
    LEVEL,
    Check,
    Column,
    Conformance,
    Floats,
    Levels,
    LevelsOf,
    alike,
    binned,
    halfway,
    identical,
    neighbours,
    pairs_of,
    rate,
    rates_by,
    turns,
)
from overstory.audit.probabilities import (
    at_least,
    joined,
    most_extreme,
    outcomes_p,
    too_many,
    two_sided,
)

if TYPE_CHECKING:
    from overstory.audit.answers import Answers
    from overstory.audit.declared import Declared

Bits = NDArray[np.uint8]
WAYS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of a larger epsilon is in what a 1 says; the rest is in what a 0 says."""


class BitConformance(Conformance):
    """The checks of a `BitMechanism`."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared)
        rounds: Any = declared.mechanism.rounds  # type: ignore[union-attr] # of a mechanism of bits
        self.permanent, self.instantaneous = rounds.permanent, rounds.instantaneous
        self.p, self.q = float(rounds.combined.keep_one), float(rounds.combined.raise_zero)

    def encoded(self, answers: Answers) -> Bits:
        return self.declared.bits(answers.values, answers.cohorts).view(np.uint8)

    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield rates of set and unset bits, in all and by bit, value and cohort; ones; pairs; neighbours."""
        true, bits = self.encoded(answers), answers.reports
        both, sets = (bits & true).sum(1, dtype=np.int64), true.sum(1, dtype=np.int64)
        ones = bits.sum(1, dtype=np.int64) - both
        unsets = bits.shape[1] - sets
        yield rate("rate of set bits", int(both.sum()), int(sets.sum()), self.p)
        yield rate("rate of unset bits", int(ones.sum()), int(unsets.sum()), self.q)
        yield self._bits_alike(bits, true)
        groups = [("values alike", answers.values, len(self.declared.values))]
        if self.declared.num_cohorts > 1:
            groups.append(("cohorts alike", answers.cohorts, self.declared.num_cohorts))
        for name, numbers, limit in groups:
            parts = binned(numbers, limit)
            of_set = rates_by(name, parts, both, sets, self.p)
            of_unset = rates_by(name, parts, ones, unsets, self.q)
            p_value = joined([of_set.p_value, of_unset.p_value])
            shown = min((of_set, of_unset), key=lambda check: check.p_value).observed
            yield Check(name, AS_DECLARED, shown, p_value, p_value)
        yield self._number_of_ones(both + ones, sets, bits.shape[1])
        if bits.shape[1] > 1:
            yield self._pairs(bits, true)
        yield from self._neighbours(answers)

    def remarks(self, answers: Answers) -> Iterator[str]:
        """Yield RAPPOR's f with its interval: a client may round it, and only that be wrong."""
        declared = self.declared.mechanism.parameters.get("f")
        if not declared:
            return
        unset = self.encoded(answers) == 0
        rate_of = clopper_pearson(int(answers.reports[unset].sum(dtype=np.int64)), int(unset.sum()), 1 - LEVEL)
        zero, one = float(self.instantaneous.raise_zero), float(self.instantaneous.keep_one)
        low, high = sorted(2 * (end - zero) / (one - zero) for end in rate_of)
        yield f"f by the unset bits, if p and q are as declared: {low:.4f} to {high:.4f}; declared {declared:g}"

    def _bits_alike(self, bits: Bits, true: Bits) -> Check:
        both, sets = (bits & true).sum(0, dtype=np.int64), true.sum(0, dtype=np.int64)
        ones, unsets = bits.sum(0, dtype=np.int64) - both, len(bits) - sets
        counts, totals = np.concatenate((both, ones)), np.concatenate((sets, unsets))
        chances = np.repeat((self.p, self.q), len(sets))
        check = alike("bits alike", counts, totals, chances)
        worst = int(np.argmin(two_sided(counts, totals, chances))) % len(sets)
        return Check(check.name, check.expected, f"bit {worst} {check.observed}", check.statistic, check.p_value)

    def _number_of_ones(self, ones: Column, sets: Column, width: int) -> Check:
        p_values = []
        for weight in np.unique(sets).tolist():
            law = np.convolve(binomial_law(weight, self.p), binomial_law(width - weight, self.q))
            p_values.append(outcomes_p(np.bincount(ones[sets == weight], minlength=width + 1), law))
        expected = float(np.mean(sets * self.p + (width - sets) * self.q))
        p_value = joined(p_values)
        return Check("number of ones", f"{expected:.3f} on average", f"{ones.mean():.3f}", p_value, p_value)

    def _pairs(self, bits: Bits, true: Bits) -> Check:
        """Check each two bits where the value sets neither: they are both 1, or agree, as often as independent ones."""
        width, q = bits.shape[1], self.q
        together, neither, totals = pairs_of(bits, true == 0)
        agree = q * q + (1 - q) ** 2
        if 4 * q * q * (1 - q * q) > agree * (1 - agree):  # which shows a correlation better
            counts, chance = together + neither, agree
        else:
            counts, chance = together, q * q
        upper = np.triu_indices(width, 1)
        each = two_sided(counts[upper], totals[upper], chance)
        p_value, worst = most_extreme(each), int(np.argmin(each))
        first, second = (int(axis[worst]) for axis in upper)
        share = counts[upper][worst] / max(totals[upper][worst], 1)
        shown = f"furthest: bits {first} and {second}, {share:.4f}, expected {chance:.4f}"
        return Check("pairs of bits", "independent", shown, p_value, p_value)

    def _neighbours(self, answers: Answers) -> Iterator[Check]:
        first, second = neighbours(answers)
        true, others = self.encoded(first), self.encoded(second)
        same = first.reports == second.reports
        neither = (true | others) == 0
        chance = self.q**2 + (1 - self.q) ** 2
        yield rate("agreement of neighbouring devices", int(same[neither].sum()), int(neither.sum()), chance)
        logs = np.log([chance, self.p * self.q + (1 - self.p) * (1 - self.q), self.p**2 + (1 - self.p) ** 2])
        chances = np.exp(logs[true + others].sum(axis=1))
        yield identical("identical neighbouring reports", int(same.all(axis=1).sum()), chances)

    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield how often a device's bit is 1: a permanent bit, sent again and again with fresh noise."""
        first, reports = turns(answers, repeats)
        counts, true = reports.sum(0, dtype=np.int64), self.encoded(first).astype(np.bool_)
        fresh = [binomial_law(repeats, float(p)) for p in (self.instantaneous.raise_zero, self.instantaneous.keep_one)]
        for name, chosen, share in (
            ("memory of set bits", true, float(self.permanent.keep_one)),
            ("memory of unset bits", ~true, float(self.permanent.raise_zero)),
        ):
            law = share * fresh[1] + (1 - share) * fresh[0]
            seen = np.bincount(counts[chosen], minlength=repeats + 1)
            p_value = outcomes_p(seen, law)
            expected, came = (_deviation(weights) for weights in (law, seen))
            texts = f"ones of {repeats} vary by {expected:.3f}", f"by {came:.3f}"
            yield Check(name + after, *texts, came, p_value)

    def noise(self, answers: Answers, repeats: int) -> tuple[NDArray[np.bool_], Floats]:
        first, reports = turns(answers, repeats)
        rates = float(self.instantaneous.raise_zero), float(self.instantaneous.keep_one)
        cut, (zero, one) = halfway(repeats, *rates)
        shares = (float(share) for share in (self.permanent.raise_zero, self.permanent.keep_one))
        chances = np.array([share * one + (1 - share) * zero for share in shares])
        return reports.sum(0, dtype=np.int64) > cut, chances[self.encoded(first)]

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        true, others = self.encoded(first), self.encoded(second)
        same, p_values = first.reports == second.reports, []
        logs = np.zeros(len(first))
        for value, permanent in ((0, self.permanent.raise_zero), (1, self.permanent.keep_one)):
            chosen = (true == value) & (others == value)
            chance = self._agreement(float(permanent), same_devices=same_devices)
            p_values.append(float(at_least(int(same[chosen].sum()), int(chosen.sum()), chance)))
            logs += np.log(chance) * chosen.sum(axis=1)
        equal = (true == others).all(axis=1)
        p_values.append(too_many(int(same[equal].all(axis=1).sum()), np.exp(logs[equal])))
        return most_extreme(p_values)

    def _agreement(self, permanent: float, *, same_devices: bool) -> float:
        """Return how likely two reports of a bit agree, where `permanent` is P(the permanent bit is 1)."""
        one, zero = float(self.instantaneous.keep_one), float(self.instantaneous.raise_zero)
        if same_devices:
            return permanent * (one**2 + (1 - one) ** 2) + (1 - permanent) * (zero**2 + (1 - zero) ** 2)
        raised = permanent * one + (1 - permanent) * zero
        return raised**2 + (1 - raised) ** 2

    def _sides(self, answers: Answers) -> tuple[Bits, Bits]:
        """Return the true bits of both values of the pair, in the cohort of each report."""
        sides = np.zeros(len(answers), np.int64)
        first, second = (self.declared.bits(sides + value, answers.cohorts) for value in (0, 1))
        return first.view(np.uint8), second.view(np.uint8)

    def scores(self, answers: Answers) -> Floats:
        """Return the log ratio: only bits count that one of the pair sets alone."""
        first, second = self._sides(answers)
        lit, dark = self._losses
        ways = [(second > first, 1.0), (first > second, -1.0)]
        score = np.zeros(len(answers))
        for alone, sign in ways:
            ones = (answers.reports & alone).sum(axis=1, dtype=np.int64)
            score += sign * (ones * lit + (alone.sum(axis=1, dtype=np.int64) - ones) * dark)
        return score

    @property
    def _losses(self) -> tuple[float, float]:
        """ln P(1 | 1) / P(1 | 0), and ln P(0 | 1) / P(0 | 0)."""
        return float(np.log(self.p / self.q)), float(np.log((1 - self.p) / (1 - self.q)))

    def levels(self, answers: Answers) -> LevelsOf:
        """Return every log ratio that the numbers of ones among those bits can make.

        Noise is less where the declared noise can be made of it by adding some: then neither a 1 nor a 0 says less
        than declared. Both may say more, or one of them: each is a way to have less noise.
        """
        first, second = self._sides(answers)
        shapes, times = np.unique(
            np.stack([(second > first).sum(1), (first > second).sum(1)], axis=1), axis=0, return_counts=True
        )
        lit, dark = self._losses

        def levels(excess: float) -> list[Levels]:
            gain = excess * (lit - dark)
            return [self._levels(shapes, times, lit + part * gain, dark - (1 - part) * gain) for part in WAYS]

        return levels

    def _levels(self, shapes: Column, times: Column, lit: float, dark: float) -> Levels:
        """Return the levels of a client for which a 1 says `lit`, and a 0 `dark`."""
        zero = math.expm1(dark) / (math.exp(dark) - math.exp(lit))
        one = zero * math.exp(lit)
        parts = []
        for (raised, lowered), often in zip(shapes.tolist(), times.tolist(), strict=True):
            ups, downs = (
                ones * self._losses[0] + ones[::-1] * self._losses[1]
                for ones in (np.arange(many + 1.0) for many in (raised, lowered))
            )
            for_first, for_second = (
                np.outer(binomial_law(raised, up), binomial_law(lowered, down)).ravel()
                for up, down in ((zero, one), (one, zero))
            )
            score, sent = (ups[:, None] - downs).ravel(), for_first + for_second
            right = np.where(score > 0, for_second, for_first) / np.maximum(sent, 1e-300)
            parts.append((np.abs(score), often * sent / 2, right))
        return Levels(*(np.concatenate(each) for each in zip(*parts, strict=True)))

    def true_sides(self, answers: Answers) -> Column:
        first, second = self._sides(answers)
        is_first, is_second = ((answers.reports == bits).all(axis=1) for bits in (first, second))
        return np.where(is_first == is_second, -1, np.where(is_second, 1, 0)).astype(np.int64)

    def features(self, answers: Answers) -> Bits:
        reports: Bits = answers.reports
        return reports


def _deviation(weights: Any) -> float:
    """Return the standard deviation of 0, 1, 2, ..., each as frequent as `weights` says."""
    places, total = np.arange(len(weights)), max(float(weights.sum()), 1e-300)
    mean = float((weights * places).sum()) / total
    return float(np.sqrt((weights * (places - mean) ** 2).sum() / total))
