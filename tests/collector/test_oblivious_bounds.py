"""What a relay sees of an answer: its length, which is one for every answer to one report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from test_oblivious_endpoint import pass_through

from overstory.collector.http.endpoint import Response, answer_to, error_response, refusal
from overstory.collector.ingest.ingest import JSON, Decision, Result
from overstory.collector.oblivious.endpoint import write_inner
from overstory.protocol.metrics import parse_registry
from overstory.protocol.oblivious.binary_http import RESPONSES_PADDED_TO
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import Upload, encode_columns, encode_reports, encode_upload
from support.collector_in_process import ABOUT, TODAY, batch_id, sound
from support.registry_texts import COLOURS, registry_of
from support.sealed_reports import ROUTE

AROUND = 32 + 16  # the response's nonce and tag
LONG, ENDED, GROUP = "m" * 64, "e" * 64, "g" * 32
TABLE = {"domain": COLOURS, "groups": f'{{by = "{"b" * 64}", shares = {{"{GROUP}" = 0.5}}, devices = 100000}}'}
REGISTRY = parse_registry(
    registry_of({LONG: TABLE, ENDED: TABLE | {"expires": "2026-01-01"}}, version="1", **ABOUT) + ROUTE
)
METRIC = REGISTRY[LONG]


def upload(
    name: str = LONG, *, period: int = TODAY, group: str = GROUP, raw: bytes | None = None, batch: bytes | None = None
) -> bytes:
    packed = encode_reports(METRIC.mechanism, sound(METRIC, 1)) if raw is None else raw
    return encode_upload(Upload(batch or batch_id(), name, period, packed, group))


def columns(digest: bytes = METRIC.mechanism.digest, cohort: bytes = b"\0\0", bits: bytes = b"\0") -> bytes:
    mechanism = METRIC.mechanism
    return encode_columns(digest, mechanism.payload_bits, mechanism.num_cohorts, cohort, bits)


def in_json(**other: Any) -> bytes:
    digest, batch = METRIC.mechanism.digest.hex(), batch_id().hex()
    entry = {"batch": batch, "metric": LONG, "period": "2026-11-21", "digest": digest, "reports": [[0, "00"]]}
    return json.dumps({"uploads": [entry | other]}).encode()


def damaged_name(byte: int) -> bytes:
    """An upload whose metric's id has 255 bytes, which an error quotes."""
    body = bytearray(upload())
    body[6] = 255
    return bytes(body[:32]) + bytes([byte]) * 255 + bytes(body[32:])


AS_JSON = {"fields": (("content-type", JSON),)}
ANSWERS = {
    "taken": (upload(), {}),
    "unknown-metric": (upload("u" * 64), {}),
    "wrong-parameters": (upload(raw=columns(digest=bytes(16))), {}),
    "unknown-group": (upload(group="h" * 32), {}),
    "metric-expired": (upload(ENDED), {}),
    "period-closed": (upload(period=1), {}),
    "period-future": (upload(period=TODAY + 9), {}),
    "damaged": (b"junk", {}),
    "damaged: a long name of zeros": (damaged_name(0), {}),
    "damaged: a long name of backslashes": (damaged_name(92), {}),
    "damaged: a long period": (in_json(period="\U0001f600" * 5000), AS_JSON),
    "damaged: a long group": (in_json(group="\U0001f600" * 5000), AS_JSON),
    "damaged: no keys": (json.dumps({"uploads": [{}]}).encode(), AS_JSON),
    "bits": (in_json(reports=[[0, "ff" * 5000]]), AS_JSON),
    "too-large": (b"x" * (1 << 21), AS_JSON),
    "too-many": (upload() * 1_001, {}),
    "wrong-type": (upload(), {"fields": (("content-type", "text/plain"),)}),
    "no-token": (upload(), {"token": None}),
    "unknown-token": (upload(), {"token": "ovw_unknown"}),
    "not-found": (upload(), {"path": "/v1/metrics"}),
    "method": (upload(), {"method": "PUT"}),
}


def test_every_answer_to_one_report_has_one_length():
    """With the longest metric's id and group, and whatever an error quotes."""
    lengths = {}
    for name, (body, how) in ANSWERS.items():
        _, parsed, answer, _ = pass_through(body, collecting={"registry": REGISTRY}, **how)
        assert parsed.get("reason", "taken") == name.partition(":")[0], parsed
        lengths[name] = len(answer.content)
    assert set(lengths.values()) == {RESPONSES_PADDED_TO + AROUND}, lengths


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_the_length_of_taken(reason):
    """Of the request, of the upload, or of its one report; with the longest text about what is wrong in the body."""
    batch, rejected = bytes(range(240, 256)), ((0, reason),)
    answers: list[Response] = [
        answer_to(Decision(None, [Result(batch, LONG, 1)]), [True]),
        answer_to(Decision(None, [Result(batch, LONG, 1)]), [False]),
        answer_to(Decision(None, [Result(batch, LONG, reason=reason)]), ()),
        answer_to(Decision(None, [Result(batch, LONG, reason=reason, rejected=rejected)]), ()),
        refusal(reason, close=True),
        error_response(reason.status, reason, reason.detail, close=True),
    ]
    texts = [letter * count for letter in "a\0é\U0001f600" for count in (1, 80, 85, 170, 171, 511, 1022, 1023, 5000)]
    answers += [refusal(reason, where=text, close=True) for text in texts]
    assert {len(write_inner(answer)) for answer in answers} == {RESPONSES_PADDED_TO}


def test_a_text_about_what_is_wrong_is_cut_only_where_it_is_long():
    texts = ["uploads[0].period: missing", "a" * 1000]
    assert [json.loads(refusal(Reason.DAMAGED, where=text).body)["where"] for text in texts] == texts
    assert json.loads(refusal(Reason.DAMAGED, where="ab" * 1000).body)["where"] == "ab" * 40 + " ..."
