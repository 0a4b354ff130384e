"""Converts the view to JSON values, with everything that the terminal and the page show."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from overstory.client.person.document import View
from overstory.client.person.explanation import Explanation, Inference
from overstory.client.person.status import spent_json
from overstory.client.person.view import MetricView, ReportView
from overstory.privacy.claims import finite


def view_json(view: View) -> dict[str, Any]:
    """Return a view as JSON values; bytes are in hexadecimal, an epsilon without bound is null."""
    return {
        "app": view.app,
        "status": view.status.to_json(),
        "metrics": [_metric(shown) for shown in view.metrics],
        "explained": [_explanation(explanation) for explanation in view.explained],
    }


def _explanation(explanation: Explanation) -> dict[str, Any]:
    fields = asdict(explanation) | {"inference": _inference(explanation.inference)}
    return {"stranger" if name == "is_example_device" else name: value for name, value in fields.items()}


def _metric(shown: MetricView) -> dict[str, Any]:
    return {
        "id": shown.id,
        "title": None if shown.metric is None else shown.metric.title,
        "recorded": list(shown.recorded),
        "permanent_responses": [asdict(response) for response in shown.responses],
        "reports": [_report(report) for report in shown.reports],
        "inference": {
            "newest": _inference(shown.inferences.newest),
            "linked": _inference(shown.inferences.linked),
            "hypothetical": shown.inferences.hypothetical,
        },
        "budget": None if shown.spent is None else spent_json(shown.spent),
    }


def _report(report: ReportView) -> dict[str, Any]:
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


def _inference(inference: Inference | str | None) -> dict[str, Any] | str | None:
    if not isinstance(inference, Inference):
        return inference
    return {
        "reports": inference.reports,
        "candidates": inference.candidates,
        "prior": inference.prior,
        "likeliest": [asdict(belief) for belief in inference.beliefs],
        "epsilon": finite(inference.epsilon),
    }
