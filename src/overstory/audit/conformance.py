"""What reports are held to, of two kinds: vectors of bits, and outputs of the value's own set.

A report shows marks. Given the value they are independent, so that counts of them are binomial, exactly.

Vectors are those of unary encodings, d-bit flipping and RAPPOR; a mark is a bit. Outputs are symbols (direct, hashed
under a seed, or a sign), subsets of the domain, or points of a projective space; a symbol's set is itself. All outputs
of the set are alike, and so are all others: the one mark is whether the report is in the set.

*p-values* are exact, or proven never to be too small. A two-sided p-value of a count is twice the smaller tail of its
binomial. Several independent ones are joined by Fisher: where none is too small, neither is theirs, and that holds for
p-values that are drawn one after the other, each given those before it. So the counts of several outcomes, each a
binomial given those before it, need no approximation either.

Hoeffding, "On the distribution of the number of successes in independent trials", Annals of Mathematical Statistics
1956.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overstory.analysis.selection import at_least, binomial_law, clopper_pearson
from overstory.protocol.kinds.base import Report

if TYPE_CHECKING:
    from overstory.audit.answers import Answers, Declared

Column = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.uint8]

SMALLEST: Final = 20.0  # outcomes that are expected more rarely are counted together with their neighbours


def two_sided(count: ArrayLike, total: ArrayLike, probability: ArrayLike) -> Floats:
    """Return twice the smaller tail of a binomial count, at most 1."""
    k, n, p = (np.asarray(each, np.float64) for each in (count, total, probability))
    low = at_least(n - k, n, 1.0 - p)
    return np.minimum(1.0, 2.0 * np.minimum(low, at_least(k, n, p)))


def joined(p_values: ArrayLike) -> float:
    """Return Fisher's p-value of several: of independent ones, or of each given those before it."""
    from scipy.special import gammaincc

    each = np.atleast_1d(np.asarray(p_values, np.float64))
    if not each.size:
        return 1.0
    if not each.all():
        return 0.0
    return float(gammaincc(each.size, -np.log(each).sum()))


def most_extreme(p_values: ArrayLike) -> float:
    """Return Bonferroni's p-value of several, whatever their dependence."""
    each = np.atleast_1d(np.asarray(p_values, np.float64))
    return min(1.0, float(each.min()) * each.size) if each.size else 1.0


def outcomes_p(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """Return the p-value of how often each of several outcomes came, given their probabilities."""
    seen, expected = np.asarray(counts, np.float64), np.asarray(probabilities, np.float64)
    if seen[expected <= 0].sum() > 0:
        return 0.0
    seen, expected = _grouped(seen[expected > 0], expected[expected > 0])
    left = seen[::-1].cumsum()[::-1]
    rest = np.maximum(expected[::-1].cumsum()[::-1], expected)
    return joined(two_sided(seen[:-1], left[:-1], np.minimum(expected[:-1] / rest[:-1], 1.0)))


def _grouped(seen: Floats, expected: Floats) -> tuple[Floats, Floats]:
    """Add up neighbouring outcomes until each group is expected often enough; which ones depends on no outcome."""
    share = min(SMALLEST / max(seen.sum(), 1.0), 0.5)
    group, weight, groups = 0, 0.0, np.zeros(len(expected), np.int64)
    for place, probability in enumerate(expected.tolist()):
        if weight >= share:
            group, weight = group + 1, 0.0
        groups[place] = group
        weight += probability
    if group and weight < share:
        groups[groups == group] = group - 1
    counts, chances = (np.bincount(groups, each).astype(np.float64) for each in (seen, expected))
    return counts, chances


def too_many(count: int, probabilities: ArrayLike) -> float:
    """Bound P(as many or more of independent events): no heavier than a binomial of the same mean (Hoeffding)."""
    chances = np.atleast_1d(np.asarray(probabilities, np.float64))
    if not count or count < chances.sum() + 1.0:
        return 1.0
    return float(at_least(count, chances.size, chances.mean()))


LEVEL: Final = 0.001  # intervals of rates have confidence 1 - `LEVEL`, whatever alpha is
BINS: Final = 64
WORK: Final = 2e10  # products that the check of all pairs of bits may take
BLOCK: Final = 1 << 14
AS_DECLARED: Final = "as declared"


@dataclass(frozen=True)
class Check:
    """One property: what was expected, what came, and how rarely a right client is as far from it."""

    name: str
    expected: str
    observed: str
    p_value: float  # exact, or an upper bound of it
    statistic: float | None = None  # None: the p-value
    interval: tuple[float, float] | None = None  # of a rate


def rate(name: str, count: int, total: int, probability: float) -> Check:
    """Check how often something came against its exact probability."""
    interval = clopper_pearson(count, total, 1 - LEVEL) if total else (0.0, 1.0)
    share = count / total if total else probability
    p_value = float(two_sided(count, total, probability))
    return Check(name, f"{probability:.4f}", f"{share:.4f}", p_value, share, interval)


def binned(numbers: Column, limit: int) -> Column:
    """Return numbers below `limit` as one of at most `BINS` neighbouring groups."""
    return numbers if limit <= BINS else (numbers.astype(np.uint64) * np.uint64(BINS) // np.uint64(limit)).astype(int)


def counts_of(marks: Marks, true: Marks, axis: int) -> list[tuple[Column, Column]]:
    """Return how many marks came along an axis, and of how many: of those that values have, and of the others."""
    had, many = (each.sum(axis=axis, dtype=np.int64) for each in (marks & true, true))
    return [(had, many), (marks.sum(axis=axis, dtype=np.int64) - had, marks.shape[axis] - many)]


def alike(name: str, sides: Sequence[tuple[Any, Any, float]], group: str = "") -> Check:
    """Check independent counts: of each side in as many groups, of how many, and how likely; the furthest is shown."""
    counts, totals = (np.concatenate([side[place] for side in sides]) for place in (0, 1))
    groups = len(sides[0][0])
    chances = np.repeat([side[2] for side in sides], groups)
    each = two_sided(counts, totals, chances)
    worst = int(np.argmin(each))
    shown = f"furthest: {counts[worst] / max(totals[worst], 1):.4f}, expected {chances[worst]:.4f}"
    p_value = joined([joined(side) for side in np.split(each, len(sides))])
    return Check(name, AS_DECLARED, f"{group} {worst % groups} {shown}" if group else shown, p_value)


def pairs_of(ones: NDArray[Any], lines: NDArray[Any]) -> tuple[Floats, Floats, Floats]:
    """Return on how many lines (the first, for `WORK`) each two columns are both 1, both 0, and both in question."""
    width = lines.shape[1]
    high, low, asked = (np.zeros((width, width)) for _ in range(3))
    end = min(len(lines), max(int(WORK) // width**2, 1))
    for start in range(0, end, BLOCK):
        rows = slice(start, min(start + BLOCK, end))
        valid = lines[rows].astype(np.float32)
        raised = ones[rows] * valid
        lowered = valid - raised
        high += raised.T @ raised
        low += lowered.T @ lowered
        asked += valid.T @ valid
    return high, low, asked


@dataclass(frozen=True)
class Levels:
    """How far reports of the pair speak for one of its values, by level."""

    ratios: Floats  # the size of each log ratio, as declared
    counts: Floats  # how many reports a client is expected to send
    right: Floats  # how likely a guess is right, with that client


def neighbours(answers: Answers) -> tuple[Answers, Answers]:
    """Return the lines two by two; no device is in two pairs."""
    even = len(answers) - len(answers) % 2
    return answers.take(slice(0, even, 2)), answers.take(slice(1, even, 2))


LevelsOf = Callable[[float], Iterator[Levels]]
"""The levels of clients whose epsilon is above the declared one by a share of it: less noise, in each way there is."""


class Conformance(ABC):
    """What reports of one kind are held to."""

    names: tuple[str, str]  # what marks are called that the value has, and that it lacks
    rates: tuple[float, float]  # P(a mark of a report | the value has it, lacks it)
    permanent: tuple[float, float]  # P(a mark of the permanent response | the value lacks it, the value has it)
    instantaneous: tuple[float, float]  # P(a mark of a report | the permanent response lacks it, has it)
    losses: tuple[float, float]  # the log likelihood ratio of a mark that the value has, where it came and where not

    def __init__(self, declared: Declared) -> None:
        self.declared = declared

    def encoded(self, answers: Answers) -> NDArray[Any]:
        """Return what each line's value encodes to in its cohort: values with one encoding may share noise."""
        return self.declared.encoded(answers.values, answers.cohorts)

    @abstractmethod
    def marks(self, answers: Answers) -> Marks:
        """Return the marks of each line's report, in a row."""

    @abstractmethod
    def truth(self, answers: Answers) -> Marks:
        """Return which marks each line's value has."""

    def fresh(self, answers: Answers) -> Iterator[Check]:
        """Yield the checks of fresh devices: rates, in all and by value and cohort; outcomes; neighbours."""
        counts = counts_of(self.marks(answers), self.truth(answers), 1)
        sides = [side for side in zip(self.names, counts, self.rates, strict=True) if side[1][1].any()]
        for name, (came, of), chance in sides:
            yield rate(f"rate of {name}", int(came.sum()), int(of.sum()), chance)
        groups = [("values alike", answers.values, len(self.declared.values))]
        if self.declared.num_cohorts > 1:
            groups.append(("cohorts alike", answers.cohorts, self.declared.num_cohorts))
        for name, numbers, limit in groups:
            group = binned(numbers, limit)
            yield alike(
                name, [(np.bincount(group, came), np.bincount(group, of), chance) for _, (came, of), chance in sides]
            )
        yield from self.outcomes(answers)
        first, second = neighbours(answers)
        same, chances = int(self.same(first, second).sum()), self.equal_chances(first, second)
        expected = f"about {chances.sum():,.1f} of {len(chances):,}"
        yield Check("identical neighbouring reports", expected, f"{same:,}", too_many(same, chances), same)

    @abstractmethod
    def outcomes(self, answers: Answers) -> Iterator[Check]:
        """Yield the checks of whole reports."""

    def same(self, first: Answers, second: Answers) -> NDArray[np.bool_]:
        equal: NDArray[np.bool_] = (first.reports == second.reports).reshape(len(first), -1).all(axis=1)
        return equal

    @abstractmethod
    def equal_chances(self, first: Answers, second: Answers, *, same_devices: bool = False) -> Floats:
        """Return how likely the reports of each line are equal, from permanent responses of their own, or from one."""

    @abstractmethod
    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield the checks of `repeats` reports each of some devices, which take turns."""

    def apart(self, first: Answers, second: Answers, repeats: int) -> float:
        """Return the p-value of how often the coins of the same devices agree, in all reports and in the first ones."""
        p_values = []
        for times in {1, repeats}:
            rows = slice(len(first) // repeats * times)
            (ones, chances), (others, more) = (self._noise(each.take(rows), times) for each in (first, second))
            agreement = chances * more + (1 - chances) * (1 - more)
            levels, places = np.unique(agreement, return_inverse=True)
            totals, same = (np.bincount(places.ravel(), weights) for weights in (None, (ones == others).ravel()))
            p_values.append(joined(two_sided(same, totals, levels)))
        return most_extreme(p_values)

    def _noise(self, answers: Answers, repeats: int) -> tuple[NDArray[np.bool_], Floats]:
        """Return what `repeats` reports of each device say of its noise, as independent coins, and their chances."""
        first = answers.take(slice(len(answers) // repeats))
        marks = self.marks(replace(answers, cohorts=np.tile(first.cohorts, repeats)))
        counts = marks.reshape(repeats, len(first), -1).sum(axis=0, dtype=np.int64)
        cut = math.floor(repeats * sum(self.instantaneous) / 2)
        zero, one = (float(binomial_law(repeats, chance)[cut + 1 :].sum()) for chance in self.instantaneous)
        chances = np.array([share * one + (1 - share) * zero for share in self.permanent])
        return counts > cut, chances[self.truth(first)]

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        """Return a bound of how rarely two runs are as alike by chance; devices may be the same in both."""
        # Values with one encoding; a symbol's noise is of its cohort, too.
        equal = (self.encoded(first) == self.encoded(second)).reshape(len(first), -1).all(axis=1)
        if not self.declared.are_vectors:
            equal &= first.cohorts == second.cohorts
        same = self.same(first, second)
        chances = self.equal_chances(first, second, same_devices=same_devices)
        return too_many(int(same[equal].sum()), chances[equal])

    def scores(self, answers: Answers) -> Floats:
        """Return ln P(report | second value) - ln P(report | first value), of the pair, as declared."""
        came, lacks = self.losses
        likelihoods = []
        for side in (answers.holding(0), answers.holding(1)):
            (had, many), _ = counts_of(self.marks(side), self.truth(side), 1)
            likelihoods.append(had * came + (many - had) * lacks)
        return np.asarray(likelihoods[1] - likelihoods[0], np.float64)

    @abstractmethod
    def levels(self, answers: Answers) -> LevelsOf:
        """Return the sizes that `scores` can have, for the declared client and for those with less noise."""

    @abstractmethod
    def features(self, answers: Answers) -> Marks | None:
        """Return what a report says, as bits; None where that is too much to learn from."""

    def true_sides(self, answers: Answers) -> Column | None:  # noqa: ARG002 - of most kinds, nothing
        """Return which of the pair a report is without noise (0, 1, or -1); None where `scores` says the same."""
        return None


WAYS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
"""How much of a larger epsilon is in what a 1 says; the rest is in what a 0 says."""


class BitConformance(Conformance):
    """The checks of a mechanism of bits."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared)
        rounds: Any = declared.mechanism.rounds  # type: ignore[attr-defined] # of a mechanism of bits
        self.permanent, self.instantaneous = (
            (float(channel.raise_zero), float(channel.keep_one)) for channel in (rounds.permanent, rounds.instantaneous)
        )
        self.names = "set bits", "unset bits"
        self.rates = self.p, self.q = float(declared.mechanism.p_star), float(declared.mechanism.q_star)
        self.losses = float(np.log(self.p / self.q)), float(np.log((1 - self.p) / (1 - self.q)))

    def marks(self, answers: Answers) -> Marks:
        reports: Marks = answers.reports
        return reports

    features = marks
    truth = Conformance.encoded

    def outcomes(self, answers: Answers) -> Iterator[Check]:
        true, bits = self.truth(answers), answers.reports
        sides = zip(counts_of(bits, true, 0), self.rates, strict=True)
        yield alike("bits alike", [(*counts, chance) for counts, chance in sides], "bit")
        ones, sets, width = (bits.sum(axis=1, dtype=np.int64), true.sum(axis=1, dtype=np.int64), bits.shape[1])
        p_values = []
        for weight in np.unique(sets).tolist():
            law = np.convolve(binomial_law(weight, self.p), binomial_law(width - weight, self.q))
            p_values.append(outcomes_p(np.bincount(ones[sets == weight], minlength=width + 1), law))
        expected = float(np.mean(sets * self.p + (width - sets) * self.q))
        p_value = joined(p_values)
        yield Check("number of ones", f"{expected:.3f} on average", f"{ones.mean():.3f}", p_value)
        if width > 1:
            yield self._pairs(bits, true)
        first, second = neighbours(answers)
        neither = (self.truth(first) | self.truth(second)) == 0
        same = int((first.reports == second.reports)[neither].sum())
        yield rate("agreement of neighbouring devices", same, int(neither.sum()), self._agreements()[0])

    def _pairs(self, bits: Marks, true: Marks) -> Check:
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
        return Check("pairs of bits", "independent", shown, p_value)

    def _agreements(self, *, same_devices: bool = False) -> Floats:
        """Return how likely two reports of a bit agree that neither of two values sets, one of them, or both."""
        if same_devices:  # and values are the same, too
            zero, one = (chance**2 + (1 - chance) ** 2 for chance in self.instantaneous)
            unset, lit = (share * one + (1 - share) * zero for share in self.permanent)
            return np.array([unset, 1.0, lit])
        p, q = self.p, self.q
        return np.array([q**2 + (1 - q) ** 2, p * q + (1 - p) * (1 - q), p**2 + (1 - p) ** 2])

    def equal_chances(self, first: Answers, second: Answers, *, same_devices: bool = False) -> Floats:
        logs = np.log(self._agreements(same_devices=same_devices))
        return np.asarray(np.exp(logs[self.truth(first) + self.truth(second)].sum(axis=1)), np.float64)

    def likeness(self, first: Answers, second: Answers, *, same_devices: bool) -> float:
        sets, same = self.truth(first) + self.truth(second), first.reports == second.reports
        chances = self._agreements(same_devices=same_devices)
        bits = ((same[sets == both], chances[both]) for both in (0, 2))
        p_values = [float(at_least(int(agree.sum()), agree.size, chance)) for agree, chance in bits]
        return most_extreme([*p_values, super().likeness(first, second, same_devices=same_devices)])

    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield how often a device's bit is 1: a permanent bit, sent again and again with fresh noise."""
        first = answers.take(slice(len(answers) // repeats))
        counts = answers.reports.reshape(repeats, len(first), -1).sum(axis=0, dtype=np.int64)
        zero, one = (binomial_law(repeats, chance) for chance in self.instantaneous)
        for name, value in (("memory of set bits", 1), ("memory of unset bits", 0)):
            law = self.permanent[value] * one + (1 - self.permanent[value]) * zero
            seen = np.bincount(counts[self.truth(first) == value], minlength=repeats + 1)
            expected, came = (_deviation(weights) for weights in (law, seen))
            texts = f"ones of {repeats} vary by {expected:.3f}", f"by {came:.3f}"
            yield Check(name + after, *texts, outcomes_p(seen, law), came)

    def levels(self, answers: Answers) -> LevelsOf:
        """Return every log ratio that the numbers of ones can make, among the bits that one of the pair sets alone."""
        first, second = (self.truth(answers.holding(value)) for value in (0, 1))
        shapes, times = np.unique(
            np.stack([(second > first).sum(1), (first > second).sum(1)], axis=1), axis=0, return_counts=True
        )
        lit, dark = self.losses

        def levels(excess: float) -> Iterator[Levels]:
            gain = excess * (lit - dark)
            # With less noise a 1 and a 0 say no less than declared; both may say more, or one of them.
            for part in WAYS:
                up, down = lit + part * gain, dark - (1 - part) * gain
                zero = math.expm1(down) / (math.exp(down) - math.exp(up))
                parts, law, one = [], cache(binomial_law), zero * math.exp(up)
                for (raised, lowered), often in zip(shapes.tolist(), times.tolist(), strict=True):
                    # How many bits speak for the second value: 1 where it sets them, 0 where the first one does.
                    for_first, for_second = (
                        np.convolve(law(raised, ups), law(lowered, 1 - downs))
                        for ups, downs in ((zero, one), (one, zero))
                    )
                    score = np.arange(raised + lowered + 1.0) * (lit - dark) + raised * dark - lowered * lit
                    sent = for_first + for_second
                    right = np.where(score > 0, for_second, for_first) / np.maximum(sent, 1e-300)
                    parts.append((np.abs(score), often * sent / 2, right))
                yield Levels(*map(np.concatenate, zip(*parts, strict=True)))

        return levels

    def true_sides(self, answers: Answers) -> Column:
        is_first, is_second = ((answers.reports == self.truth(answers.holding(value))).all(axis=1) for value in (0, 1))
        return np.where(is_first == is_second, -1, np.where(is_second, 1, 0)).astype(np.int64)


def _deviation(weights: Any) -> float:
    places, total = np.arange(len(weights)), max(float(weights.sum()), 1e-300)
    mean = float((weights * places).sum()) / total
    return float(np.sqrt((weights * (places - mean) ** 2).sum() / total))


COUNTED: Final = 1 << 12  # symbols up to which each is counted
MOST_LEARNED: Final = 256  # symbols up to which a score is learned from the reports
MOST_POINTS: Final = 1 << 15  # points up to which each is counted
MOST_POINTS_LEARNED: Final = 1 << 10


class OutputConformance(Conformance):
    """The checks of a mechanism of outputs."""

    def __init__(self, declared: Declared) -> None:
        super().__init__(declared)
        mechanism = declared.mechanism
        self.is_symbol, self.inside = mechanism.payload == "symbols", mechanism.p_star
        sizes = (mechanism.payload_limit, 1, 0) if self.is_symbol else mechanism.encoding.sizes
        self.outputs, self.own, self.shared = map(int, sizes)
        self.within, self.without = self.inside / self.own, (1 - self.inside) / (self.outputs - self.own)
        own, _, left = mechanism.permanent_support
        other = (1 - left) / self.outputs  # how likely the second round draws any one output
        self.permanent, self.instantaneous = (0.0, own), (other, left + other)
        self.losses = float(np.log(float(self.within / self.without))), 0.0
        self.names = "the own symbol" if self.is_symbol else "reports in the own set", ""
        self.rates = float(self.inside), 0.0  # the one mark is of the value

    def marks(self, answers: Answers) -> Marks:
        """Return the one mark: whether the report is the value's symbol, or an output of its set."""
        mechanism, values, reports = self.declared.mechanism, self.declared.values, answers.reports
        if self.declared.are_bits:
            held = reports[np.arange(len(answers)), np.array(values, np.int64)[answers.values]]
        elif self.is_symbol:
            held = self.encoded(answers) == reports
        else:
            pairs, rows = np.unique(answers.values * self.outputs + reports, return_inverse=True)
            named = (divmod(pair, self.outputs) for pair in pairs.tolist())
            held = np.array([mechanism.supports(Report(0, output), values[value]) for value, output in named])[rows]
        return np.asarray(held[:, None], np.uint8)

    def truth(self, answers: Answers) -> Marks:
        return np.ones((len(answers), 1), np.uint8)

    def outcomes(self, answers: Answers) -> Iterator[Check]:
        if self.declared.are_bits:
            yield from self._members(answers)
            return
        if self.is_symbol and self.outputs > 2:
            yield self._others_even(answers)
        if self.outputs <= (COUNTED if self.is_symbol else MOST_POINTS):
            yield self._outputs_alike(answers)

    def _others_even(self, answers: Answers) -> Check:
        """Check how far from the true symbol the others are; of many, in groups."""
        away = (answers.reports - self.encoded(answers)) % self.outputs
        others, groups = self.outputs - 1, min(self.outputs - 1, COUNTED)
        starts = -(-np.arange(groups + 1, dtype=np.int64) * others // groups)
        seen, law = np.bincount((away[away > 0] - 1) * groups // others, minlength=groups), np.diff(starts) / others
        p_value, uneven = outcomes_p(seen, law), float(seen.var() / max(float(seen.mean()), 1e-300))
        return Check("other symbols even", "all alike", f"{uneven:.2f} times as uneven", p_value)

    def _outputs_alike(self, answers: Answers) -> Check:
        """Check all outputs, by what was encoded; of many symbols those with most lines, of points the pair's."""
        encoded, p_values = self.encoded(answers), []
        lines = np.bincount(encoded, minlength=self.outputs)
        for one in np.argsort(-lines, kind="stable")[: BINS if self.is_symbol else 2].tolist():
            law = np.where(self.declared.set_of(one), float(self.within), float(self.without))
            seen = np.bincount(answers.reports[encoded == one], minlength=self.outputs)
            p_values.append(outcomes_p(seen, law))
        name, p_value = "reported symbols" if self.is_symbol else "points alike", joined(p_values)
        return Check(name, AS_DECLARED, f"least likely: p = {min(p_values):.1e}", p_value)

    def _members(self, answers: Answers) -> Iterator[Check]:
        """Yield whether the other values of subsets are alike, and their pairs."""
        domain, size = self.declared.mechanism.payload_bits, self.declared.mechanism.payload_weight or 0
        symbols, held = np.array(self.declared.values)[answers.values], self.marks(answers)[:, 0]
        members: list[Floats] = []
        pairs: list[Floats] = []
        upper = np.triu_indices(domain, 1)
        for is_held, others in ((True, size - 1), (False, size)):
            reports, own = answers.reports[held == is_held], symbols[held == is_held]
            asked = np.bincount(own, minlength=domain)
            ones = reports.sum(axis=0, dtype=np.int64) - asked * is_held
            members.append(two_sided(ones, len(reports) - asked, others / (domain - 1)))
            if domain > 2:
                together, _, lines = pairs_of(reports, own[:, None] != np.arange(domain))
                chance = others * (others - 1) / ((domain - 1) * (domain - 2))
                pairs.append(two_sided(together[upper], lines[upper], chance))
        for name, p_values in (("other values alike", members), ("pairs of other values", pairs)):
            if p_values:
                p_value = most_extreme(np.concatenate(p_values))
                yield Check(name, AS_DECLARED, f"furthest: p = {p_value:.1e}", p_value)

    def equal_chances(self, first: Answers, second: Answers, *, same_devices: bool = False) -> Floats:
        if same_devices:  # and values are the same, too
            other, keep = self.instantaneous
            return np.full(len(first), keep**2 + (self.outputs - 1) * other**2 if other else 1.0)
        within, without, alone = self.within, self.without, self.own - self.shared
        match = self.inside * within + (1 - self.inside) * without
        cross = self.shared * within**2 + (self.outputs - self.own - alone) * without**2 + 2 * alone * within * without
        return np.where(self.encoded(first) == self.encoded(second), float(match), float(cross))

    def memory(self, answers: Answers, repeats: int, after: str = "") -> Iterator[Check]:
        """Yield how often a device's reports equal its first one, which is the permanent output with chance `keep`."""
        reports = answers.reports.reshape(repeats, len(answers) // repeats, -1)
        other, keep = self.instantaneous
        law = keep * binomial_law(repeats - 1, keep) + (1 - keep) * binomial_law(repeats - 1, other)
        same = (reports[1:] == reports[0]).all(axis=2).sum(axis=0)
        p_value = outcomes_p(np.bincount(same, minlength=repeats), law)
        mean = float((law * np.arange(repeats)).sum())
        shown = f"{mean:.3f} of {repeats - 1} equal to the first"
        name = f"memory of the {'symbol' if self.is_symbol else 'report'}{after}"
        yield Check(name, shown, f"{same.mean():.3f}", p_value, float(same.mean()))

    def levels(self, answers: Answers) -> LevelsOf:
        """Return epsilon, for reports that the set of one value of the pair alone holds."""
        first, second = (self.encoded(answers.holding(value)) for value in (0, 1))
        loss, apart = self.losses[0], int((first != second).sum())
        alone, rest = ((size / self.own) for size in (self.own - self.shared, self.outputs - self.own))

        def levels(excess: float) -> Iterator[Levels]:
            ratio = math.exp(loss * (1 + excess))
            said = apart * alone * (ratio + 1) / (ratio + rest)
            yield Levels(*(np.array([each]) for each in (loss, said, ratio / (1 + ratio))))

        return levels

    def features(self, answers: Answers) -> Marks | None:
        reports: Marks = answers.reports
        if self.declared.are_bits:
            return reports
        if self.outputs > (MOST_LEARNED if self.is_symbol else MOST_POINTS_LEARNED):
            return None
        return np.asarray(reports[:, None] == np.arange(self.outputs)).view(np.uint8)


def conformance_of(declared: Declared) -> Conformance:
    """Return the checks for the kind of report that is declared."""
    return BitConformance(declared) if declared.are_vectors else OutputConformance(declared)
