"""Epsilon between two given histories of values of one device, exactly: what the bounds of any history are held to."""

import math
from collections import Counter
from decimal import Decimal

from overstory.privacy.histories import bit_losses, blocks_of, symbol_ratios
from overstory.protocol.channels import log_ratio, round_up, weighted_sum
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.split import Split
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.search import SearchMechanism


def epsilon_between(mechanism, first, second, *, cohort=0):
    """Return it rounded up, of values alone: that a device had nothing to report is no value here."""
    if isinstance(mechanism, BitMechanism):
        return of_bits(mechanism, first, second, cohort)
    if isinstance(mechanism, SymbolMechanism):
        symbols = ([mechanism.encode(value, cohort) for value in history] for history in (first, second))
        ratios = symbol_ratios(mechanism.rounds, *([(s, s) for s in history] for history in symbols))
        return round_up(max(log_ratio(*ratio) for ratio in ratios))
    if isinstance(mechanism, SearchMechanism):  # no value but the first is in any report
        return of_one_round(mechanism, first[:1], second[:1], cohort)
    if isinstance(mechanism, Split):
        place, own = mechanism.place_of(cohort)
        projected = ([mechanism.project(value, place) for value in history] for history in (first, second))
        return epsilon_between(mechanism.parts[place], *projected, cohort=own)
    return of_one_round(mechanism, first, second, cohort)


def of_bits(mechanism, first, second, cohort):
    """Positions with one pattern of true bits lose alike, and losses of independent positions add up."""
    key, encode = mechanism.response_key, mechanism.encode
    histories = [[(key(value, cohort), encode(value, cohort)) for value in h] for h in (first, second)]
    patterns = Counter(
        tuple(tuple((name, bits >> i & 1) for name, bits in history) for history in histories)
        for i in range(mechanism.payload_bits)
    )
    losses = [(bit_losses(mechanism.rounds, *pattern), bits) for pattern, bits in patterns.items()]
    return round_up(max(weighted_sum((bits, loss[way]) for loss, bits in losses) for way in (0, 1)))


def of_one_round(mechanism, first, second, cohort):
    """A bound: another pattern is seen at once; the same one is a sum over what differs, a report's epsilon each."""
    key = mechanism.response_key
    own, other = ([(key(value, cohort), 0) for value in history] for history in (first, second))
    pairs = {(before, after) for ((before, _), (after, _)), _ in blocks_of(own, other)}
    if any(len({pair[way] for pair in pairs}) < len(pairs) for way in (0, 1)):
        return math.inf
    loss = Decimal(mechanism.epsilon_report)
    return round_up(weighted_sum((1, loss) for before, after in pairs if before != after))
