"""Builds the view of a device as a document, for the terminal and for a page, and the same as JSON values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.client.budget import Spent
from overstory.client.person.explanation import Explanation, Inference
from overstory.client.person.status import Status, spent_json
from overstory.client.person.view import MetricView, ReportView
from overstory.presentation.document import Block, Heading, KeyValues, Lines, Paragraph, Table
from overstory.privacy.attacks import linkability
from overstory.privacy.claims import finite
from overstory.privacy.registry.page import PUBLISHED, group_words, how_many_values, how_often, relay_words
from overstory.privacy.registry.totals import TotalCost
from overstory.privacy.text import plural, share
from overstory.protocol.metrics import Metric

if TYPE_CHECKING:
    from overstory.protocol.metrics.oblivious import ObliviousRoute

PERIODS_SHOWN: Final = 30
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
    explained: tuple[Explanation, ...] = ()  # the values of --explain
    route: ObliviousRoute | None = None  # the registry's relay


def build(view: View, *, reports: int) -> Iterator[Block]:
    """Return the blocks of a device's view, with the bytes of at most `reports` reports per metric."""
    yield Heading(1, f"What {view.app or 'this program'} sends from this device")
    yield Lines(*view.status.words())
    for explained in view.explained:
        yield from _explained(explained)
    for shown in view.metrics:
        yield from _metric(shown, reports, view.route)
    if view.status.totals:
        yield Heading(2, "Privacy spent, all together")
        yield from _together(view.status.totals)
    if not view.metrics and view.status.problem is None:
        yield Paragraph("No metric is known here, and none was recorded.")


def _explained(shown: Explanation) -> Iterator[Block]:
    yield Heading(2, f"{shown.metric} = {shown.value}, explained")
    if shown.is_example_device:
        yield Paragraph("This device has no secret yet, so this is about an example device; nothing was kept.")
    yield KeyValues(
        tuple(
            (name, text)
            for name, text in (
                ("value", shown.value),
                ("to the metric", shown.encoded),
                ("cohort", str(shown.cohort)),
                ("without noise (never sent)", _bits(shown.true, shown.true_words)),
                ("permanent response", _bits(shown.permanent, shown.permanent_words)),
                ("reported before", _reported(shown)),
                ("cap", shown.cap),
                (f"{'an example' if shown.example else 'its newest'} report", _bits(shown.report, shown.report_words)),
            )
            if text
        )
    )
    if shown.example:
        yield Paragraph("The example was drawn for this view: it is not kept and not sent.")
    yield from _inference("What this report alone tells the collector", shown.inference)


def _reported(shown: Explanation) -> str:
    if not shown.permanent:
        return "not known: which value a report was of is not kept"
    return "never" if shown.known is None else f"as permanent response {shown.known}"


def _bits(bits: str, meaning: str) -> str:
    return f"{bits} ({meaning})" if bits else meaning


def _metric(shown: MetricView, reports: int, route: ObliviousRoute | None) -> Iterator[Block]:
    metric = shown.metric
    yield Heading(2, shown.id if metric is None else f"{metric.title} ({metric.id})")
    if metric is None:
        yield Paragraph("The registry at hand does not list this metric: its bytes are shown, and not what they mean.")
    else:
        yield Paragraph(metric.description)
        yield KeyValues(
            (
                ("asked by", metric.owner),
                ("why", metric.purpose),
                ("how often", how_often(metric)),
                ("until", metric.expires.isoformat()),
                ("reports are kept", f"{plural(metric.retention_days, 'day')}; counts stay"),
                *((("sent in clear", group_words(metric.groups)),) if metric.groups else ()),
                *((("travels", relay_words(route)),) if metric.is_oblivious else ()),
                *((("published", PUBLISHED),) if metric.publish == "estimates" else ()),
                ("different values", how_many_values(metric)),
                ("method", _method(metric)),
                ("linkable", linkability(metric.mechanism).words()),
            )
        )
    yield Heading(3, f"Recorded: {shown.id}")
    yield Paragraph(_recorded(shown))
    yield from _responses(shown)
    yield from _reports(shown, reports)
    yield from _inferred(shown)
    if shown.spent is not None:
        yield from _spent(shown.spent)


def _method(metric: Metric) -> str:
    """Describe how a value becomes a report, with the mechanism's name."""
    mechanism = metric.mechanism
    if mechanism.fresh:
        steps = "fresh noise for every report"
    elif mechanism.epsilon_report < mechanism.epsilon_permanent:
        steps = "noise in two steps: once for each value, and again for each report"
    else:
        steps = "noise once for each value"
    return f"{steps} ({mechanism.name})"


def _recorded(shown: MetricView) -> str:
    if not shown.recorded:
        return "Nothing was recorded."
    newest, all_of_them = shown.recorded[-PERIODS_SHOWN:], len(shown.recorded)
    start = "In " if len(newest) == all_of_them else f"In {all_of_them} periods, the last {len(newest)} of them: "
    return f"{start}{', '.join(newest)}. True values are not kept."


def _responses(shown: MetricView) -> Iterator[Block]:
    if not shown.responses:
        return
    yield Heading(3, f"Permanent responses: {shown.id}")
    yield Paragraph(
        "Each of your values gets one noisy answer that is used again every time, and every report of it is drawn from "
        "that. Which value it belongs to is not stored."
    )
    rows = ((str(r.number), r.bits, r.words, str(r.reports), str(r.kept)) for r in shown.responses)
    columns = ("response", "bits", "in words", "reports", "kept on this device")
    yield _table("The permanent responses of this device", columns, tuple(rows), code=("bits",))


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
        yield _report(report, "closed" if number else "open")


def _report(report: ReportView, fold: Literal["open", "closed"]) -> Table:
    origin = "" if report.response is None else f", from permanent response {report.response}"
    caption = f"The report for {report.period} {report.detail}: {len(report.body)} bytes{origin}"
    rows = tuple((part.raw.hex(), part.name, part.meaning) for part in report.parts)
    if report.bits:
        rows += ((report.bits, "report", "the same bits, bit 0 first"),)
    return _table(caption, ("bytes", "what", "meaning"), rows, code=("bytes",), fold=fold)


def _table(
    caption: str,
    headings: tuple[str, ...],
    rows: tuple[tuple[str, ...], ...],
    *,
    code: tuple[str, ...] = (),
    fold: Literal["", "open", "closed"] = "",
) -> Table:
    return Table.of_cells(caption, headings, rows, left=headings, code=code, fold=fold)


def _inferred(shown: MetricView) -> Iterator[Block]:
    inferences = shown.inferences
    if inferences.newest is None:
        return
    yield Heading(3, f"What the collector could infer: {shown.id}")
    if inferences.hypothetical:
        yield Paragraph("Nothing of this was sent: this is what would be known if it were.")
    yield from _inference("From the newest report alone", inferences.newest)
    if inferences.linked is not None:
        carried = "" if shown.metric is None else f"{linkability(shown.metric.mechanism).carried()} "
        yield Paragraph(
            f"{carried}If somebody linked them, and the value had not changed, they would tell more together:"
        )
        yield from _inference("From all kept reports of that value, linked", inferences.linked)


def _inference(caption: str, inference: Inference | str) -> Iterator[Block]:
    if isinstance(inference, str):
        yield Paragraph(f"{caption}: {inference}.")
        return
    rows = tuple((b.label, share(inference.prior), share(b.probability)) for b in inference.beliefs)
    together = f" ({inference.reports} reports)" if inference.reports > 1 else ""
    left = inference.candidates - len(inference.beliefs)
    if left:
        together += f": the {len(rows)} likeliest of {inference.candidates} values"
        rest = 1 - math.fsum(belief.probability for belief in inference.beliefs)
        rows += ((f"the other {left}", share(left * inference.prior), share(max(rest, 0.0))),)
    yield _table(caption + together, ("value", "before", "after"), rows)
    yield Paragraph(
        f"Before: any of {inference.candidates} values, all alike. After: the likeliest is {inference.moved:.2f} times "
        f"as likely as before. What is promised of any two values: {inference.promise}."
    )


def _spent(spent: Spent) -> Iterator[Block]:
    yield Heading(3, f"Privacy spent: {spent.metric}" if spent.reports else f"Privacy, planned: {spent.metric}")
    yield KeyValues((("reports queued", str(spent.reports)), ("distinct values", str(spent.distinct))))
    yield KeyValues(tuple(spent.cost.pairs()), "lines")


def _together(totals: Iterable[TotalCost]) -> Iterator[Block]:
    for total in totals:
        yield Heading(3, f"Together: {total.about}")
        yield KeyValues(tuple(total.pairs()), "lines")


def view_json(view: View) -> dict[str, Any]:
    """Return a view as JSON values; bytes are in hexadecimal, an epsilon without bound is null."""
    return {
        "app": view.app,
        "status": view.status.to_json(),
        "metrics": [_metric_json(shown) for shown in view.metrics],
        "explained": [_explanation(explanation) for explanation in view.explained],
    }


def _explanation(explanation: Explanation) -> dict[str, Any]:
    fields: dict[str, Any] = asdict(explanation) | {"inference": _inference_json(explanation.inference)}
    names: dict[str, str] = {"is_example_device": "stranger", "response": "known"}  # what JSON calls them
    return {names.get(name, name): value for name, value in fields.items()}


def _metric_json(shown: MetricView) -> dict[str, Any]:
    return {
        "id": shown.id,
        "title": None if shown.metric is None else shown.metric.title,
        "recorded": list(shown.recorded),
        "permanent_responses": [asdict(response) for response in shown.responses],
        "reports": [_report_json(report) for report in shown.reports],
        "inference": {
            "newest": _inference_json(shown.inferences.newest),
            "linked": _inference_json(shown.inferences.linked),
            "hypothetical": shown.inferences.hypothetical,
        },
        "budget": None if shown.spent is None else spent_json(shown.spent),
    }


def _report_json(report: ReportView) -> dict[str, Any]:
    return {
        "period": report.period,
        "state": str(report.state),
        "detail": report.detail,
        "may_have_arrived": report.arrived,
        "permanent_response": report.response,
        "bytes": report.body.hex(),
        "bits": report.bits,
        "parts": [{"what": part.name, "bytes": part.raw.hex(), "meaning": part.meaning} for part in report.parts],
    }


def _inference_json(inference: Inference | str | None) -> dict[str, Any] | str | None:
    if not isinstance(inference, Inference):
        return inference
    return {
        "reports": inference.reports,
        "candidates": inference.candidates,
        "prior": inference.prior,
        "likeliest": [asdict(belief) for belief in inference.beliefs],
        "epsilon": finite(inference.epsilon),
    }
