"""A plan as a page shows it: of strings or of a known domain, the same parts; and what a device would send."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from overstory.analysis.variance import frequency_variance
from overstory.planning.detection import critical_value
from overstory.planning.domain import DomainPlan, plan_for_domain
from overstory.planning.nearest import Nearest
from overstory.planning.needs import plan_from_needs
from overstory.planning.plan import Plan, plan_table, ranking_table
from overstory.planning.registry import oracle_toml
from overstory.presentation.charts.curves import Scatter
from overstory.presentation.document import Block, Figure, KeyValues, Paragraph, Table
from overstory.privacy.text import plural
from overstory.privacy.text import share as percentage
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.sampling import SeededEntropy, uniform_below

SEED: Final = "what a device would send"
EXAMPLE_STRING: Final = "maple"


def sample_report_blocks(mechanism: Mechanism) -> Iterator[Block]:
    """Return one report step by step: of a string, or of a value of the domain; always the same for a mechanism."""
    entropy = SeededEntropy(SEED)
    size = mechanism.domain_size
    value = EXAMPLE_STRING if size is None else size // 2
    cohort = uniform_below(mechanism.num_cohorts, entropy)
    permanent = mechanism.draw_permanent(value, cohort, entropy)
    sent = mechanism.instantaneous(permanent, entropy.bits)
    truth = mechanism.encode(value, cohort)
    held = f"the string “{value}”" if size is None else f"value {value:,} of 0 to {size - 1:,}"
    yield Paragraph(
        f"One report, drawn once, of a device that holds {held}. What it holds never leaves it; the last line does, "
        f"{plural(mechanism.payload_bits, 'bit')}{_public(mechanism, cohort)}."
    )
    if mechanism.payload == "bits" and truth is not None:
        yield _picture(mechanism, truth, permanent, sent)
    else:
        yield KeyValues(tuple(_numbers(mechanism, held, truth, permanent, sent)))


def _public(mechanism: Mechanism, cohort: int) -> str:
    if mechanism.num_cohorts == 1:
        return ""
    return f", with the number of its cohort, {cohort:,} of 0 to {mechanism.num_cohorts - 1:,}"


def _picture(mechanism: Mechanism, truth: int, permanent: int, sent: int) -> Figure:
    from overstory.presentation.charts.bits import Step, bits_of_a_report

    def bits(payload: int) -> list[bool]:
        return [bool(payload >> place & 1) for place in range(mechanism.payload_bits)]

    steps = [Step("The value's bits", bits(truth))]
    if not mechanism.fresh:
        steps.append(Step("Kept on the device: noise drawn once for the value", bits(permanent)))
    if mechanism.fresh or sent != permanent:
        steps.append(Step("Sent: noise drawn for this report", bits(sent)))
    steps[-1] = Step(steps[-1].name.replace("Kept on the device", "Kept on the device and sent"), steps[-1].bits)
    caption = "A square is a bit, filled where it is 1. Orange: noise changed it."
    return Figure(bits_of_a_report("report", caption, steps))


def _numbers(
    mechanism: Mechanism, held: str, truth: int | None, permanent: int, sent: int
) -> Iterator[tuple[str, str]]:
    yield "Held", held
    if truth is not None and mechanism.domain_size != mechanism.payload_limit:
        yield "Its place in this cohort", f"{truth:,} of 0 to {mechanism.payload_limit - 1:,}"
    if sent != permanent:
        yield "Kept on the device", _payload(mechanism, permanent, truth)
    yield "Sent", _payload(mechanism, sent, truth)


def _payload(mechanism: Mechanism, payload: int, truth: int | None) -> str:
    if mechanism.payload_weight is not None:
        places = [place for place in range(mechanism.payload_bits) if payload >> place & 1]
        shown = ", ".join(f"{place:,}" for place in places[:12])
        more = f" and {len(places) - 12:,} more" if len(places) > 12 else ""
        return f"a set of {plural(len(places), 'value')}: {shown}{more}"
    same = "" if truth is None else ": the value's own" if payload == truth else ": another"
    return f"{payload:,} of 0 to {mechanism.payload_limit - 1:,}{same}"


@dataclass(frozen=True)
class Answer:
    """What needs lead to."""

    mechanism: Mechanism
    toml: str  # the oracle and its parameters, as a registry has them
    absent: Scatter  # how estimates scatter of a value that nobody holds
    held: Scatter  # of one with the share that was asked for
    threshold: float  # the estimated share from which a value counts as detected
    # in words: the smallest share that is detected, the devices that the share takes
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
