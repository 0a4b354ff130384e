"""Files, folders, globs and objects: each once, in order; what is not there or named twice is an error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.collector.store import open_store
from overstory.collector.store.copies.export import Selection
from overstory.engines.dask_cluster import DaskEngine
from overstory.engines.driver import LocalEngine, count
from overstory.engines.folders import Folder
from overstory.engines.places import find_places
from overstory.engines.units import read_contents, units_of
from overstory.protocol.errors import FormatError, ParameterError
from support import exported_store
from support.engine_files import Collection
from support.object_store import put


def names(*inputs: str) -> list[str]:
    return [os.path.basename(place.address) for place in find_places(inputs)]  # noqa: PTH119 - objects too


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("metric=a/period=1/x.parquet", "metric=a/period=2/y.parquet", "metric=b/z.ovsb", "metric=b/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")
    return tmp_path


def test_folders_globs_and_files_are_named_once_in_order(folder: Path) -> None:
    assert names(str(folder)) == ["x.parquet", "y.parquet", "z.ovsb"]
    assert names(f"{folder}/**/*.parquet") == ["x.parquet", "y.parquet"]
    assert names(f"{folder}/metric=b/z.ovsb", f"{folder}/*/*2/*") == ["z.ovsb", "y.parquet"]
    assert names(f"file://{folder}") == ["x.parquet", "y.parquet", "z.ovsb"]
    assert names(f"file://{folder}/metric=a/*/x.parquet") == ["x.parquet"]


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([], "no files of reports are named"),
        (["{}/metric=a", "{}/metric=a/period=1/x.parquet"], "x.parquet is named twice: its reports would be counted"),
        (["{}/*.parquet"], r"no file's name matches .*/\*\.parquet"),
        (["{}/empty"], r"is a directory that holds no file ending in \.parquet or \.ovsb"),
        (["file://{}/empty"], r"is a directory that holds no file ending in \.parquet or \.ovsb"),
        (["nowhere://bucket/x"], "nowhere://bucket/x"),
    ],
)
def test_what_cannot_be_counted_is_named(folder: Path, inputs: list[str], says: str) -> None:
    (folder / "empty").mkdir()
    with pytest.raises((ParameterError, FormatError), match=says):
        find_places([text.format(folder) for text in inputs])


def test_a_missing_file_is_the_operating_systems_error(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_places([f"{folder}/absent.parquet"])


@pytest.mark.slow
def test_objects_are_counted_where_they_lie(
    bucket: str, collection: Callable[..., Collection], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = collection()
    for path in sorted(made.folder.iterdir()):
        put(bucket, f"reports/metric=theme/{path.name}", path.read_bytes())
    put(bucket, "reports/metric=theme/notes.txt", b"no reports")
    for address in ("reports/metric=theme", "reports/*/*", "reports/**/*.parquet", "reports"):
        contents = read_contents(find_places([f"s3://{address}?{bucket}"]))
        units = units_of(contents, 1)
        assert sum(unit.num_reports for unit in units) == (1800 if "parquet" in address else 2700)
    run = count(LocalEngine(2), made.job(), units)
    assert (run.counts, run.num_reports) == (made.counts, 2700)
    output = tmp_path / "counts.csv"
    assert main(["sum", f"s3://reports/metric=theme?{bucket}", "-o", str(output)]) == 0
    assert "2,700 reports of rappor in 5 cohorts" in capsys.readouterr().out
    assert main(["sum", f"s3://absent/folder?{bucket}", "-o", str(output)]) == 2
    assert "there is no file of reports at s3://absent/folder" in capsys.readouterr().err


@pytest.mark.slow
def test_an_export_into_an_object_store_is_counted_and_decoded(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exported_store.small_parts(monkeypatch.setattr)
    metrics, url = exported_store.registry(), f"sqlite:///{tmp_path}/store.db"
    exported_store.fill(url, metrics)
    put(bucket, "exports/notes.txt", b"no reports")
    address = f"s3://exports/reports?{bucket}"
    exported_store.export_all(url, metrics, address)
    assert exported_store.export_all(url, metrics, address).manifests == []
    stored = exported_store.counts_of(url, metrics)
    first, second = stored["bloom"].values()
    assert exported_store.sum_folder(metrics["bloom"], f"s3://exports/reports/metric=bloom?{bucket}") == first + second
    with open_store(url, metrics) as store:
        assert store.verify_export(metrics, Folder(address), now=exported_store.LATER) == (10, [])
        done = store.export_closed(metrics, Folder(address), Selection(), now=exported_store.LATER * 2)
        assert [one.manifests for one in done.outside] == [2, 6, 2]
    (tmp_path / "metrics.toml").write_text(exported_store.registry_toml())
    shown = []
    for source in (["--store", url], [address]):
        command = ["decode", *source, "--registry", str(tmp_path / "metrics.toml"), "--metric", "size", "--json"]
        assert main([*command, "--quiet"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("scheduler", ["nonsense", "tcp://host", "tcp://:8786", "host:port", "tls://host:99999"])
def test_a_scheduler_without_a_host_or_a_port_is_refused(scheduler: str) -> None:
    with pytest.raises(ParameterError, match=f"--scheduler {scheduler}: give a host and a port"):
        DaskEngine(scheduler)
