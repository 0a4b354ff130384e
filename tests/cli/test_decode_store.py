"""decode of a store and of a collector: what is printed, what is written, and what is refused."""

import re

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from overstory.queries import readings
from support.registry_texts import COLOURS, LISTED, registry_of
from support.running import done
from support.served import served
from support.store_samples import received_batch

DAYS = (20_700, 20_701, 20_703)


THREE = (
    '{kind = "table", names = ["version", "crash", "size"], of = ['
    '{kind = "categories", names = ["1.0", "2.0"]}, {kind = "categories", names = ["no", "yes"]}, '
    '{kind = "integers", min = 1, max = 3}]}'
)


def registry(folder, epsilon=1.5):
    (folder / "trees.txt").write_text("ash\nelm\noak\n")
    memoized = f"{{epsilon_permanent = 3.0, epsilon_report = {epsilon}}}"
    metrics = {
        "colour": {"oracle": '"l-osue"', "parameters": memoized, "domain": COLOURS},
        "tree": {"oracle": '"rappor"', "parameters": "{num_bits = 32, num_cohorts = 4}", "domain": LISTED},
        "three": {"oracle": '"grr"', "parameters": "{epsilon = 3.0}", "domain": THREE},
    }
    path = folder / f"metrics-{epsilon}.toml"
    path.write_text(registry_of(metrics, expires="2040-01-01"))
    return path


def fill(store, metric, seed, devices=3000):
    candidates = metric.labels if metric.id == "tree" else None
    held = np.arange(devices) % 3 // 2
    fleet = FrequencyOracle(metric.mechanism).devices(held, np.random.default_rng(seed), candidates=candidates)
    store.add([received_batch(metric, day, fleet.report(number)) for number, day in enumerate(DAYS)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store with two metrics, one of them under two sets of parameters."""
    path = tmp_path_factory.mktemp("reading")
    new, old = load_registry(registry(path)), load_registry(registry(path, epsilon=1.0))
    with open_store(str(path / "reports.db"), new, create=True) as store:
        fill(store, new["colour"], seed=1)
        fill(store, new["tree"], seed=2)
        held = np.random.default_rng(1).integers(12, size=60_000)
        devices = SimulatedDevices.holding(new["three"].mechanism, range(12), held, np.random.default_rng(2))
        store.add([received_batch(new["three"], DAYS[0], devices.report())])
    with open_store(str(path / "reports.db"), old) as store:
        fill(store, old["colour"], seed=3, devices=40)
    return path


KEPT = ("--store", "reports.db", "--registry", "metrics-1.5.toml")
COLOUR = (*KEPT, "--metric", "colour")


def texts(picture):
    return " ".join(re.findall(r"<text[^>]*>(.*?)</text>", picture.read_text()))


def test_a_reading_is_drawn_as_every_estimate_is(folder):
    done(folder, "decode", *COLOUR, "--plot", "total.svg", "--json")
    shown = texts(folder / "total.svg")
    assert "2026-09-04 to 2026-09-07: 2 of 3 values detected" in shown
    assert "95% intervals of these reports" in shown
    done(folder, "decode", *COLOUR, "--aggregate", "per-period", "--plot", "days.svg", "--quiet")
    shown = texts(folder / "days.svg")
    assert all(f"{day}: 2 of 3 values detected" in shown for day in ("2026-09-04", "2026-09-05", "2026-09-07"))
    assert "95% intervals of all devices like these" in shown


def test_a_picture_of_many_periods_says_how_many_it_leaves_out(folder, monkeypatch):
    monkeypatch.setattr(readings.RangeReading, "most_drawn", 2)
    done(folder, "decode", *COLOUR, "--aggregate", "cumulative", "--plot", "two.svg")
    shown = texts(folder / "two.svg")
    assert "2 of 3 ranges shown, the last" in shown
    assert "2026-09-04: " not in shown


def test_three_variables_are_three_tables(folder):
    shown = done(folder, "decode", *KEPT, "--metric", "three", "-o", "read", "--plot", "three.svg").stdout
    assert all(f"{pair}\n" in shown for pair in ("version and crash", "version and size", "crash and size"))
    for words in ("no sign that", "Cramer's V: at most", "a weaker association would mostly not have been seen"):
        assert shown.count(words) == 3
    assert (folder / "read" / "tables.csv").read_text().count("\n") == 1 + 4 + 6 + 6
    assert (folder / "three.svg").read_text().count("<svg") >= 1


@pytest.fixture
def collector(folder):
    registry = load_registry(folder / "metrics-1.5.toml")
    with open_store(str(folder / "reports.db"), registry) as store:
        tokens = store.add_token("admin", "analysts"), store.add_token("write", "editor")
        with served(store=store, metrics=registry, open_writes=False) as (_, (host, port)):
            yield f"http://{host}:{port}", *tokens


def test_over_http_the_same(folder, collector, monkeypatch):
    url, admin, write = collector
    far = ("--store", url, "--metric", "colour", "--aggregate", "cumulative", "--json", "--all")
    near = done(folder, "decode", *COLOUR, "--aggregate", "cumulative", "--json", "--all").stdout
    monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", admin)
    monkeypatch.setenv("OVERSTORY_WRITE_TOKEN", write)
    assert done(folder, "decode", *far, "--registry", "metrics-1.5.toml").stdout == near
    done(folder, "decode", "--store", url, *COLOUR[2:], "--plot", "far.svg")
    assert (folder / "far.svg").read_text().startswith("<svg")
    assert done(folder, "decode", *far).stdout == near
    monkeypatch.delenv("OVERSTORY_ADMIN_TOKEN")
    assert "wants an admin token: give one with OVERSTORY_ADMIN_TOKEN" in done(folder, "decode", *far, status=2).stderr
    monkeypatch.setenv("OVERSTORY_ADMIN_TOKEN", "wrong")
    said = done(folder, "decode", *far, status=2).stderr
    assert "does not take this token: give one with OVERSTORY_ADMIN_TOKEN (" in said
