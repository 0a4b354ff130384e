"""Opening files: plain or gz, read in a stream, written completely or not at all."""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, TypeAlias, cast

from overstory.presentation.render_data import for_spreadsheet
from overstory.protocol.errors import FormatError

FilePath: TypeAlias = str | os.PathLike[str]
Advance: TypeAlias = Callable[[int], object]
"""Called with every number of bytes taken from the disk: what a progress bar needs."""

GZIP_MAGIC = b"\x1f\x8b"
PARQUET_MAGIC: Final = b"PAR1"
STANDARD: Final = "-"  # in place of a file's name: standard input, or standard output


FOREIGN: Final = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook: unpack it, or save the sheet as CSV"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook: save the sheet as CSV"),
    (b"\xff\xfe", "UTF-16 text: save it as UTF-8, or convert it (iconv -f utf-16 -t utf-8)"),
    (b"\xfe\xff", "UTF-16 text: save it as UTF-8, or convert it (iconv -f utf-16 -t utf-8)"),
    (b"\xfd7zXZ\0", "compressed by xz: unpack it (gz is read as it is)"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd: unpack it (gz is read as it is)"),
)
"""How files begin that are not UTF-8 text, and what to do about them."""


def foreign(head: bytes) -> str | None:
    """Say what a file is that begins so and is no UTF-8 text; None when it may be."""
    return next((f"this is {kind}" for begins, kind in FOREIGN if head.startswith(begins)), None)


class _Counted(io.FileIO):
    """A file that reports how many bytes were read."""

    def __init__(self, path: FilePath, advance: Advance) -> None:
        if is_standard(path):
            super().__init__(0, "r", closefd=False)
        else:
            super().__init__(path, "r")
        self._advance = advance

    def readinto(self, buffer: Any) -> int | None:
        count = super().readinto(buffer)
        self._advance(count or 0)
        return count


def is_standard(path: FilePath) -> bool:
    """Whether standard input or output is meant."""
    return os.fspath(path) == STANDARD


def is_parquet(path: FilePath) -> bool:
    """Whether a file begins as Parquet does; a pipe, read once only, carries CSV."""
    if not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return file.read(4) == PARQUET_MAGIC


@contextmanager
def reading(path: FilePath, advance: Advance | None = None) -> Iterator[BinaryIO]:
    """Open `path` (``-``: standard input) for reading bytes; gz is recognized by its first two bytes."""
    raw = io.BufferedReader(_Counted(path, advance or (lambda _: None)), buffer_size=1 << 18)
    with raw:
        if raw.peek(2)[:2] != GZIP_MAGIC:
            yield cast("BinaryIO", raw)
            return
        try:
            with gzip.GzipFile(fileobj=raw) as inflated:
                yield cast("BinaryIO", inflated)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(f"the gz stream is damaged or cut short ({error})", source=os.fspath(path)) from error


@contextmanager
def replacing(path: FilePath) -> Iterator[str]:
    """Give the name of a temporary file that replaces `path`, or is removed after an error; a pipe is kept."""
    # The file is on the disk before it gets its name, and then its name is: power may fail at any time.
    target = Path(os.path.realpath(path))
    earlier = target.stat() if target.exists() else None
    if earlier is not None and not stat.S_ISREG(earlier.st_mode):
        if stat.S_ISDIR(earlier.st_mode):
            raise IsADirectoryError(21, "is a directory; a file is to be written there", os.fspath(path))
        yield str(target)
        return
    temporary = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    try:
        temporary.open("xb").close()
    except OSError as error:  # name the file that was asked for, not the temporary one
        raise type(error)(error.errno, error.strerror, os.fspath(path)) from error
    try:
        yield str(temporary)
        sync(temporary)
        if earlier is not None:
            temporary.chmod(stat.S_IMODE(earlier.st_mode))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # a folder that may not be listed cannot be opened, and some file systems sync none
        sync(target.parent)


@contextmanager
def writing(path: FilePath) -> Iterator[BinaryIO]:
    """Open `path` for writing bytes, gz when its name ends so; an error leaves what was there before."""
    # The gz header carries neither a name nor a time: equal content gives equal files.
    if is_standard(path):
        sys.stdout.flush()
        yield cast("BinaryIO", sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    with replacing(path) as name, open(name, "wb", buffering=1 << 18) as plain:  # noqa: PTH123 - buffered
        if not os.fspath(path).endswith(".gz"):
            yield plain
            return
        with gzip.GzipFile(filename="", mode="wb", fileobj=plain, compresslevel=6, mtime=0) as deflated:
            yield cast("BinaryIO", deflated)


@contextmanager
def writing_text(path: FilePath) -> Iterator[TextIO]:
    """Open `path` for writing UTF-8 text with LF line ends."""
    with writing(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        try:
            yield text
            text.flush()
        except UnicodeEncodeError as error:
            raise FormatError(f"this cannot be written as UTF-8 ({error.reason})", source=os.fspath(path)) from error
        finally:
            text.detach()  # whoever opened the file closes it


@contextmanager
def writing_csv(path: FilePath, *, spreadsheet: bool) -> Iterator[TextIO]:
    """Open a file to write CSV into; with `spreadsheet`, no cell of what is written is a formula."""
    with writing_text(path) as text:
        if not spreadsheet:
            yield text
            return
        lines = io.StringIO(newline="")
        yield lines
        lines.seek(0)
        text.writelines(for_spreadsheet(lines))


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    if path.is_dir() and os.name == "nt":  # pragma: no cover - a folder cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
