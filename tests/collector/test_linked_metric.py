"""A metric of linked reports end to end: clients, a collector as a process, a store, `decode`, the person's side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.analysis.support.registry import SimulatedDevices
from overstory.client import Client, Outcome
from overstory.client.person.explanation import explain
from overstory.client.state.state import State
from overstory.collector.ingest.ingest import Ingest
from overstory.collector.ingest.validation import ReportFormat
from overstory.collector.store import Received, open_store
from overstory.privacy.registry.page import metric_page
from overstory.protocol.metrics import load_registry, metric_from_json, parse_registry
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_upload
from overstory.queries.counts import read_store
from overstory.queries.readings import read
from overstory.queries.sources.remote import read_remote
from support.collector_in_process import ABOUT, NOW, TODAY, batch_id
from support.collector_processes import CollectorProcess
from support.registry_texts import registry_of

CRASHES = (
    '{kind = "table", names = ["version", "crash"], of = ['
    '{kind = "categories", names = ["1.0", "2.0", "3.0"]}, {kind = "categories", names = ["no", "yes"]}]}'
)
SURE = '{of = [{oracle = "grr", epsilon = 9.0}, {oracle = "sue", epsilon = 18.0}]}'
USUAL = '{of = [{oracle = "grr", epsilon = 2.0}, {oracle = "basic-rappor", f = 0.25, p = 0.25, q = 0.75}]}'
HELD = [("1.0", "no")] * 6 + [("2.0", "yes")] * 4 + [("3.0", "no")] * 2


def registry_text(parameters: str = USUAL, **keys: str) -> str:
    metric = {"domain": CRASHES, "oracle": '"joint"', "parameters": parameters, **keys}
    return registry_of({"crashes": metric}, **{**ABOUT, "expires": "2099-01-01"})


@pytest.fixture(scope="module")
def served(tmp_path_factory: Any) -> Any:
    """A store with twelve clients' reports, sent over HTTP; the folder, the counts by HTTP, and a client's state."""
    folder: Path = tmp_path_factory.mktemp("linked")
    registry = folder / "metrics.toml"
    registry.write_text(registry_text(SURE))
    store = str(folder / "store.db")
    with open_store(store, load_registry(registry), create=True) as made:
        token = made.add_token("admin", "test")
    with CollectorProcess(registry, store) as process:
        paths = [send(folder / str(number), registry, process.url, value) for number, value in enumerate(HELD)]
        counted = read_remote(process.url, token, load_registry(registry)["crashes"])
    return folder, counted, paths[0]


def send(state: Path, registry: Path, url: str, value: tuple[str, str]) -> Any:
    settings: Any = {"state": state, "server": url, "spread": 0.0, "environ": {}}
    with Client("crashes", registry=registry, policy=state / "none.json", **settings) as client:
        client.consent("on")
        assert client.record("crashes", value) is Outcome.RECORDED
        client.flush(10)
        return client.paths


def test_pairs_arrive_and_are_counted_together(served: Any) -> None:
    """With hardly any noise (once in 2,500 reports a symbol moves) the cells are those of the devices."""
    folder, counted, _ = served
    assert counted.num_reports == len(HELD)
    (part,) = read(counted).to_json()["readings"]
    cells = {(cell["row"], cell["column"]): cell["share"] for cell in part["tables"][0]["cells"]}
    for pair in set(HELD):
        assert cells[pair] == pytest.approx(HELD.count(pair) / len(HELD), abs=0.1)
    with open_store(str(folder / "store.db")) as store:
        local = read_store(store, load_registry(folder / "metrics.toml")["crashes"])
    assert local.to_json() == counted.to_json()


def test_the_person_sees_both_parts(served: Any) -> None:
    folder, _, paths = served
    metric = load_registry(folder / "metrics.toml")["crashes"]
    told = explain(State(paths), metric, ("1.0", "no"))
    assert told.known == 1
    assert "first part: symbol" in told.report_words
    assert "second part: " in told.report_words
    assert told.inference.beliefs[0].label == "version=1.0, crash=no"
    assert told.inference.beliefs[0].probability > 0.9


def test_decoding_finds_the_shares_of_a_population(tmp_path: Path) -> None:
    """40,000 devices in two periods at the usual noise: every cell within five standard errors."""
    registry = parse_registry(registry_text())
    metric = registry["crashes"]
    shares = np.array([[0.30, 0.05], [0.25, 0.15], [0.2, 0.05]])
    held = np.random.default_rng(1).choice(6, 40_000, p=shares.ravel())
    devices = SimulatedDevices.holding(metric.mechanism, range(6), held, np.random.default_rng(2))
    with open_store(str(tmp_path / "store.db"), registry, create=True) as store:
        for number, start in enumerate((0, 20_000)):
            sent, period = devices.report(start=start, stop=start + 20_000), TODAY - number
            about = metric.id, period, bytes([number]) * 16, metric.mechanism.digest
            columns = sent.num_bits, sent.num_cohorts, len(sent), sent.cohorts.tobytes(), sent.octets().tobytes()
            store.add([Received(*about, *columns, metric.accept_until(period), metric.period.start(period + 1))])
        counted = read_store(store, metric)
    series: Any = read(counted)
    table = series.parts[0].tables[0].table
    assert series.parts[0].reports_per_device == 2  # every device may have reported in both periods
    assert (np.abs(table.shares - shares) < 5 * table.standard_errors).all()
    assert table.standard_errors.max() < 0.02


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
