"""A plan as a page shows it: of strings or of a known domain, the same parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from overstory.analysis.variance import frequency_variance
from overstory.planning.detection import critical_value
from overstory.planning.domain import DomainPlan, plan_for_domain
from overstory.planning.nearest import Nearest
from overstory.planning.needs import plan_from_needs
from overstory.planning.plan import Plan
from overstory.planning.registry import oracle_toml
from overstory.planning.tables import plan_table, ranking_table
from overstory.presentation.charts.detection import Scatter
from overstory.presentation.document import Table
from overstory.privacy.text import share as percentage
from overstory.protocol.mechanisms.base import Mechanism


@dataclass(frozen=True)
class Answer:
    """What needs lead to.

    Attributes
    ----------
    mechanism
        What to randomize with.
    toml
        The oracle and its parameters, as a registry has them.
    absent, held
        How estimates scatter: of a value that nobody holds, of one with the share that was asked for.
    threshold
        The estimated share from which a value counts as detected.
    figures
        In words: the smallest share that is detected, the devices that the share takes.
    """

    mechanism: Mechanism
    toml: str
    absent: Scatter
    held: Scatter
    threshold: float
    figures: tuple[tuple[str, str], ...]
    nearest: Nearest | None
    sentences: tuple[str, ...]
    table: Table
    facts: Mapping[str, Any]


def answer_for_strings(share: float, *needs: Any, **more: Any) -> Answer:
    """Return the answer of `plan_from_needs`, with a share."""
    plan: Plan = plan_from_needs(*needs, share=share, **more)
    assert plan.share is not None
    given = plan.mechanism.parameters
    written = {key: given[key] for key in ("num_bits", "num_hashes", "num_cohorts", "f", "p", "q")}
    number = plan.num_reports
    return Answer(
        mechanism=plan.mechanism,
        toml=oracle_toml(plan.mechanism.name, written),
        absent=Scatter(0.0, plan.standard_error / number),
        held=Scatter(share, plan.share.standard_error / number),
        threshold=plan.detectable_frequency,
        figures=(
            ("Smallest share, half the time", _share(plan.detectable_frequency)),
            ("Smallest share, nine times in ten", _share(plan.reliable_frequency)),
            (
                f"Devices that detect {percentage(share)}, half the time",
                _devices(plan.share.reports_needed, plan.nearest),
            ),
        ),
        nearest=plan.nearest,
        sentences=tuple(plan.sentences()),
        table=plan_table(plan),
        facts=plan.to_json(),
    )


def answer_for_domain(
    share: float, domain_size: int, epsilon: float, num_reports: int, *, epsilon_permanent: float | None, alpha: float
) -> Answer:
    """Return the answer of `plan_for_domain`, with a share."""
    more: dict[str, Any] = {"epsilon_permanent": epsilon_permanent, "alpha": alpha}
    plan: DomainPlan = plan_for_domain(domain_size, epsilon, num_reports, share=share, **more)
    built = plan.mechanism
    absent, held = (math.sqrt(frequency_variance(built, num_reports, each)) for each in (0.0, share))
    written = {key: value for key, value in plan.best.parameters.items() if key != "domain_size"}
    instead = [] if plan.instead is None else [f"Instead: {plan.instead}."]
    return Answer(
        mechanism=built,
        toml=oracle_toml(built.name, written),
        absent=Scatter(0.0, absent),
        held=Scatter(share, held),
        threshold=critical_value(alpha, domain_size) * absent,
        figures=(
            ("Smallest share, nine times in ten", _share(plan.smallest_share)),
            (f"Devices that detect {percentage(share)}, nine times in ten", _devices(plan.people_needed, plan.nearest)),
        ),
        nearest=plan.nearest,
        sentences=(*plan.sentences(), f"Linkable: {plan.best.linkable.words()}.", *instead),
        table=ranking_table(plan.ranking, caption="Oracles that meet the needs, the most accurate first"),
        facts=plan.to_json(),
    )


def _share(share: float | None) -> str:
    return "none" if share is None or share > 1 else percentage(share)


def _devices(needed: int | None, nearest: Nearest | None) -> str:
    """Return how many devices are enough: where there are too few, with the plan that is best for so many."""
    enough = needed if nearest is None else nearest.num_reports
    return "no number" if enough is None else f"{enough:,}"
