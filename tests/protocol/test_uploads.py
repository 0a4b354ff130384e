"""Uploads: what is sent is what arrives; what was altered on its way is valid, or one declared error."""

import json
import random
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire import reasons
from overstory.protocol.wire import upload as wire
from overstory.protocol.wire.reasons import Reason, check_token
from overstory.protocol.wire.upload import (
    Upload,
    decode_batch,
    decode_uploads,
    encode_reports,
    encode_upload,
    uploads_from_json,
)
from overstory.supervision.answers import error_response, refusal
from support.uploads_to_spoil import REASONS, outcome, outcomes

KNOWN = json.loads((Path(__file__).parents[1] / "vectors" / "uploads.json").read_text())
REGISTRY = parse_registry(KNOWN["registry"])
UPLOADS = st.builds(
    Upload,
    st.binary(min_size=16, max_size=16),
    st.from_regex(wire.METRIC_ID, fullmatch=True),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.binary(max_size=60),
    st.just("") | st.from_regex(wire.GROUP, fullmatch=True),
)


@given(st.lists(UPLOADS, min_size=1, max_size=4))
def test_what_is_sent_is_what_arrives(uploads):
    body = b"".join(map(encode_upload, uploads))
    assert decode_uploads(body, max_uploads=len(uploads)) == uploads
    if len(uploads) > 1:
        with pytest.raises(WireError) as caught:
            decode_uploads(body, max_uploads=len(uploads) - 1)
        assert (caught.value.reason, Reason.of(caught.value)) == ("too-many", Reason.TOO_MANY)


@pytest.mark.parametrize("number", range(len(KNOWN["uploads"])))
def test_every_altered_byte_is_valid_or_the_declared_error(number):
    raw = bytes.fromhex(KNOWN["uploads"][number]["bytes"])
    seen = set()
    for at in range(len(raw)):
        for value in {raw[at] ^ 1 << bit for bit in range(8)} | {0, 255}:
            seen.add(outcome(raw[:at] + bytes((value,)) + raw[at + 1 :]))
    assert {"valid", "magic", "version", "metric", "length"} <= seen


def test_ten_thousand_damaged_bodies():
    seen = outcomes(10_000, seed=1)
    assert REASONS | {"valid"} == set(seen)


@pytest.mark.parametrize("known", KNOWN["uploads"], ids=lambda known: known["json"]["metric"])
def test_known_uploads(known):
    raw, said = bytes.fromhex(known["bytes"]), known["json"]
    (upload,) = decode_uploads(raw, 1)
    metric = REGISTRY[said["metric"]]
    assert (upload.batch.hex(), upload.metric, upload.period) == (said["batch"], said["metric"], known["period"])
    assert metric.period.label(upload.period) == said["period"]
    reports = [Report(cohort, int.from_bytes(bytes.fromhex(bits), "little")) for cohort, bits in said["reports"]]
    assert list(decode_batch(upload.reports)) == reports
    assert upload.group == said.get("group", "")
    assert encode_upload(upload) == raw
    packed = encode_reports(metric.mechanism, reports)
    assert encode_upload(Upload(upload.batch, metric.id, upload.period, packed, upload.group)) == raw


@pytest.mark.parametrize("known", KNOWN["uploads"], ids=lambda known: known["json"]["metric"])
def test_the_json_form_gives_the_same_bytes(known):
    for period in (known["json"]["period"], known["period"]):
        body = {"uploads": [known["json"] | {"period": period}]}
        (upload,) = uploads_from_json(json.loads(json.dumps(body)), REGISTRY, 1)
        assert encode_upload(upload).hex() == known["bytes"]


@pytest.mark.parametrize("fault", KNOWN["must_fail"], ids=lambda fault: fault["why"])
def test_known_bytes_that_must_fail(fault):
    with pytest.raises(WireError) as caught:
        decode_uploads(bytes.fromhex(fault["bytes"]), KNOWN["max_uploads"])
    assert caught.value.reason == fault["reason"]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"batch": bytes(15)}, "a batch id has 16 bytes, not 15"),
        ({"metric": "Metric"}, "'Metric' is no metric's id"),
        ({"metric": "m\n"}, "is no metric's id"),
        ({"period": 1 << 31}, "give a 32-bit number"),
        ({"period": 1.5}, "give a 32-bit number"),
        ({"group": "a\tb"}, "is no group: give"),
        ({"group": "a" * 33}, "is no group: give"),
        ({"group": "é"}, "is no group: give"),
    ],
)
def test_what_cannot_be_sent_is_refused(changed, says):
    fields = {"batch": bytes(16), "metric": "m", "period": 0, "reports": b""} | changed
    with pytest.raises(ParameterError, match=says):
        encode_upload(Upload(**fields))


def spoiled(**changes):
    return {"uploads": [KNOWN["uploads"][0]["json"] | changes]}


def without(key):
    entry = dict(KNOWN["uploads"][0]["json"])
    del entry[key]
    return {"uploads": [entry]}


BITS = "ffff0f"


@pytest.mark.parametrize(
    ("body", "reason", "says"),
    [
        (None, "json", "uploads: give a list of at least one upload"),
        ([], "json", "uploads"),
        ({"uploads": {}}, "json", "uploads"),
        ({"uploads": [3]}, "json", "uploads[0]: give an object with the keys batch, digest"),
        ({"uploads": [{}]}, "json", "uploads[0].batch, uploads[0].digest, uploads[0].metric, uploads[0].period, "),
        (without("metric"), "json", "uploads[0].metric: missing"),
        (spoiled(more=1), "json", "uploads[0]: there is no key 'more'; the keys are batch, digest"),
        (spoiled(batch="00"), "json", "uploads[0].batch: give 32 hexadecimal digits"),
        (spoiled(batch="G" * 32), "json", "uploads[0].batch"),
        (spoiled(digest=None), "json", "uploads[0].digest"),
        (spoiled(metric="A"), "json", "uploads[0].metric"),
        (spoiled(metric=["a"]), "json", "uploads[0].metric"),
        (spoiled(period="2026-11-31"), "json", "uploads[0].period: '2026-11-31' is no day"),
        (spoiled(period=True), "json", "uploads[0].period"),
        (spoiled(period=1 << 31), "json", "uploads[0].period"),
        (spoiled(period=20778.0), "json", "uploads[0].period"),
        (spoiled(period=None), "json", "uploads[0].period"),
        (spoiled(group=""), "json", "uploads[0].group: give the name of a group, not ''"),
        (spoiled(group=7), "json", "uploads[0].group: give the name of a group, not 7"),
        (spoiled(group="a\n"), "json", "uploads[0].group"),
        (spoiled(reports={}), "json", "uploads[0].reports: give a list"),
        (spoiled(reports=[[0]]), "json", "uploads[0].reports[0]: give [cohort, bits]"),
        (spoiled(reports=[[0, BITS], "x"]), "json", "uploads[0].reports[1]"),
        (spoiled(reports=[[-1, BITS]]), "cohort", "uploads[0].reports[0][0]: cohorts are 0 .. 2"),
        (spoiled(reports=[[1 << 16, BITS]]), "cohort", "cohorts are 0 .. 2"),
        (spoiled(reports=[[True, BITS]]), "cohort", "cohorts are 0 .. 2"),
        (spoiled(reports=[[0, "ffff"]]), "bits", "uploads[0].reports[0][1]: give 6 hexadecimal digits"),
        (spoiled(reports=[[0, "FFFF0F"]]), "bits", "in lower case"),
        (spoiled(reports=[[0, "ff ff "]]), "bits", "give 6 hexadecimal digits"),
        (spoiled(reports=[[0, 7]]), "bits", "give 6 hexadecimal digits"),
        ({"uploads": [3] * 3}, "too-many", "more than 2 uploads"),
    ],
)
def test_json_that_is_no_upload_is_refused_by_its_place(body, reason, says):
    with pytest.raises(WireError) as caught:
        uploads_from_json(body, REGISTRY, 2)
    assert caught.value.reason == reason
    assert says in str(caught.value)
    assert Reason.of(caught.value).status in {400, 413}


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
NAMES = st.sampled_from(["uploads", "batch", "metric", "period", "digest", "group", "reports"]) | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(NAMES, inner), max_leaves=20))
def test_any_json_at_all(value):
    for body in (value, {"uploads": value}, {"uploads": [value]}):
        with pytest.raises(WireError) as caught:  # none of them is whole
            uploads_from_json(body, REGISTRY, 5)
        assert Reason.of(caught.value).status in {400, 413}


def test_what_fits_the_columns_and_not_the_mechanism_is_left_to_whoever_decides():
    (late,) = uploads_from_json(spoiled(reports=[[3, BITS]]), REGISTRY, 1)
    (spare,) = uploads_from_json(spoiled(reports=[[0, "ffffff"]]), REGISTRY, 1)
    (other,) = uploads_from_json(spoiled(digest="00" * 16), REGISTRY, 1)
    for upload, reason in ((late, "cohort"), (spare, "bits")):
        with pytest.raises(WireError) as caught:
            decode_batch(upload.reports)
        assert caught.value.reason == reason
    assert decode_batch(other.reports).digest == bytes(16)


def test_an_unknown_metric_comes_without_reports():
    (upload,) = uploads_from_json(spoiled(metric="elsewhere", period="whenever"), REGISTRY, 1)
    assert (upload.metric, upload.period, upload.reports) == ("elsewhere", 0, b"")


def test_every_reason_has_a_status_and_a_sentence():
    for reason in Reason:
        assert reason.status in {400, 401, 403, 404, 409, 410, 413, 415, 421, 429, 503}
        assert reason.detail.endswith(".")
        assert reason.final + reason.passing + reason.of_metric <= 1
    passing = {reason for reason in Reason if reason.passing}
    waiting = {reason for reason in Reason if not reason.passing and not reason.final}
    assert passing == {"queue-full", "closing", "store", "fault"}
    assert waiting == {
        *("no-token", "unknown-token", "wrong-type", "period-future"),
        *("unknown-metric", "wrong-parameters", "unknown-group", "metric-expired"),
    }
    assert len({reason.detail for reason in Reason}) == len(Reason)
    assert len(set(map(reasons.problem_title, Reason))) == len(set(map(reasons.problem_type, Reason))) == len(Reason)


@pytest.mark.parametrize("reason", [*Reason, "not-found", "slow"])
def test_problem_details_have_every_member_of_the_standard(reason):
    answer = refusal(reason) if isinstance(reason, Reason) else error_response(404, reason, "There is no such page.")
    problem = json.loads(answer.body)
    assert list(problem)[:5] == ["type", "title", "status", "detail", "reason"]
    assert (problem["type"], problem["status"]) == (f"/problems/{reason}", answer.status)
    assert (b"content-type", b"application/problem+json") in answer.headers
    assert sum(name == b"content-type" for name, _ in answer.headers) == 1
    assert reasons.is_own_problem(problem, reason)
    assert reasons.problem_detail(problem) == problem["detail"]
    assert not any(map(reasons.problem_detail, ({}, {"detail": 7}, {"detail": None})))


def encoded(num_cohorts, cohorts, bits, num_bits):
    width = 2 if num_cohorts <= 65_536 else 4
    column = b"".join(cohort.to_bytes(width, "little") for cohort in cohorts)
    octets = b"".join(report.to_bytes(-(-num_bits // 8), "little") for report in bits)
    return wire.encode_columns(bytes(16), num_bits, num_cohorts, column, octets)


@pytest.fixture(params=["with NumPy", "without it"])
def library(request, monkeypatch):
    if request.param == "without it":
        monkeypatch.setattr("overstory.protocol.wire.upload.sys", SimpleNamespace(modules={}, byteorder=sys.byteorder))
    else:
        assert "numpy" in sys.modules or __import__("numpy")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("count", [1, 255, 256, 3000])
@pytest.mark.parametrize("num_cohorts", [7, 300, 65_535, 65_537, 1 << 31])
def test_one_cohort_too_large_is_refused_wherever_it_lies(count, num_cohorts):
    drawn = random.Random(count)
    cohorts = [drawn.randrange(num_cohorts) for _ in range(count)]
    reports = [drawn.randrange(8) for _ in range(count)]
    assert [report.cohort for report in decode_batch(encoded(num_cohorts, cohorts, reports, 3))] == cohorts
    for place in {0, count // 2, count - 1}:
        wrong = [*cohorts[:place], num_cohorts, *cohorts[place + 1 :]]
        with pytest.raises(WireError, match=f"cohort {num_cohorts} does not exist"):
            decode_batch(encoded(num_cohorts, wrong, reports, 3))


@pytest.mark.parametrize("num_bits", [1, 3, 7, 9, 15])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_one_bit_past_the_last_is_refused_wherever_it_lies(num_bits, place):
    every = (1 << num_bits) - 1
    reports = [every] * 1000
    assert decode_batch(encoded(1, [0] * 1000, reports, num_bits)).num_reports == 1000
    reports[place] = 1 << num_bits
    with pytest.raises(WireError, match=f"bits past its {num_bits}"):
        decode_batch(encoded(1, [0] * 1000, reports, num_bits))


def test_no_reports_are_a_batch():
    raw = encoded(5, [], [], 3)
    assert len(raw) == wire.HEADER.size + wire.TRAILER.size
    assert zlib.crc32(raw[: wire.HEADER.size]) == wire.TRAILER.unpack(raw[wire.HEADER.size :])[0]
    assert decode_batch(raw).num_reports == 0


@pytest.mark.parametrize("token", ["a b", "a\r\nHost: x", "é", "\x00", None, b"a"])
def test_a_token_that_no_header_can_hold_is_refused(token):
    with pytest.raises(ParameterError, match="token: ") as refused:
        check_token(token)
    assert str(token) not in str(refused.value)
