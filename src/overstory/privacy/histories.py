"""What tells one history of values from another, exactly.

A history is what a device held, report by report. Its reports are not independent: those of one value share a
memoized permanent response, and those of two values do not, unless these share one. So a history is known by its
pattern of equal and different permanent responses as well as by the values themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Final

from overstory.privacy.outcomes import Entry, Likelihood, Ratio, blocks_of, worst_losses, worst_ratios
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.mechanisms.mechanism import Mechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.mechanisms.symbols import SymbolMechanism
from overstory.protocol.permanence import GooglePermanence
from overstory.protocol.probability import as_decimal, log_ratio, power, round_up, weighted_sum
from overstory.protocol.symbol_rounds import SymbolRounds

MOST_CASES: Final = 1 << 12
"""Probabilities of one mechanism that are held: histories of one length ask for few, each many times."""
UNIFORM: Final = -1
"""What stands for a symbol where there is nothing to report: the permanent symbol is then drawn uniformly."""


def epsilon_between(mechanism: Mechanism, first: Sequence[Any], second: Sequence[Any], *, cohort: int = 0) -> float:
    """Exact epsilon between two histories of values of one device, rounded up.

    Of values alone: that a device had nothing to report is no value here. `change_leak` and `Terms.epsilon_any` count
    that as well.

    Parameters
    ----------
    mechanism
        The mechanism.
    first, second
        The value of each report, in order.
    cohort
        The device's cohort.

    Raises
    ------
    ParameterError
        When the histories differ in length or are too varied to enumerate, or a value is outside the domain.

    Examples
    --------
    Two reports of one value against two of another, and against a change, which is more visible:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> basic = mechanism("basic-rappor", domain_size=64)
    >>> round(epsilon_between(basic, [1, 1], [2, 2]), 3)
    1.009
    >>> round(epsilon_between(basic, [1, 1], [1, 2]), 3)
    4.305
    """
    if isinstance(mechanism, BitMechanism):
        return _between_bits(mechanism, first, second, cohort)
    if isinstance(mechanism, SymbolMechanism):
        symbols = ([mechanism.encoding.symbol(value, cohort) for value in history] for history in (first, second))
        ratios = symbol_ratios(mechanism.rounds, *([(s, s) for s in history] for history in symbols))
        return round_up(max(log_ratio(*ratio) for ratio in ratios))
    if isinstance(mechanism, SetMechanism):
        return _between_sets(mechanism, first, second)
    raise ParameterError(f"nothing is known of how two histories of {type(mechanism).__name__} can differ")


def memo(mechanism: Mechanism, value: Any, cohort: int = 0) -> Hashable:
    """Return what names a value's permanent response on a device: equal for two values that share one.

    The value itself, except where values share: the symbol for hashing oracles, the filter in Google's derivation.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.hashing_oracles import loloha
    >>> hashed = loloha(epsilon_permanent=2, epsilon_report=1, hash_range=2, domain_size=100)
    >>> len({memo(hashed, value, cohort=7) for value in range(100)})
    2
    """
    return memo_of(mechanism, cohort)(value)


def memo_of(mechanism: Mechanism, cohort: int = 0) -> Callable[[Any], Hashable]:
    """Return `memo` for one mechanism and cohort, as a device asks it of every value."""
    if isinstance(mechanism, SymbolMechanism):
        return partial(mechanism.encoding.symbol, cohort=cohort)
    if isinstance(mechanism, BitMechanism) and not redraws_for_equal_bits(mechanism):
        return partial(mechanism.encode, cohort=cohort)
    return _itself


def _itself(value: Hashable) -> Hashable:
    return value


def redraws_for_equal_bits(mechanism: BitMechanism) -> bool:
    """Whether two values with the same true bits have permanent responses of their own.

    Google's derivation takes the bits for key, so there such values share one response.
    """
    return not isinstance(mechanism.permanence, GooglePermanence)


def bit_losses(rounds: Rounds, first: Sequence[Entry], second: Sequence[Entry]) -> tuple[Decimal, Decimal]:
    """Worst log ratios at one position of an encoding: (first against second, second against first).

    Raises
    ------
    ParameterError
        When the histories differ in length, are empty, or have too many outcomes to enumerate.
    """
    return worst_losses(blocks_of(first, second), (0, 1), _bits_seen(rounds))


def symbol_ratios(rounds: SymbolRounds, first: Sequence[Entry], second: Sequence[Entry]) -> tuple[Ratio, Ratio]:
    """Worst ratios of two histories of symbols: (first against second, second against first).

    All symbols that neither history holds are alike, so as many of them are looked at as there are blocks. `UNIFORM`
    for a symbol is nothing to report.

    Raises
    ------
    ParameterError
        When the histories differ in length, are empty, or have too many outcomes to enumerate.
    """
    blocks = blocks_of(first, second)
    held = {symbol for history in (first, second) for _, symbol in history} - {UNIFORM}
    size = rounds.permanent.domain_size
    others = (symbol for symbol in range(size) if symbol not in held)
    spare = min(len(blocks), size - len(held))
    return worst_ratios(blocks, [*held, *(next(others) for _ in range(spare))], _symbols_seen(rounds))


@lru_cache(maxsize=64)
def _bits_seen(rounds: Rounds) -> Likelihood:
    """Return P(these reports | true bit): the permanent bit is drawn once, then seen."""
    later = rounds.instantaneous

    @lru_cache(maxsize=MOST_CASES)
    def likely(bit: int, ones: int, zeros: int) -> Decimal:
        total = Decimal(0)
        for permanent, one in ((1, later.keep_one), (0, later.raise_zero)):
            total += chance(rounds.permanent, bit, permanent) * power(one, ones) * power(1 - one, zeros)
        return total

    return lambda bit, seen: likely(bit, seen.get(1, 0), seen.get(0, 0))


def chance(channel: BinaryChannel, given: int, output: int) -> Decimal:
    """P(output | given)."""
    one = channel.keep_one if given else channel.raise_zero
    return power(one if output else 1 - one, 1)


@lru_cache(maxsize=64)
def _symbols_seen(rounds: SymbolRounds) -> Likelihood:
    """Return P(these reports | true symbol): any symbol may be the permanent one; those not seen are equally likely."""
    kept, other = as_decimal(rounds.instantaneous.keep), as_decimal(rounds.instantaneous.other)
    exact = {
        "uniform": Fraction(1, rounds.permanent.domain_size),
        "own": rounds.permanent.keep,
        "foreign": rounds.permanent.other,
    }
    drawn = {way: as_decimal(share) for way, share in exact.items()}

    @lru_cache(maxsize=MOST_CASES)
    def likely(ways: tuple[str, ...], often: tuple[int, ...]) -> Decimal:
        reports, total = sum(often), Decimal(0)
        for way, times in zip(ways, often, strict=True):
            total += drawn[way] * power(kept, times) * power(other, reports - times)
        unseen = as_decimal(1 - sum((exact[way] for way in ways), Fraction(0)))
        return total + unseen * power(other, reports)

    def seen_given(symbol: int, seen: Mapping[int, int]) -> Decimal:
        if symbol == UNIFORM:
            return likely(("uniform",) * len(seen), tuple(seen.values()))
        return likely(tuple("own" if one == symbol else "foreign" for one in seen), tuple(seen.values()))

    return seen_given


def _between_bits(mechanism: BitMechanism, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
    """Bits are independent given the histories: positions with one pattern lose alike."""
    histories = [[(memo(mechanism, v, cohort), mechanism.encode(v, cohort)) for v in h] for h in (first, second)]
    patterns = Counter(
        tuple(tuple((name, bits >> i & 1) for name, bits in history) for history in histories)
        for i in range(mechanism.encoding.num_bits)
    )
    losses = [(bit_losses(mechanism.rounds, *pattern), bits) for pattern, bits in patterns.items()]
    return round_up(max(weighted_sum((bits, loss[way]) for loss, bits in losses) for way in (0, 1)))


def _between_sets(mechanism: SetMechanism, first: Sequence[Any], second: Sequence[Any]) -> float:
    """One memoized output per value, sent as it is: another pattern is seen at once, the same pattern is a sum."""
    for value in (*first, *second):
        mechanism.encoding.contains(0, value)  # says so when it is outside the domain
    responses = {entries for entries, _ in blocks_of([(v, 0) for v in first], [(v, 0) for v in second])}
    pairs = [(one, other) for (one, _), (other, _) in responses]
    if len({one for one, _ in pairs}) < len(pairs) or len({other for _, other in pairs}) < len(pairs):
        return float("inf")
    loss = Decimal(mechanism.epsilon_report)
    return round_up(weighted_sum((1, loss) for one, other in pairs if one != other))
