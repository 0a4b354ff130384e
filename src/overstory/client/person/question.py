"""What a person is shown before choosing: what is collected, what it can cost, where it goes, and what has changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from overstory.client.budget import ledger_of
from overstory.client.consent import WORDS, Choice, Consent, origin, pinned, read_consent
from overstory.client.outcomes import ConsentError, StateError
from overstory.client.person.status import FIRST, SCREEN, asked_by, metric_line, one_screen, relay_status
from overstory.client.state.files import StatePaths, policy_file
from overstory.client.state.state import State
from overstory.presentation.document import Block, Heading, KeyValues, Lines, Paragraph
from overstory.presentation.formats import plural
from overstory.privacy.attacks import metric_linkability
from overstory.privacy.registry.cost import (
    MetricCost,
    TotalCost,
    budget_words,
    metric_cost,
    total_costs,
    totals_so_far,
)
from overstory.privacy.registry.page import metric_facts, relay_words
from overstory.privacy.registry.yearly import headline, in_two_sentences, least_limit
from overstory.privacy.statements import Claim
from overstory.protocol.metrics import Metric, MetricRegistry

if TYPE_CHECKING:
    from overstory.client.consent import EffectiveChoice
    from overstory.privacy.ledger import Ledger


@dataclass(frozen=True)
class CommandContext:
    """The application of one command, its state and its registry."""

    name: str | None  # the application; None where neither the person nor the state names it
    paths: StatePaths  # the state
    registry: MetricRegistry  # the metrics; empty where none were given and the program stored none
    environ: Mapping[str, str]  # the environment
    no_registry: str | None = None  # why there is no registry; None where there is one

    @property
    def effective(self) -> EffectiveChoice:
        from overstory.client.consent import effective

        return effective(self.paths, self.environ, policy_file(self.environ))


@dataclass(frozen=True)
class Asked:
    """One question to a person."""

    registry: MetricRegistry  # what is asked for
    server: str | None  # the collector that reports would go to; None where it is not known yet
    before: Consent | None  # the choice before; None where there was none that can be read
    costs: Mapping[str, MetricCost]  # what each metric costs, or has cost on this device
    ends: Mapping[str, Claim]  # what each metric costs by the day it expires, in one line; none where it has expired
    totals: tuple[TotalCost, ...]  # what they cost together
    changes: Mapping[str, tuple[str, ...]]  # what of each metric is not as it was agreed to


def asked_of(context: CommandContext, server: str | None, today: date) -> Asked:
    """Return the question of a registry on a device, with what the device has reported so far."""
    registry, before = context.registry, None
    with contextlib.suppress(ConsentError):
        before = read_consent(context.paths)
    spent, collector = _from_state(context, before)
    named = collector if server is None else origin(server)
    costs = {name: metric_cost(metric, so_far=spent, budget=registry.budget) for name, metric in registry.items()}
    chosen = before is not None and before.choice is not Choice.OFF
    changes = before.missing(registry, named) if chosen and before else {}
    return Asked(
        registry,
        named,
        before,
        costs,
        {name: line for name, metric in registry.items() if (line := _end(metric, today, registry)) is not None},
        totals_so_far(spent) if spent is not None and spent.reports else total_costs(tuple(costs.values()), registry),
        changes,
    )


def _from_state(context: CommandContext, before: Consent | None) -> tuple[Ledger | None, str | None]:
    """Return what was spent so far, and the collector that the choice is held to, where the state can be read."""
    named = None if before is None or before.choice is not Choice.ON else before.server
    state = State(context.paths)
    if state.exists:
        with contextlib.suppress(StateError), state.snapshot() as rows:
            if before is not None and before.choice is Choice.ON:
                named = pinned(rows, before)
            return ledger_of(rows, context.registry), named
    return None, named


def _end(metric: Metric, today: date, registry: MetricRegistry) -> Claim | None:
    """Return the first line for a report in every period from today to the metric's end, where no budget ends it."""
    if metric.once or metric.panel is not None:
        return None  # however long it goes on, there is one report, or the same number every year
    now = datetime.combine(today, time(), UTC).timestamp()
    left = metric.period.number(metric.expires_at - 1) - metric.period.number(now) + 1
    claim, budget = metric_cost(metric, max(left, 1)).headline, registry.budget
    is_ended = budget is not None and budget.per == "ever" and least_limit([metric], budget) < claim.epsilon
    return claim if left > 0 and not is_ended else None


def first_screen(asked: Asked, more: str) -> Iterator[Block]:
    """Return the most important of the question, what has changed first; `more` is where the rest of it is."""
    registry, before = asked.registry, asked.before
    changed = [
        f"- {registry[name].title}, since your choice of {before.date}: {'; '.join(reasons)}"
        for name, reasons in asked.changes.items()
        if before is not None
    ]
    lines = [*changed, *(metric_line(metric) for name, metric in registry.items() if name not in asked.changes)]
    who = f"{asked_by(registry)}; reports go to: {asked.server or FIRST}"
    below = who, f"to stop: `off`, at any time; the rest: {more}"
    yield Lines(*one_screen(in_two_sentences(registry), lines, below, more, SCREEN - 2))


def question(asked: Asked) -> Iterator[Block]:
    """Return the question as blocks: any year, each metric, all of them together, the budget, where reports go."""
    if asked.registry:
        yield Paragraph(headline(asked.registry).sentence)
    if asked.registry.operator is not None:
        yield Paragraph(asked_by(asked.registry))
    for name, metric in asked.registry.items():
        yield Heading(3, f"{metric.title} ({name})")
        yield Paragraph(metric.description)
        for reason in asked.changes.get(name, ()):
            assert asked.before is not None
            yield Paragraph(f"Since your choice of {asked.before.date}: {reason}.")
        yield KeyValues(tuple(metric_facts(metric, asked.registry.oblivious)))
        cost, end = asked.costs[name], asked.ends.get(name)
        so_far = f"What your {plural(cost.reports, 'report')} so far can have told of you:"
        yield Paragraph("What reports can tell of you:" if cost.planned else so_far)
        lines = cost.pairs()
        if cost.planned and end is not None and end.epsilon != cost.headline.epsilon:  # alike where neither has a bound
            lines += ((end.amount, f"{end.words} (one per {metric.period} until {metric.expires})"),)
        yield KeyValues(lines, "lines")
    for total in asked.totals if len(asked.registry) > 1 else ():
        yield Heading(3, f"Together: {total.about}")
        yield total.block()
    yield Heading(3, "Budget, and where reports go")
    yield Lines(*_ending(asked))


def _ending(asked: Asked) -> Iterator[str]:
    if asked.registry.budget is None:
        yield "There is no budget: reports go on until each metric's end, and add up."
    else:
        yield from budget_words(asked.registry.budget, asked.registry.values())
    where = asked.server or f"{FIRST}, and to no other after it"
    yield f"reports go to: {where}"
    relay = relay_status(asked.registry)
    if relay is not None:
        yield from relay.words()


def question_json(asked: Asked) -> dict[str, Any]:
    """Return the question as JSON values; an epsilon without bound is null."""
    held = asked.registry.budget
    return {
        "server": asked.server,
        **({} if asked.registry.operator is None else {"operator": asked.registry.operator.to_json()}),
        **({} if asked.registry.oblivious is None else {"relay": asked.registry.oblivious.to_json()}),
        "budget": None if held is None else held.to_json(),
        "budget_words": [] if held is None else list(budget_words(held, asked.registry.values())),
        "headline": headline(asked.registry).to_json() if asked.registry else None,
        "totals": [total.to_json() for total in asked.totals],
        "metrics": [_metric_json(asked, metric) for metric in asked.registry.values()],
    }


def _metric_json(asked: Asked, metric: Metric) -> dict[str, Any]:
    end = asked.ends.get(metric.id)
    return {
        "id": metric.id,
        **{name: getattr(metric, name) for name in WORDS},
        "period": str(metric.period),
        "expires": metric.expires.isoformat(),
        "retention_days": metric.retention_days,
        "max_values": metric.max_values,
        "publish": metric.publish,
        **({} if metric.groups is None else {"groups": metric.groups.canonical()}),
        **({"travels": relay_words(asked.registry.oblivious)} if metric.is_oblivious else {}),
        "changed": list(asked.changes.get(metric.id, ())),
        "linkable": metric_linkability(metric).to_json(),
        "cost": asked.costs[metric.id].to_json(),
        "cost_by_the_end": None if end is None else end.to_json(),
    }
