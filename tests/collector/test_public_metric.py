"""A metric that a collector lists in public is the metric: `decode --url` needs no registry of its own."""

from __future__ import annotations

import json

import pytest

from overstory.collector.http.pages import public_metric
from overstory.protocol.errors import FormatError
from overstory.protocol.metrics import metric_from_json, parse_registry
from support.collector_in_process import ABOUT, METRICS
from support.registry_texts import registry_of

OTHERS = parse_registry(
    registry_of(
        {
            "window": {
                "domain": '{kind = "bins", min = 0.5, max = 2, count = 100, outside = "separate"}',
                "oracle": '"wb"',
                "parameters": "{epsilon = 1.0, window = 7}",
                "max_values": "3",
                "over_cap": '"nearest"',
                "attribute": '"energy"',
            },
            "ordered": {
                "domain": '{kind = "categories", names = ["low", "high"], ordered = true}',
                "oracle": '"l-grr"',
                "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
                "window": "5",
            },
            "googles": {
                "domain": '{kind = "strings", candidates = "list.txt"}',
                "oracle": '"rappor"',
                "parameters": "{num_bits = 16, num_cohorts = 4, num_hashes = 2, f = 0.5, p = 0.5, q = 0.75, "
                'hash_family = "google-rappor-python"}',
            },
        },
        **ABOUT,
    )
)


@pytest.mark.parametrize("metric", [*METRICS.values(), *OTHERS.values()], ids=lambda metric: metric.id)
def test_what_is_public_is_all_that_a_metric_is(metric) -> None:
    listed = json.loads(json.dumps(public_metric(metric)))
    assert metric_from_json(listed) == metric


@pytest.mark.parametrize("change", [{"digest": "00" * 16}, {"period": "fortnight"}, {"domain": {}}, {"id": None}])
def test_what_is_no_metric_of_this_version_is_refused(change) -> None:
    with pytest.raises(FormatError):
        metric_from_json(METRICS["colour"].to_json() | change)
    with pytest.raises(FormatError):
        metric_from_json([])  # type: ignore[arg-type]
