"""What the OpenAPI description says is so, and nothing it allows or forbids gets a 5xx (schemathesis)."""

import pytest

from overstory.collector.http.openapi import operation
from overstory.protocol.wire.reasons import Reason
from support.openapi_requests import KINDS, described, hold


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with described(tmp_path_factory.mktemp("openapi")) as found:
        yield found


@pytest.mark.parametrize(("method", "path", "mode"), KINDS)
def test_every_answer_is_one_that_is_described(running, method, path, mode) -> None:
    hold(*running, method, path, mode, examples=8)  # five hundred run with the long tests


def test_every_page_is_described(running) -> None:
    assert set(running[0].raw_schema["paths"]) == {path for _, path, _ in KINDS}


def test_every_reason_is_described_under_its_status() -> None:
    responses = operation()["responses"]
    for reason in Reason:
        assert f"`{reason}`" in responses[str(reason.status)]["description"]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "path", "mode"), KINDS)
def test_hundreds_of_answers_are_as_described(running, method, path, mode) -> None:
    hold(*running, method, path, mode, examples=500)
