"""A device as its reports show it: the exact law of any history of reports, and the worst two histories.

The laws of its two rounds come from `referee_laws`; the rest is enumeration. A history is a tuple of values, one for
each report. Reports of one value, or of values that share a permanent response, see one draw of it.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, reduce
from itertools import product
from typing import Any
from unittest import mock

from overstory.protocol.kinds import sets, symbols
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.sampling import bit_sampler
from support.referee_laws import BitLaw, Law, Script, law, scripted

PRECISE = Context(prec=80)  # of logarithms that are added: an epsilon may be as small as 2**-60
ENDLESS = Decimal("Infinity")
NEVER = Fraction(0)
NOTHING = "what cannot be reported"
SECRETS = [bytes([number]) * 32 for number in range(64)]

History = tuple[Any, ...]
Drawn = tuple[Hashable, tuple[int, ...], tuple[Any, ...]]


class Device:
    """One mechanism in one cohort, whose reports consist of independent pieces: bits, or one output.

    `redrawn` is the device broken on purpose that draws its permanent response again for every report.
    """

    redrawn = False
    pieces: Sequence[Hashable]  # the name of each one's laws

    def __init__(self, mechanism: Mechanism, cohort: int) -> None:
        self.mechanism, self.cohort = mechanism, cohort

    def inputs(self, value) -> Sequence[Any]:
        """Return what each piece is drawn for."""
        raise NotImplementedError

    def parts(self, report: int) -> Sequence[int]:
        """Return each piece of a report, or of a permanent response."""
        raise NotImplementedError

    def first(self, piece, given) -> Law:
        """P(piece of the permanent response | what it is drawn for)."""
        raise NotImplementedError

    def second(self, piece, response: int) -> Law:
        """P(piece of a report | that of the permanent response)."""
        raise NotImplementedError

    @cache  # noqa: B019 - devices live as long as a test
    def group(self, piece, given, reports: int) -> dict[tuple[int, ...], Fraction]:
        """Return the law of a piece of so many reports that see one draw of a permanent response."""
        total: dict[tuple[int, ...], Fraction] = {}
        for response, chance in self.first(piece, given).items():
            for seen in product(self.second(piece, response).items(), repeat=reports):
                outcome = tuple(report for report, _ in seen)
                total[outcome] = total.get(outcome, Fraction(0)) + chance * math.prod(part for _, part in seen)
        return total

    @cache  # noqa: B019 - devices live as long as a test
    def seen(self, piece, pattern: tuple[int, ...], inputs: tuple[Any, ...]) -> dict[Any, Fraction]:
        """Return the law of a piece of all reports, each of which sees the draw that the pattern names."""
        total: dict[Any, Fraction] = {(None,) * len(pattern): Fraction(1)}
        for one in sorted(set(pattern)):
            times = [t for t, of in enumerate(pattern) if of == one]
            extended = {}
            for outcome, chance in total.items():
                for reports, part in self.group(piece, inputs[times[0]], len(times)).items():
                    longer = list(outcome)
                    for t, report in zip(times, reports, strict=True):
                        longer[t] = report
                    extended[tuple(longer)] = chance * part
            total = extended
        return {outcome: chance for outcome, chance in total.items() if chance}

    @cache  # noqa: B019 - devices live as long as a test
    def draws(self, history: History) -> list[Drawn]:
        """Return of each piece its laws, which draw each report sees, and what that is for."""
        pattern = numbered(self.patterns(history))
        by_piece = zip(*map(self.inputs, history), strict=True)
        return [(piece, pattern, given) for piece, given in zip(self.pieces, by_piece, strict=True)]

    @cache  # noqa: B019 - devices live as long as a test
    def loss_of_a_piece(self, one: Drawn, other: Drawn) -> Decimal:
        return worst(self.seen(*one), self.seen(*other))

    def loss(self, one: History, other: History) -> Decimal:
        """Worst log ratio, over everything that could be seen, of one history against the other."""
        pairs = zip(self.draws(one), self.draws(other), strict=True)
        return reduce(PRECISE.add, (self.loss_of_a_piece(*pair) for pair in pairs), Decimal(0))

    def chance(self, value, reports: Sequence[int]) -> Fraction:
        """P(these reports | one value that does not change)."""
        pieces = zip(self.pieces, self.inputs(value), zip(*map(self.parts, reports), strict=True), strict=True)
        laws = ((self.group(piece, given, len(reports)), seen) for piece, given, seen in pieces)
        return math.prod((law.get(seen, NEVER) for law, seen in laws), start=Fraction(1))

    def report_law(self, value) -> Law:
        """P(report | value)."""
        return self._law(lambda report: self.chance(value, (report,)))

    def response_law(self, value) -> Law:
        """P(permanent response | value)."""
        laws = [self.first(*each) for each in zip(self.pieces, self.inputs(value), strict=True)]
        return self._law(
            lambda response: math.prod(
                law.get(part, NEVER) for law, part in zip(laws, self.parts(response), strict=True)
            )
        )

    def _law(self, chance: Callable[[int], Fraction]) -> Law:
        return {output: one for output in self.outputs() if (one := chance(output))}

    def permanent_loss(self, one, other) -> Decimal:
        """Worst log ratio of seeing the permanent response itself."""
        return worst(self.response_law(one), self.response_law(other))

    def outputs(self) -> Sequence[int]:
        return [payload for payload in range(self.mechanism.payload_limit) if self.mechanism.valid(payload)]

    def anything(self, values: Sequence[Any], reports: int) -> Decimal:
        """Return the loss between any two histories of so many reports."""
        histories = list(product(values, repeat=reports))
        return max(self.loss(one, other) for one, other in product(histories, repeat=2))

    def patterns(self, history: History) -> tuple[Hashable, ...]:
        """Return, for each report, which draw of a permanent response it sees."""
        if self.redrawn:
            return tuple(range(len(history)))
        return tuple(self.response(value) for value in history)

    @cache  # noqa: B019 - devices live as long as a test
    def response(self, value) -> Hashable:
        """Return what values that share a permanent response have in common: the responses under many secrets."""
        if value == NOTHING:
            return NOTHING
        responders = [self.mechanism.responder(secret, "metric", self.cohort) for secret in SECRETS]
        same = tuple(respond(value) for respond in responders)
        return same if len(set(same)) > 1 else value


class BitDevice(Device):  # a piece is a bit; those with the same laws have one number
    def __init__(self, mechanism: BitMechanism, cohort: int) -> None:
        super().__init__(mechanism, cohort)
        rounds, self.bits = mechanism.rounds, range(mechanism.payload_bits)
        identity = rounds.permanent.is_identity
        first = (lambda word, _: word) if identity else bit_sampler(rounds.permanent, len(self.bits))
        laws = [BitLaw(each, len(self.bits)) for each in (self.permanent(first), mechanism.instantaneous)]
        each = [tuple((law.chance(bit, 0), law.chance(bit, 1)) for law in laws) for bit in self.bits]
        self.laws = list(dict.fromkeys(each))  # P(1 | 0) and P(1 | 1), of both rounds
        self.pieces = [self.laws.index(laws) for laws in each]

    def permanent(self, draw):
        """Return the sampler of the permanent round; a device that is broken on purpose returns another one."""
        return draw

    def word(self, value) -> int:
        if value == NOTHING:
            return self.mechanism.encoding.nothing
        return self.mechanism.encode(value, self.cohort)  # type: ignore[return-value]

    @cache  # noqa: B019 - devices live as long as a test
    def inputs(self, value) -> Sequence[int]:
        return self.parts(self.word(value))

    def parts(self, report: int) -> Sequence[int]:
        return [report >> bit & 1 for bit in self.bits]

    def first(self, piece, given) -> Law:
        return {1: self.laws[piece][0][given], 0: 1 - self.laws[piece][0][given]}

    def second(self, piece, response: int) -> Law:
        return {1: self.laws[piece][1][response], 0: 1 - self.laws[piece][1][response]}


class SymbolDevice(Device):  # one symbol, or one output of a set system
    pieces = ("output",)

    def inputs(self, value) -> Sequence[Any]:
        return (value,)

    parts = inputs

    @cache  # noqa: B019 - devices live as long as a test
    def first(self, piece, given) -> Law:
        return self.of_nothing() if given == NOTHING else scripted(self.mechanism, given, self.cohort)

    def of_nothing(self) -> Law:
        """P(permanent response | nothing): its draws are given no entropy and ask the script of the run."""
        scripts: list[Script] = []

        def run(script: Script) -> int:
            scripts[:] = [script]
            return self.mechanism.nothing(SECRETS[0], "metric", self.cohort)

        module = symbols if isinstance(self.mechanism, SymbolMechanism) else sets
        with mock.patch.object(module, "uniform_below", lambda bound, _: scripts[0].below(bound)):
            return law(run)

    @cache  # noqa: B019 - devices live as long as a test
    def second(self, piece, response: int) -> Law:
        return law(lambda script: self.mechanism.instantaneous(response, script.bits))

    def anything(self, values: Sequence[Any], reports: int) -> Decimal:
        """Outcome by outcome: the history that makes it likeliest against the one that makes it least likely."""
        most: dict[Any, Fraction] = {}
        least: dict[Any, Fraction] = {}
        histories = [self.seen(*self.draws(history)[0]) for history in product(values, repeat=reports)]
        for outcomes in histories:
            for outcome, chance in outcomes.items():
                most[outcome] = max(most.get(outcome, chance), chance)
                least[outcome] = min(least.get(outcome, chance), chance)
        certain = any(outcome not in outcomes for outcomes in histories for outcome in most)
        return ENDLESS if certain else worst(most, least)


def device(mechanism: Mechanism, cohort: int) -> Device:
    return BitDevice(mechanism, cohort) if isinstance(mechanism, BitMechanism) else SymbolDevice(mechanism, cohort)


def numbered(pattern: Iterable[Hashable]) -> tuple[int, ...]:
    """Return a pattern with its parts numbered as they come."""
    numbers: dict[Hashable, int] = {}
    return tuple(numbers.setdefault(one, len(numbers)) for one in pattern)


def worst(one: dict[Any, Fraction], other: dict[Any, Fraction]) -> Decimal:
    """Return the largest log ratio of `one` over `other`, to fifty digits; it is never below 0."""
    ratios = [(chance, other.get(outcome, NEVER)) for outcome, chance in one.items() if chance]
    if not all(b for _, b in ratios):
        return ENDLESS
    # Integers divide to the nearest float without a common divisor, which takes most of a fraction's time.
    near = [(a.numerator * b.denominator) / (a.denominator * b.numerator) for a, b in ratios]
    least = max(near) * (1 - 1e-12)
    # Of those that floats cannot tell apart, the largest.
    ratio = max(a / b for (a, b), about in zip(ratios, near, strict=True) if about >= least)
    return PRECISE.ln(PRECISE.divide(Decimal(ratio.numerator), Decimal(ratio.denominator)))


class Truth:  # the worst over pairs of histories of a device's values, over all cohorts that were looked at
    def __init__(self, devices: Sequence[Device], values: Sequence[Any]) -> None:
        self.devices, self.values = devices, values

    def constant(self, reports: int) -> Decimal:
        """Return the loss of so many reports of one value against as many of another one."""
        return self._worst(((a,) * reports, (b,) * reports) for a, b in product(self.values, repeat=2) if a != b)

    def permanent(self) -> Decimal:
        pairs = [(a, b) for a, b in product(self.values, repeat=2) if a != b]
        return max(one.permanent_loss(a, b) for one in self.devices for a, b in pairs)

    def same_pattern(self, reports: int, distinct: int) -> Decimal:
        """Return the loss between histories with so many permanent responses, equal and different at the same times."""
        histories = list(product(self.values, repeat=reports))
        worst_so_far = Decimal(0)
        for one in self.devices:
            by_pattern: dict[tuple[int, ...], list[History]] = {}
            for history in histories:
                by_pattern.setdefault(numbered(one.patterns(history)), []).append(history)
            for pattern, alike in by_pattern.items():
                if len(set(pattern)) == distinct:
                    worst_so_far = max(worst_so_far, *(one.loss(a, b) for a, b in product(alike, repeat=2)))
        return worst_so_far

    def anything(self, reports: int) -> Decimal:
        """Return the loss between any two histories."""
        return max(one.anything(self.values, reports) for one in self.devices)

    def _worst(self, pairs: Iterable[tuple[History, History]]) -> Decimal:
        return max((one.loss(a, b) for a, b in pairs for one in self.devices), default=Decimal(0))
