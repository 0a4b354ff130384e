"""Files, folders, globs, objects and exported folders: each once, in order; what is not there or twice is an error."""

import itertools
import json
import os
import shutil
from pathlib import Path
from urllib.parse import quote

import pytest

from overstory.cli.main import main
from overstory.collector.store import open_store
from overstory.engines.clusters import DaskEngine
from overstory.engines.driver import LocalEngine, count
from overstory.engines.folders import Folder
from overstory.engines.places import find_copies, find_places, find_sets, open_place
from overstory.engines.units import read_contents, units_of
from overstory.protocol.errors import FormatError, ParameterError
from support import exported_store
from support.exported_store import PERIODS, export_all, fill, registry, small_parts
from support.object_store import put


def names(*inputs):
    return [os.path.basename(place.address) for place in find_places(inputs)]  # noqa: PTH119 - objects too


@pytest.fixture
def folder(tmp_path):
    for name in (
        "metric=a/period=1/x.parquet",
        "metric=a/period=2/y.parquet",
        "metric=b/z.parquet",
        "metric=b/notes.txt",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"PAR1")
    return tmp_path


def test_folders_globs_and_files_are_named_once_in_order(folder):
    assert names(str(folder)) == ["x.parquet", "y.parquet", "z.parquet"]
    assert names(f"{folder}/metric=a/**/*.parquet") == ["x.parquet", "y.parquet"]
    assert names(f"{folder}/metric=b/z.parquet", f"{folder}/*/*2/*") == ["z.parquet", "y.parquet"]
    assert names(f"file://{folder}") == ["x.parquet", "y.parquet", "z.parquet"]
    assert names(f"file://{folder}/metric=a/*/x.parquet") == ["x.parquet"]


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ([], "no files of reports are named"),
        (["{}/absent.parquet"], "No such file or directory"),
        (["{}/metric=a", "{}/metric=a/period=1/x.parquet"], "x.parquet is named twice: its reports would be counted"),
        (["{}/*.parquet"], r"no file's name matches .*/\*\.parquet"),
        (["{}/empty"], r"is a directory that holds no file ending in \.parquet"),
        (["file://{}/empty"], r"is a directory that holds no file ending in \.parquet"),
        (["nowhere://bucket/x"], "nowhere://bucket/x"),
    ],
)
def test_what_cannot_be_counted_is_named(folder, inputs, says):
    (folder / "empty").mkdir()
    with pytest.raises((ParameterError, FormatError, FileNotFoundError), match=says):
        find_places([text.format(folder) for text in inputs])


@pytest.mark.slow
def test_objects_are_counted_where_they_lie(bucket, collection, tmp_path, capsys):
    made = collection()
    for path in sorted(made.folder.iterdir()):
        put(bucket, f"reports/metric=theme/{path.name}", path.read_bytes())
    put(bucket, "reports/metric=theme/notes.txt", b"no reports")
    for address in ("reports/metric=theme", "reports/*/*", "reports/**/*.parquet", "reports"):
        contents = read_contents(find_places([f"s3://{address}?{bucket}"]))
        units = units_of(contents, 1)
        assert sum(unit.num_reports for unit in units) == 2700
    run = count(LocalEngine(2), made.job(), units)
    assert (run.counts, run.num_reports) == (made.counts, 2700)
    output = tmp_path / "counts.csv"
    assert main(["sum", f"s3://reports/metric=theme?{bucket}", "-o", str(output)]) == 0
    assert "2,700 reports of rappor in 5 cohorts" in capsys.readouterr().out
    assert main(["sum", f"s3://absent/folder?{bucket}", "-o", str(output)]) == 2
    assert "there is no file of reports at s3://absent/folder" in capsys.readouterr().err


@pytest.mark.slow
def test_an_export_into_an_object_store_is_counted_and_decoded(bucket, tmp_path, monkeypatch, capsys):
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
        done = store.export_closed(metrics, Folder(address), now=exported_store.LATER * 2)
        assert [one.manifests for one in done.outside] == [2, 6, 2]
    (tmp_path / "metrics.toml").write_text(exported_store.registry_toml())
    shown = []
    for source in (["--store", url], [address]):
        command = ["decode", *source, "--registry", str(tmp_path / "metrics.toml"), "--metric", "size", "--json"]
        assert main([*command, "--quiet"]) == 0
        shown.append(json.loads(capsys.readouterr().out))
    assert shown[0] == shown[1]


@pytest.mark.parametrize("scheduler", ["nonsense", "tcp://host", "tcp://:8786", "host:port", "tls://host:99999"])
def test_a_scheduler_without_a_host_or_a_port_is_refused(scheduler):
    with pytest.raises(ParameterError, match=f"--engine dask:{scheduler}: give a host and a port"):
        DaskEngine(scheduler)


ODD = ("c=a%20b", "a b", "hash#x", "one+two", "ä,ö", "50%", "[1]")


@pytest.mark.parametrize("name", [*ODD, "what?"])
def test_odd_names_are_read_by_path_and_by_address(tmp_path, name):
    file = tmp_path / "enc" / name / "monday.parquet"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PAR1")
    for named in (tmp_path / "enc", file.parent, file, tmp_path / "enc/*/*.parquet"):
        assert [place.address for place in find_places([str(named)])] == [str(file)]
    for address in (f"file://{tmp_path}/enc", f"FILE://localhost{tmp_path}/enc/**/*.parquet", file.as_uri()):
        assert [place.address for place in find_places([address])] == [str(file)]
    folder = Folder(f"file://{tmp_path}/enc")
    with open_place(folder.address(f"{name}/monday.parquet")) as raw:
        assert raw.read() == b"PAR1"
    below = Folder(folder.address(name))
    assert below.identity == f"file://{file.parent}"
    assert below.names() == ["monday.parquet"]


def test_one_file_by_two_names_is_named_twice(tmp_path):
    file = tmp_path / "monday.parquet"
    file.write_bytes(b"PAR1")
    (tmp_path / "link.parquet").symlink_to(file)
    names = [str(file), f"file://{file}", f"file://localhost{file}", str(tmp_path / "link.parquet")]
    for other in names[1:]:
        with pytest.raises(ParameterError, match="is named twice"):
            find_places([names[0], other])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_in_a_folder_is_named(tmp_path):
    (tmp_path / "monday.parquet").write_bytes(b"PAR1")
    (tmp_path / "spark.parquet").mkdir()  # a folder that Spark wrote has such a name
    (tmp_path / "notes.txt").symlink_to(tmp_path / "gone")
    assert len(find_places([str(tmp_path)])) == 1
    os.mkfifo(tmp_path / "tuesday.parquet")
    for named in (tmp_path, tmp_path / "*.parquet"):
        with pytest.raises(ParameterError, match=r"tuesday\.parquet is a named pipe: take it out of the folder"):
            find_places([str(named)])
    (tmp_path / "tuesday.parquet").unlink()
    (tmp_path / "wednesday.parquet").symlink_to(tmp_path / "gone")
    with pytest.raises(ParameterError, match=r"wednesday\.parquet is no file"):
        find_places([str(tmp_path)])


def test_a_copy_of_a_file_is_said(collection, tmp_path, capsys):
    made = collection()
    command = ["sum", str(made.folder), "-o", str(tmp_path / "counts.csv")]
    assert main(command) == 0
    assert "copy" not in capsys.readouterr().err
    shutil.copy(made.folder / "b.parquet", made.folder / "again.parquet")
    assert main(command) == 0
    file, other = made.folder / "again.parquet", made.folder / "b.parquet"
    warning = f"overstory: warning: {other} is a copy of {file} and counts again"
    assert warning in capsys.readouterr().err.splitlines()


def test_files_of_one_size_and_end_are_no_copies_unless_all_their_bytes_are_equal(tmp_path):
    for name, first in (("a", b"1"), ("b", b"2"), ("c", b"1"), ("d", b"")):
        (tmp_path / f"{name}.parquet").write_bytes(first + bytes(10_000))
    found = [
        (Path(one.address).stem, Path(copy.address).stem) for one, copy in find_copies(find_places([str(tmp_path)]))
    ]
    assert found == [("a", "c")]


@pytest.mark.slow
def test_odd_names_of_objects_are_read(bucket):
    for name in ODD:
        put(bucket, f"odd/{quote(name)}/x.parquet", b"PAR1")
    for named in (f"s3://odd?{bucket}", f"s3://K:S@odd/*/x.parquet?{bucket}"):
        places = find_places([named.replace("K:S@", "test:test@")])
        assert len(places) == len(ODD)
        for place in places:
            with open_place(place.address) as raw:
                assert raw.read() == b"PAR1"
    (one,) = find_places([f"s3://odd/{quote('c=a%20b')}?{bucket}"])
    assert [place.address for place in find_places([f"s3://odd/{quote('c=a%20b')}/*?{bucket}"])] == [one.address]
    with pytest.raises(ParameterError, match="is named twice"):
        find_places([f"s3://odd?{bucket}", one.address.replace("s3://", "s3://test:test@")])


@pytest.mark.parametrize("glob", ["{}/[a].parquet", "{}/?.parquet", "{}/a*", "{}/[[]1].parquet", "{}/[1].parquet"])
def test_globs_are_those_of_the_shell(collection, tmp_path, glob, capsys):
    """A file whose own name has brackets is that file; with and without ``--params``."""
    made = collection()
    for name in ("b.parquet", "c.parquet"):
        (made.folder / name).unlink()
    if "1" in glob:
        (made.folder / "a.parquet").rename(made.folder / "[1].parquet")
        shutil.copy(made.folder / "[1].parquet", made.folder / "1.parquet")
    (tmp_path / "params.csv").write_text("k,h,m,p,q,f\n20,2,5,0.25,0.75,0.5\n")
    counts = []
    for stated in ([], ["--params", str(tmp_path / "params.csv")]):
        output = tmp_path / "counts.csv"
        assert main(["sum", *stated, glob.format(made.folder), "-o", str(output)]) == 0, capsys.readouterr().err
        counts.append(output.read_text())
    assert counts[0] == counts[1]
    assert sum(int(line.split(",")[0]) for line in counts[0].splitlines()) == 900


def test_sets_below_an_address_are_found(tmp_path):
    (tmp_path / "a%20b").mkdir()
    with pytest.raises(ParameterError, match="holds no manifest"):
        find_sets(f"file://{tmp_path}/a%2520b")


@pytest.fixture
def sets(tmp_path, monkeypatch):
    small_parts(monkeypatch.setattr)
    url = f"sqlite:///{tmp_path}/store.db"
    fill(url, registry())
    export_all(url, registry(), tmp_path / "exported")
    found = find_sets(str(tmp_path / "exported" / "metric=colour" / f"period={PERIODS[0]}"))
    assert len(found) == len({one.folder.identity for one in found}) + 2 == 3
    assert all(len(one.manifest.parts) > 1 for one in found)
    return found


def reports_of(*inputs):
    return sum(place.num_reports or 0 for place in find_places(list(map(str, inputs))))


def test_each_manifest_stands_for_its_own_files(sets):
    for size in (1, 2, 3):
        for chosen in itertools.combinations(sets, size):
            expected = {one.address(part): part.reports for one in chosen for part in one.manifest.parts}
            places = find_places([one.source for one in chosen])
            assert {place.address: place.num_reports for place in places} == expected
            addresses = [f"file://{one.source}" for one in chosen]
            assert reports_of(*addresses) == sum(expected.values())


def test_a_folder_and_a_glob_stand_for_what_they_match(sets):
    folder, whole = Path(sets[0].folder.identity), sum(one.manifest.num_reports for one in sets)
    one, *others = sets
    for named in (folder, folder.parent, folder / "*", folder / "manifest-*", folder / "*.parquet"):
        assert reports_of(named) == whole
    assert reports_of(*sorted(folder.glob("*.parquet"))) == whole, "as the shell names them"
    start = len("manifest-") + next(n for n in range(32) if all(o.manifest.id[n] != one.manifest.id[n] for o in others))
    name = Path(one.source).name
    assert reports_of(f"{folder}/{'?' * start}{name[start]}*.json") == one.manifest.num_reports


def test_a_part_alone_is_counted_and_not_beside_its_manifest(sets):
    one, other, _ = sets
    first, second = one.manifest.parts[:2]
    assert reports_of(one.address(first)) == first.reports
    assert reports_of(one.address(first), one.address(second)) == first.reports + second.reports
    assert reports_of(one.address(first), other.source) == first.reports + other.manifest.num_reports
    for twice in ([one.source, one.source], [one.address(first), one.source], [one.folder.identity, one.source]):
        with pytest.raises(ParameterError, match="is named twice: its reports would be counted twice"):
            find_places(twice)


def test_copies_are_refused_of_what_is_counted_alone(sets, tmp_path):
    one, other, _ = sets
    copy = tmp_path / "copy"
    shutil.copytree(one.folder.identity, copy)
    copied = {Path(each.source).name: str(copy / Path(each.source).name) for each in sets}
    with pytest.raises(FormatError, match="these reports are also those of"):
        find_places([one.source, copied[Path(one.source).name]])
    named = [one.source, copied[Path(other.source).name]]
    assert reports_of(*named) == one.manifest.num_reports + other.manifest.num_reports
