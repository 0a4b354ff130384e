"""A metric of linked reports: the registry's text, the public page, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.collector.ingest.ingest import Ingest
from overstory.collector.ingest.validation import ReportFormat
from overstory.privacy.registry.page import metric_page
from overstory.protocol.metrics import metric_from_json, parse_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from support.collector_in_process import ABOUT, NOW, TODAY, batch_id
from support.registry_texts import registry_of

CRASHES = (
    '{kind = "table", names = ["version", "crash"], of = ['
    '{kind = "categories", names = ["1.0", "2.0", "3.0"]}, {kind = "categories", names = ["no", "yes"]}]}'
)
USUAL = '{of = [{oracle = "grr", epsilon = 2.0}, {oracle = "basic-rappor", f = 0.25, p = 0.25, q = 0.75}]}'


def registry_text(parameters: str = USUAL, **keys: str) -> str:
    metric = {"domain": CRASHES, "oracle": '"joint"', "parameters": parameters, **keys}
    return registry_of({"crashes": metric}, **{**ABOUT, "expires": "2099-01-01"})


def test_the_registry_reads_itself_again_and_refuses_what_is_wrong() -> None:
    metric = parse_registry(registry_text())["crashes"]
    assert metric_from_json(json.loads(json.dumps(metric.to_json()))) == metric
    page = metric_page(metric)
    assert "grr: domain_size = 3, epsilon = 2.0; basic-rappor" in dict(page.facts)["How"]
    text = json.dumps(page.to_json())
    assert "alone they cost 2.0000 (grr) and 1.5770 (basic-rappor)" in text
    for wrong, problem in (
        ('{of = [{oracle = "grr", epsilon = 2.0}]}', "2 variables"),
        ('{of = [{oracle = "grr", epsilon = [1.0]}, {oracle = "oue", epsilon = 1.0}]}', "give a finite number"),
        ('{of = [{oracle = "olh", epsilon = 2.0}, {oracle = "oue", epsilon = 1.0}]}', "cannot link olh"),
        ('{of = [{oracle = "grr", epsilon = 2.0, domain_size = 4}, {oracle = "oue", epsilon = 1.0}]}', "there are 3"),
    ):
        with pytest.raises(Exception, match=problem):
            parse_registry(registry_text(wrong))


def test_a_collector_refuses_what_no_device_sends() -> None:
    """Every payload in turn: those below the limit are taken, the others are refused with a reason."""
    registry = parse_registry(registry_text())
    metric = registry["crashes"]
    form = ReportFormat.of(metric.mechanism)
    taken = [form.refuse(b"\0\0", bytes([payload])) is None for payload in range(1 << metric.mechanism.payload_bits)]
    assert taken == [metric.mechanism.valid(payload) for payload in range(len(taken))]
    assert False in taken
    sent = SimulatedDevices.holding(metric.mechanism, range(6), np.arange(6), np.random.default_rng(1)).report()
    body = encode_upload(Upload(batch_id(), "crashes", TODAY, sent.to_wire(metric.mechanism.digest)))
    (result,) = Ingest(registry).decide(body, MEDIA_TYPE, NOW).results
    assert result.accepted == 6
