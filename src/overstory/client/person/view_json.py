"""The view as JSON values: everything that the terminal and the page show, for other programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from overstory.client.person.document import View
from overstory.client.person.explanation import Inference
from overstory.client.person.status import spent_json
from overstory.client.person.view import ShownMetric, ShownReport
from overstory.privacy.claims import finite


def view_json(view: View) -> dict[str, Any]:
    """Return a view as JSON values; bytes are in hexadecimal, an epsilon without bound is null."""
    return {
        "app": view.app,
        "status": view.status.to_json(),
        "metrics": [_metric(shown) for shown in view.metrics],
        "explained": [asdict(found) | {"inference": _inference(found.inference)} for found in view.explained],
    }


def _metric(shown: ShownMetric) -> dict[str, Any]:
    return {
        "id": shown.id,
        "title": None if shown.metric is None else shown.metric.title,
        "recorded": list(shown.recorded),
        "permanent_responses": [asdict(response) for response in shown.responses],
        "reports": [_report(report) for report in shown.reports],
        "inference": {
            "newest": _inference(shown.told.newest),
            "linked": _inference(shown.told.linked),
            "hypothetical": shown.told.hypothetical,
        },
        "budget": None if shown.spent is None else spent_json(shown.spent),
    }


def _report(report: ShownReport) -> dict[str, Any]:
    return {
        "period": report.period,
        "state": str(report.state),
        "said": report.said,
        "may_have_arrived": report.arrived,
        "permanent_response": report.response,
        "bytes": report.body.hex(),
        "bits": report.bits,
        "parts": [{"what": part.name, "bytes": part.raw.hex(), "meaning": part.meaning} for part in report.parts],
    }


def _inference(found: Inference | str | None) -> dict[str, Any] | str | None:
    if not isinstance(found, Inference):
        return found
    return {
        "reports": found.reports,
        "candidates": found.candidates,
        "prior": found.prior,
        "likeliest": [asdict(belief) for belief in found.beliefs],
        "epsilon": finite(found.epsilon),
    }
