"""From z values to decisions, and what may then be stated of the values that were selected."""

from __future__ import annotations

from overstory.analysis.selection.detection import (
    Correction,
    adjusted_p_values,
    bound_text,
    check_alpha,
    chi2_tail,
    needed_p_value,
    normal_quantile,
    null_share,
    step_up,
    upper_p_values,
    z_values,
)
from overstory.analysis.selection.intervals import (
    ADJUSTMENTS,
    INTERVAL_KINDS,
    Adjustment,
    IntervalKind,
    Selected,
    bounded_interval,
    check_adjustment,
    check_interval_kind,
    interval_words,
    normal_reach,
    people_covariance,
    people_variance,
)

__all__ = [
    "ADJUSTMENTS",
    "INTERVAL_KINDS",
    "Adjustment",
    "Correction",
    "IntervalKind",
    "Selected",
    "adjusted_p_values",
    "bound_text",
    "bounded_interval",
    "check_adjustment",
    "check_alpha",
    "check_interval_kind",
    "chi2_tail",
    "interval_words",
    "needed_p_value",
    "normal_quantile",
    "normal_reach",
    "null_share",
    "people_covariance",
    "people_variance",
    "step_up",
    "upper_p_values",
    "z_values",
]
