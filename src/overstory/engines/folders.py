"""A folder on a disk or in an object store: files are put there complete, listed, read and removed."""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, unquote

from overstory.files.io import sync
from overstory.protocol.errors import OverstoryError, ParameterError

ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
SHOWN_OPTIONS: Final = frozenset({"region", "scheme", "endpoint_override", "allow_bucket_creation"})
"""Options of an address that are no secrets."""
SHORTEST_SECRET: Final = 4  # characters: a shorter text is also a part of words that say what is wrong
COPIED: Final = 1 << 22  # bytes that are copied or added up at a time


class FolderError(OverstoryError):
    """A folder or an object store cannot be read or written."""


def is_address(text: str) -> bool:
    """Whether this is an object's address and no path."""
    return ADDRESS.match(text) is not None


def shown_address(address: str) -> str:
    """Return an address without credentials and options, as all messages and results name it; a path as it is."""
    if not is_address(address):
        return address
    scheme, _, rest = address.partition("://")
    rest = rest.partition("?")[0]
    host, slash, path = rest.partition("/")
    if "@" in host:
        return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"
    _, colon, port = host.partition(":")
    if colon and port and not port.isdigit():  # the start of a secret that is not written as an address needs it
        return f"{scheme}://{rest.rpartition('@')[2]}" if "@" in path else f"{scheme}://..."
    return f"{scheme}://{rest}"


def without_secrets(text: str, address: str) -> str:
    """Return what a library or an error says, with an address as it is shown, and none of its secrets."""
    shown = shown_address(address)
    text = text.replace(address, shown)
    base, _, options = address.partition("?")
    text = text.replace(base, shown)
    before = base.partition("://")[2].rpartition("@")[0] if base != shown else ""
    password = before.partition(":")[2]
    values = [value for name, value in parse_qsl(options) if name not in SHOWN_OPTIONS]
    for secret in (f"{before}@", password, *values):
        for form in {secret, unquote(secret), quote(secret, safe="")}:
            if len(form) >= SHORTEST_SECRET:
                text = text.replace(form, "...")
    return text


def address_key(address: str) -> str:
    """Return what two addresses of one object have in common: credentials and regions are not in it."""
    base, _, options = address.partition("?")
    if base.partition(":")[0].lower() not in {"s3", "gs", "gcs"}:
        return address
    return f"{unquote(shown_address(base))}?{dict(parse_qsl(options)).get('endpoint_override', '')}"


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system of an address and the path in it: Arrow's, or any that fsspec knows."""
    import pyarrow as pa
    from pyarrow import fs

    try:
        system, path = fs.FileSystem.from_uri(address)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        try:
            import fsspec
        except ImportError:
            reason = without_secrets(str(error).splitlines()[0], address)
            raise ParameterError(f"{shown_address(address)}: {reason}") from error
        try:
            other, path = fsspec.core.url_to_fs(address.partition("?")[0])
        except (ImportError, ValueError) as missing:
            reason = without_secrets(str(missing), address)
            raise ParameterError(f"{shown_address(address)} cannot be opened: {reason}") from missing
        system = fs.PyFileSystem(fs.FSSpecHandler(other))
    return system, path


class Entry(NamedTuple):
    """A file of a folder, by its name below it."""

    name: str
    size: int  # in bytes
    stamp: str  # when it was last written, in nanoseconds, or what the object store says instead


class Folder:
    """A folder, by its path or by an address such as ``s3://bucket/reports?region=eu-west-1``."""

    def __init__(self, text: str) -> None:
        from pyarrow import fs

        self._text, self._is_local = text, not is_address(text)
        if self._is_local:
            self._system, self._path = fs.LocalFileSystem(), os.path.realpath(text)
            self._base, self._after = self._path, ""
        else:
            base, _, options = text.partition("?")
            self._base, self._after = base.rstrip("/"), f"?{options}" if options else ""
            with self._errors(text):
                self._system, self._path = file_system(self._base + self._after)
        # Arrow decodes addresses, fsspec does not.
        self._is_decoded = not self._is_local and not isinstance(self._system, fs.PyFileSystem)

    @property
    def identity(self) -> str:
        """Its path or address without credentials and options; where an endpoint is named, that belongs to it."""
        if self._is_local:
            return self._path
        endpoint = dict(parse_qsl(self._after[1:])).get("endpoint_override")
        return self.decoded(shown_address(self._base)) + (f"?endpoint_override={endpoint}" if endpoint else "")

    def decoded(self, text: str) -> str:
        return unquote(text) if self._is_decoded else text

    def address(self, name: str) -> str:
        """Return the path or the address of a file, as `overstory.engines.places.open_place` takes it."""
        return f"{self._base}/{quote(name, safe='/=,:') if self._is_decoded else name}{self._after}"

    def names(self, below: str = "", *, recursive: bool = False) -> list[str]:
        return [entry.name for entry in self.entries(below, recursive=recursive)]

    def entries(self, below: str = "", *, recursive: bool = False) -> list[Entry]:
        from pyarrow import fs

        path = f"{self._path}/{below}".rstrip("/")
        with self._errors(below):
            infos = self._system.get_file_info(fs.FileSelector(path, recursive=recursive, allow_not_found=True))
        start, files = len(path) + 1, (info for info in infos if info.type == fs.FileType.File)
        return sorted(Entry(info.path[start:], info.size, str(info.mtime_ns)) for info in files)

    def entry(self, name: str = "") -> Entry | None:
        """Return what is known of a file, or of this folder where it is a file itself; None where there is none."""
        from pyarrow import fs

        with self._errors(name):
            info = self._system.get_file_info(f"{self._path}/{name}" if name else self._path)
        return Entry(name, info.size, str(info.mtime_ns)) if info.type == fs.FileType.File else None

    def read(self, name: str, most: int = 1 << 30) -> bytes:
        with self._errors(name), self._system.open_input_stream(f"{self._path}/{name}") as stream:
            content: bytes = stream.read(most)
        return content

    def remove(self, name: str) -> None:
        with self._errors(name):
            self._system.delete_file(f"{self._path}/{name}")

    def write(self, name: str, content: bytes) -> None:
        """Write a file: it is there completely and on the disk, or not at all."""
        with self.staged(name) as staged:
            staged.write_bytes(content)

    @contextmanager
    def staged(self, name: str) -> Iterator[Path]:
        """Give the path of a file to write; afterwards it gets its name, and is on the disk or in the object store."""
        if self._is_local:
            target = Path(self._path, name)
            with self._errors(name):
                _make_folders(target.parent)
            temporary = target.with_name(f".{target.name}.part")
            try:
                yield temporary
                with self._errors(name):
                    sync(temporary)
                    temporary.replace(target)
                    sync(target.parent)
            finally:
                temporary.unlink(missing_ok=True)
            return
        with tempfile.TemporaryDirectory(prefix="overstory-") as own:
            temporary = Path(own, "part")
            yield temporary
            path = f"{self._path}/{name}"
            with self._errors(name), temporary.open("rb") as source, self._system.open_output_stream(path) as sink:
                while some := source.read(COPIED):
                    sink.write(some)
            written = self.entry(name)
            if written is None or written.size != temporary.stat().st_size:
                raise FolderError(f"{self.identity}/{name}: the object store holds another number of bytes than sent")

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        import pyarrow as pa

        try:
            yield
        except OverstoryError:
            raise
        except (OSError, pa.ArrowException, ValueError) as error:
            reason = getattr(error, "strerror", None) if self._is_local else None
            reason = reason or without_secrets(str(error).splitlines()[0], self._text)
            shown = f"{self._path}/{name}" if self._is_local else shown_address(name or self.identity)
            raise FolderError(f"{shown}: {reason[:1].lower()}{reason[1:]}") from error


def stream_checksum(stream: Any) -> tuple[int, int]:
    """Return the size and the CRC-32 of what is left of an open file, read a few megabytes at a time."""
    size = crc = 0
    while some := stream.read(COPIED):
        size, crc = size + len(some), zlib.crc32(some, crc)
    return size, crc


def _make_folders(path: Path) -> None:
    """Make a folder and those above it; each is on the disk before anything is written into it."""
    missing = [path, *path.parents]
    missing = missing[: next(place for place, folder in enumerate(missing) if folder.is_dir())]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
