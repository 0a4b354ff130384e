"""The search along prefixes: count, keep the best, extend; and strings that have ended, tested by all later answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch
from overstory.analysis.selection.search_power import null_error
from overstory.analysis.support.registry import support_of
from overstory.analysis.support.symbols import LinearSupport
from overstory.discovery.codes import Rows, are_values, byte_strings, extensions, names_of, number_of
from overstory.discovery.detection import frequencies_of
from overstory.discovery.levels import Level
from overstory.discovery.simulation import Answers, GroupReports, Progress, support_counts
from overstory.protocol.domains.codes import CodedDomain
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.search.plans import PrefixPlan, Question, prefix_bytes

AT_ONCE = 1 << 24  # prefixes counted before the best of them are taken: memory stays flat


@dataclass(frozen=True, eq=False)
class Frontier:
    """The prefixes of one level with the most support."""

    rows: Rows  # the prefixes, most supported first
    supports: NDArray[np.int64]  # how many reports support each
    counted: int  # how many were counted
    total: int  # the sum of all supports that were counted
    tried: int  # of those counted, the most that some value's code may begin with


def extend(question: Question, batch: ReportBatch | Answers, parents: Rows, keep: int, domain: CodedDomain) -> Frontier:
    """Return the `keep` most supported extensions of `parents` that some value's code may begin with."""
    before, last = question.num_bits - question.step, question.num_bits == question.width
    best = Frontier(np.zeros((0, -(-question.num_bits // 8)), np.uint8), np.zeros(0, np.int64), 0, 0, 0)
    for some, counts in _counted(question, batch, parents):
        places = np.arange(counts.size)
        if last:
            places = places[are_values(domain, extensions(some, before, question.step))]
        supports = counts.ravel()[places]
        held, held_rows = _largest_held(question, domain, some, places, supports, keep)
        rows, merged = np.concatenate((best.rows, held_rows)), np.concatenate((best.supports, held))
        order = _largest(merged, keep)
        counted, total = best.counted + supports.size, best.total + int(supports.sum())
        best = Frontier(rows[order], merged[order], counted, total, counted)
    most = len(parents) * domain.most_values(question.step) if last else best.counted
    return replace(best, tried=min(best.counted, most))


def _counted(
    question: Question, batch: ReportBatch | Answers, parents: Rows
) -> Iterator[tuple[Rows, NDArray[np.int64]]]:
    """Yield parents, and the support of their extensions, in parts that fit into memory."""
    part = max(1, AT_ONCE >> question.step)
    support = support_of(question.mechanism)
    for start in range(0, len(parents), part):
        some = parents[start : start + part]
        if isinstance(support, LinearSupport):
            words = np.array([question.parent_word(raw) for raw in byte_strings(some)], np.uint64)
            if isinstance(batch, ReportBatch):
                yield some, support.count_extensions(batch, words, question.step)
            else:
                yield some, batch.count_extensions(words, question.step)
        else:
            children = extensions(some, question.num_bits - question.step, question.step)
            yield some, support_counts(question.mechanism, batch, names_of(question, children))


def _largest_held(
    question: Question,
    domain: CodedDomain,
    parents: Rows,
    places: NDArray[np.intp],
    supports: NDArray[np.int64],
    keep: int,
) -> tuple[NDArray[np.int64], Rows]:
    """Return the largest supports among prefixes that a value's code may begin with, and those prefixes.

    Whether a prefix is one is asked of the largest alone: of most alphabets' and models' codes it takes long to tell.
    """
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
    """Return the places of the largest numbers, largest first; of equal ones the first."""
    if numbers.size > keep:
        least = np.partition(numbers, numbers.size - keep)[numbers.size - keep]
        over, at = np.flatnonzero(numbers > least), np.flatnonzero(numbers == least)
        places = np.concatenate((over, at[: keep - over.size]))
    else:
        places = np.arange(numbers.size)
    return places[np.argsort(-numbers[places], kind="stable")]


@dataclass(frozen=True, eq=False)
class Trail:
    """A search as far as it came."""

    levels: tuple[Level, ...]  # what each level tried and let through
    frontiers: tuple[Frontier, ...]  # what each level kept
    ended: tuple[tuple[int, ...], ...]  # the codes of the strings that had ended at each level, and left the search
    has_reports: bool = True  # whether every level that was needed had reports

    @property
    def last(self) -> Frontier | None:
        """The last level's values; None when the search did not come so far."""
        is_last = bool(self.levels) and len(self.ended) < len(self.frontiers)
        return self.frontiers[-1] if is_last else None


def search(plan: PrefixPlan, reports: Sequence[GroupReports], keep: int, progress: Progress | None = None) -> Trail:
    """Extend prefixes level by level; the last level keeps `keep` values, the others the plan's beam.

    A prefix that belongs to one value alone, a string that has ended, takes no place among those that are extended.
    """
    levels: list[Level] = []
    frontiers: list[Frontier] = []
    ended: list[tuple[int, ...]] = []
    parents = np.zeros((1, 0), np.uint8)
    for place, (question, group) in enumerate(zip(plan.levels, plan.level_groups, strict=True)):
        (batch,) = reports[group]
        if progress:
            progress(f"prefixes of {question.num_bits} bits", place / len(plan.levels))
        is_last = question.num_bits == question.width
        if not len(batch) or not len(parents):
            return Trail(tuple(levels), tuple(frontiers), tuple(ended), has_reports=len(batch) > 0)
        frontier = extend(question, batch, parents, keep if is_last else plan.beam, plan.domain)
        frontiers.append(frontier)
        codes = () if is_last else _only(plan.domain, question, frontier.rows)
        levels.append(_level(question, batch, frontier, sum(code is not None for code in codes)))
        if not is_last:
            ended.append(tuple(code for code in codes if code is not None))
            parents = frontier.rows[[code is None for code in codes]]
    return Trail(tuple(levels), tuple(frontiers), tuple(ended))


def _only(domain: CodedDomain, question: Question, rows: Rows) -> tuple[int | None, ...]:
    """Return, for each prefix, the only code that begins with it, or None where there may be several."""
    numbers = (number_of(raw, question.num_bits) for raw in byte_strings(rows))
    return tuple(domain.only(number, question.num_bits) for number in numbers)


def _level(question: Question, batch: ReportBatch | Answers, frontier: Frontier, num_ended: int) -> Level:
    estimates = frequencies_of(question.mechanism, frontier.supports, len(batch))
    left = frontier.counted - estimates.size
    rest = np.array([(frontier.total - frontier.supports.sum()) / max(left, 1)])
    return Level(
        name=question.name,
        num_bits=question.num_bits,
        num_reports=len(batch),
        tried=frontier.tried,
        kept=estimates.size,
        ended=num_ended,
        standard_error=null_error(question.mechanism, len(batch)),
        cut=float(estimates.min(initial=np.inf)),
        background=float(frequencies_of(question.mechanism, rest, len(batch))[0]) if left else 0.0,
    )


@dataclass(frozen=True, eq=False)
class Pooled:
    """Values counted by several levels together."""

    mechanism: Mechanism
    rows: Rows  # the values' codes
    supports: NDArray[np.int64]
    num_reports: int
    tried: int


def ended_strings(plan: PrefixPlan, reports: Sequence[GroupReports], trail: Trail) -> Iterator[Pooled]:
    """Yield the strings that ended at each level, counted by all levels after it.

    Those levels' answers do not depend on the answers that chose the strings, so p-values are those of one binomial.
    Every prefix that the level kept might have been a string that ended, so as many were tried.
    """
    for place, codes in enumerate(trail.ended):
        if codes and (counted := counted_from(plan, reports, place + 1, codes)):
            mechanism, supports, num_reports = counted
            raw = b"".join(prefix_bytes(code, plan.domain.width, plan.domain.width) for code in codes)
            rows = np.frombuffer(raw, np.uint8).reshape(len(codes), -1)
            yield Pooled(mechanism, rows, supports, num_reports, trail.levels[place].kept)


def counted_from(
    plan: PrefixPlan, reports: Sequence[GroupReports], first: int, codes: Sequence[int | None]
) -> tuple[Mechanism, NDArray[np.int64], int] | None:
    """Return how many answers support each code (None: "elsewhere"), over the levels from `first` on.

    None where there are no answers.

    Only levels with the same chances of support can be added; the last one's are those that count.
    """
    mechanism = plan.levels[-1].mechanism
    supports, num_reports = np.zeros(len(codes), np.int64), 0
    for question, group in list(zip(plan.levels, plan.level_groups, strict=True))[first:]:
        (batch,), own = reports[group], question.mechanism
        if len(batch) and (own.p_star, own.q_star) == (mechanism.p_star, mechanism.q_star):
            supports += support_counts(own, batch, [question.value(code) for code in codes])
            num_reports += len(batch)
    return (mechanism, supports, num_reports) if num_reports else None
