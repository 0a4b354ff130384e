"""Reports in Parquet: a row for each, or blocks of them; what they were randomized with is in the metadata.

A row for each report has a column of cohorts and one of packed bits; `overstory.files.blocks` has the other layout.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.analysis.reports import ReportBatch
from overstory.files.blocks import check_columns, has_blocks, read_blocks, reports_of_groups
from overstory.files.io import replacing
from overstory.files.labels import KEY, Label, label_of
from overstory.protocol.encodings.base import MAX_COHORTS
from overstory.protocol.errors import FormatError
from overstory.protocol.wire.upload import cohort_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from overstory.files.io import Advance, FilePath

ROWS = 1 << 18
STORES: Final = re.compile(r"AWS Error|When |google::cloud|GetFileInfo|HTTP|curl", re.IGNORECASE)
"""How what Arrow says begins where an object store did not answer."""


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
        return label_of(file, os.fspath(path))


def read_parquet(path: FilePath, *, advance: Advance | None = None) -> Iterator[ReportBatch]:
    """Yield the reports in batches, in a stream."""
    source = os.fspath(path)
    with _opened(path) as file:
        label = label_of(file, source)
        size = Path(path).stat().st_size
        rows = sum(reports_of_row_groups(file, source)) or 1
        for batch in read_row_groups(file, label, source):
            yield batch
            if advance is not None:
                advance(size * len(batch) // rows)


def read_row_groups(
    file: Any, label: Label, source: str, groups: Sequence[int] | None = None, *, verify: bool = True
) -> Iterator[ReportBatch]:
    """Yield the reports of some row groups of an open file, all unless given, of either layout.

    A row for each report is verified by its pages' checksums, if the file was opened so; `verify` is of blocks.
    """
    if has_blocks(file.schema_arrow):
        yield from read_blocks(file, label, source, groups, verify=verify)
        return
    _check_columns(file.schema_arrow, label, source)
    chosen = list(range(file.metadata.num_row_groups) if groups is None else groups)
    for batch in file.iter_batches(batch_size=ROWS, row_groups=chosen, columns=["cohort", "bits"], use_threads=False):
        yield _reports(batch, label, source)


def reports_of_row_groups(file: Any, source: str) -> list[int]:
    """Return how many reports each row group of an open file has."""
    if has_blocks(file.schema_arrow):
        return reports_of_groups(file, source)
    return [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    with open(path, "rb") as raw, opened(raw, os.fspath(path)) as file:  # noqa: PTH123 - a missing file is the operating system's error
        yield file


@contextmanager
def opened(raw: Any, source: str, *, verify: bool = True) -> Iterator[Any]:
    """Open a Parquet file; whatever its reader says of a damaged one becomes one error.

    A store that does not answer, and too little memory, are no fault of the file: these errors stay what they are.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(raw, page_checksum_verification=verify) as file:
            yield file
    except (FormatError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        if isinstance(error, OSError) and _is_of_the_system(error):
            raise
        reason = str(error).strip().partition("\n")[0]
        raise FormatError(f"this is no sound Parquet file ({reason})", source=source) from error


def _is_of_the_system(error: OSError) -> bool:
    """Whether the disk or the network failed; what Arrow says of a damaged file is an OSError without a number, too."""
    return type(error) is not OSError or error.errno is not None or STORES.match(str(error)) is not None


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
    octets, column = _octets(bits, -(-label.num_bits // 8)), np.from_dlpack(cohorts)  # `to_numpy` would import pandas
    check_columns(label, octets, column, source, ("bits", "cohort"))
    return ReportBatch.from_octets(column, octets, num_bits=label.num_bits, num_cohorts=label.num_cohorts)


def _octets(bits: Any, width: int) -> NDArray[np.uint8]:
    raw = np.frombuffer(bits.buffers()[1], np.uint8)
    return raw[bits.offset * width : (bits.offset + len(bits)) * width].reshape(-1, width)
