"""Reading what `overstory export` wrote: manifests, and the files that they list.

A file of an export that no manifest lists is of an export that was killed, or is still running: it does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.engines.folders import Folder, FolderError, is_address
from overstory.files.manifests import LARGEST, MANIFEST_NAME, Manifest, PartFile, manifest_name
from overstory.protocol.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class ExportedSet:
    """A manifest, and the folder that it and its parts are in."""

    folder: Folder
    manifest: Manifest

    @property
    def source(self) -> str:
        """What errors name."""
        return f"{self.folder.identity}/{manifest_name(self.manifest.id)}"

    def address(self, part: PartFile) -> str:
        """Return the path or the address of a part."""
        return self.folder.address(part.file)

    def check(self, part: PartFile, *, content: bool) -> None:
        """Raise FormatError unless a part is there, of its size and, with `content`, of its checksum."""
        size = self.folder.size(part.file)
        if size is None:
            raise FormatError(f"{part.file} is listed, and missing", source=self.source)
        if size != part.bytes:
            raise FormatError(f"{part.file} has {size:,} bytes, and {part.bytes:,} are listed", source=self.source)
        if content and self.folder.checksum(part.file) != (part.bytes, part.crc32):
            raise FormatError(f"{part.file} was damaged: its CRC-32 is not the listed one", source=self.source)


def read_sets(folder: Folder) -> list[ExportedSet]:
    """Return the sets whose manifests are in a folder itself."""
    return [_read(folder, name) for name in folder.names() if MANIFEST_NAME.fullmatch(name)]


def find_sets(source: str) -> list[ExportedSet]:
    """Return the sets of an exported folder, or of one that is below it, each once.

    Raises
    ------
    ParameterError
        When there is none.
    FormatError
        When a manifest is damaged, or two are of the same reports.
    """
    top = Folder(source)
    sets = []
    for name in top.names(recursive=True):
        below, _, last = name.rpartition("/")
        if MANIFEST_NAME.fullmatch(last):
            sets.append(_read(Folder(top.address(below) if below else source), last))
    if not sets:
        raise ParameterError(f"{top.identity} holds no manifest: nothing was exported there, or no export has finished")
    check_once(sets)
    return sets


def is_exported(source: str) -> bool:
    """Whether this names a folder, or one in an object store, that holds a manifest at any depth."""
    if not is_address(source):
        return Path(source).is_dir() and any(MANIFEST_NAME.fullmatch(path.name) for path in Path(source).rglob("*"))
    if "*" in source:
        return False
    folder = Folder(source)
    try:
        names = folder.names(recursive=True)
    except FolderError:
        if folder.is_file():
            return False
        raise
    return any(MANIFEST_NAME.fullmatch(name.rpartition("/")[2]) for name in names)


def check_once(sets: Iterable[ExportedSet]) -> None:
    """Raise FormatError when two manifests are of the same reports."""
    seen: dict[str, ExportedSet] = {}
    for one in sets:
        if one.manifest.id in seen:
            problem = f"these reports are also those of {seen[one.manifest.id].source}: count one of the two"
            raise FormatError(problem, source=one.source)
        seen[one.manifest.id] = one


def _read(folder: Folder, name: str) -> ExportedSet:
    manifest = Manifest.from_json(folder.read(name, LARGEST), f"{folder.identity}/{name}")
    if name != manifest_name(manifest.id):
        raise FormatError(
            f"this is the manifest of {manifest.id} under another name", source=f"{folder.identity}/{name}"
        )
    return ExportedSet(folder, manifest)
