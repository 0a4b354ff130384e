"""From needs to parameters: privacy and accuracy move together. It contains no data, so anybody may open it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field as Parameter

from overstory.console.view import Query, Screen, View
from overstory.planning import Plan, plan_from_needs
from overstory.planning.detection import Nearest
from overstory.planning.kinds import plan_for_domain
from overstory.planning.yearly import YearPlan
from overstory.presentation.charts.curves import Scatter
from overstory.presentation.document import (
    Block,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Links,
    Notice,
    Paragraph,
    Preformatted,
)
from overstory.presentation.formats import odds_text, plural
from overstory.presentation.formats import share as percentage
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.sampling import SeededEntropy, uniform_below

if TYPE_CHECKING:
    from overstory.console.data import ConsoleData


STRINGS: Final = "Strings, from a list of candidates"
DOMAIN: Final = "Values of a known domain"
YEAR: Final = "Within a bound on any year"
EXAMPLE_DOMAIN: Final = 10
EXAMPLE_YEAR: Final = 4.0


class PlannerQuery(Query):
    """The needs, under the names of `overstory plan`; with a domain's size, of a known domain, and also of a year."""

    epsilon: float = 1.0
    epsilon_permanent: float | None = None
    reports: int = Parameter(1_000_000, le=1 << 62)
    candidates: int | None = Parameter(None, le=1 << 62)
    share: float = Parameter(0.01, gt=0, le=1)
    alpha: float = Parameter(0.05, gt=0, lt=1)
    domain_size: int | None = None
    yearly: float | None = None
    metrics: int = Parameter(1, ge=1, le=1 << 20)
    period: str = "week"
    num_bits: int | None = None
    num_hashes: int | None = None
    num_cohorts: int | None = None

    @property
    def ceiling(self) -> float | None:
        """The permanent epsilon; for strings there is always one."""
        return self.epsilon_permanent or (max(4.0, self.epsilon) if self.domain_size is None else None)

    @property
    def looked_for(self) -> int:
        return self.candidates or 200

    def command(self) -> str:
        if self.yearly is not None:
            names = ("domain_size", "yearly", "metrics", "reports", "share")
            words = [f"--{name.replace('_', '-')} {_number(getattr(self, name))}" for name in names]
            return " ".join(["overstory plan", *words, f"--period '{self.period}'"])
        asked = {"epsilon": self.epsilon, "epsilon_permanent": self.ceiling, "reports": self.reports}
        kind = {"candidates": self.looked_for} if self.domain_size is None else {"domain_size": self.domain_size}
        sizes = {name: getattr(self, name) for name in ("num_bits", "num_hashes", "num_cohorts")}
        options = kind | asked | {"share": self.share, "alpha": self.alpha} | sizes
        words = [f"--{name.replace('_', '-')} {_number(value)}" for name, value in options.items() if value is not None]
        return " ".join(["overstory plan", *words])


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")


class PlannerScreen(Screen):
    """Sliders to parameters, with what they reveal and what they let a collection see."""

    name = "Plan"
    path = "/plan"
    viewer = None
    query = PlannerQuery

    def view(self, data: ConsoleData, query: PlannerQuery, **path: str) -> View:  # noqa: ARG002 - it needs no data
        try:
            if query.yearly is not None:
                return _of_a_year(query, query.yearly)
            plan = _plan(query)
        except ParameterError as error:
            blocks = [*_head(query), Notice(f"{error}."), *_repairs(query)]
            return View("Plan a collection", tuple(blocks), facts={"error": str(error)}, status=400)
        picture, table = plan.plot(query.share), plan.as_table()
        blocks = [
            *_head(query),
            *([] if plan.nearest is None else _nearest(query, plan.nearest)),
            KeyValues(tuple(_figures(query, plan)), "figures"),
            KeyValues(tuple(_risk_and_accuracy(query, plan))),
            Figure(picture),
            Heading(2, "What your device would send"),
            *sample_report_blocks(plan.mechanism),
            Heading(2, "Parameters"),
            Paragraph("For a metric of the registry; the second block is the command with the same answer."),
            Preformatted(plan.toml()),
            Preformatted(query.command()),
            Heading(2, "All figures"),
            table,
            Lines(*plan.sentences()),
        ]
        return View("Plan a collection", tuple(blocks), table, picture, plan.to_json())


def _of_a_year(query: PlannerQuery, epsilon: float) -> View:
    """Compare the ways to keep within a bound on any year."""
    if query.domain_size is None:
        raise ParameterError("give domain_size, how many values each metric has")
    plan = YearPlan(query.reports, query.domain_size, epsilon, query.metrics, query.period, query.share)
    blocks = [*_head(query), *plan.blocks(), Preformatted(query.command())]
    return View("Plan a collection", tuple(blocks), plan.as_table(), facts=plan.to_json())


@lru_cache(maxsize=64)
def _plan(query: PlannerQuery) -> Plan:
    asked: dict[str, Any] = {"share": query.share, "alpha": query.alpha}
    if query.domain_size is not None:
        known = query.domain_size, query.epsilon, query.reports
        return plan_for_domain(*known, epsilon_permanent=query.ceiling, **asked)
    asked |= {name: getattr(query, name) for name in ("num_bits", "num_hashes", "num_cohorts")}
    ceiling = query.ceiling or query.epsilon
    return plan_from_needs(query.epsilon, ceiling, query.reports, query.looked_for, **asked)


def _held(query: PlannerQuery, plan: Plan) -> Scatter:
    return Scatter(query.share, plan.error_at(query.share))


def _head(query: PlannerQuery) -> Iterator[Block]:
    yield Heading(1, "Plan a collection")
    yield Paragraph(
        "How much a device has to reveal for a collection to see what you look for. Privacy and accuracy move "
        "together: change a number and see both. This page contains no data and keeps nothing.",
        is_lead=True,
    )
    shared: dict[str, Any] = {
        "epsilon": query.epsilon,
        "reports": query.reports,
        "share": query.share,
        "alpha": query.alpha,
    }
    size = query.domain_size or EXAMPLE_DOMAIN
    places = (
        (STRINGS, PlannerQuery(**shared).address("/plan")),
        (DOMAIN, PlannerQuery(domain_size=size, **shared).address("/plan")),
        (YEAR, PlannerQuery(domain_size=size, yearly=EXAMPLE_YEAR, **shared).address("/plan")),
    )
    chosen = YEAR if query.yearly is not None else STRINGS if query.domain_size is None else DOMAIN
    yield Links("What is collected", places, chosen)
    yield Form("Needs", tuple(_fields(query)), "Plan", "/plan", is_live=True)


def _slider(name: str, label: str, value: Any, least: float, most: float, hint: str = "") -> Field:
    text = "" if value is None else _number(value)
    return Field(name, label, text, "slider", least=least, most=most, is_logarithmic=True, hint=hint)


def _fields(query: PlannerQuery) -> Iterator[Field]:
    is_domain = query.domain_size is not None
    if is_domain:
        yield _slider("domain_size", "Values in the domain", query.domain_size, 2, 10_000, "All that there are.")
        if query.yearly is not None:
            hint = "Of everything, whatever a device holds and however it changes."
            yield _slider("yearly", "Epsilon of any year", query.yearly, 0.05, 10, hint)
            yield _slider("metrics", "Metrics", query.metrics, 1, 100, "Of the application, each with so many values.")
            yield _slider("reports", "Devices", query.reports, 100, 1_000_000_000, "That have the program.")
            yield _slider("share", "A share", query.share, 0.00001, 0.99, "Whose standard error is compared.")
            yield Field("period", "Period", query.period, hint="That a result is of.")
            return
    else:
        yield _slider("candidates", "Strings to look for", query.looked_for, 1, 1_000_000, "The candidates.")
    yield _slider("epsilon", "Epsilon of one report", query.epsilon, 0.05, 10, "Smaller is more private.")
    hint = "Empty: each device reports once." if is_domain else "At least that of one report."
    yield _slider("epsilon_permanent", "Epsilon of all reports of one value", query.ceiling, 0.05, 20, hint)
    yield _slider("reports", "Devices", query.reports, 100, 1_000_000_000, "Each reports once.")
    yield _slider("share", "Share to detect", query.share, 0.00001, 1, f"{percentage(query.share)} of the devices.")
    yield _slider("alpha", "Chance of any false detection", query.alpha, 0.0001, 0.5, "Over all values.")
    if not is_domain:
        for name in ("num_bits", "num_hashes", "num_cohorts"):
            if (size := getattr(query, name)) is not None:
                yield Field(name, name, str(size), "hidden")


def _figures(query: PlannerQuery, plan: Plan) -> Iterator[tuple[str, str]]:
    yield "One report moves anyone's odds", odds_text(plan.mechanism.epsilon_report)
    yield "All reports of one value move them", odds_text(plan.mechanism.epsilon_permanent)
    yield f"A share of {percentage(query.share)} reads as", _interval(query, plan)
    yield from plan.figures(query.share)


def _interval(query: PlannerQuery, plan: Plan) -> str:
    low, high = _held(query, plan).interval
    sign = "\N{MINUS SIGN}" if low < 0 else ""
    return f"{sign}{percentage(abs(low))} to {percentage(high)}"


def _risk_and_accuracy(query: PlannerQuery, plan: Plan) -> Iterator[tuple[str, str]]:
    surer, surest = (_surer(epsilon) for epsilon in (plan.mechanism.epsilon_report, plan.mechanism.epsilon_permanent))
    yield (
        "Risk",
        (
            "Somebody who thinks it as likely as not that you hold a value can be at most "
            f"{surer} sure of it after one report, and at most {surest} after any number of reports of that value."
        ),
    )
    number, share = f"{query.share * query.reports:,.0f}", percentage(query.share)
    between = _interval(query, plan).replace(" to ", " and ")
    yield (
        "Accuracy",
        (
            f"Of {query.reports:,} devices {number} hold a value with a share of {share}. In 95 of 100 "
            f"collections its estimate lies between {between}, by the noise alone; the value is detected in "
            f"{percentage(_held(query, plan).chance_above(plan.threshold))} of them."
        ),
    )


def _surer(epsilon: float) -> str:
    return percentage(1 / (1 + math.exp(-epsilon))) if math.isfinite(epsilon) else "100%"


def _nearest(query: PlannerQuery, nearest: Nearest) -> Iterator[Block]:
    yield Notice(nearest.plain_words())
    places = []
    if nearest.num_reports is not None:
        places.append((f"{nearest.num_reports:,} devices", query.address("/plan", reports=nearest.num_reports)))
    if nearest.epsilon_report is not None:
        larger = {"epsilon": nearest.epsilon_report, "epsilon_permanent": nearest.epsilon_permanent}
        places.append((f"epsilon {nearest.epsilon_report:g}", query.address("/plan", **larger)))
    if nearest.smallest_share is not None:
        share = _rounded_up(nearest.smallest_share)
        places.append((f"a share of {percentage(share)}", query.address("/plan", share=share)))
    if places:
        yield Links("Needs that can be met", tuple(places))


def _rounded_up(share: float) -> float:
    """Return a share with three digits that is not smaller: the smallest that is detected, and no less."""
    step = 10.0 ** (math.floor(math.log10(share)) - 2)
    return min(1.0, float(f"{math.ceil(share / step) * step:.3g}"))


def _repairs(query: PlannerQuery) -> Iterator[Block]:
    ceiling = query.ceiling
    if ceiling is None or ceiling > query.epsilon:
        return
    apart = 0.0 if query.domain_size is None else 0.01
    lower, higher = round(ceiling - apart, 4), round(query.epsilon + apart, 4)
    places = [(f"epsilon {lower:g}", query.address("/plan", epsilon=lower))] if lower > 0 else []
    places.append((f"permanent epsilon {higher:g}", query.address("/plan", epsilon_permanent=higher)))
    yield Links("Needs that can be met", tuple(places))


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
        yield _report_picture(mechanism, truth, permanent, sent)
    else:
        yield KeyValues(tuple(_numbers(mechanism, held, truth, permanent, sent)))


def _public(mechanism: Mechanism, cohort: int) -> str:
    if mechanism.num_cohorts == 1:
        return ""
    return f", with the number of its cohort, {cohort:,} of 0 to {mechanism.num_cohorts - 1:,}"


def _report_picture(mechanism: Mechanism, truth: int, permanent: int, sent: int) -> Figure:
    from overstory.presentation.charts.curves import Step, bits_of_a_report

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
