"""What is taken and what is refused: by upload, by report, by request, and never another exception."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.collector.ingest import JSON, Ingest
from overstory.collector.settings import Limits
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric import SLACK
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE, Batch, Upload, encode_columns, encode_upload
from support.collector_in_process import DAY, METRICS, NOW, TODAY, batch_id, packed, sound, upload
from support.registry_texts import COLOURS, registry_of

INGEST = Ingest(METRICS, Limits(uploads=50, reports=5_000))


def decide(body, kind=MEDIA_TYPE, now=NOW):
    return INGEST.decide(body, kind, now)


def only(decision):
    (result,) = decision.results
    return result


def reports_of(received):
    columns = received.num_reports, received.cohorts, received.bits
    return list(Batch(received.digest, received.num_bits, received.num_cohorts, *columns))


@pytest.mark.parametrize("name", [name for name in METRICS if name != "ended"])
@pytest.mark.parametrize("count", [1, 2, 16, 17, 400])
def test_sound_reports_of_every_kind_arrive_unchanged(name, count):
    metric = METRICS[name]
    sent = sound(metric, count)
    decision = decide(upload(name, raw=packed(metric, sent)))
    assert decision.refused is None
    assert only(decision).accepted == count
    assert only(decision).rejected == ()
    (received,) = decision.received
    assert reports_of(received) == sent
    assert received.digest == metric.mechanism.digest
    assert received.forget_after == (TODAY + 1 + 30) * DAY + SLACK
    assert received.ends == (TODAY + 1) * DAY
    assert (decision.num_reports, received.metric, received.period) == (count, name, TODAY)


def bad_ones(metric):
    mechanism = metric.mechanism
    good = sound(metric, 1)[0]
    bad = []
    if mechanism.num_cohorts < 1 << (16 if mechanism.num_cohorts <= 1 << 16 else 32):
        bad.append((Report(mechanism.num_cohorts, good.bits), Reason.COHORT))
    top = (1 << 8 * ((mechanism.payload_bits + 7) // 8)) - 1
    if top >> mechanism.payload_bits:
        bad.append((Report(good.cohort, top), Reason.BITS))
    if metric.id == "colour":
        bad.append((Report(0, 3), Reason.BITS))
    if metric.id == "chosen":
        bad.append((Report(0, 0), Reason.BITS))
        bad.append((Report(0, (1 << mechanism.encoding.subset_size + 1) - 1), Reason.BITS))
    if metric.id == "point":
        bad.append((Report(0, mechanism.encoding.sizes[0]), Reason.BITS))
    return bad


@pytest.mark.parametrize("name", [name for name in METRICS if name != "ended"])
@pytest.mark.parametrize("count", [1, 15, 300])
def test_a_bad_report_is_rejected_alone_by_its_index(name, count):
    metric = METRICS[name]
    bad = bad_ones(metric)
    assert bad
    good = sound(metric, count)
    mixed = [report for report, _ in bad] + good
    decision = decide(upload(name, raw=packed(metric, mixed)))
    assert only(decision).rejected == tuple((i, reason) for i, (_, reason) in enumerate(bad))
    assert only(decision).accepted == count
    assert reports_of(decision.received[0]) == good


@pytest.mark.parametrize("name", [name for name in METRICS if name != "ended"])
@given(st.data())
def test_few_and_many_are_judged_alike(name, data):
    metric, shape = METRICS[name], INGEST._metrics[name][1]
    known = st.integers(0, min(metric.mechanism.num_cohorts, 65_535))
    cohorts = st.integers(0, (1 << 8 * shape.cohort_bytes) - 1) | known
    near = st.integers(max(0, shape.below - 2), shape.below + 2).filter(lambda bits: bits < 1 << 8 * shape.width)
    payloads = near | st.integers(0, (1 << 8 * shape.width) - 1)
    rows = data.draw(st.lists(st.builds(Report, cohorts, payloads), min_size=1, max_size=40))
    raw = packed(metric, rows)
    split = 32 + shape.cohort_bytes * len(rows)
    columns = len(rows), raw[32:split], raw[split:-4]
    assert shape._few(*columns) == shape._many(*columns)


def test_one_refused_upload_leaves_the_others():
    broken = bytearray(upload())
    broken[-6] ^= 1
    body = upload() + bytes(broken) + upload("colour", 3) + upload("ended") + upload("bloom", 2)
    decision = decide(body)
    reasons = [result.reason for result in decision.results]
    assert reasons == [None, Reason.DAMAGED, None, Reason.METRIC_EXPIRED, None]
    assert [received.num_reports for received in decision.received] == [1, 3, 2]


def other_parameters(field):
    mechanism = METRICS["bloom"].mechanism
    given_ = {"digest": mechanism.digest, "num_bits": 20, "num_cohorts": 12}
    given_[field] = bytes(16) if field == "digest" else given_[field] + 1
    return encode_columns(given_["digest"], given_["num_bits"], given_["num_cohorts"], bytes(2), bytes(3))


@pytest.mark.parametrize("field", ["digest", "num_bits", "num_cohorts"])
def test_other_parameters_and_a_batch_without_reports_are_refused(field):
    assert only(decide(upload(raw=other_parameters(field)))).reason is Reason.WRONG_PARAMETERS
    assert only(decide(upload(raw=packed(METRICS["bloom"], [])))).reason is Reason.DAMAGED


@pytest.mark.parametrize(
    ("period", "reason"),
    [
        (TODAY + 1, None),
        (TODAY + 2, Reason.PERIOD_FUTURE),
        (TODAY - 30, None),
        (TODAY - 31, Reason.PERIOD_CLOSED),
        (-(1 << 31), Reason.PERIOD_CLOSED),
        ((1 << 31) - 1, Reason.PERIOD_FUTURE),
    ],
)
def test_a_period_is_taken_from_one_before_it_begins_until_its_grace_is_over(period, reason):
    assert only(decide(upload(period=period))).reason is reason


@pytest.mark.parametrize("body", [b"", b"OVSU", b"\0" * 100, upload()[:-1], upload() + b"x"])
def test_what_is_no_upload_refuses_the_request(body):
    decision = decide(body)
    assert decision.refused is Reason.DAMAGED
    assert decision.received == []


def test_too_many_uploads_or_reports_refuse_the_request():
    assert decide(upload() * 50).refused is None
    assert decide(upload() * 51).refused is Reason.TOO_MANY
    assert decide(upload("bloom", 2_500) + upload("bloom", 2_500)).refused is None
    refused = decide(upload("bloom", 2_500) + upload("bloom", 2_501))
    assert refused.refused is Reason.TOO_MANY
    assert refused.received == []


def test_reports_that_are_refused_count_as_well():
    metric = METRICS["bloom"]

    def bad(count):
        return upload("bloom", raw=packed(metric, [Report(metric.mechanism.num_cohorts, 0)] * count))

    assert decide(bad(5_000)).results[0].reason is Reason.COHORT
    assert decide(bad(5_001)).refused is Reason.TOO_MANY
    assert decide(bad(2_500) * 2).refused is None
    assert decide(bad(2_500) * 2 + upload("bloom", 1)).refused is Reason.TOO_MANY


def as_json(name="bloom", count=2, **changed):
    mechanism = METRICS[name].mechanism
    width = (mechanism.payload_bits + 7) // 8
    entry = {
        "batch": batch_id().hex(),
        "metric": name,
        "period": "2026-11-21",
        "digest": mechanism.digest.hex(),
        "reports": [[r.cohort, r.bits.to_bytes(width, "little").hex()] for r in sound(METRICS[name], count)],
    }
    return json.dumps({"uploads": [entry | changed]}).encode()


@pytest.mark.parametrize("name", [name for name in METRICS if name != "ended"])
def test_json_is_taken_like_binary(name):
    decision = decide(as_json(name, 3), JSON)
    assert only(decision).accepted == 3
    assert reports_of(decision.received[0]) == sound(METRICS[name], 3)


@pytest.mark.parametrize(
    ("body", "reason", "where"),
    [
        (b"{", Reason.DAMAGED, ""),
        (b'{"uploads": [}', Reason.DAMAGED, "line 1 column 14"),
        (b"[" * 100_000, Reason.DAMAGED, "nested too deeply"),
        (b'{"a":' * 100_000, Reason.DAMAGED, "nested too deeply"),
        (b'{"uploads": ' + b"9" * 5_000 + b"}", Reason.DAMAGED, ""),
        (b"\xff\xfe\x00", Reason.DAMAGED, ""),
        (b'{"uploads": [], "uploads": []}', Reason.DAMAGED, "'uploads' appears twice"),
        (as_json().replace(b'"period":', b'"metric": "colour", "period":'), Reason.DAMAGED, "'metric' appears twice"),
        (as_json(reports=[[-1, "000000"]]), Reason.COHORT, "uploads[0].reports[0][0]"),
        (as_json(reports=[[0, "000000"], [0, "xx"]]), Reason.BITS, "uploads[0].reports[1][1]"),
    ],
)
def test_bad_json_refuses_the_request_and_says_where(body, reason, where):
    decision = decide(body, JSON)
    assert (decision.refused, where in decision.where) == (reason, True)


@given(st.binary(max_size=400))
@settings(max_examples=300)
def test_any_bytes_are_decided(body):
    for kind in (MEDIA_TYPE, JSON):
        assert decide(body, kind).received == []


@given(st.data())
@settings(max_examples=300)
def test_any_altered_byte_is_one_reason_or_a_sound_report(data):
    body = bytearray(upload("colour", 3, batch=bytes(16)))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    decision = decide(bytes(body))
    for received in decision.received:  # only the batch id, the period, or another metric's name can have been altered
        assert received.num_reports == 3
        assert received.bits == decide(upload("colour", 3)).received[0].bits


def test_expiry_is_judged_by_when_a_period_began_as_a_device_does():
    metric = METRICS["colour"]
    ends = metric.expires_at
    last = metric.period.number(ends - 1)
    late = only(decide(upload("colour", period=last), now=ends + 5 * DAY))
    assert (late.accepted, late.reason) == (1, None), "sent within the grace, though the metric has expired since"
    assert only(decide(upload("colour", period=last + 1), now=ends)).reason is Reason.METRIC_EXPIRED
    assert only(decide(upload("colour", period=last + 1), now=ends - 1)).reason is Reason.METRIC_EXPIRED
    assert only(decide(upload("colour", period=last), now=metric.accept_until(last))).reason is Reason.PERIOD_CLOSED


# Uploads that name a group.
GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
GROUPED = parse_registry(registry_of({"grouped": {"domain": COLOURS, "groups": GROUPS}, "plain": {"domain": COLOURS}}))


def in_group(group, metric="grouped"):
    reports = packed(GROUPED[metric], sound(GROUPED[metric], 1))
    return encode_upload(Upload(batch_id(), metric, TODAY, reports, group))


def decided(ingest, raw):
    return ingest.decide(raw, MEDIA_TYPE, NOW)


def test_a_group_that_the_metric_does_not_list_is_refused_alone_by_a_reason_of_its_own():
    sent = {("grouped", "1.2"): False, ("grouped", "1"): False, ("plain", "1.0"): False, ("plain", "other"): False}
    sent |= {("grouped", "1.0"): True, ("grouped", "other"): True, ("plain", ""): True}
    decision = decided(Ingest(GROUPED), b"".join(in_group(group, metric) for metric, group in sent))
    refused = Reason.UNKNOWN_GROUP
    assert [result.reason for result in decision.results] == [None if taken else refused for taken in sent.values()]
    assert [received.group for received in decision.received] == ["1.0", "other", ""]
    assert (refused.status, refused.final) == (409, False), "a device waits for the operator"


@pytest.mark.parametrize("spoiled", [b"1\0", b"1\n", b"\x1b1", b" 1", b"=1", b"\xc3\xa9", b"1" * 33])
def test_a_group_that_cannot_travel_is_damaged(spoiled):
    raw = in_group("1.0", "grouped")
    changed = raw[:7] + bytes((len(spoiled),)) + raw[8:39] + spoiled + raw[42:]
    decision = decided(Ingest(GROUPED), changed)
    assert (decision.refused, decision.received) == (Reason.DAMAGED, [])
    assert "is no group" in decision.where


def test_json_names_the_group_as_well():
    mechanism = GROUPED["grouped"].mechanism
    entry = {"batch": batch_id().hex(), "metric": "grouped", "period": TODAY, "digest": mechanism.digest.hex()}
    raw = json.dumps({"uploads": [entry | {"reports": [[0, "01"]], "group": "1.1"}]}).encode()
    (received,) = Ingest(GROUPED).decide(raw, JSON, NOW).received
    assert (received.group, received.num_reports) == ("1.1", 1)
