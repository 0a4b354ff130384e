"""What a person sees: the very bytes, what each of them means, what they tell, and what they cost."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.client.person.status import read_status
from overstory.client.person.view import (
    MOST_CANDIDATES,
    View,
    annotate,
    build,
    infer,
    infer_all,
    matches,
    report_in,
    view_metrics,
)
from overstory.client.randomizer import Randomizer
from overstory.client.state.rows import OutboxRow, RowState
from overstory.client.state.state import State
from overstory.client.upload.http import Response
from overstory.presentation.document import Table
from overstory.presentation.render_text import as_text
from overstory.privacy.attacks import posterior
from overstory.protocol.errors import WireError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload
from support.collector_doubles import CountingCollector, refusal
from support.devices import DAY, NOON, REGISTRY, Clock, device, registry

COLOUR, ENGINE = REGISTRY["colour"], REGISTRY["engine"]
REFUSED = refusal(Reason.BITS)


def look(client, registry=REGISTRY) -> View:
    status = read_status(client.paths, registry, client.effective, now=NOON)
    with State(client.paths).snapshot() as rows:
        return View("test", status, view_metrics(rows, registry))


def recorded(folder, values, metric: str = "colour", **settings):
    clock = Clock()
    client = device(folder, clock=clock, **{"server": "https://c.example", "transport": None} | settings)
    client._server = settings.get("server")  # unless it is given, nothing is sent
    for value in values:
        assert client.record(metric, value) == "recorded"
        clock.tomorrow()
    client.flush()
    clock.now = NOON
    return client


def sender(folder, transport, days: int = 0):
    clock = Clock(NOON + days * DAY)
    return device(folder, clock=clock, choice=None, server="https://c.example", transport=transport)


def shown(view: View, metric: str):
    return next(found for found in view.metrics if found.id == metric)


def bodies_of(metric) -> set[bytes]:
    return {bytes.fromhex(report["bytes"]) for report in metric.reports}


def text_of(view: View, reports: int = 5) -> str:
    return as_text(build(view, reports=reports))


CASES = {name: {"domain_size": 5, "epsilon": 1.0} for name in ("grr", "olh", "linear-hash", "hadamard", "subset")}
CASES |= {"basic-rappor": {"domain_size": 5}, "rappor": {}}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("period", [-1, 0, 20778])
def test_the_parts_are_all_of_the_bytes(name: str, period: int) -> None:
    chosen = mechanism(name, **CASES[name])
    report = Randomizer(chosen, secret=b"s" * 32, metric="m").report("x" if name == "rappor" else 3)
    body = encode_upload(Upload(b"b" * 16, "m", period, encode_reports(chosen, [report])))
    parts = annotate(body, None)
    assert b"".join(part.raw for part in parts) == body
    assert report_in(body)[1] == report
    by_name = {part.name: part.raw for part in parts}
    assert by_name["batch id"] == b"b" * 16
    assert by_name["parameters"] == chosen.digest
    assert int.from_bytes(by_name["cohort"], "little") == report.cohort
    assert int.from_bytes(by_name["report"], "little") == report.bits
    assert all(part.meaning for part in parts)


@given(body=st.binary(max_size=200))
@settings(max_examples=200)
def test_bytes_that_are_no_report_are_one_error(body: bytes) -> None:
    row = OutboxRow(1, bytes(16), "colour", 1, body, 0.0, 0, RowState.WAITING, None, COLOUR.account)
    assert not matches(row, COLOUR)
    with pytest.raises(WireError):
        annotate(body, COLOUR)


def test_two_reports_are_not_what_a_device_sends():
    packed = encode_reports(COLOUR.mechanism, [Report(0, 1), Report(0, 2)])
    with pytest.raises(WireError, match="one report at a time"):
        report_in(encode_upload(Upload(bytes(16), "colour", 1, packed)))


def test_the_bytes_shown_are_the_bytes_sent(tmp_path):
    collector = CountingCollector()
    recorded(tmp_path, ["red", "red", "blue"], spread=0)
    client = sender(tmp_path, collector, days=5)
    waiting = bodies_of(shown(look(client), "colour"))
    assert {report["detail"] for report in shown(look(client), "colour").reports} == {"waits to be sent"}
    assert client.flush().sent.sent == 3
    view = look(client)
    after = shown(view, "colour")
    assert waiting == set(collector.bodies)
    assert bodies_of(after) == {body[:8] + bytes(16) + body[24:] for body in waiting}
    ids = [part for report in after.reports for part in report["parts"] if part["what"] == "batch id"]
    assert {part["meaning"] for part in ids} == {"erased here once the report was settled"}
    assert {report["detail"] for report in after.reports} == {"was sent"}
    told = text_of(view, reports=3).replace("\n", "").replace(" ", "")
    assert all(report["parts"][-2]["bytes"] in told for report in after.reports)


def test_what_is_told_is_the_exact_posterior(tmp_path):
    client = recorded(tmp_path, ["red", "green", "red", "red"])
    metric = shown(look(client), "colour")
    reports = [report_in(bytes.fromhex(found["bytes"]))[1] for found in metric.reports]
    linked = [reports[0], *reports[2:]]
    for inference, seen in ((metric.newest, reports[-1:]), (metric.linked, linked)):
        exact = posterior(COLOUR.mechanism, seen, dict.fromkeys(range(3), 1.0))
        assert inference.reports == len(seen)
        by_label = {COLOUR.labels[value]: found for value, found in exact.items()}
        told = {one["label"]: one["probability"] for one in inference.likeliest}
        assert told == pytest.approx(by_label, abs=1e-12)
        assert inference.likeliest[0]["probability"] == pytest.approx(max(exact.values()), abs=1e-12)
    assert not metric.hypothetical


def test_what_cannot_be_computed_is_said(tmp_path):
    assert "no list of candidates" in str(infer(ENGINE, [Report(0, 1)]))
    words = text_of(look(recorded(tmp_path, ["a"], "engine"))).replace("\n", " ")
    assert "so there is nothing to compare" in words
    crowd = tuple(map(str, range(MOST_CANDIDATES + 1)))
    assert f"{len(crowd)} candidates are more" in str(infer(replace(ENGINE, candidates=crowd), [Report(0, 1)]))


def test_what_stays_here_is_not_told_to_anybody(tmp_path):
    view = look(recorded(tmp_path, ["red", "red"], choice="local"))
    metric = shown(view, "colour")
    assert metric.hypothetical
    assert {report["detail"] for report in metric.reports} == {"stays here: it is never sent"}
    assert metric.cost.made == 0
    assert "if it were" in text_of(view)


def test_a_report_that_may_have_arrived_says_so(tmp_path):
    gone = {"server": "https://c.example", "transport": lambda _: Response(None, error="gone")}
    client = recorded(tmp_path, ["red"], spread=0, **gone)
    client.consent("off")
    (report,) = shown(look(client), "colour").reports
    assert report["detail"].startswith("was dropped (consent withdrawn); tried 1x, so it may have arrived")
    assert report["may_have_arrived"]


def test_a_report_that_nobody_was_asked_about_did_not_arrive(tmp_path):
    recorded(tmp_path, ["red"], spread=0)
    client = sender(tmp_path, None, days=400)
    assert client.flush().sent.dropped == {"period-closed": 1}
    (report,) = shown(look(client), "colour").reports
    assert (report["detail"], report["may_have_arrived"]) == ("was dropped (period-closed)", False)


def test_a_metric_that_the_registry_lost_still_shows_its_bytes(tmp_path):
    client = recorded(tmp_path, ["red"])
    view = look(client, MetricRegistry({}, ""))
    (metric,) = view.metrics
    assert (metric.id, metric.metric, metric.cost) == ("colour", None, None)
    (report,) = metric.reports
    assert "".join(part["bytes"] for part in report["parts"]) == report["bytes"]
    assert "does not list this metric" in text_of(view)


def test_other_parameters_are_not_read_with_these(tmp_path):
    client = recorded(tmp_path, ["red"])
    other = replace(COLOUR, mechanism=mechanism("grr", domain_size=3, epsilon=0.5))
    metric = shown(look(client, MetricRegistry({"colour": other}, "2")), "colour")
    assert [response["words"] for response in metric.responses] == ["by earlier parameters"]
    assert metric.reports[0]["bits"] == ""
    assert metric.newest is None


def test_the_newest_reports_are_taken_apart_and_the_others_are_counted(tmp_path):
    view = look(recorded(tmp_path, ["red"] * 40))
    grids = [b for b in build(view, reports=2) if isinstance(b, Table) and b.caption.startswith("The report for")]
    newest = ["30 December 2026", "29 December 2026"]
    assert [grid.caption[15:31] for grid in grids] == newest
    assert "The newest 2 of 40 reports" in text_of(view, reports=2)
    assert "In 40 periods, the last 30 of them: 1 December 2026; 2 December 2026" in text_of(view, reports=0)
    assert not [b for b in build(view, reports=0) if isinstance(b, Table) and b.caption.startswith("The report for")]


def test_fresh_reports_are_taken_together_as_of_one_value():
    window = replace(COLOUR, mechanism=mechanism("wb", domain_size=3, epsilon=1.0, window=5))
    reports = [Report(0, 0b001), Report(0, 0b011), Report(0, 0b101)]
    rows = [
        OutboxRow(i, bytes(16), "colour", i, body_of(window, report), 0.0, 0, RowState.SENT, None, window.account)
        for i, report in enumerate(reports)
    ]
    _, linked, _ = infer_all(rows, window)
    assert linked.reports == 3
    assert linked.likeliest[0]["label"] == "red"


def body_of(metric, report: Report) -> bytes:
    packed = encode_reports(metric.mechanism, [report])
    return encode_upload(Upload(bytes(16), metric.id, 1, packed))


def test_status_says_what_was_dropped_sent_and_when(tmp_path):
    recorded(tmp_path, ["red", "red"], spread=0)
    assert sender(tmp_path, CountingCollector()).flush().sent.sent == 1
    client = sender(tmp_path, lambda request: REFUSED, days=1)
    assert client.flush().sent.dropped == {"bits": 1}
    status = read_status(client.paths, REGISTRY, client.effective, now=NOON + DAY)
    assert status.counts["sent"] == 1
    assert status.dropped == {"bits": 1}
    assert status.last_success == {"colour": "2026-11-21"}
    said = "\n".join(status.words())
    assert "on: the person's choice of 2026-11-21" in said
    assert "last sent in: 21 November 2026 (colour)" in said
    assert "dropped: 1 (bits)" in said


def test_status_names_trouble_with_the_clock(tmp_path):
    client = recorded(tmp_path, ["red", "red", "red"])
    fine = read_status(client.paths, REGISTRY, client.effective, now=NOON + 2 * DAY)
    back = read_status(client.paths, REGISTRY, client.effective, now=NOON + DAY)
    early = read_status(client.paths, REGISTRY, client.effective, now=NOON - 400 * DAY)
    assert fine.clock is None
    assert "23 November 2026" in back.clock
    assert "before the choice of 2026-11-21" in early.clock
    assert f"problem: {back.clock}" in list(back.words())


def test_a_running_client_says_the_same(tmp_path):
    client = recorded(tmp_path, ["red"])
    assert client.status() == read_status(client.paths, REGISTRY, client.effective, now=NOON)
    client._clock.tomorrow(-2)
    assert "was set back" in client.status().clock


def test_what_is_inferred_names_how_many_values_are_shown_and_adds_up_the_rest(tmp_path):
    names = ", ".join(f'"format{i}"' for i in range(8))
    rest = f'domain = {{kind = "categories", names = [{names}]}}\noracle = "l-grr"\nperiod = "day"\n'
    eight = registry(format=f"{rest}parameters = {{epsilon_permanent = 2.0, epsilon_report = 1.0}}\n")
    client = recorded(tmp_path, ["format1"], metric="format", registry=eight)
    tables = [one for one in build(look(client, eight), reports=1) if isinstance(one, Table)]
    (grid,) = [one for one in tables if one.caption.startswith("From the newest")]
    assert grid.caption == "From the newest report alone: the 5 likeliest of 8 values"
    assert [row[0] for row in grid.cells()][-1] == "the other 3"
    assert [row[1] for row in grid.cells()] == ["12.5%"] * 5 + ["37.5%"]
    assert sum(float(row[2].rstrip("%")) for row in grid.cells()) == pytest.approx(100, abs=0.5)
    text = " ".join(text_of(look(client, eight)).split())
    noise = "): noise in two steps, once for each value and again for each report, on the device, which never sends"
    assert noise in text
    assert "(by chance, not necessarily yours)" in text
    assert "you agreed on 2026-11-21 to: format" in text
    assert "waiting: 1, " in text
    assert "kept on this device: 0" in text


def test_one_value_more_than_fits_is_shown_too():
    names = ", ".join(f'"{i}"' for i in range(6))
    rest = f'domain = {{kind = "categories", names = [{names}]}}\noracle = "grr"\nperiod = "day"\n'
    metric = registry(six=f"{rest}parameters = {{epsilon = 1.0}}\n")["six"]
    found = infer(metric, [Report(0, 1)])
    assert len(found.likeliest) == 6
    assert math.fsum(one["probability"] for one in found.likeliest) == pytest.approx(1)
