"""Statistical tests of reports, at the one false-alarm rate of `overstory.audit.laws`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import binom, chi2

from overstory.audit.laws import LEVEL, Alarm, check_binomial
from overstory.protocol.channels import BinaryChannel

Bits = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Sample:  # n devices: their cohorts (n), true bits (n, k) and reports, each (n, k), as rows and as they were sent
    num_cohorts: int
    cohorts: NDArray[np.int64]
    truth: Bits
    reports: tuple[Bits, ...]
    payloads: tuple[list[int], ...] = ()


def chance_of_one(given: bool, channel: BinaryChannel) -> float:
    return float(channel.keep_one if given else channel.raise_zero)


def check_rates(sample: Sample, channel: BinaryChannel) -> None:
    """Each bit's two conditional rates, and both over all bits together."""
    for number, report in enumerate(sample.reports):
        for given in (True, False):
            holders = sample.truth == given
            ones, totals = (report & holders).sum(axis=0), holders.sum(axis=0)
            chance = chance_of_one(given, channel)
            check_binomial(ones, totals, chance, f"report {number}: rate of 1 given a true {int(given)}, by bit")
            check_binomial([ones.sum()], [totals.sum()], chance, f"report {number}: all bits that were {int(given)}")


def check_pairs(sample: Sample, channel: BinaryChannel) -> None:
    """Any two bits of a report are independent, given the true bits."""
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


def check_repeats(sample: Sample, permanent: BinaryChannel, instantaneous: BinaryChannel) -> None:
    """Two reports of one value share their permanent response, and nothing else."""
    first, second = sample.reports[:2]
    again = [float(p) ** 2 for p in (instantaneous.keep_one, instantaneous.raise_zero)]
    for given in (True, False):
        holders = sample.truth == given
        kept = chance_of_one(given, permanent)
        chance = kept * again[0] + (1 - kept) * again[1]
        both, totals = (first & second & holders).sum(axis=0), holders.sum(axis=0)
        check_binomial(both, totals, chance, f"1 in two reports given a true {int(given)}, by bit")
        check_binomial([both.sum()], [totals.sum()], chance, f"1 in two reports given a true {int(given)}")


def check_cohorts(sample: Sample) -> None:
    """Cohorts are uniform; many are put into 64 parts."""
    many, parts = sample.num_cohorts, min(sample.num_cohorts, 64)
    counts = np.bincount(sample.cohorts.astype(np.int64) * parts // many, minlength=parts)
    edges = [-(-part * many // parts) for part in range(parts + 1)]
    check_binomial(counts, len(sample.cohorts), np.diff(edges) / many, "devices by cohort")


def check_outputs(sample: Sample, given: ArrayLike, outputs: list[int], chances: ArrayLike) -> None:
    """Each output comes as often as it should, given what the channels saw: given[i] is device i's row of `chances`."""
    place = {output: i for i, output in enumerate(outputs)}
    for number, sent in enumerate(sample.payloads):
        table = np.zeros((len(chances), len(outputs)), np.int64)
        np.add.at(table, (given, [place[one] for one in sent]), 1)
        totals = table.sum(axis=1, keepdims=True)
        check_binomial(table, totals, chances, f"report {number}: an output given a symbol")


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
