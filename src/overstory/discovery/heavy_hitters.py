"""From the answers of all devices to heavy hitters: count, keep the best prefixes, extend them, test what is left."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from overstory.analysis.selection import (
    Correction,
    IntervalKind,
    check_alpha,
    check_correction,
    check_interval_kind,
    found_words,
    needed_p_value,
    smallest_found,
)
from overstory.discovery.codes import code_rows, number_of
from overstory.discovery.prefixes import (
    Answers,
    Step,
    Tested,
    counted_from,
    counts_of,
    ended_strings,
    exact_p_values,
    frequencies_of,
    joined,
    needed_support,
    search,
    supports_of,
)
from overstory.discovery.result import Discovered, HeavyPrefix
from overstory.discovery.simulation import Progress
from overstory.protocol.errors import ParameterError
from overstory.protocol.search import DICTIONARY, Plan

KEEP: Final = 1024
"""Values that the last level keeps, whether detected or not."""
SHOWN: Final = 3
"""Prefixes that a note names."""
SURE: Final = 3.0
"""Standard errors from which a note speaks of values without a code."""
NO_REPORTS: Final = "there are no reports: nothing can be estimated"


Share = tuple[float, float] | tuple[None, None]
"""A share of the devices, and its standard error."""


def _dictionary(plan: Plan, answers: Answers, num_devices: int) -> tuple[list[Tested], Share]:
    """Return the dictionary's values, and its mass: all that is not elsewhere."""
    if not plan.known or not len(answers):
        return [], (None, None)
    question, codes = plan.questions[0], sorted(plan.known)
    supports = supports_of(question, answers, [question.value(code) for code in [*codes, None]])[:, 0]
    elsewhere, error = counts_of(plan.mechanism, supports[-1:], len(answers), num_devices)
    tested = Tested(code_rows(codes, plan.domain.width), supports[:-1], len(answers), len(codes), DICTIONARY)
    return [tested], (1 - float(elsewhere[0]) / num_devices, float(error[0]) / num_devices)


def _elsewhere_share(plan: Plan, answers: Sequence[Answers], num_devices: int, known: Share) -> Share:
    """Return the share of devices whose value has no code, and its standard error."""
    supports, num_reports = counted_from(plan, answers, 0, [None])
    share, share_error = known
    if not num_reports or (plan.known and share is None):
        return None, None
    counts, errors = counts_of(plan.mechanism, supports, num_reports, num_devices)
    frequency, error = float(counts[0]) / num_devices, float(errors[0]) / num_devices
    # Those whose value is in the dictionary say "elsewhere", too.
    return frequency - (share or 0.0), math.hypot(error, share_error or 0.0)


def _heavy_prefixes(plan: Plan, steps: Sequence[Step], result: Discovered) -> tuple[HeavyPrefix, ...]:
    """Return prefixes that surely begin users' values, but no detected value and no longer such prefix."""
    named = [(plan.domain.code(value), plan.domain.width) for value in result.found()]
    chosen: list[HeavyPrefix] = []
    for step in reversed(steps):
        level, num_bits = step.level, step.level.num_bits
        if num_bits == plan.domain.width:
            continue
        p_values = exact_p_values(plan.mechanism, step.supports, level.num_reports)
        frequencies = frequencies_of(plan.mechanism, step.supports, level.num_reports)
        for at in np.flatnonzero(p_values * level.tried * len(plan.levels) <= result.alpha).tolist():
            bits = number_of(step.rows[at].tobytes(), num_bits)
            begun = any(other >> (size - num_bits) == bits for other, size in named if size >= num_bits)
            if begun or step.codes[at] is not None:
                continue
            named.append((bits, num_bits))
            if text := plan.domain.prefix_text(bits, num_bits):
                chosen.append(HeavyPrefix(text, num_bits, float(frequencies[at]), level.standard_error))
    return tuple(sorted(chosen, key=lambda prefix: -prefix.frequency))


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
    if result.prefixes:
        texts = [f"{prefix.text!r} ({prefix.frequency:.1%} of the users)" for prefix in result.prefixes[:SHOWN]]
        more = f", and {len(result.prefixes) - SHOWN} more" if len(result.prefixes) > SHOWN else ""
        yield f"too rare to be detected one by one: values that begin with {', '.join(texts)}{more}"


def find(
    plan: Plan,
    reports: Sequence[Answers],
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
        return joined(plan, [], 0, correction, notes=(NO_REPORTS,), **facts)
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
        "tree": tuple(frequencies_of(mechanism, step.supports, step.level.num_reports) for step in steps),
        "known_frequency": mass[0],
        "known_standard_error": mass[1],
        "elsewhere_frequency": elsewhere[0],
        "elsewhere_standard_error": elsewhere[1],
    }
    found = joined(plan, parts, num_devices, correction, **facts)
    found = replace(found, prefixes=_heavy_prefixes(plan, steps, found))
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


def _check(plan: Plan, reports: Sequence[Answers]) -> None:
    if len(reports) != len(plan.questions):
        raise ParameterError(f"answers of {len(reports)} groups for a plan of {len(plan.questions)}")
    for number, (question, batch) in enumerate(zip(plan.questions, reports, strict=True)):
        if (batch.num_bits, batch.num_cohorts) != (question.mechanism.payload_bits, question.mechanism.num_cohorts):
            raise ParameterError(f"group {number} answers other questions than its plan asks")
