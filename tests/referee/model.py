"""A device, the laws of what it sends, and what the worst two histories of values come to.

The device has one permanent response for every account and symbol, one for nothing, and the rule of the cap; it lives
in `Device`, some twenty lines. The laws are read off the thresholds that a mechanism samples by; what two histories
tell apart is enumerated over every answer that there can be. Nothing here imports `overstory.privacy`.

A report consists of independent pieces: a symbol, or bits. For each piece the probabilities of all answers under all
histories are one matrix, so that the loss between any two histories is the largest difference of two of its rows. The
losses of independent pieces, and of independent accounts, add up exactly.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.metrics import Metric
from overstory.protocol.search import SearchMechanism

NOTHING = "nothing"
MOST_HISTORIES = 128
MOST_REPORTS = 5
SEEDS_TRIED = 6

Sent = tuple[Hashable, Any]  # which permanent response a report is drawn from, and what that was drawn for
Laws = tuple[tuple[Any, ...], ...]  # for one account, what each history has its reports drawn from


# --- the device -------------------------------------------------------------------------------------------------------


class Device:
    """What a device reports for the values that it holds, under the metric of the day, in one cohort.

    A response is an account's answer to a symbol, or to nothing. Past the cap on values a further one is dropped, or
    becomes the first or the nearest that this account has reported.
    """

    def __init__(self) -> None:
        self.responses: dict[bytes, dict[Hashable, Any]] = {}  # by account, in the order of their first reports

    def sends(self, metric: Metric, value, cohort: int, time: int) -> Sent:
        held = self.responses.setdefault(metric.account, {})
        try:
            encoded = metric.encode(value)
        except (ParameterError, TypeError, ValueError):
            encoded = NOTHING
        if metric.fresh:
            return time, encoded
        full = metric.max_values is not None and self.counted(metric) >= metric.max_values
        key = NOTHING if encoded == NOTHING else metric.mechanism.response_key(encoded, cohort)
        if key not in held and full:
            key, encoded = self.instead(metric, held, encoded, cohort)
        return key, held.setdefault(key, encoded)

    def counted(self, metric: Metric) -> int:
        """Return how many responses count towards the cap: those of every account."""
        keys = [key for held in self.responses.values() for key in held]
        return sum(key != NOTHING or not metric.nothing_is_spare for key in keys)

    def instead(self, metric: Metric, held: dict[Hashable, Any], encoded, cohort: int) -> Sent:
        if metric.nothing_is_spare or not held:
            return NOTHING, NOTHING
        if metric.over_cap == "nearest" and encoded != NOTHING:
            for near in metric.mechanism.neighbours(encoded, 4096):
                key = metric.mechanism.response_key(near, cohort)
                if key in held:
                    return key, held[key]
        return next(iter(held.items()))


# --- the laws ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Piece:
    """An independent piece of a report: P(permanent | input), P(sent | permanent), and what it makes of a value."""

    first: np.ndarray
    second: np.ndarray
    reads: Callable[[Any], tuple[Hashable, int]]  # the draw's name among those of its account, and the input


def pieces(mechanism, cohort: int) -> list[Piece]:
    if isinstance(mechanism, SearchMechanism):
        place, seed = mechanism.place_of(cohort)

        def asked(value):
            return value if value == NOTHING else mechanism.project(value, place)

        return [
            Piece(piece.first, piece.second, lambda value, reads=piece.reads: reads(asked(value)))
            for piece in pieces(mechanism.parts[place], seed)
        ]
    if isinstance(mechanism, SymbolMechanism):
        return [symbol_piece(mechanism, cohort)]
    assert isinstance(mechanism, BitMechanism), mechanism.name
    return [bit_piece(mechanism, cohort, bit) for bit in range(mechanism.payload_bits)]


def symbol_piece(mechanism: SymbolMechanism, cohort: int) -> Piece:
    size = mechanism.encoding.num_symbols
    first = np.vstack([keep_or_move(mechanism.rounds.permanent, size), np.full((1, size), 1 / size)])

    def reads(value) -> tuple[Hashable, int]:
        if value == NOTHING:
            return NOTHING, size  # any symbol, all alike
        return mechanism.response_key(value, cohort), mechanism.encode(value, cohort)

    return Piece(first, keep_or_move(mechanism.rounds.instantaneous, size), reads)


def keep_or_move(channel, size: int) -> np.ndarray:
    return np.full((size, size), float(channel.other)) + np.eye(size) * (float(channel.keep) - float(channel.other))


def bit_piece(mechanism: BitMechanism, cohort: int, bit: int) -> Piece:
    def reads(value) -> tuple[Hashable, int]:
        if value == NOTHING:
            return NOTHING, mechanism.encoding.nothing >> bit & 1
        return mechanism.response_key(value, cohort), mechanism.encode(value, cohort) >> bit & 1

    return Piece(flip(mechanism.rounds.permanent), flip(mechanism.rounds.instantaneous), reads)


def flip(channel) -> np.ndarray:
    raised, kept = float(channel.raise_zero), float(channel.keep_one)
    return np.array([[1 - raised, raised], [1 - kept, kept]])


def cohorts_of(mechanisms: Sequence[Any]) -> list[tuple[int, ...]]:
    """Return the cohorts that a device may have under several mechanisms: one number where they have as many."""
    sizes = [mechanism.num_cohorts for mechanism in mechanisms]
    numbers: dict[int, list[int]] = {}
    for size in dict.fromkeys(sizes):
        rng = random.Random(size)
        numbers[size] = [*range(size)] if size <= SEEDS_TRIED else [rng.randrange(size) for _ in range(SEEDS_TRIED)]
    chosen = [dict(zip(numbers, combination, strict=True)) for combination in product(*numbers.values())]
    return [tuple(each[size] for size in sizes) for each in chosen]


# --- what histories come to -------------------------------------------------------------------------------------------


def numbered(sequence: Sequence[Hashable]) -> tuple[int, ...]:
    """Return the pattern of equal and different entries: numbers in the order of first appearance."""
    seen: dict[Hashable, int] = {}
    return tuple(seen.setdefault(each, len(seen)) for each in sequence)


def piece_losses(piece: Piece, sequences: Laws, *, fresh: bool, ever: bool) -> np.ndarray:
    """Return the loss of one piece between any two sequences of draws.

    `ever`: any number of reports of every response may be seen, so the permanent response is known.
    """
    second = np.eye(len(piece.second)) if ever else piece.second
    read = []
    for sequence in sequences:
        draws = [piece.reads(encoded) for _, encoded in sequence]
        names = [time for time, _ in sequence] if fresh else [name for name, _ in draws]
        read.append((numbered(names), tuple(given for _, given in draws)))
    unique = {each: number for number, each in enumerate(dict.fromkeys(read))}
    size = len(unique)
    worst = np.empty((size, size))
    with np.errstate(divide="ignore", invalid="ignore"):  # what cannot be has a logarithm of minus infinity
        laws = np.log(np.stack([answers(piece.first, second, *each) for each in unique]))
        certain = bool(np.isinf(laws).any())
        for row in range(size):
            differences = laws[row] - laws
            if certain:
                differences[np.isnan(differences)] = -np.inf  # neither can be
            worst[row] = differences.max(axis=1)
    places = [unique[each] for each in read]
    return worst[np.ix_(places, places)]


def answers(first: np.ndarray, second: np.ndarray, pattern: tuple[int, ...], inputs: tuple[int, ...]) -> np.ndarray:
    """Return the probability of every sequence of answers."""
    length, size = len(pattern), second.shape[1]
    total = np.ones((1,) * length)
    for draw in sorted(set(pattern)):
        times = [time for time, of in enumerate(pattern) if of == draw]
        law = 0.0
        for permanent, chance in enumerate(first[inputs[times[0]]]):
            seen = np.array(chance)
            for _ in times:
                seen = np.multiply.outer(seen, second[permanent])
            law = law + seen
        total = total * law.reshape([size if time in times else 1 for time in range(length)])
    return np.broadcast_to(total, (size,) * length).reshape(-1)


@dataclass(frozen=True, eq=False)
class Lives:  # every history of values that a device can have had, in one cohort: its reports, and the loss of any two
    histories: tuple[tuple[Any, ...], ...]
    responses: tuple[Hashable, ...]  # the pattern of permanent responses behind its reports
    losses: np.ndarray


METRICS: dict[bytes, Metric] = {}
"""By digest with the cap's rule, which it does cover; so that steps are plain and quick to compare."""


def step(metric: Metric) -> bytes:
    METRICS.setdefault(metric.digest, metric)
    return metric.digest


@lru_cache(maxsize=96)
def lives(steps: tuple[bytes, ...], values: tuple[Any, ...], *, ever: bool = False) -> list[Lives]:
    """Return all lives of reports under these metrics, one after the other: a list by cohort."""
    metrics = [METRICS[each] for each in steps]
    accounts = list(dict.fromkeys(metric.account for metric in metrics))
    mechanisms = [next(m.mechanism for m in metrics if m.account == account) for account in accounts]
    histories = tuple(product(values, repeat=len(steps)))
    assert len(histories) <= MOST_HISTORIES, "a story is too long to be enumerated"
    found = []
    for cohorts in cohorts_of(mechanisms):
        of_account = dict(zip(accounts, cohorts, strict=True))
        sent = [lived(metrics, history, of_account) for history in histories]
        losses = np.zeros((len(histories),) * 2)
        for account, mechanism in zip(accounts, mechanisms, strict=True):
            places = [place for place, metric in enumerate(metrics) if metric.account == account]
            sequences = [tuple(each[place] for place in places) for each in sent]
            unique = tuple(dict.fromkeys(sequences))
            numbers = {each: number for number, each in enumerate(unique)}
            chosen = [numbers[each] for each in sequences]
            named = Named(mechanism, fresh=next(m.fresh for m in metrics if m.account == account))
            losses += account_losses(named, of_account[account], unique, ever=ever)[np.ix_(chosen, chosen)]
        responses = tuple(
            numbered([(metric.account, key) for metric, (key, _) in zip(metrics, each, strict=True)]) for each in sent
        )
        found.append(Lives(histories, responses, losses))
    return found


class Named:  # a mechanism that is compared by its digest, and whether all its noise is drawn afresh, as in a panel
    def __init__(self, mechanism, *, fresh: bool | None = None) -> None:
        self.mechanism, self.fresh = mechanism, mechanism.fresh if fresh is None else fresh
        self._name = mechanism.digest, self.fresh

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._name == other._name

    def __hash__(self) -> int:
        return hash(self._name)


@lru_cache(maxsize=2000)
def account_losses(named: Named, cohort: int, sequences: Laws, *, ever: bool) -> np.ndarray:
    """Return the loss between any two sequences of draws of one account."""
    mechanism, size = named.mechanism, len(sequences)
    if ever and named.fresh:  # with ever more reports, whatever differs is known
        return np.where(np.eye(size, dtype=bool), 0.0, np.inf)
    total = np.zeros((size, size))
    for piece in pieces(mechanism, cohort):
        total += piece_losses(piece, sequences, fresh=named.fresh, ever=ever)
    return total


def lived(metrics: Sequence[Metric], history: Sequence[Any], cohorts: dict[bytes, int]) -> list[Sent]:
    device = Device()
    return [
        device.sends(metric, value, cohorts[metric.account], time)
        for time, (metric, value) in enumerate(zip(metrics, history, strict=True))
    ]


def responses_of(metrics: Sequence[Metric], history: Sequence[Any]) -> int:
    """Return how many permanent responses a device without cohorts has drawn for its reports."""
    sent = lived(metrics, history, {metric.account: 0 for metric in metrics})
    return len({(metric.account, key) for metric, (key, _) in zip(metrics, sent, strict=True)})


def pairs(found: Lives, condition: str) -> np.ndarray:
    """Return which two histories a condition is about, as it is worded.

    any         whatever you hold and however it changes
    unchanged   the value never changes: neither does in the history that it is compared with
    values      the same pattern of changes: values are equal, and different, at the same times
    responses   reports repeat at the same times: they come from equal, and different, permanent responses
    """
    size = len(found.histories)
    if condition == "any":
        return np.ones((size, size), dtype=bool)
    if condition == "unchanged":
        constant = np.array([len(set(history)) == 1 for history in found.histories])
        return np.outer(constant, constant)
    patterns = [numbered(history) for history in found.histories] if condition == "values" else list(found.responses)
    names = {each: number for number, each in enumerate(dict.fromkeys(patterns))}
    numbers = np.array([names[each] for each in patterns])
    return numbers[:, None] == numbers


@lru_cache(maxsize=100_000)
def truth(steps, values, condition, *, ever=False, distinct=None, spare=False):
    """Return by how much the worst two histories are told apart that meet a condition.

    Parameters
    ----------
    steps
        The metric of each report.
    ever
        Whether any number of reports of each response may be seen.
    distinct
        Only histories of at most so many different values.
    spare
        Whether a value that is outside the domain is not counted among these.
    """
    if not steps:
        return 0.0
    by_cohort = []
    for found in lives(steps, values, ever=ever):
        table = pairs(found, condition)
        if distinct is not None:
            few = np.array([few_values(steps, history, spare) <= distinct for history in found.histories])
            table &= np.outer(few, few)
        by_cohort.append(float(found.losses[table].max(initial=0.0)))
    return max(by_cohort, default=0.0)


def few_values(steps: tuple[bytes, ...], history: Sequence[Any], spare: bool) -> int:
    kinds = {value for digest, value in zip(steps, history, strict=True) if not spare or fits(METRICS[digest], value)}
    return len(kinds)


def fits(metric: Metric, value) -> bool:
    try:
        metric.encode(value)
    except (ParameterError, TypeError, ValueError):
        return False
    return True


def longest(values: Sequence[Any]) -> int:
    """Return of how many reports all histories of these values are enumerated."""
    return min(int(math.log(MOST_HISTORIES) / math.log(len(values)) + 1e-9), MOST_REPORTS)


# --- other observers --------------------------------------------------------------------------------------------------


def collision_bits(*distributions: Sequence[float]) -> float:
    """Return the bits by which a device is recognized by independent constants: -log2 of the chance that two agree."""
    return -sum(math.log2(sum(chance**2 for chance in each)) for each in distributions)


def payload_chances(metric: Metric, value, cohort: int) -> np.ndarray:
    """Return P(permanent response) of a value: where there is one round, that is what every report of it says."""
    law, encoded = np.ones(1), metric.encode(value)
    for piece in pieces(metric.mechanism, cohort):
        law = np.multiply.outer(law, piece.first[piece.reads(encoded)[1]]).reshape(-1)
    return law


def shared_bits(metric: Metric, value, cohort: int) -> float:
    """Return the mutual information of two reports of one unchanged value, in bits, beyond what is equal in them."""
    total, encoded = 0.0, metric.encode(value)
    for piece in pieces(metric.mechanism, cohort):
        permanent = piece.first[piece.reads(encoded)[1]]
        together = np.einsum("z,za,zb->ab", permanent, piece.second, piece.second)
        alone = together.sum(axis=0)
        seen = together > 0
        total += float((together[seen] * np.log2(together[seen] / np.outer(alone, alone)[seen])).sum())
    return total


def probabilities(trials: int, chance: float) -> np.ndarray:
    number = np.arange(trials + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, trials + 1)))])
    combinations = factorials[trials] - factorials - factorials[::-1]
    return np.exp(combinations + number * math.log(chance) + (trials - number) * math.log1p(-chance))


@lru_cache(maxsize=10_000)
def shuffled_delta(digest: bytes, values: tuple[Any, ...], others: int, epsilon: float) -> float:
    """Return the least delta at which `others` shuffled reports hide one at that epsilon: hockey stick, from below.

    All others hold one value. The observer counts one kind of answer: a symbol, or a bit that is set; whoever counts
    more of them sees no less, so this is never above the truth.
    """
    worst, metric = 0.0, METRICS[digest]
    for (cohort,) in cohorts_of([metric.mechanism])[:4]:
        for piece in pieces(metric.mechanism, cohort):
            law = piece.first @ piece.second
            held = [piece.reads(metric.encode(value))[1] for value in values if fits(metric, value)]
            for one, other, crowd in product(sorted(set(held)), repeat=3):
                if one == other:
                    continue
                answer = int(np.argmax(law[one] / law[other]))
                base = probabilities(others, law[crowd][answer])
                seen = [
                    np.append(base, 0) * (1 - law[mine][answer]) + np.insert(base, 0, 0) * law[mine][answer]
                    for mine in (one, other)
                ]
                for a, b in (seen, seen[::-1]):
                    worst = max(worst, float(np.maximum(a - math.exp(epsilon) * b, 0).sum()))
    return worst
