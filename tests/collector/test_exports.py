"""Export: every report of a closed period once, wherever a process is killed, and nothing but reports."""

import json
import random
from functools import partial

import pytest
from pyarrow import dataset

from overstory.cli.main import main
from overstory.collector.store import open_store
from overstory.collector.store.copies.backup import restore
from overstory.collector.store.copies.export import Export
from overstory.engines.folders import Folder
from overstory.engines.places import find_places, find_sets
from overstory.files.labels import Manifest
from overstory.protocol.errors import FormatError, ParameterError
from support.exported_store import (
    LATER,
    PERIOD,
    add,
    counts_of,
    ended,
    export_all,
    fill,
    killed,
    listed_parts,
    parts_there,
    registry,
    registry_toml,
    small_parts,
    sum_folder,
)
from support.rounds import rounds

DAY = 86_400


@pytest.fixture
def small(monkeypatch):
    small_parts(monkeypatch.setattr)


@pytest.fixture
def filled(small, tmp_path):
    metrics, url = registry(), f"sqlite:///{tmp_path}/store.db"
    fill(url, metrics)
    return url, metrics, tmp_path / "exported"


@pytest.fixture
def exported(filled):
    export_all(*filled)
    return filled


def all_of(counts):
    first, *others = counts.values()
    return sum(others, first)


def check_exported(url, metrics, folder):
    """What manifests list is what the store has counted, report for report; nothing else lies there."""
    for name, counts in counts_of(url, metrics).items():
        assert sum_folder(metrics[name], folder / f"metric={name}") == all_of(counts)
        for period, of_period in counts.items():
            assert sum_folder(metrics[name], folder / f"metric={name}" / f"period={period}") == of_period
    assert parts_there(folder) == listed_parts(folder)


@pytest.mark.slow
def test_every_database_exports_what_it_has(small, store_url, tmp_path):
    metrics, folder = registry(), tmp_path / "exported"
    open_store(store_url, metrics, create=True).close()
    fill(store_url, metrics)
    assert len(export_all(store_url, metrics, folder).manifests) == 2 * 5
    assert export_all(store_url, metrics, folder).manifests == []
    check_exported(store_url, metrics, folder)


def test_what_is_exported_sums_to_the_counts(filled):
    url, metrics, folder = filled
    done = export_all(url, metrics, folder)
    assert sum(one.num_reports for one in done.manifests) == 90 * 2 * 5
    assert len(done.manifests) == 2 * 5
    assert min(len(one.parts) for one in done.manifests) > 1
    assert (done.open, done.waiting, done.removed) == ({}, [], 0)
    check_exported(url, metrics, folder)
    with open_store(url, metrics) as store:
        for one in find_sets(str(folder)):
            manifest = one.manifest
            if manifest.metric == "colour":
                of_group = store.counts(metrics["colour"], manifest.period, manifest.period, groups=[manifest.group])
                parts = [one.address(part) for part in manifest.parts]
                assert sum_folder(metrics["colour"], *parts) == of_group[manifest.period]
                assert list(manifest.totals) == of_group[manifest.period].totals.tolist()


def test_an_export_that_is_repeated_writes_only_what_is_new(exported):
    url, metrics, folder = exported
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    again = export_all(url, metrics, folder)
    assert (again.manifests, again.earlier) == ([], 10)
    with open_store(url, metrics) as store:  # a collector whose clock is slow by more than an hour took one more batch
        add(store, metrics["bloom"], PERIOD, 20, random.Random(7))
    assert export_all(url, metrics, folder).manifests == []
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


def test_periods_that_take_reports_are_left_for_later(filled):
    url, metrics, folder = filled
    ends = metrics["bloom"].final_from(PERIOD)
    assert not export_all(url, metrics, folder, now=ends - 1).manifests
    done = export_all(url, metrics, folder, now=ends)
    assert {one.period for one in done.manifests} == {PERIOD}
    assert done.open["bloom"] == [("2024-10-05", ends + DAY)]
    export_all(url, metrics, folder)
    check_exported(url, metrics, folder)


def test_there_is_nothing_about_batches_or_arrival_in_the_files(exported):
    *_, folder = exported
    for one in find_sets(str(folder)):
        raw = json.loads(one.folder.read(f"manifest-{one.manifest.id}.json"))
        assert set(raw) == {
            *("format", "version", "id", "store", "metric", "period", "period_seconds", "period_label", "group"),
            *("digest", "mechanism", "reports", "bytes", "cohort_totals", "parts"),
        }
        assert {name for part in raw["parts"] for name in part} == {"file", "bytes", "crc32", "reports"}
        columns = {*dataset.dataset(one.address(one.manifest.parts[0])).schema.names}
        about = {"metric", "period", "digest", "device_group", "num_reports", "crc32"}
        assert columns in (about | {"cohort", "blob"}, about | {"seeds", "symbols"})


def kill_and_check(url, metrics, folder, kills):
    """Kill exports; readers never see a report twice, and a last export completes what they left."""
    stored = counts_of(url, metrics)
    ends = 0
    for kill in kills:
        ends += bool(kill())
        for name, counts in stored.items():
            below = folder / f"metric={name}"
            if list(below.rglob("manifest-*.json")):
                seen, total = sum_folder(metrics[name], below), all_of(counts)
                assert (seen.totals <= total.totals).all()
                assert (seen.ones <= total.ones).all()
    assert ends > 1
    export_all(url, metrics, folder)
    assert counts_of(url, metrics) == stored
    check_exported(url, metrics, folder)


def test_exports_that_end_anywhere_double_and_lose_nothing(filled):
    url, metrics, folder = filled
    steps = random.Random(1).sample(range(60), 6)
    kill_and_check(*filled, [partial(ended, lambda: export_all(url, metrics, folder), at) for at in steps])


@pytest.mark.slow
def test_killed_exports_double_and_lose_nothing(filled):
    url, _, folder = filled
    rng = random.Random(2)
    kill_and_check(*filled, [partial(killed, url, folder, rng.randrange(60)) for _ in range(rounds(10))])


def test_whoever_lists_files_counts_what_a_killed_export_left(filled):
    """The control: reading names instead of manifests is wrong after a kill, and after the next kill doubles."""
    url, metrics, folder = filled
    steps = iter(range(20, 400, 4))
    while not folder.exists() or len(list(folder.rglob("part-*-1.parquet"))) < 1:
        assert ended(lambda: export_all(url, metrics, folder), next(steps))
    by_listing = sum(path.is_file() for path in folder.rglob("part-*.parquet"))
    listed = sum(len(one.manifest.parts) for one in (find_sets(str(folder)) if has_manifest(folder) else []))
    assert by_listing > listed
    orphan = next(
        path
        for path in folder.rglob("part-*.parquet")
        if not has_manifest(folder) or path.name not in listed_parts(folder)
    )
    with pytest.raises(FormatError, match="in no manifest: the export that wrote this has not finished"):
        find_places([str(orphan)])
    export_all(url, metrics, folder)
    assert orphan.name in listed_parts(folder)
    check_exported(url, metrics, folder)


def has_manifest(folder):
    return any(folder.rglob("manifest-*.json"))


def test_two_exports_of_one_key_write_the_same_bytes(filled, tmp_path):
    """So it does not matter which of two exports at one time writes a part last."""
    url, metrics, folder = filled
    export_all(url, metrics, folder)
    export_all(url, metrics, tmp_path / "second")
    files = [{path.relative_to(top): path.read_bytes() for path in top.rglob("*") if path.is_file()}
             for top in (folder, tmp_path / "second")]  # fmt: skip
    assert len(files[0]) > 20
    assert files[0] == files[1]


def test_what_a_killed_export_left_of_deleted_reports_goes(filled):
    url, metrics, folder = filled
    assert ended(lambda: export_all(url, metrics, folder), 30)
    listed = listed_parts(folder) if has_manifest(folder) else set()
    left = {name for name in parts_there(folder) if name.startswith("part-")} - listed
    assert left
    gone = LATER + 90 * DAY
    with open_store(url, metrics) as store:
        store.retain(gone)
        assert store.export_closed(metrics, Folder(str(folder)), now=gone).removed >= len(left)
    assert parts_there(folder) == listed


def test_reports_that_change_while_they_are_written_are_not_listed(filled, monkeypatch):
    url, metrics, folder = filled
    read = Export._read

    def meanwhile(self, numbers):
        with open_store(url, metrics) as store:
            add(store, metrics["bloom"], PERIOD, 1, random.Random(8))
            store.compact(LATER, forgetting=False)
        return read(self, numbers)

    monkeypatch.setattr(Export, "_read", meanwhile)
    with open_store(url, metrics) as store:
        done = store.export_closed(metrics, Folder(str(folder)), "bloom", now=LATER)
    assert ([one.period for one in done.manifests], len(done.waiting)) == ([PERIOD + 1], 1)
    assert parts_there(folder) == {part.name for part in folder.rglob(f"period={PERIOD + 1}/**/part-*")}
    assert "its reports were deleted, or more came, while they were written" in done.waiting[0]


def test_a_damaged_part_is_found(exported):
    _, metrics, folder = exported
    part = max(folder.rglob("part-*.parquet"))
    raw = bytearray(part.read_bytes())
    raw[4] ^= 1
    part.write_bytes(raw)
    name = part.relative_to(folder).parts[0].removeprefix("metric=")
    with pytest.raises(FormatError, match="was damaged: its CRC-32 is not the one that its manifest lists"):
        sum_folder(metrics[name], folder / f"metric={name}")
    part.unlink()
    with pytest.raises(FormatError, match="is listed, and missing"):
        find_places([str(folder)])


@pytest.mark.parametrize("earlier", [True, False])
def test_a_restored_store_does_not_export_twice(filled, tmp_path, earlier):
    url, metrics, folder = filled
    if not earlier:
        export_all(url, metrics, folder)
    with open_store(url, metrics) as store:
        store.backup(tmp_path / "backup.db")
    export_all(url, metrics, folder)
    restored = f"sqlite:///{tmp_path}/restored.db"
    restore(tmp_path / "backup.db", restored)
    again = export_all(restored, metrics, folder)
    assert (again.manifests, again.earlier) == ([], 10)


def test_copies_past_retention_are_named(exported):
    url, metrics, folder = exported
    gone = LATER + 90 * DAY
    assert export_all(url, metrics, folder).outside == []
    with open_store(url, metrics) as store:
        store.retain(gone)
        done = store.export_closed(metrics, Folder(str(folder)), now=gone)
    bloom, *others = done.outside
    assert (bloom.metric, bloom.last, bloom.manifests, len(others)) == ("bloom", "2024-10-05", 2, 2)
    assert done.manifests == []


def test_a_manifest_that_was_altered_is_refused(filled):
    url, metrics, folder = filled
    manifest = export_all(url, metrics, folder).manifests[0]
    assert Manifest.from_json(manifest.to_json(), "here") == manifest
    fields = json.loads(manifest.to_json())
    for name, value in {
        "reports": 1, "digest": "00" * 16, "id": "x", "version": 2, "parts": fields["parts"][:1], "format": "other",
        "cohort_totals": [1], "period": "1", "group": 3,
    }.items():  # fmt: skip
        with pytest.raises(FormatError, match="here"):
            Manifest.from_json(json.dumps(fields | {name: value}), "here")
    without = {"parts": [], "reports": 0, "bytes": 0, "cohort_totals": [0 for _ in fields["cohort_totals"]]}
    with pytest.raises(FormatError, match="it lists no part"):
        Manifest.from_json(json.dumps(fields | without), "here")
    with pytest.raises(ParameterError, match="holds no manifest"):
        find_sets(str(folder.parent / "nowhere"))


def test_the_commands(filled, tmp_path, capsys, monkeypatch):
    url, _, folder = filled
    monkeypatch.setattr("time.time", lambda: LATER)
    (tmp_path / "metrics.toml").write_text(registry_toml())
    options = ["--store", url, "--registry", str(tmp_path / "metrics.toml")]
    assert main(["export", str(folder), *options]) == 0
    assert "900 reports in 10 manifests written into" in capsys.readouterr().out
    assert main(["export", str(folder), *options, "--metric", "bloom", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["earlier"] == 2
    assert main(["sum", str(folder / "metric=bloom"), "-o", str(tmp_path / "counts.csv")]) == 0
    assert "180 reports of rappor in 4 cohorts" in capsys.readouterr().out
