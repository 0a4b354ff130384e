"""What files say of their reports: the label, as JSON in Parquet's metadata; and manifests of exports.

A manifest is written after its files, and readers take the files that it lists, not what a killed export left.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import MAX_BITS, MAX_COHORTS, SEEDS, Kind, canonical
from overstory.protocol.kinds.base import digest as digest_of
from overstory.protocol.kinds.registry import REGISTRY, mechanism

KEY: Final = b"overstory"


@dataclass(frozen=True)
class Label:
    """What a file of reports says of itself, in its schema's metadata under the key ``overstory``, as JSON."""

    num_bits: int
    num_cohorts: int
    parameters: dict[str, Any]
    built_from: dict[str, Any] | None = None  # the registry's parameters, by which a reader makes the mechanism again

    @classmethod
    def of(cls, mechanism: Kind) -> Label:
        built = dict(mechanism.parameters) if mechanism.name in REGISTRY else None
        return cls(mechanism.payload_bits, mechanism.num_cohorts, mechanism.canonical(), built)

    def mechanism(self, source: str) -> Kind:
        """Return the mechanism of the reports; FormatError when this version builds another one from the label."""
        name = self.parameters.get("name")
        if self.built_from is None:
            problem = f"the label has no parameters to make {name} from: give --params, or --registry and --metric"
            raise FormatError(problem, source=source)
        try:
            built = mechanism(str(name), **self.built_from)
        except (ParameterError, TypeError) as error:
            raise FormatError(f"the label's parameters make no mechanism: {error}", source=source) from error
        if built.digest != self.digest:
            raise FormatError(f"the label's parameters make another {name} than its digest is of", source=source)
        return built

    @property
    def digest(self) -> bytes:
        return digest_of(self.parameters)

    def to_json(self) -> bytes:
        fields = {
            "digest": self.digest.hex(),
            "num_bits": self.num_bits,
            "num_cohorts": self.num_cohorts,
            "parameters": self.parameters,
        }
        return canonical(fields | ({} if self.built_from is None else {"built_from": self.built_from})).encode()

    @classmethod
    def from_json(cls, raw: bytes, source: str) -> Label:
        try:
            fields = json.loads(raw)
            label = cls(fields["num_bits"], fields["num_cohorts"], fields["parameters"], fields.get("built_from"))
            agreed = label.digest.hex() == fields["digest"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError("the metadata key overstory holds no label of ours", source=source) from error
        limits = ((label.num_bits, MAX_BITS), (label.num_cohorts, SEEDS))
        if not agreed or not all(type(n) is int and 0 < n <= most for n, most in limits):
            raise FormatError("the label in the metadata contradicts itself: it was altered", source=source)
        return label


def label_of(file: Any, source: str) -> Label:
    """Return what an open file says of itself."""
    metadata = file.schema_arrow.metadata or {}
    if KEY not in metadata:
        raise FormatError(
            "expected reports written by overstory: the Parquet metadata has no key overstory", source=source
        )
    return Label.from_json(metadata[KEY], source)


FORMAT: Final = "overstory export"
VERSION: Final = 1
ID: Final = re.compile(r"[0-9a-f]{32}")
MANIFEST_NAME: Final = re.compile(r"manifest-[0-9a-f]{32}\.json")
PART_NAME: Final = re.compile(r"part-[0-9a-f]{32}-[0-9]+\.parquet")
OWN: Final = ("id", "store", "metric", "period", "period_seconds", "period_label", "group")
"""Fields of a manifest that are written as they are."""
LARGEST: Final = 1 << 24  # bytes of a manifest that is read


def manifest_name(export_id: str) -> str:
    """Return the name of the manifest of an export: of one id there is one manifest in a folder."""
    return f"manifest-{export_id}.json"


def part_name(export_id: str, number: int) -> str:
    """Return the name of a part of an export."""
    return f"part-{export_id}-{number}.parquet"


def partition_path(metric: str, period: int, digest: bytes) -> str:
    """Return the folder of a metric, period and mechanism, below the destination."""
    return f"metric={metric}/period={period}/digest={digest.hex()}"


def read_partition(path: str) -> tuple[str, int] | None:
    """Return the metric and the period that a folder is of; None where it has another name."""
    found = re.fullmatch(r"(?:.*/)?metric=([^/]+)/period=(-?[0-9]+)/digest=[0-9a-f]{32}", path)
    return None if found is None else (found[1], int(found[2]))


@dataclass(frozen=True)
class PartFile:
    """A file of reports: its name in the manifest's folder, its size, its CRC-32, and how many reports it has."""

    file: str
    bytes: int
    crc32: int
    reports: int


@dataclass(frozen=True)
class Manifest:
    """What an export holds of one metric, period, mechanism and group."""

    id: str  # of these reports: whoever has counted an id does not count it again, wherever it comes from
    store: str  # a random id of the store that the reports are from
    metric: str
    period: int
    period_seconds: int
    period_label: str
    group: str
    label: Label
    totals: tuple[int, ...]  # reports per cohort; empty where every report has a seed of its own
    parts: tuple[PartFile, ...]

    @property
    def num_reports(self) -> int:
        return sum(part.reports for part in self.parts)

    @property
    def num_bytes(self) -> int:
        return sum(part.bytes for part in self.parts)

    def to_json(self) -> str:
        """Return the manifest as JSON; equal manifests give equal text."""
        mechanism = json.loads(self.label.to_json())
        fields = {
            "format": FORMAT,
            "version": VERSION,
            **{name: getattr(self, name) for name in OWN},
            "digest": mechanism["digest"],
            "mechanism": mechanism,
            "reports": self.num_reports,
            "bytes": self.num_bytes,
            "cohort_totals": list(self.totals),
            "parts": [vars(part) for part in self.parts],
        }
        return json.dumps(fields, indent=1) + "\n"

    @classmethod
    def from_json(cls, raw: bytes | str, source: str) -> Manifest:
        """Read a manifest; FormatError also for a later version, and for one that contradicts itself."""
        try:
            fields = json.loads(raw)
            if fields["format"] != FORMAT:
                raise FormatError(f"this is no manifest of {FORMAT}", source=source)
            if fields["version"] != VERSION:
                problem = f"a manifest of version {fields['version']}; this program reads {VERSION}: upgrade overstory"
                raise FormatError(problem, source=source)
            label = Label.from_json(json.dumps(fields["mechanism"]).encode(), source)
            parts = [PartFile(part["file"], part["bytes"], part["crc32"], part["reports"]) for part in fields["parts"]]
            same = {name: fields[name] for name in OWN}
            manifest = cls(**same, label=label, totals=tuple(fields["cohort_totals"]), parts=tuple(parts))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError(f"this is no manifest of {FORMAT} ({error!r})", source=source) from error
        if fault := manifest._contradiction(fields):
            raise FormatError(f"the manifest contradicts itself ({fault}): it was altered", source=source)
        return manifest

    def _contradiction(self, fields: dict[str, Any]) -> str | None:
        numbers = [self.period, self.period_seconds, *self.totals]
        numbers += [number for part in self.parts for number in (part.bytes, part.crc32, part.reports)]
        texts = [self.id, self.store, self.metric, self.period_label, self.group, *(part.file for part in self.parts)]
        if not all(type(n) is int and n >= 0 for n in numbers) or not all(type(text) is str for text in texts):
            return "a field has another type"
        files = [part.file for part in self.parts]
        cohorts = self.label.num_cohorts if self.label.num_cohorts <= MAX_COHORTS else 0
        faults = {
            "an id is not 32 hexadecimal digits": not (ID.fullmatch(self.id) and ID.fullmatch(self.store)),
            "a part has another name than an export gives": not all(map(PART_NAME.fullmatch, files)),
            "it lists no part": not self.parts,
            "a part is listed twice": len(set(files)) != len(files),
            "the digest is of other parameters": fields["digest"] != self.label.digest.hex(),
            "the parts do not add up": (fields["reports"], fields["bytes"]) != (self.num_reports, self.num_bytes),
            "the cohorts do not add up": sum(self.totals) != (self.num_reports if cohorts else 0),
            "there is no number for each cohort": len(self.totals) != cohorts,
        }
        return next((problem for problem, found in faults.items() if found), None)
