"""Names that an address must write in another way, one file by two names, and globs of all kinds."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from overstory.cli.main import main
from overstory.engines.folders import Folder
from overstory.engines.places import find_copies, find_places, find_sets, open_place
from overstory.protocol.errors import ParameterError
from support.engine_files import Collection
from support.object_store import put

ODD = ("c=a%20b", "a b", "hash#x", "one+two", "ä,ö", "50%", "[1]")


@pytest.mark.parametrize("name", [*ODD, "what?"])
def test_odd_names_are_read_by_path_and_by_address(tmp_path: Path, name: str) -> None:
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


def test_one_file_by_two_names_is_named_twice(tmp_path: Path) -> None:
    file = tmp_path / "monday.parquet"
    file.write_bytes(b"PAR1")
    (tmp_path / "link.parquet").symlink_to(file)
    names = [str(file), f"file://{file}", f"file://localhost{file}", str(tmp_path / "link.parquet")]
    for other in names[1:]:
        with pytest.raises(ParameterError, match="is named twice"):
            find_places([names[0], other])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_named_pipe_in_a_folder_is_named(tmp_path: Path) -> None:
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


def test_a_copy_of_a_file_is_said(
    collection: Callable[..., Collection], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = collection()
    command = ["sum", str(made.folder), "-o", "-", "--dry-run"]
    assert main(command) == 0
    assert "copy" not in capsys.readouterr().err
    shutil.copy(made.folder / "b.parquet", made.folder / "again.parquet")
    assert main(command) == 0
    file, other = made.folder / "again.parquet", made.folder / "b.parquet"
    warning = f"overstory: warning: {other} is a copy of {file} and counts again"
    assert warning in capsys.readouterr().err.splitlines()


def test_files_of_one_size_and_end_are_no_copies_unless_all_their_bytes_are_equal(tmp_path: Path) -> None:
    for name, first in (("a", b"1"), ("b", b"2"), ("c", b"1"), ("d", b"")):
        (tmp_path / f"{name}.parquet").write_bytes(first + bytes(10_000))
    found = [
        (Path(one.address).stem, Path(copy.address).stem) for one, copy in find_copies(find_places([str(tmp_path)]))
    ]
    assert found == [("a", "c")]


@pytest.mark.slow
def test_odd_names_of_objects_are_read(bucket: str) -> None:
    from urllib.parse import quote

    for name in ODD:
        from pyarrow import fs

        put(bucket, "odd/notes.txt", b"no reports")
        system, _ = fs.FileSystem.from_uri(f"s3://odd?{bucket}")
        with system.open_output_stream(f"odd/{name}/x.parquet") as stream:
            stream.write(b"PAR1")
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
def test_globs_are_those_of_the_shell(
    collection: Callable[..., Collection], tmp_path: Path, glob: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file whose own name has brackets is that file; with and without ``--params``."""
    made = collection()
    for name in ("b.parquet", "c.ovsb"):
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


def test_sets_below_an_address_are_found(tmp_path: Path) -> None:
    (tmp_path / "a%20b").mkdir()
    with pytest.raises(ParameterError, match="holds no manifest"):
        find_sets(f"file://{tmp_path}/a%2520b")
