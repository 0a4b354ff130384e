"""HTTP as others expect it: HEAD, schemes, redirects, headers, who may read /metrics, where a body is wrong."""

import pytest

from overstory.collector.auth import Token, sha256
from overstory.collector.service import Collector
from overstory.supervision.answers import ALWAYS
from support.collector_in_process import METRICS, NEVER, NOW, FakeStore, asked
from support.served import Wire

PAGES = ["/healthz", "/readyz", "/metrics", "/v1/metrics", "/v1/metrics/bloom", "/openapi.json"]
ADMIN, MONITOR = "ova_token", "ovm_token"


def get(wire, path, method="GET", host="c"):
    status, headers, _ = wire.send(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).answer()
    return status, headers


@pytest.mark.parametrize("path", PAGES)
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
