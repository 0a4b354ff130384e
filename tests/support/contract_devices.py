"""Samples of reports: from devices one by one, from strangers, and from the bulk simulation."""

import os
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.client import Randomizer
from overstory.protocol.kinds.base import Mechanism, Report
from overstory.protocol.sampling import SystemEntropy
from overstory.protocol.wire.upload import decode_batch
from support.contract_cases import domain_of, some_values
from support.contract_statistics import Bits, Sample
from support.contract_views import view_of

MakeDevice = Callable[..., Randomizer]


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
