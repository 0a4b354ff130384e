"""A metric's public page: what is collected, why, how often, for how long, and what it can reveal, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.presentation.document import Block, Heading, KeyValues, Lines, Paragraph
from overstory.presentation.formats import date_words, parameter_words, plural
from overstory.privacy.approximate import DELTA
from overstory.privacy.attacks import metric_linkability
from overstory.privacy.registry.cost import MetricCost, TotalCost, metric_cost
from overstory.privacy.statements import Claim, PrivacyStatement, claims_blocks, statement
from overstory.privacy.terms import metric_terms
from overstory.protocol.metrics import Metric
from overstory.protocol.metrics.metric import FEWEST_TOGETHER

if TYPE_CHECKING:
    from overstory.protocol.metrics.tables import ObliviousRoute, PersonBudget

SHOWN: Final = (1, 2, 3, 5, 10)


def metric_statement(metric: Metric, *, reports: Iterable[int] = (), delta: float = DELTA) -> PrivacyStatement:
    """Return the privacy statement of a metric: for a few reports, for its window, and for any others asked about."""
    asked, window = set(reports), metric.window or 1
    numbers = sorted({*SHOWN, *asked, window})
    stated = statement(metric.mechanism, reports=numbers, delta=delta, terms=metric_terms(metric))
    return replace(stated, linkable=metric_linkability(metric))


@dataclass(frozen=True)
class MetricPage:
    """A metric's page."""

    metric: Metric
    facts: tuple[tuple[str, str], ...]  # what a person asks first, each with its answer
    privacy: PrivacyStatement  # the statement of the metric's mechanism
    cost: MetricCost  # what its reports cost the person who sends them

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every epsilon with its condition and what it rests on, the one without a condition first."""
        return self.cost.lines

    def plain_words(self) -> str:
        return self.cost.headline.sentence

    def to_json(self) -> dict[str, Any]:
        privacy = self.privacy.to_json() | {
            "claims": [claim.to_json() for claim in self.claims],
            "plain_words": self.plain_words(),
            "cost": self.cost.to_json(),
        }
        return self.metric.to_json() | {"facts": dict(self.facts), "privacy": privacy}

    def blocks(self) -> Iterator[Block]:
        yield Heading(2, f"{self.metric.title} ({self.metric.id})", self.metric.id)
        yield Paragraph(self.metric.description)
        yield KeyValues(self.facts)
        yield Paragraph(self.plain_words())
        yield from claims_blocks(self.claims)


def together_blocks(totals: Iterable[TotalCost], budget: Sequence[str]) -> Iterator[Block]:
    """Return what several metrics cost together, and what the budget allows."""
    for total in totals:
        yield Heading(2, f"Together: {total.about}")
        yield total.block()
    if budget:
        yield Heading(2, "Budget")
        yield Lines(*budget)


def metric_page(
    metric: Metric, *, route: ObliviousRoute | None = None, budget: PersonBudget | None = None
) -> MetricPage:
    """Return the page of a metric; `route` and `budget` are the registry's."""
    return MetricPage(
        metric, tuple(metric_facts(metric, route)), metric_statement(metric), metric_cost(metric, budget=budget)
    )


def metric_facts(
    metric: Metric, route: ObliviousRoute | None = None, group: str | None = None
) -> Iterator[tuple[str, str]]:
    """Yield what a person asks first of a metric, each with its answer: of a device in a group, or in the rarest."""
    yield "Why", metric.purpose
    yield "Responsible", metric.owner
    if metric.attribute is not None:
        yield "What it tells of", f"{metric.attribute}, as every metric with this attribute does"
    known = None if metric.candidates is None else len(metric.candidates)
    yield "What a report can be about", metric.domain.describe(known)
    groups = metric.groups
    if groups is not None:
        group_words = (
            f"{groups.by}, one of {', '.join(groups.names)}: the group that the device is in. No noise protects it: "
            f"epsilon protects the value alone. By public shares, each group has at least {groups.floor:,} devices"
        )
        yield "What is sent in clear", group_words
    yield "How often", how_often(metric)
    if metric.yearly_reason is not None:
        yield "Why a year may reveal much", metric.yearly_reason
    yield "How many values", how_many_values(metric)
    end = date_words(metric.expires.isoformat())
    yield "Ends on", f"{end}: nothing is collected from then on, unless a reviewed change renews it"
    late = f"a report that comes up to {metric.grace_days} days late is still counted"
    late = late if metric.grace_days else "a report that comes after its period is not counted"
    yield "Kept for", f"randomized reports: {how_long_kept(metric)}; {late}"
    if metric.is_oblivious:
        yield "How reports travel", relay_words(route)
    if metric.publish == "estimates":
        period = "everybody can read the estimates of a period once it takes no more reports"
        yield "Published", f"{period}, if at least {metric.publish_least:,} came"
    yield "What could put a device's reports together", metric_linkability(metric, group).words()
    mechanism = metric.mechanism
    steps = "noise once for each value"
    if metric.fresh:
        steps = "fresh noise for every report"
    elif mechanism.epsilon_report < mechanism.epsilon_permanent:
        steps = "noise in two steps, once for each value and again for each report"
    given = parameter_words(metric.to_json()["parameters"])
    yield "How", f"{mechanism.name} ({given}): {steps}, on the device, which never sends the value itself"


def relay_words(route: ObliviousRoute | None) -> str:
    """Say how the reports of an oblivious metric travel, and what each side sees."""
    through = "a relay" if route is None else f"the relay {route.described}"
    return (
        f"encrypted for the collector, through {through}. The relay sees the address that a report comes from, when, "
        "and how long it is in steps of 512 bytes; it cannot read it. The collector reads the report; it sees the "
        "relay's address and not the device's. If the two work together, they can tell which address sent which report"
    )


def how_often(metric: Metric) -> str:
    """Say how often a device reports at most."""
    panel = metric.panel
    if panel is not None:
        times = "once" if panel.answers == 1 else f"{panel.answers} times"
        which = "" if panel.own else " for all metrics that share the panel, each answer for one of them"
        among = 1 / panel.share_asked(metric.period)
        number = str(among) if among.denominator == 1 else f"about {float(among):.1f}"
        asked = f"in each {metric.period} one device in {number} is asked, whatever its value"
        return f"at most {times} in any {panel.cycle}{which}; {asked}"
    if metric.once:
        return "one report per device, and no other by these parameters, whether its value changes or not"
    return f"at most one report per device per {metric.period}"


def how_many_values(metric: Metric) -> str:
    """Say of how many different values a device can ever report, which is what its reports can cost."""
    if metric.once:
        return "one: the value that the device has when it reports"
    if metric.fresh:
        return "any number: all noise is drawn afresh, so what counts is the number of reports"
    size = metric.num_values
    if metric.max_values is None or (size is not None and metric.max_values >= size):
        return "any number" if size is None else f"all {plural(size, metric.domain.value_word)}"
    then = {
        "drop": "are reported as nothing",
        "first": "are reported as if they were the first",
        "nearest": "are reported as if they were the nearest",
    }[metric.over_cap]
    word = f"different {metric.domain.value_word}"
    return f"at most {plural(metric.max_values, word)} from one device, ever; later {metric.domain.value_word}s {then}"


def how_long_kept(metric: Metric) -> str:
    """Say for how long a metric's reports are stored, and what stays of them."""
    days = plural(metric.retention_days, "day") if metric.retention_days else "until their period is over"
    return f"{days}; then only counts of {FEWEST_TOGETHER} or more reports together"
