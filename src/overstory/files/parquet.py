"""Reports in Parquet: a cohort column, a column of packed bits, and what they were randomized with in the metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.reports import ReportBatch
from overstory.files.io import replacing
from overstory.protocol.encodings.base import MAX_BITS, MAX_COHORTS, SEEDS
from overstory.protocol.errors import FormatError
from overstory.protocol.permanent_response import canonical
from overstory.protocol.permanent_response import digest as digest_of
from overstory.protocol.wire.upload import cohort_width

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from overstory.files.io import Advance, FilePath

KEY = b"overstory"
ROWS = 1 << 16


@dataclass(frozen=True)
class Label:
    """What a file of reports says of itself, in its schema's metadata under the key ``overstory``, as JSON."""

    num_bits: int
    num_cohorts: int
    parameters: dict[str, Any]

    @property
    def digest(self) -> bytes:
        """The parameters' digest."""
        return digest_of(self.parameters)

    def to_json(self) -> bytes:
        """Return the label as canonical JSON."""
        return canonical(
            {
                "digest": self.digest.hex(),
                "num_bits": self.num_bits,
                "num_cohorts": self.num_cohorts,
                "parameters": self.parameters,
            }
        ).encode()

    @classmethod
    def from_json(cls, raw: bytes, source: str) -> Label:
        """Read a label."""
        try:
            fields = json.loads(raw)
            label = cls(fields["num_bits"], fields["num_cohorts"], fields["parameters"])
            agreed = label.digest.hex() == fields["digest"]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise FormatError("the metadata key overstory holds no label of ours", source=source) from error
        limits = ((label.num_bits, MAX_BITS), (label.num_cohorts, SEEDS))
        if not agreed or not all(type(n) is int and 0 < n <= most for n, most in limits):
            raise FormatError("the label in the metadata contradicts itself: it was altered", source=source)
        return label


def write_parquet(path: FilePath, batches: Iterable[ReportBatch], label: Label) -> None:
    """Write batches, each as a row group, in a stream. Public seeds hardly repeat: no dictionary."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = _columns(label)
    cohort, bits_kind = columns.values()
    fields = [pa.field(name, kind, nullable=False) for name, kind in columns.items()]
    schema = pa.schema(fields, metadata={KEY: label.to_json()})
    repeated: Any = ["cohort"] if label.num_cohorts <= MAX_COHORTS else False
    with (
        replacing(path) as name,
        parquet.ParquetWriter(name, schema, write_page_checksum=True, use_dictionary=repeated) as writer,
    ):
        for batch in batches:
            if not len(batch):
                continue
            octets = np.ascontiguousarray(batch.octets())
            bits = pa.Array.from_buffers(bits_kind, len(batch), [None, pa.py_buffer(octets)])
            writer.write_table(pa.Table.from_arrays([pa.array(batch.cohorts, cohort), bits], schema=schema))


def read_label(path: FilePath) -> Label:
    """Return what the file says of itself."""
    with _opened(path) as file:
        return _label(file, os.fspath(path))


def read_parquet(path: FilePath, *, advance: Advance | None = None) -> Iterator[ReportBatch]:
    """Yield the reports in batches, in a stream."""
    source = os.fspath(path)
    with _opened(path) as file:
        label = _label(file, source)
        _check_columns(file.schema_arrow, label, source)
        size, rows = Path(path).stat().st_size, max(file.metadata.num_rows, 1)
        for batch in file.iter_batches(batch_size=ROWS, columns=["cohort", "bits"]):
            yield _reports(batch, label, source)
            if advance is not None:
                advance(size * batch.num_rows // rows)


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    """Open a Parquet file; whatever its reader says of a damaged one becomes one error."""
    import pyarrow as pa
    from pyarrow import parquet

    source = os.fspath(path)
    with open(path, "rb") as raw:  # noqa: PTH123 - a missing file is the operating system's error
        try:
            with parquet.ParquetFile(raw, page_checksum_verification=True) as file:
                yield file
        except FormatError:
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise FormatError(f"this is no sound Parquet file ({reason})", source=source) from error


def _label(file: Any, source: str) -> Label:
    metadata = file.schema_arrow.metadata or {}
    if KEY not in metadata:
        raise FormatError(
            "expected reports written by overstory: the Parquet metadata has no key overstory", source=source
        )
    return Label.from_json(metadata[KEY], source)


def _columns(label: Label) -> dict[str, Any]:
    """Return the columns and their types: a cohort is as wide as on the wire."""
    import pyarrow as pa

    cohort = {2: pa.uint16(), 4: pa.uint32()}[cohort_width(label.num_cohorts)]
    return {"cohort": cohort, "bits": pa.binary(-(-label.num_bits // 8))}


def _check_columns(schema: Any, label: Label, source: str) -> None:
    for name, kind in _columns(label).items():
        index = schema.get_field_index(name)
        if index < 0 or schema.field(index).type != kind:
            raise FormatError(f"expected one column {name} of type {kind}", source=source)


def _reports(batch: Any, label: Label, source: str) -> ReportBatch:
    cohorts, bits = batch.column("cohort"), batch.column("bits")
    if cohorts.null_count or bits.null_count:
        raise FormatError("expected a value in every row, found nulls", source=source)
    octets = _octets(bits, -(-label.num_bits // 8))
    if octets.size and label.num_bits % 8 and int(octets[:, -1].max()) >> label.num_bits % 8:
        raise FormatError(f"a report has bits past its {label.num_bits}", source=source, field="bits")
    column = cohorts.to_numpy()
    if column.size and int(column.max()) >= label.num_cohorts:
        raise FormatError(
            f"expected 0 .. {label.num_cohorts - 1}, found {int(column.max())}", source=source, field="cohort"
        )
    return ReportBatch.from_octets(column, octets, num_bits=label.num_bits, num_cohorts=label.num_cohorts)


def _octets(bits: Any, width: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(bits.buffers()[1], np.uint8)
    return raw[bits.offset * width : (bits.offset + len(bits)) * width].reshape(-1, width)
