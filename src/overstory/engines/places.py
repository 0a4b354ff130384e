"""Where reports lie: files, folders, globs, object stores by their address; exported files are taken by manifest."""

from __future__ import annotations

import filecmp
import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from overstory.engines.folders import Folder, address_key, file_system, is_address, shown_address
from overstory.files.labels import LARGEST, MANIFEST_NAME, PART_NAME, Manifest, PartFile, manifest_name
from overstory.protocol.errors import FormatError, ParameterError


@dataclass(frozen=True)
class ExportedSet:
    """A manifest, and the folder that it and its parts are in."""

    folder: Folder
    manifest: Manifest

    @property
    def source(self) -> str:
        return f"{self.folder.identity}/{manifest_name(self.manifest.id)}"

    def address(self, part: PartFile) -> str:
        return self.folder.address(part.file)

    def place(self, part: PartFile) -> Place:
        """Return where a part lies; FormatError unless it is there, with the size that is listed."""
        entry = self.folder.entry(part.file)
        if entry is None:
            raise FormatError(f"{part.file} is listed, and missing", source=self.source)
        if entry.size != part.bytes:
            problem = f"{part.file} has {entry.size:,} bytes, and {part.bytes:,} are listed"
            raise FormatError(problem, source=self.source)
        return Place(self.address(part), part.bytes, f"crc32 {part.crc32}", part.reports, part.crc32)


def read_sets(folder: Folder) -> list[ExportedSet]:
    """Return the sets whose manifests are in a folder itself."""
    return [_read(folder, name) for name in folder.names() if MANIFEST_NAME.fullmatch(name)]


def find_sets(source: str) -> list[ExportedSet]:
    """Return the sets of an exported folder, or of one that is below it, each once."""
    if Path(source).is_file():
        raise ParameterError(f"{source}: a file is no exported folder; a store is named by --store")
    top = Folder(source)
    split = [name.rpartition("/") for name in top.names(recursive=True)]
    sets = [
        _read(Folder(top.address(below) if below else source), last)
        for below, _, last in split
        if MANIFEST_NAME.fullmatch(last)
    ]
    if not sets:
        raise ParameterError(f"{top.identity} holds no manifest: nothing was exported there, or no export has finished")
    check_once(sets)
    return sets


def check_once(sets: Iterable[ExportedSet]) -> None:
    """Raise FormatError when two manifests are of the same reports."""
    seen: dict[str, ExportedSet] = {}
    for one in sets:
        if one.manifest.id in seen:
            problem = f"these reports are also those of {seen[one.manifest.id].source}: count one of the two"
            raise FormatError(problem, source=one.source)
        seen[one.manifest.id] = one


def _read(folder: Folder, name: str) -> ExportedSet:
    source = f"{folder.identity}/{name}"
    manifest = Manifest.from_json(folder.read(name, LARGEST), source)
    if name != manifest_name(manifest.id):
        raise FormatError(f"this is the manifest of {manifest.id} under another name", source=source)
    return ExportedSet(folder, manifest)


ENDING: Final = ".parquet"  # what is read of a folder


@dataclass(frozen=True)
class Place:
    """A file of reports."""

    address: str  # a path from the root, so that it is the same in every process, or the address of an object
    size: int  # in bytes
    # When it was last written, in nanoseconds, or what the object store says instead; it changes with the content.
    stamp: str
    num_reports: int | None = None  # of an exported file: how many reports its manifest lists
    # Of an exported file: the CRC-32 of all its bytes that its manifest lists; who reads the file compares it.
    crc32: int | None = None

    @property
    def shown(self) -> str:
        return shown_address(self.address)


def find_places(inputs: Iterable[str]) -> list[Place]:
    """Return the files that are named, in folders and globs too: each once and in order, exported ones by manifests."""
    places: list[Place] = []
    exported: dict[str, list[ExportedSet]] = {}
    counted: dict[str, ExportedSet] = {}
    for text in inputs:
        path = _as_path(text)
        named = _of_store(path) if is_address(path) else _of_disk(path)
        places += _listed(named, text, exported, counted)
    check_once(counted.values())
    if not places:
        raise ParameterError("no files of reports are named: give files, folders or globs")
    seen: set[str] = set()
    for place in places:
        if (key := address_key(place.address)) in seen:
            raise ParameterError(f"{place.shown} is named twice: its reports would be counted twice")
        seen.add(key)
    return places


def find_copies(places: Iterable[Place]) -> list[tuple[Place, Place]]:
    """Return the files of a disk that have the bytes of one before them, each after that one."""
    alike: dict[tuple[int, bytes], Place] = {}
    copies = []
    for place in (place for place in places if not is_address(place.address)):
        with Path(place.address).open("rb") as file:
            file.seek(max(0, place.size - 4096))  # two files that differ rarely have size and end in common
            first = alike.setdefault((place.size, file.read()), place)
        if first is not place and filecmp.cmp(first.address, place.address, shallow=False):
            copies.append((first, place))
    return copies


def _listed(
    named: list[Place], text: str, exported: dict[str, list[ExportedSet]], counted: dict[str, ExportedSet]
) -> list[Place]:
    """Return the places, a manifest standing for its files; the sets of which some are counted go into `counted`."""
    by_folder: dict[str, set[str]] = {}
    places: list[Place] = []
    for place in named:
        base, mark, options = place.address.partition("?") if is_address(place.address) else (place.address, "", "")
        folder, _, name = base.rpartition("/")
        if PART_NAME.fullmatch(name) or MANIFEST_NAME.fullmatch(name):
            by_folder.setdefault(folder + mark + options, set()).add(name)
        else:
            places.append(place)
    unlisted: list[str] = []
    for folder, found in by_folder.items():
        if folder not in exported:
            exported[folder] = read_sets(Folder(folder))
        for one in exported[folder]:
            is_complete = manifest_name(one.manifest.id) in found
            for part in one.manifest.parts:
                if is_complete or part.file in found:
                    places.append(one.place(part))
                    counted[one.source] = one
        listed = {part.file for one in exported[folder] for part in one.manifest.parts}
        unlisted += [f"{folder}/{name}" for name in sorted(found - listed) if PART_NAME.fullmatch(name)]
    if unlisted and not places:
        raise FormatError(
            "in no manifest: the export that wrote this has not finished", source=shown_address(unlisted[0])
        )
    if named and not places:
        raise ParameterError(f"{shown_address(text)}: its manifests list no files")
    return sorted(places, key=lambda place: place.address)


def _as_path(text: str) -> str:
    """Return the path of an address of this machine, so that a file has one name; other addresses as they are."""
    host, slash, path = text[7:].partition("/")
    if not text.lower().startswith("file://") or not slash or host not in {"", "localhost"}:
        return text
    return f"/{unquote(path)}"


def _is_read(name: str) -> bool:
    return name.endswith(ENDING) or MANIFEST_NAME.fullmatch(name) is not None


def _of_disk(text: str) -> list[Place]:
    if Path(text).is_dir():
        names = _files(path for path in Path(text).rglob("*") if _is_read(path.name))
        if not names:
            raise ParameterError(f"{text} is a directory that holds no file ending in {ENDING}")
    elif Path(text).exists() or not glob.has_magic(text):
        names = [text]
    else:
        names = _files(map(Path, glob.glob(text, recursive=True)))  # noqa: PTH207 - as the shell reads it
        if not names:
            raise ParameterError(f"no file's name matches {text}")
    places = []
    for name in names:
        state = Path(name).stat()
        places.append(Place(os.path.realpath(name), state.st_size, str(state.st_mtime_ns)))
    return places


def _files(paths: Iterable[Path]) -> list[str]:
    found = sorted(str(path) for path in paths if not path.is_dir())
    for name in found:
        if not Path(name).is_file():
            kind = "a named pipe" if Path(name).is_fifo() else "no file"
            raise ParameterError(f"{name} is {kind}: take it out of the folder, or name the files to read")
    return found


def _of_store(address: str) -> list[Place]:
    base, mark, options = address.partition("?")
    before, star, _ = base.partition("*")
    top = before.rpartition("/")[0] if star else base.rstrip("/")
    folder = Folder(top + mark + options)
    if not star and (entry := folder.entry()) is not None:
        return [Place(address, entry.size, entry.stamp)]
    matches = re.compile(_pattern(folder.decoded(base[len(top) + 1 :])) if star else ".*").fullmatch
    places = [
        Place(folder.address(entry.name), entry.size, entry.stamp)
        for entry in folder.entries(recursive=True)
        if _is_read(entry.name.rpartition("/")[2]) and matches(entry.name)
    ]
    if not places:
        raise ParameterError(f"there is no file of reports at {shown_address(address)}")
    return places


def _pattern(glob_text: str) -> str:
    """Return the regular expression of a glob in which ``*`` is of one folder and ``**`` of any number."""
    parts = re.split(r"(\*\*/?|\*)", glob_text)
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    return "".join(meaning.get(part, re.escape(part)) for part in parts)


@contextmanager
def open_place(address: str) -> Iterator[Any]:
    """Open a file for random reading: mapped into memory where it lies on a disk."""
    import pyarrow as pa

    if not is_address(address):
        with pa.memory_map(address) as raw:
            yield raw
        return
    system, path = file_system(address)
    with system.open_input_file(path) as raw:
        yield raw
