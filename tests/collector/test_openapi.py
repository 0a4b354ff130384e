"""What the OpenAPI description says is so, and nothing it allows or forbids gets a 5xx (schemathesis)."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import checks

from overstory.collector.http.endpoint import MESSAGE_PATH, PATH, RELEASE_PATH
from overstory.collector.ingest import JSON, Ingest
from overstory.collector.server import DESCRIPTION
from overstory.collector.store import open_store
from overstory.protocol.oblivious.formats import RELEASE_TYPE, REQUEST_TYPE
from overstory.protocol.wire import GROUP
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.supervision.answers import RETRY_AFTER
from support.collector_in_process import METRICS, NOW, upload
from support.sealed_reports import RING
from support.served import served

checks.load_all_checks()


@schemathesis.serializer(REQUEST_TYPE, RELEASE_TYPE)
def _as_bytes(_, value):
    data = getattr(value, "data", value)
    return data if isinstance(data, bytes) else str(data).encode()


CONFORMING = ("status_code", "content_type", "response_schema", "response_headers")
HELD = checks.CHECKS.get_by_names(["not_a_server_error", *(f"{part}_conformance" for part in CONFORMING)])
"""No 5xx, and only the statuses, types, headers and shapes that the description names."""

POSITIVE, NEGATIVE = schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE

KINDS = [
    ("POST", "/v1/reports", POSITIVE),
    ("POST", "/v1/reports", NEGATIVE),
    ("POST", "/v1/oblivious", POSITIVE),
    ("POST", "/v1/oblivious/release", POSITIVE),
    ("POST", "/v1/oblivious/release", NEGATIVE),
    ("GET", "/", POSITIVE),
    ("GET", "/v1/metrics", POSITIVE),
    ("GET", "/v1/metrics/{metric}", POSITIVE),
    ("GET", "/v1/metrics/{metric}/counts", POSITIVE),
    ("GET", "/v1/metrics/{metric}/counts", NEGATIVE),
    ("GET", "/healthz", POSITIVE),
    ("GET", "/readyz", POSITIVE),
    ("GET", "/metrics", POSITIVE),
]
"""Requests that the description allows, and, where there is anything to get wrong, such as it forbids."""


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    store = open_store(str(tmp_path_factory.mktemp("openapi") / "store.db"), METRICS, create=True)
    bodies = [upload(name, 50) for name in METRICS if name != "ended"]
    store.add(Ingest(METRICS).decide(b"".join(bodies), MEDIA_TYPE, NOW).received)
    headers = {"Authorization": f"Bearer {store.add_token('admin', 'ops')}"}
    with served(store=store, ring=RING) as (_, (host, port)):
        yield schemathesis.openapi.from_url(f"http://{host}:{port}/openapi.json"), headers


@pytest.mark.parametrize("examples", [8, pytest.param(500, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("method", "path", "mode"), KINDS)
def test_every_answer_is_one_that_is_described(running, method, path, mode, examples):
    schema, headers = running

    @given(case=schema[path][method].as_strategy(generation_mode=mode))
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    def held(case):
        case.call_and_validate(headers=headers, checks=HELD)

    held()


def test_every_page_is_described(running):
    assert set(running[0].raw_schema["paths"]) == {path for _, path, _ in KINDS}


def test_every_reason_is_described_under_its_status():
    responses = json.loads(DESCRIPTION.read_bytes())["paths"]["/v1/reports"]["post"]["responses"]
    for reason in Reason:
        described = responses[str(reason.status)]
        assert f"`{reason}`: {reason.detail}" in described["description"]
        assert reason not in RETRY_AFTER or "Retry-After" in described["headers"]


def test_names_and_bounds_are_those_of_the_program():
    description = json.loads(DESCRIPTION.read_bytes())
    posts = {path: page["post"] for path, page in description["paths"].items() if "post" in page}
    assert set(posts) == {PATH, MESSAGE_PATH, RELEASE_PATH}
    types = {path: set(post["requestBody"]["content"]) for path, post in posts.items()}
    assert types == {
        PATH: {MEDIA_TYPE, JSON},
        MESSAGE_PATH: {REQUEST_TYPE},
        RELEASE_PATH: {RELEASE_TYPE},
    }
    schemas, codes = description["components"]["schemas"], [reason.value for reason in Reason]
    assert schemas["Upload"]["properties"]["group"]["pattern"] == f"^{GROUP.pattern}$"
    assert schemas["Result"]["properties"]["reason"]["enum"] == [*codes, None]
    assert schemas["Refusal"]["properties"]["reason"]["enum"] == codes
