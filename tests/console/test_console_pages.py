"""The application around the screens: five forms of a view, errors with their status, headers, and threads."""

import asyncio
import io
import threading
from concurrent.futures import Future
from itertools import product
from types import SimpleNamespace

import httpx
import pytest
from pyarrow import parquet

from overstory.collector.store.databases.database import StoreError
from overstory.console.app import ALWAYS, SCREENS, _run_and_rest, as_download
from overstory.console.view import Screen, View
from overstory.presentation.document import Column, Heading, Table
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
from support.console_in_process import ADDRESS, HOSTILE, PUBLIC, SAME_ORIGIN, client_of, console_on, log_in

PAGE = "/m/hostile"
WORD = "<script>alert(1)</script>\u202egnp"


@pytest.fixture
def console(store):
    return console_on(store)


@pytest.fixture
def client(console):
    client = client_of(console)
    log_in(client, console.gate.sessions.make_link("admin"))
    return client


def test_one_view_in_five_forms(client):
    assert client.get(PAGE).headers["content-type"] == "text/html; charset=utf-8"
    values = client.get(f"{PAGE}.json").json()
    assert values["rows"] == [{"0": WORD, "1": "=cmd()"}, {"0": "none", "1": "-1.5"}]
    assert (values["held"], values["not_a_number"]) == (None, None)
    csv = client.get(f"{PAGE}.csv")
    assert csv.text.splitlines()[1:] == [f"{WORD},'=cmd()", "none,-1.5"]
    assert csv.headers["content-disposition"] == 'attachment; filename="m-hostile.csv"'
    table = parquet.read_table(io.BytesIO(client.get(f"{PAGE}.parquet").content))
    assert table.to_pylist() == values["rows"]
    svg = client.get(f"{PAGE}.svg")
    assert svg.headers["content-type"] == "image/svg+xml"
    policy = svg.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_a_column_of_numbers_and_names_is_one_of_texts_in_parquet():
    table = Table("", (Column("value"), Column("low")), [{"value": 0.25, "low": 1}, {"value": "a few", "low": None}])
    file = as_download(View("Medians", (), table), "parquet", "medians").body
    assert parquet.read_table(io.BytesIO(file)).to_pylist() == [
        {"value": "0.25", "low": 1},
        {"value": "a few", "low": None},
    ]


def test_a_view_without_a_table_has_no_file_of_it(client):
    for form in ("csv", "parquet", "svg"):
        answer = client.get(f"/public.{form}")
        assert (answer.status_code, answer.json()["status"]) == (404, 404)
    assert "The same as a file" not in client.get("/public").text


@pytest.mark.parametrize(
    ("address", "status", "text"),
    [
        (f"{PAGE}?fail=404", 404, "It was asked for."),
        (f"{PAGE}?fail=400", 400, "It was asked for."),
        (f"{PAGE}?fial=1", 400, "fial: this page has no such parameter."),
        (f"{PAGE}?fail=1&fail=2", 400, "fail: give it once."),
        ("/nowhere", 404, "The console has no page /nowhere."),
        ("/static/../app.py", 404, "There is no such page"),
        ("/static/nothing.css", 404, "There is no file nothing.css."),
    ],
)
def test_an_error_is_a_page_with_its_status_and_its_reason(client, address, status, text):
    answer = client.get(address)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert text in answer.text
    assert "<h1" in answer.text


def test_an_error_of_a_file_is_problem_details(client):
    answer = client.get(f"{PAGE}.json?fial=1")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert answer.json()["detail"] == "fial: this page has no such parameter"


def test_a_bug_is_a_page_without_a_trace(client):
    answer = client.get(f"{PAGE}?fail=bug")
    assert answer.status_code == 500
    assert "a bug" not in answer.text
    assert "Traceback" not in answer.text


def test_a_method_that_a_page_does_not_take(client):
    assert client.post("/static/icon.svg", headers=SAME_ORIGIN).status_code == 405
    assert client.get("/logout").status_code == 405


def test_every_answer_has_the_headers_of_a_careful_site(client):
    for address in (
        PAGE,
        f"{PAGE}.json",
        f"{PAGE}.csv",
        "/public",
        "/login",
        "/favicon.ico",
        "/nowhere",
        f"{PAGE}?x=1",
    ):
        headers = client.get(address).headers
        assert {name: headers[name] for name in ALWAYS if name != "cache-control"} == {
            name: value for name, value in ALWAYS.items() if name != "cache-control"
        }
        assert headers["cache-control"] in {"no-store", "max-age=300"}
    assert client.get(PAGE).headers["cache-control"] == "no-store"
    assert client.get("/public").headers["cache-control"] == "no-store"  # somebody who is logged in sees a menu
    assert client.get("/nowhere", headers={"host": "evil.example"}).headers["x-content-type-options"] == "nosniff"


def show_broken(*_):
    raise StoreError("postgresql://db/reports: the database server cannot be reached")


def test_a_store_that_does_not_answer_is_named_to_those_who_are_logged_in(store):
    console = console_on(store, screens=(Screen("Broken", "/m/broken", show_broken), PUBLIC))
    client = client_of(console)
    log_in(client, console.gate.sessions.make_link("viewer"))
    answer = client.get("/m/broken")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "postgresql://db/reports: the database server cannot be reached" in answer.text
    assert client.get("/m/broken.json").json()["detail"].startswith("postgresql://db/reports")


def test_without_the_store_a_token_lets_nobody_in_and_the_public_page_stays(store, console):
    client = client_of(console)
    log_in(client, store.add_token("viewer", "somebody"))
    console.gate.tokens._table._read = lambda: (_ for _ in ()).throw(StoreError("secret.db: it is gone"))
    console.data.clock.now += 10
    answer = client.get(PAGE)
    assert answer.status_code == 503
    stranger = client_of(console).get(PAGE, headers={"authorization": "Bearer guess"})
    assert stranger.status_code == 503
    assert "secret.db" not in stranger.text
    assert client_of(console).get("/public").status_code == 200


def waiting(path, viewer):
    """Return a screen that waits, and what releases it."""
    released = threading.Event()

    def show(*_):
        assert released.wait(20)
        return View("Waited", (Heading(1, "Waited"),))

    return Screen("Waiting", path, show, viewer=viewer), released


def test_a_slow_page_stops_no_other(store):
    screen, released = waiting("/m/waiting", "viewer")
    console = console_on(store, screens=(screen, PUBLIC))
    known = {"authorization": f"Bearer {store.add_token('viewer', 'somebody')}"}

    async def visits():
        transport = httpx.ASGITransport(console)
        async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            slow = [asyncio.create_task(client.get("/m/waiting", headers=known)) for _ in range(10)]
            await asyncio.sleep(0)
            quick = await asyncio.wait_for(client.get("/public"), 10)
            released.set()
            return quick.status_code, sum([(await one).status_code for one in slow])

    assert asyncio.run(visits()) == (200, 2_000)


def test_strangers_have_two_threads_and_keep_nobody_who_is_logged_in_waiting(store, monkeypatch):
    monkeypatch.setattr("overstory.console.app.PUBLIC_WAIT", 0.1)
    screen, released = waiting("/waiting", None)
    console = console_on(store, screens=(HOSTILE, screen))
    known = {"authorization": f"Bearer {store.add_token('viewer', 'somebody')}"}

    async def visits():
        transport = httpx.ASGITransport(console)
        async with httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
            strangers = [asyncio.create_task(client.get("/waiting")) for _ in range(40)]
            refused = list(asyncio.as_completed(strangers))
            for one in refused[:38]:
                answer = await one
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
                assert "Too many pages are being made" in answer.text
            assert (await client.get("/m/hostile", headers=known)).status_code == 200
            assert (await client.get("/m/hostile")).status_code == 401
            released.set()
            assert [(await one).status_code for one in refused[38:]] == [200, 200]

    asyncio.run(asyncio.wait_for(visits(), 15))


def test_a_strangers_thread_rests_for_three_times_what_its_last_page_took(monkeypatch):
    times, slept = iter([0.0, 0.2, 1.0, 9.0]), []
    clock = SimpleNamespace(monotonic=lambda: next(times), sleep=slept.append)
    monkeypatch.setattr("overstory.console.app.time", clock)
    page, failed, given_up = Future(), Future(), Future()
    assert given_up.cancel()
    _run_and_rest(page, lambda: "page")
    _run_and_rest(failed, lambda: 1 / 0)
    _run_and_rest(given_up, lambda: pytest.fail("nobody waits for it"))
    assert page.result(0) == "page"
    assert isinstance(failed.exception(0), ZeroDivisionError)
    assert slept == [pytest.approx(0.6), 24.0]


def test_an_address_of_words_is_before_one_in_whose_place_any_word_fits(store):
    def show(data, query, metric):
        return View(metric, (Heading(1, metric),), facts={"metric": metric})

    console = console_on(store, screens=(Screen("Any", "/m/{metric}", show), HOSTILE))
    client = client_of(console)
    log_in(client, console.gate.sessions.make_link("viewer"))
    assert client.get(PAGE).text.count("<table>") == 1
    assert client.get("/m/colour.json").json()["metric"] == "colour"
    assert client.get("/m/a.b.json").json()["metric"] == "a.b"


def test_a_form_that_is_too_large_is_refused(client):
    headers = SAME_ORIGIN | {"content-length": "999999999", "content-type": "application/x-www-form-urlencoded"}
    assert client.post(PAGE, content=b"x", headers=headers).status_code == 413


def test_a_file_that_is_no_text_is_refused(client):
    answer = client.post(PAGE, files={"candidates": ("x.bin", b"\xff\xfe")}, headers=SAME_ORIGIN)
    assert answer.status_code == 400
    assert "x.bin: this is no text in UTF-8" in answer.text


@pytest.mark.parametrize("path", sorted(f"{screen.path}{end}" for screen, end in product(SCREENS, ("", ".json"))))
def test_every_screen_but_the_public_ones_needs_a_login(console, path):
    screen = next(one for one in SCREENS if path in {one.path, f"{one.path}.json"})
    address = path.replace("{metric}", "colour").replace("{period}", "2026-W40").replace("/.json", "/index.json")
    answer = client_of(console).get(address)
    assert (answer.status_code == 401) == (screen.viewer is not None), address
    if screen.viewer is not None:
        assert "colour" not in answer.text.replace(address, "")


def test_a_metric_may_be_called_as_a_file_is(store):
    registry = parse_registry(EXAMPLE.replace("[metrics.colour]", '[metrics."colour.csv"]'))
    client = client_of(console_on(store, registry=registry))
    page, file, missing = (client.get(f"/about/{name}") for name in ("colour.csv", "colour.csv.json", "colour"))
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert (file.status_code, file.json()["id"]) == (200, "colour.csv")
    assert missing.status_code == 404
