"""The operator: a collector by docs/how-to/collector.md and docs/how-to/stores.md, from settings to end."""

import os
import signal
import sys
import time
import urllib.error
import urllib.request

import pytest

from support.playing import INIT, Newcomer

if sys.platform == "win32":
    pytest.skip("signals and shells of POSIX", allow_module_level=True)

# One hour, in order, with one collector.
pytestmark = pytest.mark.slow

SETTINGS = 'registry = "metrics.toml"\nstore = "reports.db"\nport = 0\n'
SERVE = "env OVERSTORY_LOG_FORMAT=json overstory serve --config serve.toml"
WRITE, ADMIN = "OVERSTORY_WRITE_TOKEN=$(cat write-token)", "OVERSTORY_ADMIN_TOKEN=$(cat admin-token)"
SIMULATE = "overstory simulate --registry metrics.toml --devices 40"


@pytest.fixture(scope="module")
def operator(tmp_path_factory):
    """Return somebody with a registry, a store, two tokens and the collector's settings."""
    newcomer = Newcomer(tmp_path_factory.mktemp("operator"))
    newcomer.shell(INIT)
    newcomer.write("serve.toml", SETTINGS)
    newcomer.shell("overstory store create reports.db")
    for role, application in (("write", "my-app"), ("admin", "analysts")):
        add = f"overstory store tokens add reports.db --role {role} --application {application}"
        newcomer.shell(f"{add} > {role}-token && test -s {role}-token")
    return newcomer


@pytest.fixture(scope="module")
def serving(operator):
    """Return its collector, which has taken 40 reports."""
    with operator.serving(SERVE) as serving:
        assert "no-token" in operator.shell(f"{SIMULATE} --url {serving.url}", status=2)
        operator.shell(f"{WRITE} {SIMULATE} --url {serving.url}")
        yield serving


def weaker(registry):
    """Return the registry with more told by each report."""
    assert "epsilon_permanent = 4.0, epsilon_report = 2.0" in registry
    return registry.replace(
        "epsilon_permanent = 4.0, epsilon_report = 2.0", "epsilon_permanent = 9.0, epsilon_report = 6.0"
    )


def answer_to(serving, token):
    """Return the status that a post of nothing with this token gets."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {serving.newcomer.read(token).strip()}"}
    try:
        urllib.request.urlopen(urllib.request.Request(f"{serving.url}/v1/reports", b"", headers), timeout=10)
    except urllib.error.HTTPError as error:
        return error.code
    raise AssertionError("nothing was taken for an upload")


def test_settings_come_from_a_file_and_the_environment(operator, serving):
    assert serving.logged('"event": "start"').startswith("{")
    said = operator.shell("OVERSTORY_COMPACT_EVRY=3 overstory serve --config serve.toml", status=2)
    assert "OVERSTORY_COMPACT_EVERY" in said


def test_estimates_are_read_without_the_registry(operator, serving):
    """A16: `decode --url` asked for the registry."""
    decode = f"overstory decode --url {serving.url} --metric theme --all"
    assert "OVERSTORY_ADMIN_TOKEN" in operator.shell(decode, status=2)
    assert "40 reports of theme" in operator.shell(f"{ADMIN} {decode}")


def test_people_read_what_is_collected(serving):
    request = urllib.request.Request(f"{serving.url}/", headers={"Accept": "text/html"})
    with urllib.request.urlopen(request, timeout=10) as page:
        assert '<h2 id="theme">Theme (theme)</h2>' in page.read().decode()


def test_doctor_looks_at_everything(operator, serving):
    said = operator.shell(f"overstory doctor --config serve.toml --url {serving.url}")
    assert "0 errors" in said
    for looked_at in ("registry", "schema", "tokens", "disk", "collector", "clock", "served registry"):
        assert f" {looked_at}: " in said


def test_a_second_collector_on_the_file_does_not_start(operator, serving):
    said = operator.shell(SERVE, status=2)
    assert f"process {serving.process.pid} serves this file already" in said


def test_a_token_is_rotated_while_it_runs(operator, serving):
    for token in ("old", "new"):
        operator.shell(f"overstory store tokens add reports.db --role write --application {token} > {token}-token")
    rows = [line.split() for line in operator.shell("overstory store tokens list reports.db").splitlines()]
    (old,) = (row[0] for row in rows if row[1:3] == ["write", "old"])
    operator.shell(f"overstory store tokens revoke reports.db {old}")
    end = time.monotonic() + 20
    while (answer_to(serving, "old-token"), answer_to(serving, "new-token")) != (401, 400):
        assert time.monotonic() < end, "a running collector follows within two seconds"
        time.sleep(0.1)


def test_a_backup_becomes_a_second_store(operator, serving):
    assert "verified" in operator.shell("overstory store backup reports.db monday.db")
    assert "40 reports restored, verified" in operator.shell("overstory store restore monday.db restored.db")


def test_reload_takes_a_registry_and_refuses_a_weaker_one(operator, serving):
    before = operator.read("metrics.toml")
    operator.write("metrics.toml", before.replace("The theme in use.", "Which theme is in use."))
    os.kill(serving.process.pid, signal.SIGHUP)
    serving.logged('"event": "reload"')
    with urllib.request.urlopen(f"{serving.url}/v1/metrics/theme", timeout=10) as page:
        assert "Which theme is in use." in page.read().decode()
    operator.write("metrics.toml", weaker(before))
    os.kill(serving.process.pid, signal.SIGHUP)
    assert "run overstory metrics diff" in serving.logged('"level": "error"')
    operator.write("metrics.toml", before)


def test_the_end_is_clean_and_nothing_is_lost(operator, serving):
    """And the next start compares the registry with what the store promised (A6)."""
    operator.shell(f"{WRITE} {SIMULATE} --url {serving.url}")
    serving.process.terminate()
    assert serving.process.wait(20) == 0
    assert '"event": "stop"' in operator.read("serve.log")
    decoded = operator.shell("overstory decode --store reports.db --registry metrics.toml --metric theme --all")
    assert "80 reports of theme" in decoded
    operator.write("metrics.toml", weaker(operator.read("metrics.toml")))
    said = operator.shell(SERVE, status=2)
    assert "theme: 80 reports were promised epsilon" in said
