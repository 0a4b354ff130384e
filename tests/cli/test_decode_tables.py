"""decode of a metric of several variables: three of them are three tables, in words, as a file and as pictures."""

import numpy as np

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.collector.store import open_store
from overstory.protocol.metrics import load_registry
from support.registry_texts import registry_of
from support.running import within
from support.store_samples import received_batch

THREE = (
    '{kind = "table", names = ["version", "crash", "size"], of = ['
    '{kind = "categories", names = ["1.0", "2.0"]}, {kind = "categories", names = ["no", "yes"]}, '
    '{kind = "integers", min = 1, max = 3}]}'
)
PAIRS = ("version and crash", "version and size", "crash and size")


def test_three_variables_are_three_tables(tmp_path):
    metric = {"domain": THREE, "oracle": '"grr"', "parameters": "{epsilon = 3.0}"}
    (tmp_path / "metrics.toml").write_text(registry_of({"three": metric}, expires="2040-01-01"))
    registry, drawn = load_registry(tmp_path / "metrics.toml"), np.random.default_rng(1)
    devices = SimulatedDevices.holding(registry["three"].mechanism, range(12), drawn.integers(12, size=60_000), drawn)
    with open_store(str(tmp_path / "reports.db"), registry, create=True) as store:
        store.add([received_batch(registry["three"], 20_700, devices.report())])
    stored = ("--store", "reports.db", "--registry", "metrics.toml", "--metric", "three")
    ran = within("decode", *stored, "-o", "read", "--plot", "three.svg", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    for pair in PAIRS:
        assert f"{pair}\n" in ran.stdout
    assert ran.stdout.count("no sign that") == 3
    assert ran.stdout.count("Cramer's V: at most") == 3
    assert ran.stdout.count("a weaker association would mostly not have been seen") == 3
    assert (tmp_path / "read" / "tables.csv").read_text().count("\n") == 1 + 4 + 6 + 6
    assert (tmp_path / "three.svg").read_text().count("<svg") >= 1
