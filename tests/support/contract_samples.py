"""Samples of reports as rows of indicator bits whose rates are known, and statistical tests of these.

Bits are themselves. A symbol is its one-hot row: each indicator passes through a 2 x 2 channel, though indicators are
not independent. An output of a set system is the row of the values whose sets hold it. All tests share the one
false-alarm rate of `overstory.audit.laws`.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, chi2

from overstory.analysis.oracle import FrequencyOracle
from overstory.audit.laws import LEVEL, Alarm, check_binomial, law_of, payloads_of
from overstory.client import Randomizer
from overstory.protocol.channels import BinaryChannel, SymbolChannel
from overstory.protocol.kinds.base import Mechanism, Report
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.sets import SetMechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.sampling import SystemEntropy
from overstory.protocol.wire.upload import decode_batch
from support.contract_cases import domain_of, some_values

Bits = NDArray[np.bool_]
MakeDevice = Callable[..., Randomizer]


@dataclass(frozen=True)
class View:  # a mechanism's payloads as rows of indicator bits
    size: int
    channels: tuple[BinaryChannel, BinaryChannel]  # of an indicator in the permanent and in the instantaneous round
    combined: BinaryChannel  # over both rounds
    true_payload: Callable[[Any, int], int]  # what a value is in a cohort before any noise
    truth: Callable[[Any, int], int]  # the true row of a value in a cohort
    row: Callable[[int], int]  # the row of a payload
    independent: bool = False  # whether two indicators of a report are, given the truth


def view_of(mechanism: Mechanism) -> View:
    """Return the bits as they are, the one-hot row of a symbol, or the row of the values whose sets hold the output."""
    encoding = mechanism.encoding
    if isinstance(mechanism, BitMechanism):
        rounds = mechanism.rounds.permanent, mechanism.rounds.instantaneous
        encode = mechanism.encode
        return View(encoding.num_bits, rounds, mechanism.channel, encode, encode, int, independent=True)
    if isinstance(mechanism, SymbolMechanism):
        rounds = _indicator(mechanism.rounds.permanent), _indicator(mechanism.rounds.instantaneous)
        combined, symbol = _indicator(mechanism.channel), encoding.symbol
        return View(
            encoding.num_symbols, rounds, combined, symbol, lambda value, cohort: _one(symbol(value, cohort)), _one
        )
    assert isinstance(mechanism, SetMechanism)
    held = BinaryChannel(mechanism.p_star, mechanism.q_star)
    return View(
        encoding.domain_size,
        (held, BinaryChannel.identity()),
        held,
        lambda value, _: value,
        lambda value, _: _one(value),
        partial(_held_by, mechanism),
    )


def _one(place: int) -> int:
    return 1 << place


def _indicator(channel: SymbolChannel) -> BinaryChannel:
    return BinaryChannel(channel.keep, channel.other)


@cache
def _held_by(mechanism: SetMechanism, payload: int) -> int:
    values = range(mechanism.encoding.domain_size)
    return sum(1 << value for value in values if mechanism.encoding.contains(payload, value))


@dataclass(frozen=True, eq=False)
class Sample:  # n devices: their cohorts (n), true bits (n, k) and reports, each (n, k), as rows and as they were sent
    num_cohorts: int
    cohorts: NDArray[np.int64]
    truth: Bits
    reports: tuple[Bits, ...]
    payloads: tuple[list[int], ...] = ()


def as_rows(bits: Iterable[int], size: int) -> Bits:
    """Bit vectors given as integers, one a row."""
    if size <= 64:
        octets = np.fromiter(bits, "<u8").view(np.uint8).reshape(-1, 8)
    else:
        width = -(-size // 8)
        octets = np.frombuffer(b"".join(b.to_bytes(width, "little") for b in bits), np.uint8).reshape(-1, width)
    return np.unpackbits(octets, axis=1, count=size, bitorder="little").astype(bool)


def sample_of(mechanism: Mechanism, values, reports: Sequence[Sequence[Report]]) -> Sample:
    """The sample in which device i holds values[i] and sent reports[0][i], reports[1][i] ..."""
    view, known = view_of(mechanism), {}
    cohorts = [report.cohort for report in reports[0]]
    for held in zip(values, cohorts, strict=True):
        if held not in known:
            known[held] = view.truth(*held)
    truth = as_rows((known[held] for held in zip(values, cohorts, strict=True)), view.size)
    sent = tuple([report.bits for report in one] for one in reports)
    rows = tuple(as_rows(map(view.row, one), view.size) for one in sent)
    return Sample(mechanism.num_cohorts, np.array(cohorts), truth, rows, sent)


class InPeriods(Randomizer):  # a device as a client runs it: each report is that of a period, from the secret alone
    period = 0

    def report(self, value) -> Report:
        self.period += 1
        return self.report_in(self.period, self.permanent(value))[1]


class EveryPeriodTheSame(InPeriods):  # broken: the period is left out of what the second round follows from
    def report(self, value) -> Report:
        return self.report_in(0, self.permanent(value))[1]


def held_values(mechanism: Mechanism, number: int):
    """Values for that many devices, so spread that every bit is 1 for some."""
    values = some_values(mechanism, 64)
    return [values[i % len(values)] for i in range(number)]


def sample_devices(mechanism: Mechanism, number: int, make: MakeDevice = Randomizer) -> Sample:
    """Two reports each of as many devices, randomness as on a device: the operating system's."""
    values = held_values(mechanism, number)
    devices = [make(mechanism, secret=os.urandom(32), metric="contract") for _ in values]
    return sample_of(mechanism, values, [[d.report(v) for d, v in zip(devices, values, strict=True)] for _ in range(2)])


def sample_strangers(mechanism: Mechanism, number: int) -> Sample:
    """One report each of devices that nobody has seen before."""
    values = held_values(mechanism, number)
    return sample_of(mechanism, values, [[mechanism.randomize(value, SystemEntropy()) for value in values]])


def sample_bulk(mechanism: Mechanism, number: int) -> Sample:
    """Two reports each of simulated devices."""
    values = some_values(mechanism, 64)
    symbols = np.arange(number) % len(values)
    candidates = None if domain_of(mechanism) else values
    devices = FrequencyOracle(mechanism).devices(symbols, np.random.default_rng(1), candidates=candidates)
    batches = (decode_batch(devices.report(i).to_wire(mechanism.digest)) for i in range(2))
    return sample_of(mechanism, [values[symbol] for symbol in symbols], [list(batch) for batch in batches])


def chance_of_one(given: bool, channel: BinaryChannel) -> float:
    return float(channel.keep_one if given else channel.raise_zero)


def check_rates(sample: Sample, mechanism: Mechanism) -> None:
    """Each bit's two conditional rates, and both over all bits together."""
    channel = view_of(mechanism).combined
    for number, report in enumerate(sample.reports):
        for given in (True, False):
            holders = sample.truth == given
            ones, totals = (report & holders).sum(axis=0), holders.sum(axis=0)
            chance = chance_of_one(given, channel)
            check_binomial(ones, totals, chance, f"report {number}: rate of 1 given a true {int(given)}, by bit")
            check_binomial([ones.sum()], [totals.sum()], chance, f"report {number}: all bits that were {int(given)}")


def check_pairs(sample: Sample, mechanism: Mechanism) -> None:
    """Any two bits of a report are independent, given the true bits."""
    channel = view_of(mechanism).combined
    report, above = sample.reports[0], np.triu_indices(sample.truth.shape[1], 1)
    for first in (True, False):
        for second in (True, False):
            left, right = sample.truth == first, sample.truth == second
            totals = joint(left, right)[above]
            both = joint(left & report, right & report)[above]
            chance = chance_of_one(first, channel) * chance_of_one(second, channel)
            check_binomial(both, totals, chance, f"two bits both 1 given true {int(first)}, {int(second)}, by pair")


def joint(left: Bits, right: Bits) -> NDArray[np.int64]:
    """How many rows have bit i in `left` and bit j in `right`: (k, k)."""
    return np.rint(left.T.astype(np.float32) @ right.astype(np.float32)).astype(np.int64)


def check_repeats(sample: Sample, mechanism: Mechanism) -> None:
    """Two reports of one value share their permanent response, and nothing else."""
    permanent, instantaneous = view_of(mechanism).channels
    first, second = sample.reports[:2]
    again = [float(p) ** 2 for p in (instantaneous.keep_one, instantaneous.raise_zero)]
    for given in (True, False):
        holders = sample.truth == given
        kept = chance_of_one(given, permanent)
        chance = kept * again[0] + (1 - kept) * again[1]
        both, totals = (first & second & holders).sum(axis=0), holders.sum(axis=0)
        check_binomial(both, totals, chance, f"1 in two reports given a true {int(given)}, by bit")
        check_binomial([both.sum()], [totals.sum()], chance, f"1 in two reports given a true {int(given)}")


def check_cohorts(sample: Sample, _: Mechanism) -> None:
    """Cohorts are uniform; many are put into 64 parts."""
    many, parts = sample.num_cohorts, min(sample.num_cohorts, 64)
    counts = np.bincount(sample.cohorts.astype(np.int64) * parts // many, minlength=parts)
    edges = [-(-part * many // parts) for part in range(parts + 1)]
    check_binomial(counts, len(sample.cohorts), np.diff(edges) / many, "devices by cohort")


def check_outputs(sample: Sample, mechanism: Mechanism) -> None:
    """Each output comes as often as it should, given what the channels saw: the symbol, or the value."""
    given, outputs = sample.truth.argmax(axis=1), payloads_of(mechanism, 0)
    place = {output: i for i, output in enumerate(outputs)}
    if isinstance(mechanism, SymbolMechanism):
        keep, other = mechanism.chances()
        chances = [[keep if x == y else other for y in outputs] for x in outputs]
    else:
        chances = [law_of(mechanism, value, 0) for value in range(mechanism.encoding.domain_size)]
    for number, sent in enumerate(sample.payloads):
        table = np.zeros((len(chances), len(outputs)), np.int64)
        np.add.at(table, (given, [place[one] for one in sent]), 1)
        totals = table.sum(axis=1, keepdims=True)
        check_binomial(table, totals, np.array(chances, float), f"report {number}: an output given a symbol")


def check_independent(first: Sample, second: Sample, channel: BinaryChannel) -> None:
    """Responses in one place of both samples are independent, given the true bits."""
    for given_first in (True, False):
        for given_second in (True, False):
            holders = (first.truth == given_first) & (second.truth == given_second)
            both = (first.reports[0] & second.reports[0] & holders).sum(axis=0)
            chance = chance_of_one(given_first, channel) * chance_of_one(given_second, channel)
            check_binomial(both, holders.sum(axis=0), chance, "1 in both of two independent responses, by bit")


def check_coverage(truth, raw, errors, least=0.94, most=0.96):
    """A nominal 95% interval covers in about 95 of 100 replications (counts are whole, so never exactly)."""
    covered = (np.abs(raw - truth) <= 1.959964 * errors).sum(axis=0)
    # One-sided each: at most what `most` would give, at least what `least` would.
    low, high = binom.cdf(covered, len(raw), least), binom.sf(covered - 1, len(raw), most)
    if min(low.min(), high.min()) < LEVEL:
        raise Alarm(f"coverage {covered / len(raw)} of 95% intervals")


def check_spread(raw: ArrayLike, variances: ArrayLike) -> None:
    """The empirical variance of replications against the formula's: a chi-square test."""
    statistic = ((raw - raw.mean(axis=0)) ** 2).sum(axis=0) / variances
    surprise = 2 * np.minimum(chi2.cdf(statistic, len(raw) - 1), chi2.sf(statistic, len(raw) - 1))
    if surprise.min() < LEVEL:
        raise Alarm(f"variance is off by {statistic / (len(raw) - 1)}")
