"""The console as a process: its command, its sockets, its end, and the collector that starts it."""

import asyncio
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest

from overstory.collector.store import StoreError, open_store
from overstory.supervision.upkeep import Task
from support.console_in_process import SAME_ORIGIN, client_of, console_on
from support.console_store import write_registry
from support.listening_process import assigned
from support.misfortunes import until
from support.processes import make_certificate

LINK = re.compile(r"console on (https?://127\.0\.0\.1:(\d+))/login#(\S+)")


@pytest.fixture
def folder(tmp_path):
    write_registry(tmp_path)
    open_store(str(tmp_path / "reports.db"), create=True).close()
    return tmp_path


@contextmanager
def running(folder, *arguments, **environment):
    command, variables = assigned([sys.executable, "-m", "overstory", *map(str, arguments)])
    variables = os.environ | {"PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"} | environment | variables
    process = subprocess.Popen(
        command, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        link = next((match for line in process.stdout if (match := LINK.match(line))), None)
        assert link is not None, process.stderr.read() if process.stderr else ""
        yield process, link
    finally:
        process.kill()
        process.communicate()


def console(folder, *more, **environment):
    return running(
        folder, "console", "--registry", "metrics.toml", "--store", "reports.db", "--port", 0, *more, **environment
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_prints_one_link_that_logs_in_once_and_ends_at_a_signal(folder, number):
    with console(folder) as (process, link):
        address, _, token = link.groups()
        with httpx.Client(base_url=address) as client:
            answer = client.post("/login", data={"token": token}, headers=SAME_ORIGIN)
            assert answer.status_code == 303
            assert client.get("/m/theme").status_code == 200
            assert client.post("/login", data={"token": token}, headers=SAME_ORIGIN).status_code == 403
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")  # no line about a request, and none about who made it


def test_a_trusted_proxy_comes_by_its_socket(folder):
    path = folder / "console.sock"
    (folder / "roles.toml").write_text('[roles]\n"ada@example.org" = "viewer"\n')
    more = (
        "OVERSTORY_CONSOLE_TRUST_HEADER=X-Forwarded-User",
        f"OVERSTORY_CONSOLE_FROM=unix:{path}",
        "OVERSTORY_CONSOLE_ROLES=roles.toml",
    )
    named = {"x-forwarded-user": "ada@example.org"}
    with console(folder, *more) as (process, link):
        assert path.stat().st_mode & 0o777 == 0o660
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            assert client.get("/m/theme").status_code == 401
            assert client.get("/m/theme", headers=named).status_code == 200
            assert client.get("/m/theme", headers={"x-forwarded-user": "eve"}).status_code == 401
        assert httpx.get(f"{link[1]}/m/theme", headers=named).status_code == 400
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert not path.exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_over_tls_there_is_one_cookie_and_it_is_secure(folder):
    certificate = make_certificate(folder)
    with console(folder, f"OVERSTORY_CONSOLE_TLS_CERTIFICATE={certificate}", "OVERSTORY_CONSOLE_TLS_KEY=key.pem") as (
        _,
        link,
    ):
        context = ssl.create_default_context(cafile=certificate)
        context.check_hostname = False
        with httpx.Client(base_url=link[1], verify=context) as client:
            answer = client.post("/login", data={"token": link[3]}, headers=SAME_ORIGIN)
            (cookie,) = answer.headers.get_list("set-cookie")
            assert cookie.startswith(f"__Host-overstory-{link[2]}=")
            assert "Secure" in cookie
            assert client.get("/m/theme").status_code == 200


def test_settings_come_from_the_environment_and_a_file(folder):
    (folder / "console.toml").write_text('registry = "metrics.toml"\nstore = "no.db"\n')
    variables = {"OVERSTORY_CONSOLE_CONFIG": "console.toml", "OVERSTORY_STORE": "reports.db", "OVERSTORY_PORT": "1"}
    with running(folder, "console", **variables, OVERSTORY_CONSOLE_PORT="0") as (_, link):
        assert httpx.get(f"{link[1]}/login").status_code == 200
        answer = httpx.get(f"{link[1]}/readyz")
        assert (answer.status_code, answer.json()) == (200, {"ready": True})


def test_a_console_whose_store_cannot_be_read_is_not_ready_until_it_can(store):
    fails = [True]

    def read():
        if fails[0]:
            raise StoreError("the store does not answer")
        return store.tokens()

    made = console_on(store)
    made.upkeep.start([Task("store", 0.05, 30.0, needed=True, thread="store", work=read)])
    browser = client_of(made)
    until(lambda: browser.get("/readyz").status_code == 503)
    fails[0] = False
    until(lambda: browser.get("/readyz").status_code == 200)
    asyncio.run(made.upkeep.stop())
