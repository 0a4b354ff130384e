"""`overstory doctor`: each thing that can be wrong is one line that says what to do."""

import datetime as dt
import json
import random
import resource
import shutil
import ssl
import time
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace

import pytest

from overstory.cli.main import main
from overstory.collector import checkup
from overstory.collector.checkup import check_promises, weakened
from overstory.collector.store import open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from support.collector_in_process import METRICS, NOW, REGISTRY, TODAY, FakeStore
from support.collector_processes import CollectorProcess
from support.processes import make_certificate
from support.registry_texts import registry_of
from support.running import within
from support.served import served
from support.store_samples import received, reports, some

MIB = 1 << 20


def lines(findings):
    return [f"{one.level} {one.check}: {one.detail}" for one in findings]


@pytest.mark.parametrize(("limit", "level"), [(100, "error"), (1024, "warning"), (65_536, "ok")])
def test_the_limit_of_open_files(limit, level, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    (finding,) = checkup.check_files()
    assert (finding.level, "LimitNOFILE" in finding.do) == (level, level != "ok")


def test_metrics_that_expire():
    day = dt.datetime(2040, 1, 1, tzinfo=dt.UTC).timestamp()
    assert [one.level for one in checkup.check_registry(METRICS, day - 40 * 86_400)] == ["ok", "warning"]  # `ended`
    soon = list(checkup.check_registry(METRICS, day - 20 * 86_400))
    assert [one.detail for one in soon[1:3]] == ["bloom expires on 2040-01-01", "colour expires on 2040-01-01"]
    assert "bloom expired on 2040-01-01" in [one.detail for one in checkup.check_registry(METRICS, day)]


@pytest.fixture
def store_file(tmp_path):
    path = str(tmp_path / "store.db")
    with open_store(path, METRICS, create=True) as store:
        store.add_token("write", "app", int(NOW) + 5 * 86_400)
        store.add([some(METRICS["colour"], TODAY, 1, 1)])
    return path


def test_a_store_its_tokens_and_whether_the_registry_goes_with_it(store_file, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9_000 * MIB))
    said = lines(checkup.check_store(store_file, METRICS, NOW))
    assert [line.split(":")[0] for line in said] == [
        "ok schema",
        "warning tokens",  # none for admins
        "warning tokens",  # one that ends
        "ok tokens",
        "ok registry and store",
        "ok disk",
    ]
    assert "(write, app) is refused from 2026-11-26 on" in said[2]
    changed = parse_registry(REGISTRY.replace("parameters = {epsilon = 1.0}", "parameters = {epsilon = 1.5}"))
    assert any(
        "colour: all stored reports were made with other" in line
        for line in lines(checkup.check_store(store_file, changed, NOW))
    )
    other = parse_registry(REGISTRY.replace("[metrics.colour]", "[metrics.hue]"))
    assert any("has reports of colour, which" in line for line in lines(checkup.check_store(store_file, other, NOW)))


@pytest.mark.parametrize(("free", "level"), [(50, "error"), (500, "warning"), (5_000, "ok")])
def test_room_on_the_disk(store_file, free, level, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free * MIB))
    assert f"{level} disk" in [line.split(":")[0] for line in lines(checkup.check_store(store_file, None, NOW))]


def test_a_clock_behind_the_store_and_a_store_that_others_may_read(store_file):
    with open_store(store_file) as store:
        store.compact(NOW)
    Path(store_file).chmod(0o644)
    said = lines(checkup.check_store(store_file, None, NOW - 40 * 86_400))
    assert "error clock: the store has seen 2026-11-21, this machine's clock shows 2026-10-12" in said
    assert any(line.startswith("warning store:") and "others may read it" in line for line in said)


needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")


@needs_openssl
@pytest.mark.parametrize(("days", "level"), [(3, "warning"), (90, "ok"), (20_000, "ok")])
def test_a_certificate_s_end_is_read_and_judged(tmp_path, days, level):
    path = make_certificate(tmp_path, days=days)
    ends = ssl.cert_time_to_seconds(ssl._ssl._test_decode_cert(str(path))["notAfter"])  # type: ignore[attr-defined]
    assert [one.level for one in checkup.check_certificate(path, time.time())] == [level]
    (over,) = checkup.check_certificate(path, ends)
    assert (over.level, "SIGHUP" in over.do) == ("error", True)


def test_what_is_no_certificate(tmp_path):
    path = tmp_path / "certificate.pem"
    for raw in (b"", b"MIIB", b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", bytes(100)):
        path.write_bytes(raw)
        (finding,) = checkup.check_certificate(path, time.time())
        assert (finding.level, finding.detail) == ("error", f"{path}: no certificate in PEM")


def test_a_running_collector_its_clock_and_its_registry():
    with served(store=FakeStore()) as (_, (host, port)):
        url = f"http://{host}:{port}"
        said = lines(checkup.check_url(url, METRICS))
        assert [line.split(":")[0] for line in said] == ["ok collector", "ok clock", "ok served registry"]
        for ahead, level in ((300, "warning"), (-7_200, "error")):
            said = lines(checkup.check_url(url, METRICS, lambda ahead=ahead: time.time() + ahead))
            assert said[1].startswith(f"{level} clock: the clocks of this machine and of the collector are")
        other = parse_registry(REGISTRY.replace('title = "t"', 'title = "other"'))
        assert lines(checkup.check_url(url, other))[2].startswith("warning served registry")
    (gone,) = checkup.guarded("collector", lambda: checkup.check_url(url, METRICS))
    assert (gone.level, gone.check) == ("error", "collector")
    assert [one.level for one in checkup.check_url("collector.example", None)] == ["error"]


def test_an_answer_s_date_has_whole_seconds():
    assert checkup._compared_clocks(formatdate(1_000), 1_000.9, 1_000.95).level == "ok"
    assert checkup._compared_clocks(None, 0.0, 0.0).level == "warning"


def test_the_command_says_all_and_its_status_is_1_for_an_error(store_file, tmp_path, capsys, monkeypatch):
    for name in ("STORE", "REGISTRY", "CONFIG"):
        monkeypatch.delenv(f"OVERSTORY_{name}", raising=False)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (65_536, 65_536))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=9_000 * MIB))
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    config = tmp_path / "serve.toml"
    config.write_text(f'store = "{store_file}"\nregistry = "{tmp_path}/metrics.toml"\n')
    config.chmod(0o600)
    assert main(["doctor", "--config", str(config)]) == 0
    assert "ok       disk: 9,000 MiB free" in capsys.readouterr().out
    assert main(["doctor", "--config", str(config), "--store", str(tmp_path / "none.db"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["errors"], [one["level"] for one in told["checks"] if one["check"] == "store"]) == (1, ["error"])
    config.write_text("stor = 1")
    config.chmod(0o644)
    assert main(["doctor", "--config", str(config)]) == 1
    said = capsys.readouterr().out
    assert "field stor: there is no such setting; did you mean store?" in said
    assert "warning  settings:" in said


# A collector does not begin to collect with less privacy than the reports in its store were promised.
PROMISING = registry_of(
    {
        "export-format": {
            "domain": '{kind = "categories", names = ["pdf", "png", "svg"]}',
            "oracle": '"l-grr"',
            "parameters": "{epsilon_permanent = 2.0, epsilon_report = 1.0}",
        },
        "theme": {
            "domain": '{kind = "categories", names = ["light", "dark"]}',
            "oracle": '"opt-wb"',
            "parameters": "{epsilon = 1.0, window = 4}",
        },
    }
)
PROMISED_REGISTRY = parse_registry(PROMISING)
PERMANENT = PROMISING.replace("epsilon_permanent = 2.0", "epsilon_permanent = 6.0")
PROMISED = "export-format: 2,000 reports were promised epsilon 2, this registry has 6; run overstory metrics diff"


def filled(url, text=PROMISING, name="export-format", count=2000, *, create=True):
    metrics = parse_registry(text)
    with open_store(url, metrics, create=create) as store:
        metric = metrics[name]
        store.add([received(metric, metric.period.number(NOW), reports(metric, count, random.Random(1)))])
        store.compact(NOW)
    return url


def weakening(url, text):
    with open_store(url) as store:
        return list(weakened(store, parse_registry(text)))


def test_a_weaker_registry_is_refused_before_the_store_has_taken_it_in(store_url):
    filled(store_url)
    warned = []
    with pytest.raises(ParameterError) as caught:
        check_promises(store_url, parse_registry(PERMANENT), allow_weaker=False, warn=warned.append)
    assert str(caught.value).splitlines()[0] == PROMISED
    assert "allow_weaker = true" in str(caught.value).splitlines()[1]
    assert not warned
    check_promises(store_url, parse_registry(PERMANENT), allow_weaker=True, warn=warned.append)
    assert warned == [PROMISED]
    check_promises(store_url, PROMISED_REGISTRY, allow_weaker=False, warn=warned.append)
    assert len(warned) == 1


def test_a_decision_is_not_asked_for_again_once_its_reports_are_there(store_url):
    filled(store_url)
    open_store(store_url, parse_registry(PERMANENT)).close()
    assert weakening(store_url, PERMANENT) == [PROMISED], "that it was opened with the registry decides nothing"
    filled(store_url, PERMANENT, count=1, create=False)
    assert weakening(store_url, PERMANENT) == []


def test_each_metric_has_its_line(tmp_path):
    url = filled(str(tmp_path / "store.db"), count=1)
    filled(url, name="theme", count=2, create=False)
    found = weakening(url, PERMANENT.replace("epsilon = 1.0, window", "epsilon = 3.0, window"))
    assert [line.partition(":")[0] for line in found] == ["export-format", "theme"]
    assert found[0].startswith("export-format: 1 report was promised epsilon 2, this registry has 6;")
    (kept_longer,) = weakening(url, PROMISING.replace("retention_days = 90", "retention_days = 91", 1))
    assert kept_longer.startswith("export-format: 1 report ")
    assert "stored, and reports are kept for 91 days, not for 90" in kept_longer


@pytest.mark.parametrize(
    "change",
    [
        ('title = "t"', 'title = "T"'),
        ("retention_days = 90", "retention_days = 30"),
        ("expires = 2099", "expires = 2098"),
        ("epsilon = 1.0, window", "epsilon = 3.0, window"),  # a metric without reports: nobody was promised anything
        ("export-format]", "export]"),
    ],
)
def test_what_weakens_nothing_is_not_named(tmp_path, change):
    filled(url := str(tmp_path / "store.db"), count=3)
    assert weakening(url, PROMISING.replace(*change, 1)) == []


def test_a_store_that_is_not_there_has_no_promises(tmp_path):
    check_promises(str(tmp_path / "none.db"), PROMISED_REGISTRY, allow_weaker=False, warn=print)
    assert not (tmp_path / "none.db").exists()


def test_the_collector_itself_refuses_and_warns_where_it_is_allowed(store_url, tmp_path):
    filled(store_url)
    path = tmp_path / "metrics.toml"
    path.write_text(PERMANENT)
    ran = within("serve", "--registry", path, "--store", store_url, "--port", 0, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    first, second = ran.stderr.splitlines()
    assert first == f"overstory: error: {PROMISED}"
    assert "allow_weaker = true" in second
    collector = CollectorProcess(path, store_url, ("OVERSTORY_ALLOW_WEAKER=1", "OVERSTORY_GRACE=0"))
    collector.start()
    assert collector.stop() == 0
    assert f"warning {PROMISED}" in "".join(collector.said)
