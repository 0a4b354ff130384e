"""A6: a collector does not begin to collect with less privacy than the reports in its store were promised."""

import random
import subprocess
import sys

import pytest

from overstory.collector.checkup import check_promises, weakened
from overstory.collector.store import open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from support.collector_processes import CollectorProcess
from support.registry_texts import registry_of
from support.store_samples import NOW, received, reports

TEXT = registry_of(
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
OLD = parse_registry(TEXT)
PERMANENT = TEXT.replace("epsilon_permanent = 2.0", "epsilon_permanent = 6.0")
PROMISED = (
    "export-format: 2,000 reports were promised epsilon 2.0000, this registry has 6.0000; run overstory metrics diff"
)


def filled(url, text=TEXT, name="export-format", count=2000, *, create=True):
    """Put reports of a metric into a store, folded."""
    metrics = parse_registry(text)
    with open_store(url, metrics, create=create) as store:
        metric = metrics[name]
        store.add([received(metric, metric.period.number(NOW), reports(metric, count, random.Random(1)))])
        store.compact(NOW)
    return url


def lines(url, text):
    with open_store(url) as store:
        return list(weakened(store, parse_registry(text)))


def test_a_weaker_registry_is_refused_before_the_store_has_taken_it_in(store_url):
    filled(store_url)
    warned = []
    with pytest.raises(ParameterError) as caught:
        check_promises(store_url, parse_registry(PERMANENT), allow_weaker=False, warn=warned.append)
    assert str(caught.value).splitlines()[0] == PROMISED
    assert "--allow-weaker" in str(caught.value).splitlines()[1]
    assert not warned
    check_promises(store_url, parse_registry(PERMANENT), allow_weaker=True, warn=warned.append)
    assert warned == [PROMISED]
    check_promises(store_url, OLD, allow_weaker=False, warn=warned.append)
    assert len(warned) == 1


def test_a_decision_is_not_asked_for_again_once_its_reports_are_there(store_url):
    filled(store_url)
    open_store(store_url, parse_registry(PERMANENT)).close()
    assert lines(store_url, PERMANENT) == [PROMISED], "that it was opened with the registry decides nothing"
    filled(store_url, PERMANENT, count=1, create=False)
    assert lines(store_url, PERMANENT) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("epsilon_report = 1.0", "epsilon_report = 1.5"), "epsilon 1.0000 for each, this registry has 1.5000"),
        (("epsilon_permanent = 2.0", "epsilon_permanent = 1.5"), "stored, and devices that have reported draw new"),
        (("retention_days = 90", "retention_days = 91"), "stored, and reports are kept for 91 days, not for 90"),
    ],
)
def test_what_metrics_diff_calls_weaker_is_named(tmp_path, change, said):
    filled(url := str(tmp_path / "store.db"), count=3)
    (line,) = lines(url, TEXT.replace(*change, 1))
    assert line.startswith("export-format: 3 reports ")
    assert said in line


def test_each_metric_has_its_line(tmp_path):
    url = filled(str(tmp_path / "store.db"), count=1)
    filled(url, name="theme", count=2, create=False)
    found = lines(url, PERMANENT.replace("epsilon = 1.0, window", "epsilon = 3.0, window"))
    assert [line.partition(":")[0] for line in found] == ["export-format", "theme"]
    assert found[0].startswith("export-format: 1 report was promised epsilon 2.0000, this registry has 6.0000;")


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
    assert lines(url, TEXT.replace(*change, 1)) == []


def test_a_store_that_is_not_there_has_no_promises(tmp_path):
    check_promises(str(tmp_path / "none.db"), OLD, allow_weaker=False, warn=print)
    assert not (tmp_path / "none.db").exists()


def test_the_collector_itself_refuses(store_url, tmp_path):
    filled(store_url)
    path = tmp_path / "metrics.toml"
    path.write_text(PERMANENT)
    command = [sys.executable, "-m", "overstory", "serve", "--registry", str(path), "--store", store_url, "--port", "0"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "")
    first, second = ran.stderr.splitlines()
    assert first == f"overstory: error: {PROMISED}"
    assert "--allow-weaker" in second


def test_the_collector_itself_warns_where_it_is_allowed(tmp_path):
    url = filled(str(tmp_path / "store.db"))
    path = tmp_path / "metrics.toml"
    path.write_text(PERMANENT)
    collector = CollectorProcess(path, url, ("--allow-weaker", "--grace", "0"))
    collector.start()
    assert collector.stop() == 0
    assert f"warning {PROMISED}" in "".join(collector.said)
