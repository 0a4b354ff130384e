"""The stores of several shards are read as one: equal, bit for bit, to one store with all reports."""

import json
import shutil
from contextlib import ExitStack, contextmanager
from functools import reduce
from operator import add as plus

import numpy as np
import pytest

from overstory.analysis.reports import ReportBatch
from overstory.cli.main import main
from overstory.collector.store import open_store
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import load_registry
from overstory.protocol.metrics.tables import shard_of
from overstory.queries.counts import read_store, with_sums
from overstory.queries.sources.stores import SeveralStores
from support.exported_store import export_all, sum_folder
from support.registry_texts import COLOURS, LISTED, registry_of
from support.running import within
from support.store_samples import received_batch

DAY, COUNT = 20_700, 3
TEXT = registry_of(
    {
        "colour": {"oracle": '"oue"', "parameters": "{epsilon = 1.5}", "domain": COLOURS},
        "tree": {"oracle": '"rappor"', "parameters": "{num_bits = 32, num_cohorts = 4}", "domain": LISTED},
    },
    expires="2040-01-01",
)
SHARDS = f"\n[shards]\ncount = {COUNT}\n"


def batches(metric, rng):
    mechanism, made = metric.mechanism, []
    for number in range(60):
        size = int(rng.integers(1, 40))
        bits = rng.integers(0, 2**mechanism.payload_bits - 1, (size, 1), np.uint64, endpoint=True)
        cohorts = rng.integers(0, mechanism.num_cohorts, size, np.uint16)
        sent = ReportBatch(cohorts, bits, mechanism.payload_bits, mechanism.num_cohorts)
        made.append(received_batch(metric, DAY + number % 3, sent)._replace(batch=rng.bytes(16)))
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("shards")
    (path / "trees.txt").write_text("ash\nelm\noak\n")
    (path / "metrics.toml").write_text(TEXT + SHARDS)
    (path / "plain.toml").write_text(TEXT)
    registry, plain = load_registry(path / "metrics.toml"), load_registry(path / "plain.toml")
    rng = np.random.default_rng(7)
    received = [batch for metric in registry.values() for batch in batches(metric, rng)]
    with open_store(str(path / "all.db"), plain, create=True) as store:
        store.add(received)
        store.compact(DAY * 86_400)
    for shard in range(COUNT):
        with open_store(str(path / f"{shard}.db"), registry, create=True) as store:
            store.claim_shard(registry, shard, DAY * 86_400)
            store.add([batch for batch in received if shard_of(batch.batch, COUNT) == shard])
            if shard == 0:
                store.compact(DAY * 86_400)
            store.add_note("the same release", DAY, "release")
    return path


@contextmanager
def opened(folder, *shards):
    with ExitStack() as stack:
        yield SeveralStores([stack.enter_context(open_store(str(folder / f"{shard}.db"))) for shard in shards])


@pytest.mark.parametrize("name", ["colour", "tree"])
def test_counts_and_sums_are_those_of_one_store_in_any_order(folder, name):
    metric = load_registry(folder / "metrics.toml")[name]
    with open_store(str(folder / "all.db")) as store:
        one = with_sums(store, read_store(store, metric))
    for order in ((0, 1, 2), (2, 0, 1)):
        with opened(folder, *order) as several:
            added = with_sums(several, read_store(several, metric))
            assert not several.missing
            assert several.groups(name) == [""]
            stored = sum(len(batch) for batch in several.reports(metric, DAY, DAY + 2))
        assert added.to_json() == one.to_json()
        assert stored == one.num_reports


def test_a_part_of_the_shards_is_less_and_is_said_to_be(folder):
    metric = load_registry(folder / "metrics.toml")["colour"]
    with opened(folder, 0, 2) as two, opened(folder, 1) as last, opened(folder, 0, 1, 2) as every:
        assert (two.missing, last.missing) == ([1], [0, 2])
        parts = [read_store(several, metric).num_reports for several in (two, last, every)]
    assert parts[0] + parts[1] == parts[2]
    assert all(parts)


def test_what_operators_read_is_added_too(folder):
    with opened(folder, 0, 1, 2) as several, open_store(str(folder / "all.db")) as store:
        added, one = several.summary(), store.summary()
        assert [(m.metric, m.first, m.last, m.counted + m.waiting) for m in added.metrics] == [
            (m.metric, m.first, m.last, m.counted) for m in one.metrics
        ]
        assert (added.batch_ids, added.notes) == (one.batch_ids, 3)
        assert len(several.notes()) == 3
        assert several.stored("colour").keys() <= store.stored("colour").keys()
        assert (several.collectors(), several.tokens()) == ([], [])
        assert several.refusals() == store.refusals()


def test_stores_that_cannot_be_added_are_refused(folder, tmp_path):
    def refused(*names, within_folder=folder):
        stores = [open_store(str(within_folder / name)) for name in names]
        try:
            with pytest.raises(ParameterError) as caught:
                SeveralStores(stores)
        finally:
            for store in stores:
                store.close()
        return str(caught.value)

    assert "0.db is given twice: its reports would be counted twice" in refused("0.db", "0.db")
    assert "all.db holds no shard: only stores that were served with a setting `shard`" in refused("0.db", "all.db")
    with open_store(str(folder / "0.db")) as store:
        store.backup(str(tmp_path / "copy.db"))
    (tmp_path / "0.db").symlink_to(folder / "0.db")
    (tmp_path / "1.db").symlink_to(folder / "1.db")
    assert "both hold shard 0: give one of them" in refused("0.db", "copy.db", within_folder=tmp_path)
    (tmp_path / "trees.txt").write_text("ash\nelm\noak\n")
    for number, (text, words) in enumerate(
        (
            (TEXT.replace("epsilon = 1.5", "epsilon = 1.0") + SHARDS, "other parameters of colour"),
            (TEXT + "\n[shards]\ncount = 5\n", "shards 3 and 5"),
        )
    ):
        (tmp_path / "other.toml").write_text(text)
        registry = load_registry(tmp_path / "other.toml")
        with open_store(str(tmp_path / f"other{number}.db"), registry, create=True) as store:
            store.claim_shard(registry, 2, DAY * 86_400)
        assert f"were served with different registries ({words})" in refused(
            "1.db", f"other{number}.db", within_folder=tmp_path
        )


def test_decode_and_the_console_take_several_stores(folder):
    decode = "decode", "--registry", "metrics.toml", "--metric", "colour", "--json"
    stores = [option for shard in range(COUNT) for option in ("--store", f"{shard}.db")]
    one = within(*decode, "--store", "all.db", cwd=folder)
    several = within(*decode, *stores, cwd=folder)
    assert (several.returncode, several.stderr) == (0, "")
    assert json.loads(several.stdout) == json.loads(one.stdout)
    part = within(*decode, *stores[:2], cwd=folder)
    assert "overstory: warning: no store of 2 shards (1, 2) is given: the reports there are not counted" in part.stderr
    twice = within(*decode, *stores[:2], *stores[:2], cwd=folder)
    assert (twice.returncode, "is given twice" in twice.stderr) == (2, True)
    checked = within("console", "--registry", "metrics.toml", *stores, "--check", cwd=folder)
    assert checked.returncode in {0, 1}, checked.stderr
    assert json.loads(checked.stdout)


def test_shards_are_exported_into_one_folder_by_a_command_each(folder, tmp_path, capsys, monkeypatch):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    registry = load_registry("metrics.toml")
    for shard in range(COUNT):
        with open_store(f"{shard}.db", registry) as store:
            store.compact((DAY + 60) * 86_400, forgetting=False)
        assert export_all(f"{shard}.db", registry, "exported", now=(DAY + 60) * 86_400).manifests
    capsys.readouterr()
    with open_store("all.db") as store:
        whole = read_store(store, registry["colour"])
    assert sum_folder(registry["colour"], "exported/metric=colour") == reduce(plus, whole.counts.values())
    stores = [part for shard in range(COUNT) for part in ("--store", f"{shard}.db")]
    for name in registry:
        shown = []
        for source in (stores, ["exported"]):
            command = ["decode", *source, "--registry", "metrics.toml", "--metric", name, "--json", "--quiet"]
            assert main([*command, "--aggregate", "per-period"]) == 0
            shown.append(json.loads(capsys.readouterr().out))
        assert shown[0] == shown[1]
        assert shown[0]["reports"] > 0
