"""What a file of reports in Parquet says of itself: in its schema's metadata, under the key ``overstory``, as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.encodings.base import MAX_BITS, SEEDS
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms.base import canonical
from overstory.protocol.mechanisms.base import digest as digest_of
from overstory.protocol.mechanisms.registry import REGISTRY, mechanism

if TYPE_CHECKING:
    from overstory.protocol.mechanisms.base import LocalRandomizer

KEY: Final = b"overstory"


@dataclass(frozen=True)
class Label:
    """What a file of reports says of itself, in its schema's metadata under the key ``overstory``, as JSON."""

    num_bits: int
    num_cohorts: int
    parameters: dict[str, Any]
    built_from: dict[str, Any] | None = None  # the registry's parameters, by which a reader makes the mechanism again

    @classmethod
    def of(cls, mechanism: LocalRandomizer) -> Label:
        """Return the label of a mechanism's reports."""
        built = dict(mechanism.parameters) if mechanism.name in REGISTRY else None
        return cls(mechanism.payload_bits, mechanism.num_cohorts, mechanism.canonical(), built)

    def mechanism(self, source: str) -> LocalRandomizer:
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
        """The parameters' digest."""
        return digest_of(self.parameters)

    def to_json(self) -> bytes:
        """Return the label as canonical JSON."""
        fields = {
            "digest": self.digest.hex(),
            "num_bits": self.num_bits,
            "num_cohorts": self.num_cohorts,
            "parameters": self.parameters,
        }
        return canonical(fields | ({} if self.built_from is None else {"built_from": self.built_from})).encode()

    @classmethod
    def from_json(cls, raw: bytes, source: str) -> Label:
        """Read a label."""
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
