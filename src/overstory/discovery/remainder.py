"""What a search could not name: values without a code, and prefixes of many users' values, none of them detected."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from overstory.discovery.codes import byte_strings, number_of, rows_of
from overstory.discovery.detection import counts_of, exact_p_values, frequencies_of
from overstory.discovery.levels import HeavyPrefix
from overstory.discovery.prefixes import Trail, counted_from
from overstory.discovery.result import Discovered
from overstory.discovery.simulation import GroupReports
from overstory.protocol.search.plans import PrefixPlan

SHOWN: Final = 3
"""Prefixes that a note names."""
SURE: Final = 3.0
"""Standard errors from which a note speaks of values without a code."""


def elsewhere_share(
    plan: PrefixPlan, reports: Sequence[GroupReports], num_devices: int, known: tuple[float, float] | tuple[None, None]
) -> tuple[float, float] | tuple[None, None]:
    """Return the share of devices whose value has no code, and its standard error.

    They say "elsewhere" at every level, as do those whose value is in the dictionary: these are taken off.
    """
    counted = counted_from(plan, reports, 0, [None]) if plan.levels else None
    share, share_error = known
    if counted is None or (plan.known and share is None):
        return None, None
    mechanism, supports, num_reports = counted
    counts, errors = counts_of(mechanism, supports, num_reports, num_devices)
    frequency, error = float(counts[0]) / num_devices, float(errors[0]) / num_devices
    return frequency - (share or 0.0), math.hypot(error, share_error or 0.0)


def heavy_prefixes(plan: PrefixPlan, trail: Trail, result: Discovered) -> tuple[HeavyPrefix, ...]:
    """Return prefixes that surely begin some users' values, but no detected value and no longer such prefix.

    Surely: at the result's alpha over all prefixes that the levels tried.
    """
    width = plan.domain.width
    codes = [number_of(raw, width) for raw in byte_strings(rows_of(plan.domain, result.found()))]
    named = [(code, width) for code in codes]
    chosen: list[HeavyPrefix] = []
    for place, bits, frequency in sorted(_sure_prefixes(plan, trail, result.alpha), key=lambda item: -item[0]):
        level = trail.levels[place]
        if any(other >> (size - level.num_bits) == bits for other, size in named if size >= level.num_bits):
            continue
        named.append((bits, level.num_bits))
        if text := plan.domain.prefix_text(bits, level.num_bits):
            chosen.append(HeavyPrefix(text, level.num_bits, frequency, level.standard_error))
    return tuple(sorted(chosen, key=lambda prefix: -prefix.frequency))


def _sure_prefixes(plan: PrefixPlan, trail: Trail, alpha: float) -> Iterator[tuple[int, int, float]]:
    """Yield level, bits and frequency of every prefix that somebody's value surely begins with and may go on."""
    for place, (question, level, frontier) in enumerate(zip(plan.levels, trail.levels, trail.frontiers, strict=False)):
        if question.num_bits == question.width:
            return
        p_values = exact_p_values(question.mechanism, frontier.supports, level.num_reports)
        frequencies = frequencies_of(question.mechanism, frontier.supports, level.num_reports)
        ended = {code >> (question.width - question.num_bits) for code in trail.ended[place]}
        for at in np.flatnonzero(p_values * level.tried * len(plan.levels) <= alpha).tolist():
            bits = number_of(frontier.rows[at].tobytes(), question.num_bits)
            if bits not in ended:
                yield place, bits, float(frequencies[at])


def remainder_notes(result: Discovered) -> tuple[str, ...]:
    """Return what a reader must know of values that the search could not name."""
    notes = []
    share, error = result.elsewhere_frequency, result.elsewhere_standard_error
    if share is not None and error is not None and share > SURE * error:
        notes.append(
            f"{share:.1%} of the users hold a value that has no code here (standard error {error:.2%}): too long, or "
            "of other characters; it cannot be found"
        )
    if result.prefixes:
        texts = [f"{prefix.text!r} ({prefix.frequency:.1%} of the users)" for prefix in result.prefixes[:SHOWN]]
        more = f", and {len(result.prefixes) - SHOWN} more" if len(result.prefixes) > SHOWN else ""
        notes.append(f"too rare to be detected one by one: values that begin with {', '.join(texts)}{more}")
    return tuple(notes)
