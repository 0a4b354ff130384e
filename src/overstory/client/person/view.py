"""What a person is asked before choosing, and then sees: what was recorded and is sent, and what can be inferred.

True values are not shown because they are not stored: the state holds permanent responses and encoded reports. Every
byte of a report is explained. What can be inferred is exact Bayes, shown with the prior.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.client.budget import ledger_of
from overstory.client.consent import WORDS, Choice, Consent, origin, read_consent
from overstory.client.outcomes import ConsentError, StateError
from overstory.client.person.status import NOWHERE, SCREEN, Status, asked_by, metric_line, one_screen, ways
from overstory.client.state.files import StatePaths, read_application
from overstory.client.state.rows import ALL_VALUES, OutboxRow, Response, Rows, RowState
from overstory.client.state.state import State
from overstory.client.upload.delivery import RELAYED
from overstory.presentation.document import Block, Folded, Heading, KeyValues, Lines, Paragraph, Row, Table
from overstory.presentation.formats import date_words, finite, plural, share
from overstory.privacy.attacks import metric_linkability, posterior
from overstory.privacy.registry.cost import (
    MetricCost,
    TotalCost,
    budget_words,
    headline,
    in_two_sentences,
    least_limit,
    metric_cost,
    total_costs,
    totals_so_far,
)
from overstory.privacy.registry.page import metric_facts, relay_words
from overstory.privacy.statements import Claim, Claims
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import Kind, Report
from overstory.protocol.metrics import Metric, MetricRegistry
from overstory.protocol.metrics.period import Period
from overstory.protocol.wire.upload import Upload, cohort_width, decode_batch, decode_uploads

if TYPE_CHECKING:
    from overstory.privacy.ledger import Ledger
    from overstory.protocol.metrics import PersonBudget
    from overstory.protocol.metrics.tables import ObliviousRoute


# --- the question -----------------------------------------------------------------------------------------------------


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


def asked_of(paths: StatePaths, registry: MetricRegistry, server: str | None, today: date) -> Asked:
    """Return the question of a registry on a device, with what the device has reported so far."""
    before, state, spent = None, State(paths), None
    with contextlib.suppress(ConsentError):
        before = read_consent(paths)
    if state.exists:
        with contextlib.suppress(StateError), state.snapshot() as rows:
            spent = ledger_of(rows, registry)
    said = read_application(paths).server or (before.server if before else None)  # by the program; else agreed to
    named = said if server is None else origin(server)
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
    who = f"{asked_by(registry)}; reports go to: {asked.server or NOWHERE}"
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
    yield f"reports go to: {asked.server or NOWHERE}"
    yield from ways(asked.registry)


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
        "metrics": [_asked_json(asked, metric) for metric in asked.registry.values()],
    }


def _asked_json(asked: Asked, metric: Metric) -> dict[str, Any]:
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


# --- what is sent -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Consecutive bytes of an upload, and their meaning in words."""

    name: str
    raw: bytes
    meaning: str


def annotate(body: bytes, metric: Metric | None) -> tuple[Part, ...]:
    """Return every byte of an upload with one report, each part with its meaning; joined, they are the upload."""
    upload, report = report_in(body)
    batch = decode_batch(upload.reports)
    made_by = "the parameters that it was made by"
    of = made_by if metric is None else f"this metric's parameters ({metric.mechanism.name})"
    encodes = "how this device encodes values; drawn from its secret, the same for ever"
    if metric is not None and metric.panel is not None:
        encodes = "how this answer encodes values; drawn from the device's secret, another in every answer"
    says = "" if metric is None else f": {metric.mechanism.payload_words(report.bits, metric.labels)}"
    lengths = "the lengths of two names" if upload.group else "the length of the metric's name"
    with_id = "from this device's secret; a second copy of this report is known by it and not counted"
    cuts = [
        ("format", 8, f"an upload, version 1, and {lengths}"),
        ("batch id", 16, with_id if any(upload.batch) else "erased here once the report was settled"),
        ("period", 4, f"{_period(metric, upload.period)}; no finer time is sent"),
        ("length", 4, f"{len(upload.reports)} bytes of reports follow"),
        ("metric", len(upload.metric), upload.metric),
        ("group", len(upload.group), f"{upload.group}, in clear: the group that this device is in"),
        ("format", 6, "a batch of reports, version 1"),
        ("bits", 2, f"a report has {plural(batch.num_bits, 'bit')}"),
        ("cohorts", 4, f"there {'is' if batch.num_cohorts == 1 else 'are'} {batch.num_cohorts}"),
        ("reports", 4, "there is 1"),
        ("parameters", 16, f"the digest of {of}"),
        (
            "cohort",
            cohort_width(batch.num_cohorts),
            "0: all devices encode alike" if batch.num_cohorts == 1 else f"{report.cohort}: {encodes}",
        ),
        ("report", (batch.num_bits + 7) // 8, f"what the device says, after all noise{says}"),
        ("checksum", 4, "of the batch, against damage on the way"),
    ]
    ends = accumulate(length for _, length, _ in cuts)
    parts = [
        Part(name, body[end - length : end], meaning) for end, (name, length, meaning) in zip(ends, cuts, strict=True)
    ]
    return tuple(part for part in parts if part.name != "group" or upload.group)


def report_in(body: bytes) -> tuple[Upload, Report]:
    """Return the upload, and the one report in it."""
    (upload,) = decode_uploads(body, 1)
    reports = list(decode_batch(upload.reports))
    if len(reports) != 1:
        raise WireError("length", f"a device sends one report at a time; {len(reports)} are here")
    return upload, reports[0]


def matches(row: OutboxRow, metric: Metric) -> bool:
    """Whether it is a report that can be read, of the metric as it is."""
    try:
        report_in(row.body)
    except WireError:
        return False
    return row.account == metric.account


def _period(metric: Metric | None, number: int) -> str:
    if metric is None or number not in metric.period.numbers:  # of another length, by an earlier registry
        return f"number {number}"
    return date_words(metric.period.label(number))


def bit_string(mechanism: Kind, payload: int) -> str:
    """Return a payload's bits, bit 0 first, in groups of eight."""
    bits = f"{payload:0{mechanism.payload_bits}b}"[::-1]
    return " ".join(bits[start : start + 8] for start in range(0, len(bits), 8))


MOST_CANDIDATES: Final = 20_000
SHOWN: Final = 5


@dataclass(frozen=True)
class Inference:
    """What a collector can infer from some reports."""

    reports: int  # the number of reports
    candidates: int  # the number of possible values
    prior: float  # of each of them: it is uniform
    likeliest: tuple[dict[str, Any], ...]  # the label and the posterior probability of some values, likeliest first
    epsilon: float  # the privacy guarantee of these reports
    promise: str  # `epsilon` in words, with its condition


def infer(metric: Metric, reports: Sequence[Report]) -> Inference | str:
    """Return what linked reports of one unchanged value tell of a metric's labels, or why that is not computed.

    The answers of a panel are independent, given the value: each one changes what the ones before it left.
    """
    labels = metric.labels
    if not labels:
        return "the registry at hand has no list of candidates, so there is nothing to compare"
    if len(labels) > MOST_CANDIDATES:
        return f"{len(labels)} candidates are more than are computed here ({MOST_CANDIDATES})"
    values: Sequence[Hashable] = metric.domain.encodings(labels)
    prior = 1 / len(values)
    posteriors = dict.fromkeys(values, prior)
    try:
        for together in [[report] for report in reports] if metric.panel is not None else [reports]:
            posteriors = posterior(metric.mechanism, together, posteriors)
    except ParameterError as error:
        return f"nothing consistent: {error}"
    best = sorted(posteriors.items(), key=lambda pair: -pair[1])
    best = best if len(best) == SHOWN + 1 else best[:SHOWN]  # a row for all others would be as long
    likeliest = tuple({"label": metric.domain.label(value), "probability": believed} for value, believed in best)
    promised = Claims.of(metric).unchanged(len(reports))
    return Inference(len(reports), len(values), prior, likeliest, promised.epsilon, promised.words)


STATE_TEXTS = {
    RowState.WAITING: "waits to be sent",
    RowState.SENT: "was sent",
    RowState.DROPPED: "was dropped",
    RowState.LOCAL: "stays here: it is never sent",
}
BY_RELAY = "was sent: the relay has it, and passes it on to the collector"


@dataclass(frozen=True)
class MetricView:
    """One metric on this device, ready to be shown."""

    id: str  # its id
    metric: Metric | None  # its entry; None when the registry at hand does not list it
    cost: MetricCost | None = None  # what its reports have cost, or would; None without the entry
    recorded: tuple[str, ...] = ()  # the periods with a report, as labels, oldest first
    responses: tuple[Row, ...] = ()  # the noisy answers from which all reports of one value are made, as JSON says them
    reports: tuple[Row, ...] = ()  # likewise, oldest first
    newest: Inference | str | None = None  # what a collector could infer from the newest report; words where nothing is
    linked: Inference | str | None = None  # the same from all reports of its permanent response
    hypothetical: bool = False  # whether none of these reports was or will be sent
    group: str | None = None  # the group that the newest report names in clear, where the entry has groups


def view_metrics(rows: Rows | None, registry: MetricRegistry) -> tuple[MetricView, ...]:
    """Return every metric that the registry lists or that this device has reported; without rows, as it is planned."""
    if rows is None:
        costs = ((name, metric, metric_cost(metric, budget=registry.budget)) for name, metric in registry.items())
        return tuple(MetricView(*cost) for cost in costs)
    names = dict.fromkeys(registry)
    names |= dict.fromkeys(row.metric for row in rows.outbox.rows())
    names |= dict.fromkeys(response.metric for response in rows.responses())
    ledger = ledger_of(rows, registry)
    return tuple(_shown(rows, name, registry.get(name), ledger, registry.budget) for name in names)


def _shown(rows: Rows, name: str, metric: Metric | None, ledger: Ledger, budget: PersonBudget | None) -> MetricView:
    queue = rows.outbox.rows(name)
    claims = rows.claims(name)
    period = Period(claims.length) if claims.length is not None else None if metric is None else metric.period
    newest, linked, hypothetical = (None, None, False) if metric is None else infer_all(queue, metric)
    group = None
    if metric is not None and metric.groups is not None:
        mine = next((row for row in reversed(queue) if matches(row, metric)), None)
        named = None if mine is None else report_in(mine.body)[0].group
        group = named if named in metric.groups.names else None
    return MetricView(
        id=name,
        metric=metric,
        cost=None if metric is None else metric_cost(metric, so_far=ledger, budget=budget),
        recorded=tuple(_label(period, number) for number in sorted(claims.reported)),
        responses=tuple(_response(each, metric) for each in rows.responses(name) if each.tag != ALL_VALUES),
        reports=tuple(_report(row, metric, period) for row in queue),
        newest=newest,
        linked=linked,
        hypothetical=hypothetical,
        group=group,
    )


def _label(period: Period | None, number: int) -> str:
    return f"period {number}" if period is None else period.label(number)


def _response(response: Response, metric: Metric | None) -> Row:
    bits, words = "", "by earlier parameters"
    if metric is not None and response.account == metric.account:
        words = "erased: the metric is over"
        if response.permanent is not None:
            bits = bit_string(metric.mechanism, response.permanent)
            words = metric.mechanism.payload_words(response.permanent, metric.labels)
    about = {"number": response.number + 1, "bits": bits, "words": words}  # counted from 1, bit 0 first
    return about | {"reports": response.reports, "kept": response.kept}


def _report(row: OutboxRow, metric: Metric | None, period: Period | None) -> Row:
    mine = metric if metric is not None and matches(row, metric) else None
    try:
        parts, report = annotate(row.body, mine), report_in(row.body)[1]
    except WireError as error:
        parts, report = (Part("bytes", row.body, f"not read here: {error}"),), None
    detail = BY_RELAY if row.answer == RELAYED else STATE_TEXTS[row.state]
    if row.state in {RowState.DROPPED, RowState.WAITING} and row.answer:
        detail += f" ({row.answer})"
    if row.state is not RowState.SENT and row.attempts:
        detail += f"; tried {row.attempts}x, so it may have arrived"
    return {
        "period": _label(period, row.period),
        "state": str(row.state),
        "detail": detail,
        "may_have_arrived": row.state is RowState.SENT or row.attempts > 0,  # at the collector or its relay
        "permanent_response": None if row.response is None else row.response + 1,
        "bytes": row.body.hex(),
        "bits": bit_string(mine.mechanism, report.bits) if mine and report else "",
        "parts": [{"what": part.name, "bytes": part.raw.hex(), "meaning": part.meaning} for part in parts],
    }


def infer_all(
    queue: Sequence[OutboxRow], metric: Metric
) -> tuple[Inference | str | None, Inference | str | None, bool]:
    """Return what the newest report tells, what all of its permanent response tell, and whether none is ever sent."""
    usable = [row for row in queue if matches(row, metric)]
    sent = [row for row in usable if row.state in {RowState.WAITING, RowState.SENT} or row.attempts]
    seen = sent or usable
    if not seen:
        return None, None, False
    newest = seen[-1]
    fresh = metric.fresh  # then reports of different values cannot be told apart
    alike = [row for row in seen if fresh or (row.response is not None and row.response == newest.response)]
    alone = infer(metric, [report_in(newest.body)[1]])
    linked = infer(metric, [report_in(row.body)[1] for row in alike]) if len(alike) > 1 else None
    return alone, linked, not sent


PERIODS_SHOWN: Final = 30
MEMOIZED: Final = (
    "Every report is drawn from one of these noisy answers, and a value that returns uses the same one again. No value "
    "is stored."
)
EARLIER: Final = (
    "Reports by earlier parameters were drawn from these noisy answers; those of now have fresh noise. No value is "
    "stored."
)
SEALED: Final = (
    "These bytes leave the device sealed, in a message that is another one each time, with zeros up to a multiple of "
    "512 bytes. Only who has the collector's private key can open it."
)


@dataclass(frozen=True)
class View:
    """Everything that is shown of a device."""

    app: str | None  # the application; None where it is not known
    status: Status  # what may be recorded and sent, and what waits
    metrics: tuple[MetricView, ...]  # what was recorded
    route: ObliviousRoute | None = None  # the registry's relay


def build(view: View, *, reports: int = 5) -> Iterator[Block]:
    """Return the blocks of a device's view, with the bytes of at most `reports` reports per metric."""
    yield Heading(1, f"What {view.app or 'this program'} sends from this device")
    first = list(view.status.first_words("below"))
    yield Lines(*first)
    rest = (line for line in view.status.words() if line not in first)
    yield Folded("The whole state of this device", (Lines(*rest),))
    for shown in view.metrics:
        yield from _metric(shown, reports, view.route)
    if view.status.together:
        yield Heading(2, "Privacy spent, all together")
    for total in view.status.together:
        yield Heading(3, f"Together: {total.about}")
        yield total.block()
    if not view.metrics and view.status.problem is None:
        yield Paragraph("No metric is known here, and none was recorded.")


def _metric(shown: MetricView, reports: int, route: ObliviousRoute | None) -> Iterator[Block]:
    metric = shown.metric
    yield Heading(2, shown.id if metric is None else f"{metric.title} ({metric.id})")
    if metric is None:
        yield Paragraph("The registry at hand does not list this metric: its bytes are shown, and not what they mean.")
    else:
        yield Paragraph(metric.description)
        yield Folded("What is asked, by whom, and how", (KeyValues(tuple(metric_facts(metric, route, shown.group))),))
    yield Heading(3, f"Recorded: {shown.id}")
    newest, number = shown.recorded[-PERIODS_SHOWN:], len(shown.recorded)
    start = "In " if len(newest) == number else f"In {number} periods, the last {len(newest)} of them: "
    recorded = f"{start}{'; '.join(map(_when, newest))}. True values are not kept."
    yield Paragraph(recorded if newest else "Nothing was recorded.")
    yield from _responses(shown)
    yield from _reports(shown, reports)
    yield from _inferred(shown)
    cost = shown.cost
    if cost is not None:
        yield Heading(3, f"Privacy, planned: {cost.metric}" if cost.planned else f"Privacy spent: {cost.metric}")
        answers = (("noisy answers", str(cost.distinct)),) if cost.distinct else ()
        yield Folded("What reports tell", (KeyValues((("reports queued", str(cost.made)), *answers)), cost.block()))


def _when(label: str) -> str:
    return label if label.startswith("period ") else date_words(label)


def _responses(shown: MetricView) -> Iterator[Block]:
    if not shown.responses:
        return
    yield Heading(3, f"Permanent responses: {shown.id}")
    earlier = shown.metric is not None and shown.metric.fresh
    yield Paragraph(EARLIER if earlier else MEMOIZED)
    rows = [tuple(map(str, response.values())) for response in shown.responses]
    columns = ("response", "bits", "in words", "reports", "kept on this device")
    yield Table.of_cells("The permanent responses of this device", columns, rows, left=columns, code=("bits",))


def _reports(shown: MetricView, most: int) -> Iterator[Block]:
    if not shown.reports:
        return
    yield Heading(3, f"Exactly what was or will be sent: {shown.id}")
    if shown.metric is not None and shown.metric.is_oblivious:
        yield Paragraph(SEALED)
    if len(shown.reports) > most:
        yield Paragraph(f"The newest {most} of {len(shown.reports)} reports that are kept to be shown.")
    newest = shown.reports[max(len(shown.reports) - most, 0) :]
    for number, report in enumerate(reversed(newest)):
        number_of = report["permanent_response"]
        origin = "" if number_of is None else f", from permanent response {number_of}"
        caption = (
            f"The report for {_when(report['period'])} {report['detail']}: {len(report['bytes']) // 2} bytes{origin}"
        )
        rows = [(part["bytes"], part["what"], part["meaning"]) for part in report["parts"]]
        if report["bits"]:
            rows.append((report["bits"], "report", "the same bits, bit 0 first"))
        columns = ("bytes", "what", "meaning")
        fold: Literal["open", "closed"] = "closed" if number else "open"
        yield Table.of_cells(caption, columns, rows, left=columns, code=("bytes",), fold=fold)


def _inferred(shown: MetricView) -> Iterator[Block]:
    if shown.newest is None:
        return
    yield Heading(3, f"What the collector could infer: {shown.id}")
    if shown.hypothetical:
        yield Paragraph("Nothing of this was sent: this is what would be known if it were.")
    yield from _inference("From the newest report alone", shown.newest)
    if shown.linked is not None:
        carried = "" if shown.metric is None else f"{metric_linkability(shown.metric, shown.group).carried()} "
        yield Paragraph(
            f"{carried}If somebody linked them, and the value had not changed, they would tell more together:"
        )
        of_one = "" if shown.metric is None or shown.metric.fresh else " of that noisy answer"
        yield from _inference(f"From all kept reports{of_one}, linked", shown.linked)


def _inference(caption: str, inference: Inference | str) -> Iterator[Block]:
    if isinstance(inference, str):
        yield Paragraph(f"{caption}: {inference}.")
        return
    rows = [(one["label"], share(inference.prior), share(one["probability"])) for one in inference.likeliest]
    together = f" ({inference.reports} reports)" if inference.reports > 1 else ""
    left = inference.candidates - len(inference.likeliest)
    if left:
        together += f": the {len(rows)} likeliest of {inference.candidates} values"
        rest = 1 - math.fsum(one["probability"] for one in inference.likeliest)
        rows.append((f"the other {left}", share(left * inference.prior), share(max(rest, 0.0))))
    columns = ("value", "before", "after")
    yield Table.of_cells(caption + together, columns, rows, left=columns)
    moved = inference.likeliest[0]["probability"] / inference.prior
    yield Paragraph(
        f"Before: any of {inference.candidates} values, all alike. After: the likeliest is {moved:.2f} times "
        f"as likely as before. What is promised of any two values: {inference.promise}."
    )


def view_json(view: View) -> dict[str, Any]:
    """Return a view as JSON values; bytes are in hexadecimal, an epsilon without bound is null."""
    return {
        "app": view.app,
        "status": view.status.to_json(),
        "metrics": [_metric_json(shown) for shown in view.metrics],
    }


def _metric_json(shown: MetricView) -> dict[str, Any]:
    return {
        "id": shown.id,
        "title": None if shown.metric is None else shown.metric.title,
        "recorded": list(shown.recorded),
        "permanent_responses": list(shown.responses),
        "reports": list(shown.reports),
        "inference": {
            "newest": _inference_json(shown.newest),
            "linked": _inference_json(shown.linked),
            "hypothetical": shown.hypothetical,
        },
        "budget": None if shown.cost is None else shown.cost.to_json(),
    }


def _inference_json(inference: Inference | str | None) -> dict[str, Any] | str | None:
    if not isinstance(inference, Inference):
        return inference
    about = asdict(inference) | {"epsilon": finite(inference.epsilon)}
    return {name: value for name, value in about.items() if name != "promise"}
