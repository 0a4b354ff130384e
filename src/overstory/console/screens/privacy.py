"""What a metric costs one person: every epsilon with what it rests on, in words, and over the number of reports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field as Parameter

from overstory.console.screens.page import metric_links
from overstory.console.view import Query, Screen, View
from overstory.presentation.charts.curves import loss_of_a_device
from overstory.presentation.document import (
    Block,
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Notice,
    Paragraph,
    Preformatted,
    Table,
)
from overstory.presentation.formats import epsilon_text, finite, odds_text, plural
from overstory.privacy.registry.cost import metric_cost
from overstory.privacy.registry.page import metric_page, metric_statement
from overstory.privacy.registry.yearly import most_in_a_year
from overstory.privacy.statements import Claims, words_of
from overstory.privacy.terms import metric_terms
from overstory.protocol.metrics.period import WEEK

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData
    from overstory.presentation.svg import Picture
    from overstory.privacy import Claim, PrivacyStatement
    from overstory.protocol.metrics import Metric

MOST_REPORTS: Final = 1000
MOST_VALUES: Final = 1_000_000


class PrivacyQuery(Query):
    """How many reports, and of how many different values, the ledger also states."""

    reports: int | None = Parameter(None, ge=1, le=MOST_REPORTS)
    values: int | None = Parameter(None, ge=1, le=MOST_VALUES)


class PrivacyScreen(Screen):
    """What the reports of a metric cost the person who sends them."""

    name = "Privacy"
    path = "/m/{metric}/privacy"
    query = PrivacyQuery

    def view(self, data: ConsoleData, query: PrivacyQuery, **path: str) -> View:
        metric = data.metric(path["metric"])
        reports = query.reports or metric.window or 10
        stated = metric_statement(metric, reports=() if query.reports is None else (query.reports,))
        entries = tuple(_entries(metric, stated, reports, query.values))
        table = _table(entries)
        picture = _picture(metric)
        page = metric_page(metric, reports=query.reports)
        unbounded = [entry for entry in entries if math.isinf(entry.epsilon)]
        blocks: list[Block] = [
            metric_links(data, metric, "Privacy"),
            Heading(1, f"What {metric.title} costs one person"),
            Paragraph(
                "Epsilon is the privacy loss: how far what a device sends can move anyone's odds between two values. "
                "Smaller is more private. Every figure is exact or a bound, and rounded up.",
                is_lead=True,
            ),
            KeyValues(tuple(_figures(metric, stated)), "figures"),
            Heading(2, "In words"),
            *([_no_bound(unbounded)] if unbounded else []),
            Lines(page.plain_words(), stated.plain_words(), f"Linkable: {stated.linkable.words()}."),
            Heading(2, "The ledger"),
            _form(query, reports),
            table,
            Heading(2, "Epsilon over reports"),
            Figure(picture),
            Heading(2, "The same from the command line"),
            Preformatted(_command(metric, query)),
        ]
        # The statement as `overstory privacy` prints it, and the cost as `overstory metrics show` does.
        facts = {"metric": metric.id, "privacy": stated.to_json(), "cost": page.cost.to_json()}
        return View(f"{metric.title}: privacy", tuple(blocks), table, picture, facts)


def _figures(metric: Metric, stated: PrivacyStatement) -> Iterator[tuple[str, str]]:
    a_week = metric_cost(metric, _reports_in(metric, WEEK)).headline.epsilon
    which = "Any" if metric.is_afresh else "The first"
    yield f"{which} year, whatever the values", _both(metric_cost(metric).headline.epsilon)
    yield f"{which} week, whatever the values", _both(a_week)
    yield "One report", _both(stated.epsilon_report)
    yield "One value, however many reports", _both(stated.epsilon_permanent)


def _both(epsilon: float) -> str:
    return "no bound" if math.isinf(epsilon) else f"{epsilon_text(epsilon)} ({odds_text(epsilon)})"


def _reports_in(metric: Metric, seconds: int) -> int:
    return min(max(1, seconds // metric.period.seconds), most_in_a_year(metric))


def _entries(metric: Metric, stated: PrivacyStatement, reports: int, values: int | None) -> Iterator[Claim]:
    """Return the ledger: any year, a report, several, values, a week, and all that there can ever be."""
    costs, claims = metric_cost(metric, reports), Claims.of(metric)
    permanent, lifetime = costs.line("permanent"), costs.line("values")
    yield metric_cost(metric).headline
    yield from (claims.unchanged(number) for number in sorted({1, reports}))
    if permanent is not None:
        yield permanent
    if values is not None:
        claim = stated.values_claim(values, reports=reports)
        yield replace(claim, about=f"{claim.about} in {plural(reports, 'report')}")
    line = metric_cost(metric, _reports_in(metric, WEEK)).headline
    yield replace(line, about=f"a week, {line.about}")
    if lifetime is not None:
        yield replace(lifetime, about=f"a lifetime: {lifetime.about}")


def _row(claim: Claim) -> dict[str, Any]:
    return {
        "seen": claim.about,
        "epsilon": finite(claim.epsilon),
        "epsilon_text": epsilon_text(claim.epsilon),
        "odds": odds_text(claim.epsilon),
        "rests_on": " ".join(words_of(claim)),
    }


def _table(entries: tuple[Claim, ...]) -> Table:
    columns = (
        Column("seen", "what is seen of one device", is_left=True),
        Column("epsilon_text", "epsilon", keys=("epsilon_text", "epsilon"), text=lambda text, _: text),
        Column("odds", "odds move"),
        Column("rests_on", "rests on", is_left=True),
    )
    return Table("What each epsilon is about, and what it rests on", columns, [_row(entry) for entry in entries])


def _no_bound(unbounded: list[Claim]) -> Notice:
    reasons = "; ".join(dict.fromkeys(entry.reason for entry in unbounded if entry.reason))
    what = "One line" if len(unbounded) == 1 else f"{len(unbounded)} lines"
    return Notice(f"{what} of the ledger {'has' if len(unbounded) == 1 else 'have'} no bound: {reasons}.")


def _form(query: PrivacyQuery, reports: int) -> Form:
    values = "" if query.values is None else str(query.values)
    fields = (
        Field("reports", "Reports of one device", str(reports), "slider", least=1, most=MOST_REPORTS, step=1),
        Field("values", "Different values", values, "number", least=1, most=MOST_VALUES, hint="empty: not stated"),
    )
    return Form("What to state", fields, "Show", is_live=True)


@lru_cache(maxsize=256)
def _picture(metric: Metric) -> Picture:
    terms = metric_terms(metric)
    return loss_of_a_device(metric.id, terms.epsilon_n, terms.epsilon_any)


def _command(metric: Metric, query: PrivacyQuery) -> str:
    asked = [f"--{name} {number}" for name, number in (("reports", query.reports), ("values", query.values)) if number]
    return " ".join(["overstory privacy", metric.id, "--registry FILE", *asked])
