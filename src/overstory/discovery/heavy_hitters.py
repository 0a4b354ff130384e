"""The search along prefixes: count, keep the best, extend; what is detected, by one rule for all questions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.symbols import LinearSupport
from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection import (
    Correction,
    IntervalKind,
    adjusted_p_values,
    at_least,
    binomial_tails,
    check_alpha,
    check_correction,
    check_interval_kind,
    found_words,
    needed_p_value,
    null_error,
    smallest_found,
)
from overstory.analysis.variance import support_noise
from overstory.discovery.result import F64, Discovered, Level
from overstory.discovery.simulation import (
    Progress,
    Rows,
    byte_strings,
    code_rows,
    extensions,
    may_go_on,
    number_of,
)
from overstory.protocol.domains.codes import CodedDomain
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.search import DICTIONARY, Plan, Question

FEW: Final = 512  # expected supports up to which p-values are summed: SciPy takes longer to load


def supports_of(question: Question, answers: ReportBatch, words: Sequence[int], step: int = 0) -> NDArray[np.int64]:
    """Return how many answers support each extension of these words by `step` bits, shape (b, 2**step)."""
    return LinearSupport(question.mechanism).count_extensions(answers, np.array(words, np.uint64), step)


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
    q_star = float(mechanism.q_star)
    if num_reports * q_star <= FEW:
        tails = binomial_tails(num_reports, q_star)
        return np.asarray(tails[np.clip(supports, 0, tails.size - 1)])
    return at_least(supports, num_reports, q_star)


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
    q_values = adjusted_p_values(p_values, correction, tested=tried)
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


def extend(question: Question, answers: ReportBatch, parents: Rows, keep: int, domain: CodedDomain) -> Step:
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
    # Only the largest are asked: of most alphabets' codes it takes long to tell.
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
    plan: Plan, answers: Sequence[ReportBatch], keep: int, progress: Progress | None = None
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


def ended_strings(plan: Plan, answers: Sequence[ReportBatch], steps: Sequence[Step]) -> Iterator[Tested]:
    """Yield the strings that ended at each level, counted by all levels after it: answers that did not choose them."""
    for place, step in enumerate(steps):
        if codes := [code for code in step.codes if code is not None]:
            supports, num_reports = counted_from(plan, answers, place + 1, codes)
            if num_reports:
                # Every prefix that the level kept might have been a string that ended, so as many were tried.
                yield Tested(code_rows(codes, plan.domain.width), supports, num_reports, step.level.kept)


def counted_from(
    plan: Plan, answers: Sequence[ReportBatch], first: int, codes: Sequence[int | None]
) -> tuple[NDArray[np.int64], int]:
    """Return how many answers support each code (None: "elsewhere"), of how many, over the levels from `first` on."""
    supports, num_reports = np.zeros(len(codes), np.int64), 0
    for question, given in list(zip(plan.levels, answers, strict=True))[first:]:
        if len(given):
            supports += supports_of(question, given, [question.value(code) for code in codes])[:, 0]
            num_reports += len(given)
    return supports, num_reports


KEEP: Final = 1024  # values that the last level keeps, whether detected or not
SURE: Final = 3.0  # standard errors from which a note speaks of values without a code


Share = tuple[float, float] | tuple[None, None]  # A share of the devices, and its standard error


def _dictionary(plan: Plan, answers: ReportBatch, num_devices: int) -> tuple[list[Tested], Share]:
    """Return the dictionary's values, and its mass: all that is not elsewhere."""
    if not plan.known or not len(answers):
        return [], (None, None)
    question, codes = plan.questions[0], sorted(plan.known)
    supports = supports_of(question, answers, [question.value(code) for code in [*codes, None]])[:, 0]
    elsewhere, error = counts_of(plan.mechanism, supports[-1:], len(answers), num_devices)
    tested = Tested(code_rows(codes, plan.domain.width), supports[:-1], len(answers), len(codes), DICTIONARY)
    return [tested], (1 - float(elsewhere[0]) / num_devices, float(error[0]) / num_devices)


def _elsewhere_share(plan: Plan, answers: Sequence[ReportBatch], num_devices: int, known: Share) -> Share:
    """Return the share of devices whose value has no code, and its standard error."""
    supports, num_reports = counted_from(plan, answers, 0, [None])
    share, share_error = known
    if not num_reports or (plan.known and share is None):
        return None, None
    counts, errors = counts_of(plan.mechanism, supports, num_reports, num_devices)
    frequency, error = float(counts[0]) / num_devices, float(errors[0]) / num_devices
    # Those whose value is in the dictionary say "elsewhere", too.
    return frequency - (share or 0.0), math.hypot(error, share_error or 0.0)


def _notes(plan: Plan, result: Discovered) -> Iterator[str]:
    """Yield what a reader must know of values that the search could not name, or not see."""
    if result.threshold is not None:
        if np.count_nonzero(result.detected()) >= plan.beam / 2:
            yield "the detected values fill half of the beam or more: raise it, others may have found no place in it"
        if result.known_frequency is not None:
            yield (
                f"{1 - result.known_frequency:.1%} of the users hold a value outside the dictionary (standard error "
                f"{result.known_standard_error:.1%}); only those values were searched for"
            )
    share, error = result.elsewhere_frequency, result.elsewhere_standard_error
    if share is not None and error is not None and share > SURE * error:
        yield (
            f"{share:.1%} of the users hold a value that has no code here (standard error {error:.2%}): too long, or "
            "of other characters; it cannot be found"
        )


def find(
    plan: Plan,
    reports: Sequence[ReportBatch],
    *,
    alpha: float = 0.05,
    correction: Correction = "fdr",
    interval_kind: IntervalKind = "reports",
    progress: Progress | None = None,
) -> Discovered:
    """Return the heavy hitters that the devices' answers show.

    Parameters
    ----------
    plan
        The plan that the devices followed.
    reports
        The answers to each of its questions.
    alpha, correction
        A value is detected when its p-value passes this rule over everything that the last questions tried: Benjamini
        and Hochberg's at a false discovery rate, or Bonferroni's at a chance of any false one.
    interval_kind
        What intervals are for: ``reports``, these devices; ``population``, all devices like these.
    progress
        Called with the progress after every level.

    Raises
    ------
    ParameterError
        When the batches do not fit the plan, or alpha is no level.

    Examples
    --------
    >>> import numpy as np
    >>> from overstory.discovery import CodedIntegers, discover, simulate
    >>> plan = discover(epsilon=4.0, domain=CodedIntegers(16), step=8, beam=8)
    >>> reports = simulate(plan, np.array([7] * 600 + [4711] * 400), np.random.default_rng(1))
    >>> find(plan, reports, correction="bonferroni").found()
    (7, 4711)
    """
    check_alpha(alpha)
    check_correction(correction)
    check_interval_kind(interval_kind)
    _check(plan, reports)
    num_devices = sum(map(len, reports))
    facts: dict[str, Any] = {"alpha": alpha, "interval_kind": interval_kind}
    if not num_devices:
        facts["notes"] = ("there are no reports: nothing can be estimated",)
        return joined(plan, [], 0, correction, **facts)
    answers, mechanism = reports[bool(plan.known) :], plan.mechanism
    steps, stopped = search(plan, answers, max(KEEP, plan.beam), progress)
    levels = tuple(step.level for step in steps)
    parts, mass = _dictionary(plan, reports[0], num_devices)
    parts += ended_strings(plan, answers, steps)
    if stopped is None:
        parts.append(Tested(steps[-1].rows, steps[-1].supports, levels[-1].num_reports, levels[-1].tried))
    elsewhere = _elsewhere_share(plan, answers, num_devices, mass)
    facts |= {
        "levels": levels,
        "known_frequency": mass[0],
        "known_standard_error": mass[1],
        "elsewhere_frequency": elsewhere[0],
        "elsewhere_standard_error": elsewhere[1],
    }
    found = joined(plan, parts, num_devices, correction, **facts)
    if stopped is not None:
        return replace(found, notes=(stopped, *_notes(plan, found)))
    detections = int(np.count_nonzero(found.detected()))
    level = needed_p_value(alpha, correction, detections, found.tried)  # of the least surely detected value
    needed = needed_support(mechanism, levels[-1].num_reports, level)
    threshold = float(frequencies_of(mechanism, np.array(needed), levels[-1].num_reports))
    boundaries = [level.cut - level.background for level in levels[:-1]] + [threshold]
    errors = [level.standard_error for level in levels]
    found = replace(found, threshold=threshold, detectable_frequency=smallest_found(boundaries, errors))
    return replace(found, notes=(found_words(boundaries, errors), *_notes(plan, found)))


def _check(plan: Plan, reports: Sequence[ReportBatch]) -> None:
    if len(reports) != len(plan.questions):
        raise ParameterError(f"answers of {len(reports)} groups for a plan of {len(plan.questions)}")
    for number, (question, batch) in enumerate(zip(plan.questions, reports, strict=True)):
        if (batch.num_bits, batch.num_cohorts) != (question.mechanism.payload_bits, question.mechanism.num_cohorts):
            raise ParameterError(f"group {number} answers other questions than its plan asks")
