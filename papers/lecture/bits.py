"""The lecture's Theorem 2: a public hash into buckets, and of every bucket the likelier value of every bit.

Literally, every user answers for every bit, each at epsilon / bits; partitioned, for one bit at the whole epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from overstory.analysis.selection import null_error
from overstory.discovery import CodedIntegers, Discovered, Plan
from overstory.discovery.codes import Rows, byte_strings
from overstory.discovery.prefixes import Tested, counts_of, joined
from overstory.discovery.simulation import GroupReports, support_counts
from overstory.protocol.search.plans import Group, Question, bucket, build, thresholds


@dataclass(frozen=True)
class BitQuestion(Question):
    """The value's bucket, and one bit of its code: the lecture's pair (h(x), x[l]), as the number 2 h(x) + x[l]."""

    bit: int = 0
    buckets: int = 2

    def name_of(self, raw: bytes) -> int:
        """Return the pair as one number."""
        return 2 * bucket(raw, self.key, self.buckets) + (int.from_bytes(raw, "big") >> self.width - 1 - self.bit & 1)


@dataclass(frozen=True, kw_only=True)
class BitPlan(Plan):
    """A question for every bit: of every device, or of a group each."""

    buckets: int


def bitwise(*, epsilon: float, domain: CodedIntegers, buckets: int, partitioned: bool) -> BitPlan:
    """Return the plan of Theorem 2 (after Bassily and Smith, STOC 2015) for a domain of whole bytes.

    Examples
    --------
    >>> plan = bitwise(epsilon=4.0, domain=CodedIntegers(16), buckets=64, partitioned=False)
    >>> len(plan.groups), len(plan.groups[0].questions), plan.epsilon <= 4.0
    (1, 16, True)
    """
    width = domain.width
    mechanism = build("hadamard", epsilon if partitioned else epsilon / width, 2 * buckets, "/bits")
    questions = [
        BitQuestion(f"bit {bit}", width, width, 0, mechanism, bit=bit, buckets=buckets) for bit in range(width)
    ]
    if not partitioned:
        return BitPlan(domain=domain, groups=(Group(1 << 32, tuple(questions)),), buckets=buckets)
    bounds = thresholds([1.0] * width)
    groups = tuple(Group(t, (question,)) for t, question in zip(bounds, questions, strict=True))
    return BitPlan(domain=domain, groups=groups, buckets=buckets)


def buckets_of(rows: Rows, buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each code."""
    return np.array([bucket(raw, "", buckets) for raw in byte_strings(rows)], np.int64)


def recover(plan: BitPlan, reports: Sequence[GroupReports]) -> Discovered:
    """Return the values recovered from the buckets: only those that hash back to theirs, as noise does once in T.

    The bucket's count is the mean over the bits (or the sum over the groups) of the estimates of (t, 0) and (t, 1): it
    does not depend on which bit won, so it is unbiased.
    """
    batches = [batch for group in reports for batch in group]
    questions = [question for group in plan.groups for question in group.questions]
    weight = 1 if len(plan.groups) > 1 else 1 / len(questions)
    rows = np.zeros((plan.buckets, plan.domain.width // 8), np.uint8)
    total, squares, nobody = np.zeros(plan.buckets), np.zeros(plan.buckets), 0.0
    for bit, (question, batch) in enumerate(zip(questions, batches, strict=True)):
        supports = support_counts(question.mechanism, batch, range(2 * plan.buckets)).reshape(-1, 2)
        rows[:, bit // 8] |= ((supports[:, 1] > supports[:, 0]) << (7 - bit % 8)).astype(np.uint8)
        counts, errors = counts_of(question.mechanism, supports, len(batch), len(batch))
        total += weight * counts.sum(axis=1)
        squares += weight**2 * (errors**2).sum(axis=1)
        nobody += 2 * (weight * len(batch) * null_error(question.mechanism, len(batch))) ** 2
    chosen = np.flatnonzero((buckets_of(rows, plan.buckets) == np.arange(plan.buckets)) & (total > 0))
    p_values = ndtr(-total[chosen] / math.sqrt(nobody))  # of an empty bucket
    tested = Tested(rows[chosen], total[chosen], np.sqrt(squares[chosen]), p_values, plan.buckets, "bits")
    num_devices = sum(len(group[0]) for group in reports)
    return joined(plan, [tested], num_devices, 0.05, "fdr")
