"""What is read of a collector: tokens and roles, pages as HTTP has them, the public page, and counts within bounds."""

import base64
import hashlib
import json
import random
import re

import httpx
import pytest

from overstory.collector import server
from overstory.collector.auth import Token, TokenTable, sha256
from overstory.collector.http.endpoint import Head
from overstory.collector.service import Collector, public_metric
from overstory.collector.store import open_store
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.metric_table import metric_from_json
from overstory.protocol.wire.reasons import Reason
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.queries import sources
from overstory.queries.counts import read_store
from overstory.queries.sources import RemoteError, read_remote
from overstory.supervision.answers import ALWAYS
from support import store_samples
from support.collector_in_process import METRICS, NEVER, NOW, REGISTRY, FakeStore, asked
from support.html_reader import HtmlReader
from support.registry_texts import COLOURS, registry_of
from support.running import within
from support.served import Wire, served
from support.store_samples import pages_of, received, reports

THEN = 1_000_000.0


def header(token):
    return f"Bearer {token}".encode()


@pytest.fixture
def store(tmp_path):
    with open_store(str(tmp_path / "store.db"), create=True) as opened:
        yield opened


def test_a_token_does_what_its_role_may_and_nothing_else(store):
    write, admin = store.add_token("write", "app"), store.add_token("admin", "ops")
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert tokens.refuse(f"{scheme} {write}".encode(), "write", THEN) is None
        assert tokens.refuse(f"{scheme}{write}".encode(), "write", THEN) is Reason.UNKNOWN_TOKEN
    assert tokens.refuse(header(admin), "admin", THEN) is None
    assert tokens.refuse(header(write), "admin", THEN) is Reason.UNKNOWN_TOKEN
    assert tokens.refuse(header(admin), "write", THEN) is Reason.UNKNOWN_TOKEN
    assert tokens.refuse(b"", "write", THEN) is Reason.NO_TOKEN


def test_a_token_expires_between_two_readings(store):
    token = store.add_token("write", "app", expires=int(THEN) + 10)
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    assert tokens.refuse(header(token), "write", THEN + 9) is None
    assert tokens.refuse(header(token), "write", THEN + 10) is Reason.UNKNOWN_TOKEN


@pytest.mark.parametrize(
    "authorization",
    [b"Basic abc", b"Bearer", b"Bearer ", b"Bearer a b", b"Bearer \xff", b"bearer " + b"x" * 10_000, b"token"],
)
def test_anything_else_is_an_unknown_token(store, authorization):
    tokens = TokenTable(store.tokens)
    tokens.refresh()
    assert tokens.refuse(authorization, "write", THEN) is Reason.UNKNOWN_TOKEN


def test_open_writes_are_open_for_writes_alone(store):
    post = Head(content_type=MEDIA_TYPE)
    assert Collector(METRICS, store).endpoint.admit(post) is Reason.NO_TOKEN
    collector = Collector(METRICS, store, open_writes=True)
    assert collector.endpoint.admit(post) is Reason.STORE, "it is admitted; the writer has not started"
    assert collector.tokens.refuse(b"", "admin", THEN) is Reason.NO_TOKEN


PAGES = ["/healthz", "/readyz", "/metrics", "/v1/metrics", "/v1/metrics/bloom", "/openapi.json"]
ADMIN, MONITOR = "ova_token", "ovm_token"


def get(wire, path, method="GET", host="c"):
    status, headers, _ = wire.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).answer()
    return status, headers


@pytest.mark.parametrize("path", [*PAGES, "/v1/reports"])
def test_a_page_has_the_headers_of_all_and_answers_head_as_get_without_its_body(listening, path):
    with Wire(listening) as wire:
        wanted = get(wire, path)
        assert {name.decode() for name, _ in ALWAYS} <= wanted[1].keys()
        wire.send(f"HEAD {path} HTTP/1.1\r\nHost: c\r\n\r\n".encode())
        status, headers = wire.head()
        assert (status, headers.keys()) == (wanted[0], wanted[1].keys())
        assert get(wire, path)[0] == wanted[0]  # nothing of a body came in between
    with Wire(listening) as wire:
        assert get(wire, path, "DELETE")[0] == 405


@pytest.mark.parametrize("path", ["/v1/metrics/", "/v1/reports/", "/healthz/", "/v1/metrics/bloom/", "//evil.example/"])
def test_nothing_is_redirected_to_where_the_host_header_says(listening, path):
    with Wire(listening) as wire:
        status, headers = get(wire, path, host="evil.example")
        assert (status, headers.get("location")) == (404, None)


@pytest.mark.parametrize(
    ("client", "token", "status"),
    [
        (("127.0.0.1", 1), None, 200),
        (("::1", 1), None, 200),
        (None, None, 200),
        (("203.0.113.5", 1), None, 401),
        (("203.0.113.5", 1), "ovm_other", 401),
        (("203.0.113.5", 1), ADMIN, 401),
        (("203.0.113.5", 1), MONITOR, 200),
        (("somewhere", 1), None, 401),
    ],
)
async def test_what_an_operator_watches_is_for_this_machine_or_a_monitor(client, token, status):
    store = FakeStore()
    roles = {ADMIN: "admin", MONITOR: "monitor"}
    store.listed = [Token(role, sha256(plain), role, "app", 0, None, None) for plain, role in roles.items()]
    collector = Collector(METRICS, store, intervals=NEVER, clock=lambda: NOW)
    async with asked(collector, client=client) as http:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        answer = await http.get("/metrics", headers=headers)
        counts = await http.get("/v1/metrics/bloom/counts?format=json", headers=headers)
    watched, counted = answer.status_code, counts.status_code

    assert watched == status
    assert (counted == 401) == (token != ADMIN), "a monitor reads no results"


HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)> \\" &lt;'


async def front(registry):
    async with asked(Collector(registry, FakeStore(), intervals=NEVER, open_writes=True)) as http:
        return await http.get("/", headers={"accept": "text/html,*/*;q=0.8"})


async def test_people_read_what_is_collected_and_find_the_public_registry():
    answer = await front(METRICS)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = HtmlReader(answer.text)
    links = {attributes.get("href") for tag, attributes in page.elements if tag == "a"}
    assert {"/v1/metrics", "https://example.org/issues/7", *(f"/v1/metrics/{name}" for name in METRICS)} <= links
    assert {attributes["id"] for tag, attributes in page.elements if tag == "h2"} == set(METRICS)
    assert "one of 3: red, green, blue" in "".join(page.texts)


async def test_the_page_is_shown_without_a_script_and_with_its_own_style_alone():
    hostile = REGISTRY.replace('title = "t"', f'title = "{HOSTILE}"').replace('names = ["red"', f'names = ["{HOSTILE}"')
    registry = parse_registry(hostile.replace('description = "d"', f'description = "{HOSTILE}"'))
    answer = await front(registry)
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


PERIODS = range(20_000, 20_004)


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    return store_samples.registry(folder=tmp_path_factory.mktemp("registry"))


@pytest.fixture(scope="module")
def url(metrics, tmp_path_factory):
    url, rng = str(tmp_path_factory.mktemp("store") / "store.db"), random.Random(1)
    with open_store(url, metrics, create=True) as store:
        for name in ("tree", "colour", "bloom"):
            store.add([received(metrics[name], period, reports(metrics[name], 60, rng)) for period in PERIODS])
    return url


def test_a_parameter_that_is_given_twice_is_refused_with_a_reason(metrics, url):
    (page,) = pages_of(metrics, url, "tree/counts?from=2026-11-21&from=2026-11-22")
    assert (page.status_code, page.json()["reason"]) == (400, "parameters")
    assert "from: give it once" in page.json()["detail"]


def test_an_answer_is_bounded_and_says_what_to_ask_instead(metrics, url, monkeypatch):
    with pytest.raises(ParameterError, match="an answer has at most 10,000,000"):
        server.check_counts(metrics["tree"], 10_000_000)
    monkeypatch.setattr(server, "MOST_COUNTS", 100)
    page, one = pages_of(metrics, url, "bloom/counts", "colour/counts")
    assert (page.status_code, one.status_code) == (400, 200)
    assert "overstory decode --store" in page.json()["detail"]


def test_what_can_never_be_read_is_no_trouble_that_passes(tmp_path):
    first, second = (
        store_samples.registry(folder=tmp_path),
        store_samples.registry(candidates=("yew", "oak", "elm"), folder=tmp_path),
    )
    url = str(tmp_path / "store.db")
    with open_store(url, first, create=True) as store:
        store.add([received(first["tree"], PERIODS[0], reports(first["tree"], 30, random.Random(8)))])
        store.compact(store_samples.NOW)
        store.retain(store_samples.NOW + 1000 * store_samples.DAY)
    (answer,) = pages_of(second, url, "tree/counts")
    assert answer.status_code == 400
    assert "retry-after" not in answer.headers
    assert "its reports were counted for another list of candidates" in answer.json()["detail"]


# Groups over HTTP: a collector's counts by group, as the library and `decode` read them
GROUPS = '{by = "release", shares = {"1.0" = 0.6, "1.1" = 0.3}, devices = 500000}'
GROUPED = parse_registry(registry_of({"colour": {"groups": GROUPS}}, domain=COLOURS, expires="2099-01-01", version="2"))
METRIC = GROUPED["colour"]
SENT = {"1.0": 12, "1.1": 8, "0.9": 3}


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    url, rng = str(tmp_path_factory.mktemp("served") / "store.db"), random.Random(1)
    with open_store(url, GROUPED, create=True) as store:
        store.add([received(METRIC, 20_000, reports(METRIC, n, rng))._replace(group=g) for g, n in SENT.items()])
        token = store.add_token("admin", "test")
        with served(store=store, metrics=GROUPED) as (_, (host, port)):
            yield url, f"http://{host}:{port}", token


def test_each_group_is_counted_apart_and_read_as_from_the_store(collector, tmp_path, monkeypatch):
    store_url, url, token = collector
    read = {group: read_remote(url, token, METRIC, group=group) for group in (None, "1.0", "1.1", "other")}
    sizes = {group: counted.num_reports for group, counted in read.items()}
    assert sizes == {None: 23, "1.0": 12, "1.1": 8, "other": 3}
    with open_store(store_url) as store:
        for group, counted in read.items():
            assert counted.to_json() == read_store(store, METRIC, group=group).to_json()
    monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", token)
    ran = within("decode", "--store", url, "--metric", "colour", "--by-group", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    parts = json.loads(ran.stdout)["groups"]
    assert [(part["group"], part["reports"]) for part in parts] == [("1.0", 12), ("1.1", 8), ("other", 3)]


def test_what_is_no_group_is_refused(collector):
    _, url, token = collector
    asked = f"{url}/v1/metrics/colour/counts?group=3%0A"
    answer = httpx.get(asked, headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    assert (answer.status_code, answer.json()["reason"]) == (400, "parameters")


def test_an_answer_of_another_group_is_noticed(collector, monkeypatch):
    _, url, token = collector
    fetch = sources._fetch_json
    monkeypatch.setattr(sources, "_fetch_json", lambda address, *rest: fetch(address.partition("?")[0], *rest))
    with pytest.raises(RemoteError, match=r"the answer is of the group None: upgrade the collector"):
        read_remote(url, token, METRIC, group="1.1")
