"""Who may open the console: links, sessions, roles, a trusted proxy, and requests that another site caused."""

import pytest

from overstory.collector.auth import sha256
from overstory.collector.settings import Limits
from overstory.console.access import (
    LINK_SECONDS,
    MOST_SESSIONS,
    SESSION_SECONDS,
    Cookie,
    Session,
    Sessions,
    TrustedProxy,
    parse_proxy,
    read_roles,
)
from overstory.protocol.errors import FormatError, ParameterError
from support.console_browser import served_console
from support.console_in_process import ADDRESS, MOMENT, SAME_ORIGIN, client_of, console_on, log_in
from support.devices import Clock
from support.served import Wire

PAGE = "/m/hostile"


@pytest.fixture
def clock():
    return Clock(MOMENT)


@pytest.fixture
def console(store, clock):
    return console_on(store, clock=clock)


@pytest.fixture
def client(console):
    return client_of(console)


def revoke(store, token):
    store.revoke_token(store.find_token(sha256(token)).id)


def bearer(token):
    return {"authorization": f"Bearer {token}"}


def test_without_a_session_there_is_a_login_form_and_no_page(client):
    answer = client.get(PAGE)
    assert answer.status_code == 401
    assert 'action="/login"' in answer.text
    assert "gnp" not in answer.text
    assert client.get(f"{PAGE}.json").status_code == 401
    assert client.get(f"{PAGE}.json").headers["content-type"] == "application/problem+json"
    assert client.get("/public").status_code == 200


def test_a_link_works_once(console, client):
    link = console.gate.sessions.make_link("admin")
    answer = log_in(client, link, then=f"{PAGE}?fail=")
    assert (answer.status_code, answer.headers["location"]) == (303, f"{PAGE}?fail=")
    assert client.get(PAGE).status_code == 200
    again = client_of(console)
    assert log_in(again, link).status_code == 403
    assert again.get(PAGE).status_code == 401


def test_a_link_is_pasted_with_or_without_its_address(console, client):
    assert log_in(client, f" {ADDRESS}/login#{console.gate.sessions.make_link('admin')} ").status_code == 303


def test_a_link_ends_after_ten_minutes_and_a_session_after_twelve_hours(console, client, clock):
    link = console.gate.sessions.make_link("admin")
    clock.now += LINK_SECONDS
    assert log_in(client, link).status_code == 403
    assert log_in(client, console.gate.sessions.make_link("admin")).status_code == 303
    clock.now += SESSION_SECONDS - 1
    assert client.get(PAGE).status_code == 200
    clock.now += 1
    assert client.get(PAGE).status_code == 401


def test_the_cookies_are_for_this_console_alone_and_no_script_reads_them(console, client):
    cookies = log_in(client, console.gate.sessions.make_link("admin")).headers.get_list("set-cookie")
    assert [cookie.partition("=")[0] for cookie in cookies] == ["__Host-overstory-8001", "overstory-8001"]
    for cookie in cookies:
        rules = set(cookie.split("; ")[1:])
        assert rules - {"Secure"} == {"Path=/", "Max-Age=43200", "HttpOnly", "SameSite=lax"}
    assert "Secure" in cookies[0]
    assert Cookie(443, plain=False).names == ("__Host-overstory-443",)  # nothing without Secure where there is TLS


def test_of_a_link_and_a_session_only_the_hash_is_held():
    sessions = Sessions()
    link, name = sessions.make_link("admin"), sessions.begin(Session("viewer"))
    held = repr(vars(sessions))
    assert link not in held
    assert name not in held
    assert repr(sha256(name)) in held


def test_of_too_many_sessions_the_oldest_ends():
    sessions = Sessions()
    names = [sessions.begin(Session("viewer")) for _ in range(MOST_SESSIONS + 1)]
    assert [sessions.find(names[0]), sessions.find(names[1])] == [None, Session("viewer")]


def test_logging_out_ends_the_session_and_its_cookies(console, client):
    log_in(client, console.gate.sessions.make_link("admin"))
    name = client.cookies["overstory-8001"]
    answer = client.post("/logout", headers=SAME_ORIGIN)
    assert answer.status_code == 303
    assert all("Max-Age=0" in cookie for cookie in answer.headers.get_list("set-cookie"))
    assert client.get(PAGE, headers={"cookie": f"overstory-8001={name}"}).status_code == 401


@pytest.mark.parametrize("role", ["viewer", "analyst", "admin"])
def test_a_token_of_the_store_is_swapped_for_a_session_that_ends_with_it(store, console, clock, role):
    client, token = client_of(console), store.add_token(role, "somebody")
    assert log_in(client, token).status_code == 303
    assert token not in repr(client.cookies)
    assert client.get(PAGE).status_code == 200
    revoke(store, token)
    clock.now += 2
    assert client.get(PAGE).status_code == 401


def test_a_session_ends_when_its_token_expires(store, console, client, clock):
    token = store.add_token("viewer", "somebody", expires=int(clock.now) + 100)
    assert log_in(client, token).status_code == 303
    clock.now += 99
    assert client.get(PAGE).status_code == 200
    clock.now += 1
    assert client.get(PAGE).status_code == 401


def test_a_write_token_and_a_guess_log_nobody_in(store, client):
    for token in (store.add_token("write", "app"), "guess", ""):
        answer = log_in(client, token)
        assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)


def test_a_viewer_reads_and_does_not_decode_or_write(store, console):
    client = client_of(console)
    log_in(client, store.add_token("viewer", "somebody"))
    assert client.get(PAGE).status_code == 200
    assert "<textarea" not in client.get(PAGE).text
    for address in (f"{PAGE}?candidates=ash", f"{PAGE}.csv?list=00"):
        answer = client.get(address)
        assert answer.status_code == 403
        assert "this needs the role analyst; yours is viewer" in answer.text.replace("This", "this")
    assert client.post(PAGE, data={"candidates": "ash"}, headers=SAME_ORIGIN).status_code == 403


def test_an_analyst_decodes_with_a_short_and_with_a_long_list(store, console):
    client = client_of(console)
    log_in(client, store.add_token("analyst", "somebody"))
    assert "<textarea" in client.get(PAGE).text
    short = client.post(PAGE, data={"candidates": "ash, white\r\noak\r\n"}, headers=SAME_ORIGIN)
    assert (short.status_code, short.headers["location"]) == (303, f"{PAGE}?candidates=ash%2C+white%0Aoak")
    file = {"candidates": ("words.txt", "\n".join(f"word {i}" for i in range(1000)).encode())}
    long = client.post(PAGE, data={"candidates": "ash"}, files=file, headers=SAME_ORIGIN)
    assert long.status_code == 303
    assert client.get(long.headers["location"].replace("?", ".json?")).json()["held"] == 1001


def test_a_bearer_token_needs_no_session(store, client):
    token = store.add_token("analyst", "program")
    assert client.get(f"{PAGE}.json", headers=bearer(token)).status_code == 200
    assert client.post(PAGE, data={"candidates": "ash"}, headers=bearer(token)).status_code == 303
    assert client.get(PAGE, headers=bearer("guess")).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin"}, 303),
        ({"sec-fetch-site": "same-site"}, 403),  # another port of this machine, with the cookie
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": ADDRESS}, 403),
        ({"origin": ADDRESS}, 303),
        ({"origin": "http://127.0.0.1:8002"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({}, 403),
    ],
)
def test_a_form_is_taken_from_a_page_of_the_console_alone(console, client, headers, status):
    log_in(client, console.gate.sessions.make_link("admin"))
    assert client.post(PAGE, data={"candidates": "ash"}, headers=headers).status_code == status
    assert client.get(PAGE, headers=headers).status_code == 200  # a link from anywhere shows the page


def test_a_login_from_another_site_is_refused(console, client):
    link = console.gate.sessions.make_link("admin")
    for headers in ({"sec-fetch-site": "cross-site"}, {}):
        assert client.post("/login", data={"token": link}, headers=headers).status_code == 403
    assert log_in(client, link).status_code == 303


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8001", 200),
        ("localhost:9", 200),
        ("LOCALHOST", 200),
        ("[::1]:8001", 200),
        ("console.example.org", 200),
        ("evil.example:8001", 421),
        ("127.0.0.1.evil.example", 421),
        ("127.0.0.1:8001@evil.example", 421),
        ("", 421),
    ],
)
def test_another_host_is_refused(client, host, status):
    assert client.get("/public", headers={"host": host}).status_code == status


@pytest.mark.parametrize("then", ["//evil.example", "https://evil.example", "/\\evil.example", "/login", "/\tm", ""])
def test_a_login_leads_to_this_console_alone(console, client, then):
    assert log_in(client, console.gate.sessions.make_link("admin"), then=then).headers["location"] == "/m/"


class TestTrustedProxy:
    def client(self, store, source, server=("127.0.0.1", 8001), peer="127.0.0.1"):
        socket = None if source == "loopback" else source
        console = console_on(
            store, proxy=TrustedProxy("x-forwarded-user", {"ada@example.org": "analyst"}, socket=socket)
        )

        async def app(scope, receive, send):
            await console({**scope, "server": server}, receive, send)

        return client_of(app, client=(peer, 50_000))

    def test_the_header_on_another_connection_is_refused_and_not_ignored(self, store):
        forged = {"x-forwarded-user": "ada@example.org"}
        assert self.client(store, "loopback").get(f"{PAGE}?candidates=a", headers=forged).status_code == 200
        assert self.client(store, "loopback", peer="192.0.2.7").get("/public", headers=forged).status_code == 400
        by_socket = self.client(store, "/run/console.sock", server=("/run/console.sock", None))
        assert by_socket.get(PAGE, headers=forged).status_code == 200
        assert self.client(store, "/run/console.sock").get("/public", headers=forged).status_code == 400

    def test_the_header_twice_is_refused(self, store):
        twice = [("x-forwarded-user", "ada@example.org"), ("x-forwarded-user", "eve@example.org")]
        assert self.client(store, "loopback").get(PAGE, headers=twice).status_code == 400

    def test_a_change_needs_a_page_of_the_console_here_too(self, store):
        client, ada = self.client(store, "loopback"), {"x-forwarded-user": "ada@example.org"}
        assert client.post(PAGE, data={"candidates": "a"}, headers=ada).status_code == 403
        assert client.post(PAGE, data={"candidates": "a"}, headers=ada | SAME_ORIGIN).status_code == 303


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("roles = 3", "field roles: give a table"),
        ('[roles]\nada = "root"', "field roles.ada: give viewer, analyst or admin, not 'root'"),
        ('default = "write"', "field default: give viewer"),
        ('[role]\nada = "viewer"', "field role: there is no such key; did you mean roles"),
        ("[", "this is not TOML"),
    ],
)
def test_a_file_of_roles_that_cannot_be_used_says_why(tmp_path, text, message):
    file = tmp_path / "roles.toml"
    file.write_text(text)
    with pytest.raises(FormatError, match=message):
        read_roles(file)


@pytest.mark.parametrize(
    ("header", "source", "roles", "message"),
    [
        (None, "loopback", None, "belong to trust_header"),
        ("X-User", None, "roles.toml", "trust_header needs from"),
        ("X-User", "loopback", None, "trust_header needs from"),
        ("X-User", "0.0.0.0", "roles.toml", "a header from elsewhere can be forged"),
        ("X-User", "unix:/", "roles.toml", "a header from elsewhere can be forged"),
    ],
)
def test_a_proxy_is_trusted_on_a_socket_or_on_this_machine_alone(header, source, roles, message):
    with pytest.raises(ParameterError, match=message):
        parse_proxy(header, source, roles)


def test_roles_are_read_from_a_file(tmp_path):
    file = tmp_path / "roles.toml"
    file.write_text('default = "viewer"\n[roles]\n"ada@example.org" = "admin"\n')
    proxy = parse_proxy("X-Forwarded-User", f"unix:{tmp_path}/s", file)
    assert (proxy.header, proxy.socket) == ("x-forwarded-user", f"{tmp_path}/s")
    assert [proxy.role([name], None, proxy.socket) for name in ("ada@example.org", "eve")] == ["admin", "viewer"]


# --- what strangers can make it hold
@pytest.fixture
def served(console):
    with served_console(console.data) as serving:
        yield serving, ("127.0.0.1", int(serving.address.rpartition(":")[2]))


def begun_form(path, length, *more):
    lines = (f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Sec-Fetch-Site: same-origin", *more)
    kind = "Content-Type: application/x-www-form-urlencoded"
    return "\r\n".join((*lines, kind, f"Content-Length: {length}", "", "")).encode()


def test_a_form_of_a_stranger_is_refused_before_it_is_read(served):
    for length, status in ((4096, None), (4097, 413), (15 << 20, 413)):
        with Wire(served[1], 3) as wire:
            wire.send(begun_form("/login", length))
            if status is None:
                wire.send(b"token=" + bytes(4090))
            assert wire.answer()[0] == (status or 403)


def test_a_long_form_is_for_an_analyst_and_nobody_else(served, store):
    roles = {role: store.add_token(role, "somebody") for role in ("viewer", "analyst")}
    for role, status in (("viewer", 403), ("", 401), ("analyst", 413)):
        more = [f"Authorization: Bearer {roles[role]}"] if role else []
        with Wire(served[1], 3) as wire:  # none of the body is sent: the answer comes before it
            assert wire.send(begun_form("/m/colour", 17 << 20, *more)).answer()[0] == status


def test_a_request_that_does_not_arrive_is_given_up(served, monkeypatch):
    monkeypatch.setattr("overstory.supervision.connection.BoundedConnection.limits", Limits(reading_seconds=0.3))
    with Wire(served[1]) as half, Wire(served[1]) as slow:
        half.send(b"GET / HTTP/1.1\r\nHo")
        slow.send(begun_form("/login", 100) + b"token=")
        for wire in (half, slow):
            assert wire.answer()[0] == 408
            assert wire.ended()


def test_a_login_after_which_a_long_address_follows_fits_into_its_form(client):
    for length, follows in ((1_500, True), (5_000, False)):
        page = client.get(f"/m/colour?candidates={'a' * length}").text
        assert ("a" * length in page) is follows
