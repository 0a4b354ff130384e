"""A store that does not answer is called so: it is neither a damaged file nor something else than a folder."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from pyarrow import fs

from overstory.cli.main import main
from overstory.engines import folders
from overstory.engines.folders import FolderError
from overstory.engines.places import is_exported
from overstory.files.parquet import label_of, opened, read_row_groups
from overstory.protocol.errors import FormatError
from support.engine_files import Collection

REFUSED = "When listing objects under key '' in bucket 'b': AWS Error NETWORK_CONNECTION during ListObjectsV2"


class System:
    """A file system that lists nothing, and knows, or does not know, what an object is."""

    def __init__(self, kind: fs.FileType | None) -> None:
        self.kind = kind

    def get_file_info(self, asked: Any) -> fs.FileInfo:
        if self.kind is None or isinstance(asked, fs.FileSelector):
            raise OSError(REFUSED)
        return fs.FileInfo(asked, self.kind)


@pytest.mark.parametrize("kind", [None, fs.FileType.Directory, fs.FileType.NotFound])
def test_a_store_that_does_not_answer_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], kind: fs.FileType | None
) -> None:
    monkeypatch.setattr(folders, "file_system", lambda _address: (System(kind), "b/day"))
    with pytest.raises(FolderError, match=r"^s3://b/day: when listing objects .*NETWORK_CONNECTION"):
        is_exported("s3://b/day?region=eu-west-1")
    assert main(["decode", "s3://b/day", "--registry", "metrics.toml"]) == 2
    assert "overstory: error: s3://b/day: when listing objects" in capsys.readouterr().err


def test_an_object_is_no_exported_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "file_system", lambda _address: (System(fs.FileType.File), "b/day.parquet"))
    assert not is_exported("s3://b/day.parquet")


class Failing(io.BytesIO):
    """A file whose first read is right, and each later one an error."""

    def __init__(self, content: bytes, error: BaseException) -> None:
        super().__init__(content)
        self.error, self.reads = error, 0

    def read(self, size: int | None = -1, /) -> bytes:
        self.reads += 1
        if self.reads > 1:
            raise self.error
        return super().read(size)


@pytest.mark.parametrize(
    "error",
    [
        OSError("AWS Error NETWORK_CONNECTION during GetObject operation"),
        OSError(5, "Input/output error"),
        ConnectionResetError("reset by the store"),
        TimeoutError("no answer"),
        MemoryError(),
    ],
)
def test_what_the_system_says_is_not_said_of_the_file(
    collection: Callable[..., Collection], error: BaseException
) -> None:
    raw = Failing((collection().folder / "b.parquet").read_bytes(), error)
    with pytest.raises(type(error)) as caught, opened(raw, "b.parquet") as file:
        list(read_row_groups(file, label_of(file, "b.parquet"), "b.parquet"))
    assert not isinstance(caught.value, FormatError)
