"""What a person sees: the very bytes, what each of them means, what they tell, and what they cost."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.client import StateError
from overstory.client.person.explanation import (
    MOST_CANDIDATES,
    Inference,
    annotate,
    bit_string,
    explain,
    infer,
    matches,
    read_value,
    report_in,
)
from overstory.client.person.status import read_status
from overstory.client.person.view import View, build, infer_all, view_metrics
from overstory.client.randomizer import Randomizer, randomizer_of
from overstory.client.state.files import StatePaths
from overstory.client.state.rows import OutboxRow, RowState
from overstory.client.state.state import State
from overstory.client.upload.http import Response
from overstory.presentation.document import Table
from overstory.presentation.render_text import as_text
from overstory.privacy.attacks import posterior
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload
from support.collector_doubles import CountingCollector, refusal
from support.devices import DAY, NOON, REGISTRY, Clock, device, registry

COLOUR, ENGINE = REGISTRY["colour"], REGISTRY["engine"]
REFUSED = refusal(Reason.BITS)


def state_in(folder) -> State:
    return State(StatePaths(folder / "state"))


def look(client, registry=REGISTRY, explained=()) -> View:
    status = read_status(client.paths, registry, client.effective, now=NOON)
    with State(client.paths).snapshot() as rows:
        return View("test", status, view_metrics(rows, registry), tuple(explained))


def recorded(folder, values, metric: str = "colour", **settings):
    clock = Clock()
    client = device(folder, clock=clock, **settings)
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


def test_a_value_is_followed_to_its_own_report(tmp_path):
    recorded(tmp_path, ["a", "b", "a"], "engine")
    found = explain(state_in(tmp_path), ENGINE, "a")
    secret = state_in(tmp_path).begin().key("engine")
    own = randomizer_of(ENGINE, secret)
    assert (found.known, found.example, found.is_example_device, found.cohort) == (1, False, False, own.cohort)
    assert found.true == bit_string(ENGINE.mechanism, ENGINE.mechanism.encode("a", own.cohort))
    assert found.permanent == bit_string(ENGINE.mechanism, own.permanent("a"))
    with state_in(tmp_path).snapshot() as rows:
        newest = report_in(rows.outbox.rows("engine")[-1].body)[1]
    assert found.report == bit_string(ENGINE.mechanism, newest.bits)
    changed = (own.permanent("a") ^ newest.bits).bit_count()
    assert f"{changed} of them" in found.report_words


def test_explaining_leaves_everything_as_it_was(tmp_path):
    client = recorded(tmp_path, ["red"])
    before = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
    found = explain(state_in(tmp_path), COLOUR, "green")
    assert found.example
    assert found.known is None
    assert {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()} == before
    assert client.status().outbox["waiting"] == 1


def test_a_value_can_be_explained_before_anybody_agreed(tmp_path):
    found = explain(state_in(tmp_path), COLOUR, "green")
    assert found.is_example_device
    assert found.example
    assert not (tmp_path / "state").exists()
    client = device(tmp_path, choice=None)
    status = read_status(client.paths, REGISTRY, client.effective, now=NOON)
    said = as_text(build(View("x", status, (), (found,)), reports=1))
    assert "an example device" in said


@pytest.mark.parametrize(("metric", "values"), [("dropping", [1, 2, 3]), ("first", [1, 2]), ("nearest", [1, 2])])
def test_a_value_past_the_cap_is_explained_as_such(tmp_path, metric: str, values) -> None:
    recorded(tmp_path, values, metric)
    assert explain(state_in(tmp_path), REGISTRY[metric], 50).cap
    assert not explain(state_in(tmp_path), REGISTRY[metric], 1).cap


@pytest.mark.parametrize("name", ["grr", "olh", "subset", "wb"])
def test_every_kind_of_mechanism_can_be_explained(tmp_path, name: str) -> None:
    chosen = mechanism(name, domain_size=3, epsilon=1.0, **({"window": 5} if name == "wb" else {}))
    found = explain(state_in(tmp_path), replace(COLOUR, mechanism=chosen), "blue")
    assert found.encoded == '"blue", symbol 2 of 0 .. 2'
    assert found.true_words
    assert isinstance(found.inference, Inference)


def test_where_all_noise_is_fresh_there_is_no_permanent_response_no_known_value_and_no_cap(tmp_path):
    """A permanent response would be the value itself."""
    fresh = 'oracle = "wb"\nparameters = {epsilon = 1.0, window = 5}\nperiod = "day"\nmax_values = 1\n'
    bound = registry(colour='domain = {kind = "categories", names = ["red", "green"]}\n' + fresh)
    client = recorded(tmp_path, ["red"], registry=bound)
    found = explain(state_in(tmp_path), bound["colour"], "green")
    assert (found.true, found.permanent, found.known, found.cap) == ("01", "", None, "")
    assert "fresh" in found.permanent_words
    assert "from the truth" in found.report_words
    told = text_of(look(client, bound, [found]))
    assert "not known: which value a report was of is not kept" in told
    assert "reported before             never" not in told


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


def test_a_lost_secret_is_not_replaced_to_explain_something(tmp_path):
    recorded(tmp_path, ["red"])
    (tmp_path / "state" / "secret").unlink()
    with pytest.raises(StateError):
        explain(state_in(tmp_path), COLOUR, "red")
    assert not (tmp_path / "state" / "secret").exists()


def test_values_are_read_by_their_domain():
    assert read_value(COLOUR, "red") == "red"
    assert read_value(REGISTRY["first"], "7") == 7
    with pytest.raises(ParameterError, match="is no number"):
        read_value(REGISTRY["first"], "seven")


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
