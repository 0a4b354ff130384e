"""The search along prefixes: count, keep the best, extend; what is detected, by one rule for all questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.symbols import LinearSupport
from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import Correction, adjusted_p_values, null_error
from overstory.analysis.variance import support_noise
from overstory.discovery.codes import Rows, byte_strings, code_rows, extensions, may_go_on, number_of
from overstory.discovery.result import F64, Discovered, Level
from overstory.discovery.simulation import Progress
from overstory.protocol.domains.codes import CodedDomain
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.search import Plan, Question

FEW: Final = 512
"""Reports up to which p-values are summed in whole numbers: SciPy takes longer to load."""


class RemoteAnswers(Protocol):
    """Answers to one question that are not at hand, but counted wherever they are: files, and an engine over them."""

    num_bits: int
    num_cohorts: int

    def __len__(self) -> int: ...

    def count_extensions(self, parents: NDArray[np.uint64], step: int) -> NDArray[np.int64]:
        """Return how many answers support each extension of `parents` by `step` bits, shape (b, 2**step)."""
        ...


Answers = ReportBatch | RemoteAnswers
"""The answers to one question."""


def supports_of(question: Question, answers: Answers, words: Sequence[int], step: int = 0) -> NDArray[np.int64]:
    """Return how many answers support each extension of these words by `step` bits, shape (b, 2**step)."""
    parents = np.array(words, np.uint64)
    if isinstance(answers, ReportBatch):
        return LinearSupport(question.mechanism).count_extensions(answers, parents, step)
    return answers.count_extensions(parents, step)


def frequencies_of(mechanism: Mechanism, supports: NDArray[Any], num_reports: int) -> F64:
    """Return the unbiased frequencies (c / n - q*) / (p* - q*) (Wang et al., USENIX Security 2017, section 3)."""
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    return np.asarray((supports / max(num_reports, 1) - q_star) / (p_star - q_star), np.float64)


def counts_of(mechanism: Mechanism, supports: NDArray[Any], num_reports: int, num_devices: int) -> tuple[F64, F64]:
    """Return the counts among all n devices, and their standard errors, from a group of them."""
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    frequency = frequencies_of(mechanism, supports, num_reports)
    held = np.clip(frequency, 0.0, 1.0)
    noise = support_noise(held, 1 - held, p_star, q_star) / (p_star - q_star) ** 2
    # A group of m is a sample without replacement: m x (1 - x) (1 - m / n) more, x = h / m.
    sampling = held * (1 - held) * (1 - num_reports / num_devices)
    return frequency * num_devices, num_devices * np.sqrt((noise + sampling) / num_reports)


def exact_p_values(mechanism: Mechanism, supports: NDArray[Any], num_reports: int) -> F64:
    """Return P(at least this support) of a value nobody has: Binomial(n, q*), exactly, whatever the devices hold."""
    if num_reports <= FEW:
        return np.asarray(_tails(num_reports, Fraction(mechanism.q_star))[np.clip(supports, 0, num_reports + 1)])
    from scipy.special import betainc

    # P(Binomial(n, q) >= c) is the regularized incomplete beta function at q.
    c = np.asarray(supports, np.float64)
    inside = betainc(np.maximum(c, 1), np.maximum(num_reports - c + 1, 1), float(mechanism.q_star))
    return np.asarray(np.where(c <= 0, 1.0, np.where(c > num_reports, 0.0, inside)), np.float64)


@lru_cache(maxsize=64)
def _tails(num_reports: int, q_star: Fraction) -> F64:
    """Return P(Binomial(n, q*) >= c) for c from 0 to n + 1, in whole numbers up to the last division."""
    held, whole = q_star.numerator, q_star.denominator
    tails, total, weight, unit = [0.0], 0, held**num_reports, whole**num_reports
    for count in range(num_reports, -1, -1):
        total += weight  # C(n, c) q^c (1 - q)^(n - c), times the unit
        tails.append(total / unit)
        weight = weight * count * (whole - held) // ((num_reports - count + 1) * held)
    return np.array(tails[::-1])


def needed_support(mechanism: Mechanism, num_reports: int, level: float) -> int:
    """Return the least support with a p-value of at most `level`; where there is none, one more than the reports."""
    low, high = 0, num_reports + 1
    while low < high:
        middle = (low + high) // 2
        if exact_p_values(mechanism, np.array([middle]), num_reports)[0] <= level:
            high = middle
        else:
            low = middle + 1
    return low


def adjusted(p_values: F64, tried: int, correction: Correction) -> F64:
    """Return q-values over all that was tried, `p_values` being the smallest: others left out can only raise them."""
    if not p_values.size:
        return p_values
    if correction == "bonferroni":
        return np.asarray(np.minimum(p_values * tried, 1.0))
    return adjusted_p_values(p_values, correction, tried / p_values.size)


@dataclass(frozen=True, eq=False)
class Tested:
    """Values that answers of some devices tested."""

    rows: Rows  # the values' codes
    supports: NDArray[np.int64]  # how many answers support each: the most of all that were tried
    num_reports: int
    tried: int  # how many values were tried
    source: str = "search"


def joined(plan: Plan, parts: Sequence[Tested], num_devices: int, correction: Correction, **facts: Any) -> Discovered:
    """Return all values, most frequent first, tested together over all that any question tried; `facts` are its own."""
    tried = sum(part.tried for part in parts)
    columns = [
        (
            *counts_of(plan.mechanism, part.supports, part.num_reports, num_devices),
            exact_p_values(plan.mechanism, part.supports, part.num_reports),
        )
        for part in parts
    ]
    counts, errors, p_values = (np.concatenate([np.zeros(0), *(each[i] for each in columns)]) for i in range(3))
    q_values = adjusted(p_values, tried, correction)
    width = plan.domain.width
    values = [plan.domain.value(number_of(raw, width)) for part in parts for raw in byte_strings(part.rows)]
    sources = [part.source for part in parts for _ in range(len(part.rows))]
    order = np.argsort(-counts, kind="stable")
    return Discovered(
        values=tuple(plan.domain.text(values[i]) for i in order),
        raw_values=tuple(values[i] for i in order),
        counts=counts[order],
        raw_counts=counts[order],
        standard_errors=errors[order],
        p_values=p_values[order],
        q_values=q_values[order],
        sources=tuple(sources[i] for i in order),
        num_reports=num_devices,
        tried=tried,
        correction=correction,
        threshold=None,
        detectable_frequency=None,
        epsilon=plan.epsilon,
        **facts,
    )


AT_ONCE = 1 << 24  # prefixes counted before the best of them are taken: memory stays flat


@dataclass(frozen=True, eq=False)
class Step:
    """The prefixes of one level with the most support."""

    level: Level  # what the level tried and let through
    rows: Rows  # the prefixes, most supported first
    supports: NDArray[np.int64]  # how many reports support each
    codes: Sequence[int | None]  # the only code that begins with each, a string that has ended; None: several may


def extend(question: Question, answers: Answers, parents: Rows, keep: int, domain: CodedDomain) -> Step:
    """Return the `keep` most supported extensions of `parents` that some value's code may begin with."""
    before, is_last = question.num_bits - question.step, question.num_bits == question.width
    rows, supports = np.zeros((0, -(-question.num_bits // 8)), np.uint8), np.zeros(0, np.int64)
    counted = total = 0
    part = max(1, AT_ONCE >> question.step)
    for start in range(0, len(parents), part):
        some = parents[start : start + part]
        words = [question.parent_word(raw) for raw in byte_strings(some)]
        places = np.flatnonzero(may_go_on(domain, some, before, question.step))
        counts = supports_of(question, answers, words, question.step).ravel()[places]
        held, held_rows = _largest_held(question, domain, some, places, counts, keep)
        rows, supports = np.concatenate((rows, held_rows)), np.concatenate((supports, held))
        order = _largest(supports, keep)
        rows, supports = rows[order], supports[order]
        counted, total = counted + counts.size, total + int(counts.sum())
    estimates = frequencies_of(question.mechanism, supports, len(answers))
    left = counted - estimates.size
    rest = np.array((total - supports.sum()) / max(left, 1))
    numbers = [number_of(raw, question.num_bits) for raw in byte_strings(rows)]
    codes = [None if is_last else domain.only(number, question.num_bits) for number in numbers]
    level = Level(
        name=question.name,
        num_bits=question.num_bits,
        num_reports=len(answers),
        tried=min(counted, len(parents) * domain.most_values(question.step)) if is_last else counted,
        kept=estimates.size,
        ended=sum(code is not None for code in codes),
        standard_error=null_error(question.mechanism, len(answers)),
        cut=float(estimates.min(initial=np.inf)),
        background=float(frequencies_of(question.mechanism, rest, len(answers))) if left else 0.0,
    )
    return Step(level, rows, supports, codes)


def _largest_held(
    question: Question,
    domain: CodedDomain,
    parents: Rows,
    places: NDArray[np.intp],
    supports: NDArray[np.int64],
    keep: int,
) -> tuple[NDArray[np.int64], Rows]:
    """Return the largest supports among prefixes that a value's code may begin with, and those prefixes."""
    # Only the largest are asked: of most alphabets' and models' codes it takes long to tell.
    before, many, checked = question.num_bits - question.step, keep, 0
    held: list[int] = []
    order = _largest(supports, many)
    while len(held) < keep and checked < supports.size:
        if checked == order.size:
            many *= 4
            order = _largest(supports, many)
        some = order[checked : checked + keep]
        raw = byte_strings(extensions(parents, before, question.step, places[some]))
        numbers = [number_of(prefix, question.num_bits) for prefix in raw]
        held += [at for at, bits in zip(some.tolist(), numbers, strict=True) if domain.holds(bits, question.num_bits)]
        checked += some.size
    best = np.array(held[:keep], np.int64)
    return supports[best], extensions(parents, before, question.step, places[best])


def _largest(numbers: NDArray[np.int64], keep: int) -> NDArray[np.intp]:
    """Return the places of the largest numbers, none of them negative, largest first; of equal ones the first."""
    if numbers.size > keep:
        at_least = np.bincount(numbers)[::-1].cumsum()  # how many are the largest one, that or the next, ...
        least = at_least.size - 1 - np.searchsorted(at_least, keep)
        over, at = np.flatnonzero(numbers > least), np.flatnonzero(numbers == least)
        places = np.concatenate((over, at[: keep - over.size]))
    else:
        places = np.arange(numbers.size)
    return places[np.argsort(-numbers[places], kind="stable")]


def search(
    plan: Plan, answers: Sequence[Answers], keep: int, progress: Progress | None = None
) -> tuple[list[Step], str | None]:
    """Extend prefixes level by level; return the steps, and why the search did not come to the last level, if not."""
    steps: list[Step] = []
    parents = np.zeros((1, 0), np.uint8)
    for place, (question, given) in enumerate(zip(plan.levels, answers, strict=True)):
        bits = question.num_bits
        if progress:
            progress(f"prefixes of {bits} bits", place / len(plan.levels))
        if not len(given):
            return steps, (
                f"too few reports: nobody answered for prefixes of {bits} bits, so nothing could be searched for"
            )
        if not len(parents):
            return steps, f"every string ended before {bits} bits: each was tested by all later levels together"
        keep_here = keep if bits == question.width else plan.beam
        steps.append(extend(question, given, parents, keep_here, plan.domain))
        # A string that has ended takes no place among those that are extended.
        parents = steps[-1].rows[[code is None for code in steps[-1].codes]]
    return steps, None


def ended_strings(plan: Plan, answers: Sequence[Answers], steps: Sequence[Step]) -> Iterator[Tested]:
    """Yield the strings that ended at each level, counted by all levels after it: answers that did not choose them."""
    for place, step in enumerate(steps):
        if codes := [code for code in step.codes if code is not None]:
            supports, num_reports = counted_from(plan, answers, place + 1, codes)
            if num_reports:
                # Every prefix that the level kept might have been a string that ended, so as many were tried.
                yield Tested(code_rows(codes, plan.domain.width), supports, num_reports, step.level.kept)


def counted_from(
    plan: Plan, answers: Sequence[Answers], first: int, codes: Sequence[int | None]
) -> tuple[NDArray[np.int64], int]:
    """Return how many answers support each code (None: "elsewhere"), of how many, over the levels from `first` on."""
    supports, num_reports = np.zeros(len(codes), np.int64), 0
    for question, given in list(zip(plan.levels, answers, strict=True))[first:]:
        if len(given):
            supports += supports_of(question, given, [question.value(code) for code in codes])[:, 0]
            num_reports += len(given)
    return supports, num_reports
