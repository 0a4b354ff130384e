"""Files are written whole or not at all, and read plain or gz; the operating system's errors keep the asked name."""

import gzip
import os
from pathlib import Path

import pytest

from overstory.files import io
from overstory.files.io import reading, replacing, writing, writing_text
from overstory.protocol.errors import FormatError


def names(folder):
    return [path.name for path in folder.iterdir()]


def half_of_it():
    yield b"half of it"
    raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
@pytest.mark.parametrize("before", [b"before", None])
def test_an_error_leaves_what_was_there_or_nothing(tmp_path, name, before):
    path = tmp_path / name
    if before is not None:
        path.write_bytes(before)
    with pytest.raises(KeyboardInterrupt), writing(path) as raw:
        raw.writelines(half_of_it())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == ({} if before is None else {name: before})


def test_a_file_keeps_its_mode_and_its_link_and_a_new_one_has_the_usual_mode(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    target.chmod(0o640)
    link.symlink_to(target)
    with writing_text(link) as text:
        text.write("after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert target.stat().st_mode & 0o777 == 0o640
    (tmp_path / "usual").touch()
    with writing_text(tmp_path / "new") as text:
        text.write("x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_device_is_not_replaced():
    with writing_text("/dev/null") as text:
        text.write("gone")
    assert Path("/dev/null").is_char_device()


def test_gz_is_the_same_every_time(tmp_path):
    for name in ("a.gz", "b.gz"):
        with writing_text(tmp_path / name) as text:
            text.write("content")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == b"content"


def test_reading_tells_every_byte_once(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(3_000_000))
    told = []
    with reading(path, told.append) as stream:
        while stream.read(700_000):
            pass
    assert sum(told) == 3_000_000


@pytest.mark.parametrize(
    "spoil", [lambda raw: raw[:-6], lambda raw: raw[:20] + b"\xff\xff" + raw[22:], lambda raw: raw[:2]]
)
def test_a_spoiled_gz_is_one_declared_error(tmp_path, spoil):
    path = tmp_path / "file.gz"
    path.write_bytes(spoil(gzip.compress(os.urandom(5000))))
    with pytest.raises(FormatError, match="the gz stream is damaged or cut short"), reading(path) as stream:
        stream.read()


@pytest.mark.parametrize(
    ("name", "kind"), [("absent/out", FileNotFoundError), (".", IsADirectoryError), ("file/out", NotADirectoryError)]
)
def test_errors_name_what_was_asked_for(tmp_path, name, kind):
    (tmp_path / "file").touch()
    with pytest.raises(kind) as caught, replacing(tmp_path / name):
        pass
    assert caught.value.filename == str(tmp_path / name)
    with pytest.raises(kind), reading(tmp_path / name):
        pass


def test_text_that_is_none(tmp_path):
    with pytest.raises(FormatError, match="UTF-8"), writing_text(tmp_path / "out") as text:
        text.write("\ud800")
    assert names(tmp_path) == []


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    """Else the name may be there after a power cut, and its content not."""
    steps = []
    replace = Path.replace
    monkeypatch.setattr(io, "sync", lambda path: steps.append(("sync", path.name)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (steps.append(("replace", to.name)), replace(self, to))[1])
    with replacing(tmp_path / "c.csv") as name:
        Path(name).write_text("1")
    assert steps == [("sync", Path(name).name), ("replace", "c.csv"), ("sync", tmp_path.name)]
