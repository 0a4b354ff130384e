"""`GET /`: what is collected, for people; JSON for who asks for JSON."""

import asyncio
import base64
import hashlib
import json
import re

import httpx
import pytest

from overstory.collector.http.pages import public_metric
from overstory.collector.server import build_app
from overstory.collector.service import Collector
from overstory.protocol.errors import FormatError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from support.collector_in_process import METRICS, REGISTRY, FakeStore
from support.html_reader import HtmlReader

HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)> \\" &lt;'


def get(registry, accept="text/html,*/*;q=0.8", path="/"):
    async def ask():
        app = build_app(Collector(registry, FakeStore(), open_writes=True))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://collector") as client:
            return await client.get(path, headers={"accept": accept})

    return asyncio.run(ask())


def test_people_read_what_is_collected_and_find_the_public_registry():
    answer = get(METRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = HtmlReader(answer.text)
    links = {attributes.get("href") for tag, attributes in page.elements if tag == "a"}
    assert {"/v1/metrics", "https://example.org/issues/7", *(f"/v1/metrics/{name}" for name in METRICS)} <= links
    assert {attributes["id"] for tag, attributes in page.elements if tag == "h2"} == set(METRICS)
    assert "one of 3: red, green, blue" in "".join(page.texts)


def test_the_page_is_shown_without_a_script_and_with_its_own_style_alone():
    hostile = REGISTRY.replace('title = "t"', f'title = "{HOSTILE}"').replace('names = ["red"', f'names = ["{HOSTILE}"')
    registry = parse_registry(hostile.replace('description = "d"', f'description = "{HOSTILE}"'))
    answer = get(registry)
    page = HtmlReader(answer.text)
    assert {tag for tag, _ in page.elements}.isdisjoint({"script", "img", "iframe", "object", "form", "link"})
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in "".join(page.texts)  # as words
    policy = answer.headers["content-security-policy"]
    (style,) = re.findall(r"<style>(.*?)</style>", answer.text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{allowed}'" in policy
    assert "frame-ancestors 'none'" in policy
    for name in ("x-content-type-options", "referrer-policy", "cache-control"):
        assert answer.headers[name]


# A metric that a collector lists in public is the metric: decode --store needs no registry of its own
@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.id)
def test_what_is_public_is_all_that_a_metric_is(metric):
    listed = json.loads(json.dumps(public_metric(metric)))
    assert metric_from_json(listed) == metric


@pytest.mark.parametrize("change", [{"digest": "00" * 16}, {"period": "fortnight"}, {"domain": {}}, {"id": None}])
def test_what_is_no_metric_of_this_version_is_refused(change):
    with pytest.raises(FormatError):
        metric_from_json(METRICS["colour"].to_json() | change)
    with pytest.raises(FormatError):
        metric_from_json([])  # type: ignore[arg-type]
