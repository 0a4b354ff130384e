"""Reports in Parquet: a row is a block of the packed reports of one metric, period, mechanism and cohort, and a CRC-32.

A row for each report costs a page header, levels and a dictionary's indices to read; a block of 2^16 reports is read as
one run of bytes, and is counted as it lies. Reports with a public seed each (more than 65,536 cohorts) cannot be sorted
by it: their blocks have two blobs, of seeds and of symbols. Random bits do not shrink: blocks are not compressed.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, are_few, count_slowly, group_by_cohort, packed_words
from overstory.files.io import Advance, FilePath, replacing
from overstory.files.labels import KEY, Label, label_of
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS
from overstory.protocol.wire.upload import cohort_width

ENOUGH: Final = 1 << 21
"""Bytes of reports that are counted in one call: what a call costs by itself is then a hundredth of it."""


def joined(batches: Iterable[ReportBatch], enough: int = ENOUGH) -> Iterator[ReportBatch]:
    """Put small batches of one mechanism together until they have `enough` bytes, in a stream."""
    waiting: list[ReportBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.bits.nbytes
        if size >= enough:
            yield _one_batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _one_batch(waiting)


def _one_batch(parts: list[ReportBatch]) -> ReportBatch:
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    cohorts, bits = (np.concatenate([getattr(part, name) for part in parts]) for name in ("cohorts", "bits"))
    return ReportBatch(cohorts, bits, first.num_bits, first.num_cohorts)


BLOCK: Final = 1 << 16  # reports of a full block of one cohort
SEEDED_BLOCK: Final = 1 << 18  # reports of a full block with seeds
GROUP_BYTES: Final = 1 << 24  # bytes of reports in a row group: 16 full blocks of 128 bits
HELD_BYTES: Final = 1 << 28
"""Bytes of reports that wait for their block to fill; with more, the largest are written as they are."""
SORTED_BYTES: Final = 1 << 26  # bytes of reports that are sorted together
ROW_GROUPS: Final = b"overstory.row_groups"
"""Key of the file's metadata: the number of reports in each row group, as JSON."""


class Block(NamedTuple):
    """Reports of one cohort, or of many with their seeds; uint8 of shape (n, bytes of a report)."""

    cohort: int
    octets: NDArray[np.uint8]
    seeds: NDArray[np.uint32] | None = None


class GroupedBatch(ReportBatch):
    """Reports in order of cohort, as blocks hold them: rows ``offsets[c] .. offsets[c + 1]`` are cohort c's."""

    offsets: NDArray[np.int64]

    def __init__(self, offsets: NDArray[np.int64], bits: NDArray[np.uint64], num_bits: int) -> None:
        object.__setattr__(self, "offsets", offsets)
        for name, value in {"bits": bits, "num_bits": num_bits, "num_cohorts": len(offsets) - 1}.items():
            object.__setattr__(self, name, value)
        shape = int(offsets[-1]), -(-num_bits // 64)
        if bits.shape != shape:
            raise ParameterError(f"{shape[0]} reports of {num_bits} bits need shape {shape}, not {bits.shape}")

    @cached_property
    def cohorts(self) -> NDArray[Any]:
        numbers = np.arange(self.num_cohorts, dtype=f"u{cohort_width(self.num_cohorts)}")
        return np.repeat(numbers, np.diff(self.offsets))

    def __len__(self) -> int:
        return len(self.bits)

    def count_bits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count each cohort's rows where they lie."""
        if are_few(self.bits):
            return count_slowly(self.bits, self.cohorts, self.num_cohorts)
        from overstory.kernels.popcount import count_bits_grouped

        return count_bits_grouped(self.bits, self.offsets)


def block_columns(label: Label) -> dict[str, Any]:
    """Return the columns and their types."""
    import pyarrow as pa

    named = {"metric": pa.string(), "period": pa.int32(), "digest": pa.binary(16)}
    if label.num_cohorts > MAX_COHORTS:
        return named | {"num_reports": pa.uint32(), "seeds": pa.binary(), "symbols": pa.binary(), "crc32": pa.uint32()}
    return named | {"cohort": pa.uint16(), "num_reports": pa.uint32(), "blob": pa.binary(), "crc32": pa.uint32()}


def write_blocks(
    path: FilePath,
    batches: Iterable[ReportBatch],
    label: Label,
    *,
    metric: str | None = None,
    period: int | None = None,
    group: str | None = None,
) -> int:
    """Write reports as blocks, in a stream, and return how many; a `group` that is given has a column."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = block_columns(label) | ({} if group is None else {"device_group": pa.string()})
    nullable = ("metric", "period")
    fields = [pa.field(name, kind, nullable=name in nullable) for name, kind in columns.items()]
    schema = pa.schema(fields, metadata={KEY: label.to_json()})
    sizes: list[int] = []
    with replacing(path) as name:
        writer = parquet.ParquetWriter(
            name,
            schema,
            compression="none",
            use_dictionary=[name for name in ("metric", "digest", "device_group") if name in columns],
            write_statistics=["metric", "period", "cohort", "num_reports"],
        )
        with writer:
            for rows in row_groups(batches, label):
                same = {"metric": metric, "period": period, "digest": label.digest, "device_group": group}
                writer.write_table(_table(rows, schema, same), row_group_size=len(rows))
                sizes.append(sum(len(row.octets) for row in rows))
            writer.add_key_value_metadata({ROW_GROUPS.decode(): json.dumps(sizes)})
    return sum(sizes)


def _table(rows: list[Block], schema: Any, same: dict[str, Any]) -> Any:
    import pyarrow as pa

    blobs: list[list[NDArray[np.uint8]]] = [[row.octets for row in rows]]
    checksums = [_start(row.cohort) if "cohort" in schema.names else 0 for row in rows]
    if "seeds" in schema.names:
        blobs.insert(0, [np.asarray(row.seeds).astype("<u4", copy=False).view(np.uint8) for row in rows])
    for column in blobs:
        checksums = [
            zlib.crc32(np.ascontiguousarray(part).data, so) for part, so in zip(column, checksums, strict=True)
        ]
    # By buffers: `pa.array` of a list, and `pa.scalar`, import pandas.
    numbers = {
        "period": np.full(len(rows), same["period"] or 0, np.int32),
        "digest": np.frombuffer(same["digest"] * len(rows), np.uint8),
        "cohort": np.array([row.cohort for row in rows], np.uint16),
        "num_reports": np.array([len(row.octets) for row in rows], np.uint32),
        "crc32": np.array(checksums, np.uint32),
    }
    binary = dict(zip(("seeds", "symbols") if "seeds" in schema.names else ("blob",), blobs, strict=True))
    arrays = []
    for field in schema:
        if field.name in binary:
            arrays.append(_binary(binary[field.name], field.type))
        elif same.get(field.name, field.name) is None:
            arrays.append(pa.nulls(len(rows), field.type))
        elif field.name in numbers:
            values = pa.py_buffer(numbers[field.name])
            arrays.append(pa.Array.from_buffers(field.type, len(rows), [None, values]))
        else:
            text = np.array(list(same[field.name].encode()), np.uint8)
            arrays.append(_binary([text] * len(rows), field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _binary(parts: list[NDArray[np.uint8]], kind: Any) -> Any:
    """Return an Arrow column of these runs of bytes, of that type, copied once."""
    import pyarrow as pa

    ends = np.zeros(len(parts) + 1, np.int32)
    np.cumsum([part.size for part in parts], out=ends[1:])
    joined = np.concatenate([part.reshape(-1) for part in parts])
    return pa.Array.from_buffers(kind, len(parts), [None, pa.py_buffer(ends), pa.py_buffer(joined)])


def row_groups(batches: Iterable[ReportBatch], label: Label) -> Iterator[list[Block]]:
    """Yield the blocks of each row group, in order of cohort."""
    rows: list[Block] = []
    size = 0
    for block in _seeded(batches) if label.num_cohorts > MAX_COHORTS else _by_cohort(batches, label.num_cohorts):
        rows.append(block)
        size += block.octets.nbytes + (0 if block.seeds is None else block.seeds.nbytes)
        if size >= GROUP_BYTES:
            yield sorted(rows, key=lambda row: row.cohort)
            rows, size = [], 0
    if rows:
        yield sorted(rows, key=lambda row: row.cohort)


def _seeded(batches: Iterable[ReportBatch]) -> Iterator[Block]:
    for batch in joined(batches, SEEDED_BLOCK * 8):
        octets = batch.octets()
        for start in range(0, len(batch), SEEDED_BLOCK):
            rows = slice(start, start + SEEDED_BLOCK)
            yield Block(0, np.ascontiguousarray(octets[rows]), batch.cohorts[rows].astype(np.uint32, copy=False))


def _by_cohort(batches: Iterable[ReportBatch], num_cohorts: int) -> Iterator[Block]:
    waiting: dict[int, list[NDArray[np.uint8]]] = {}
    held = 0
    for batch in joined(batches, SORTED_BYTES):
        bits, offsets = group_by_cohort(batch.bits, batch.cohorts.astype(np.uint16, copy=False), num_cohorts)
        octets = ReportBatch(batch.cohorts, bits, batch.num_bits, num_cohorts).octets()
        for cohort in np.flatnonzero(np.diff(offsets)).tolist():
            parts = waiting.pop(cohort, [])
            held -= sum(part.nbytes for part in parts)
            rows = np.concatenate([*parts, octets[offsets[cohort] : offsets[cohort + 1]]])
            full = len(rows) - len(rows) % BLOCK
            yield from (Block(cohort, rows[start : start + BLOCK]) for start in range(0, full, BLOCK))
            if full < len(rows):
                waiting[cohort] = [rows[full:].copy()]
                held += waiting[cohort][0].nbytes
        if held > HELD_BYTES:
            for cohort in sorted(waiting, key=lambda number: -waiting[number][0].nbytes)[: -(-len(waiting) // 2)]:
                (rows,) = waiting.pop(cohort)
                held -= rows.nbytes
                yield Block(cohort, rows)
    yield from (Block(cohort, parts[0]) for cohort, parts in sorted(waiting.items()))


def reports_of_row_groups(file: Any, source: str) -> list[int]:
    """Return how many reports each row group has: from the metadata, or from the column."""
    groups = file.metadata.num_row_groups
    stated = (file.metadata.metadata or {}).get(ROW_GROUPS)
    if stated is None:
        columns = (file.read_row_group(group, columns=["num_reports"]).column(0) for group in range(groups))
        return [int(column.to_numpy().sum(dtype=np.int64)) for column in columns]
    try:
        sizes = json.loads(stated)
    except ValueError:
        sizes = None
    if not isinstance(sizes, list) or len(sizes) != groups or not all(type(n) is int and n >= 0 for n in sizes):
        raise FormatError(f"the metadata key {ROW_GROUPS.decode()} has no number for each row group", source=source)
    return sizes


def read_row_groups(file: Any, label: Label, source: str, groups: Sequence[int] | None = None) -> Iterator[ReportBatch]:
    """Yield the reports of some row groups of an open file, all unless given."""
    expected = block_columns(label)
    for name, kind in expected.items():
        index = file.schema_arrow.get_field_index(name)
        if index < 0 or file.schema_arrow.field(index).type != kind:
            raise FormatError(f"expected one column {name} of type {kind}", source=source)
    blobs = [name for name in ("seeds", "symbols", "blob") if name in expected]
    read = ["digest", "num_reports", *(["cohort"] if "cohort" in expected else []), *blobs]
    for group in range(file.metadata.num_row_groups) if groups is None else groups:
        table = file.read_row_group(group, columns=[*read, "crc32"], use_threads=False)
        for rows in table.to_batches():
            yield _batch_of(rows, label, f"{source}, row group {group}", blobs)


def _batch_of(rows: Any, label: Label, source: str, blobs: Sequence[str]) -> ReportBatch:
    if any(column.null_count for column in rows.columns):
        raise FormatError("expected a value in every row, found nulls", source=source)
    if set(rows.column("digest").unique().to_pylist()) - {label.digest}:
        raise FormatError("a block is of other parameters than the file's label: its digest differs", source=source)
    # By DLPack: Arrow's `to_numpy` imports pandas, which takes as long as counting ten million reports.
    sizes = np.from_dlpack(rows.column("num_reports")).astype(np.int64)
    width = -(-label.num_bits // 8)
    octets, *seeds = (
        _bytes(rows.column(name), sizes * (4 if name == "seeds" else width), name, source) for name in reversed(blobs)
    )
    _verify(rows, blobs, source)
    payload = octets.reshape(-1, width)
    public: NDArray[Any] = seeds[0].view("<u4") if seeds else np.from_dlpack(rows.column("cohort"))
    check_columns(label, payload, public, source, (blobs[-1], "seeds" if seeds else "cohort"))
    bits = packed_words(payload, label.num_bits)
    if seeds or (np.diff(public.astype(np.int64)) < 0).any():
        cohorts = public if seeds else np.repeat(public, sizes)
        return ReportBatch(cohorts, bits, label.num_bits, label.num_cohorts)
    offsets = np.zeros(label.num_cohorts + 1, np.int64)
    np.add.at(offsets[1:], public, sizes)
    return GroupedBatch(np.cumsum(offsets), bits, label.num_bits)


def check_columns(
    label: Label, octets: NDArray[np.uint8], public: NDArray[Any], source: str, names: tuple[str, str]
) -> None:
    """Raise FormatError where a report has bits that it cannot have, or a cohort or seed that there is not."""
    if octets.size and label.num_bits % 8 and int(octets[:, -1].max()) >> label.num_bits % 8:
        raise FormatError(f"a report has bits past its {label.num_bits}", source=source, field=names[0])
    if public.size and int(public.max()) >= label.num_cohorts:
        problem = f"expected 0 .. {label.num_cohorts - 1}, found {int(public.max())}"
        raise FormatError(problem, source=source, field=names[1])


def _bytes(column: Any, lengths: NDArray[np.int64], name: str, source: str) -> NDArray[np.uint8]:
    """Return a column's bytes as they lie in Arrow's buffer, each row as long as its reports."""
    _, edges, data = column.buffers()
    ends = np.frombuffer(edges, np.int32)[column.offset : column.offset + len(column) + 1]
    if (wrong := np.flatnonzero(np.diff(ends) != lengths)).size:
        row = int(wrong[0])
        problem = f"row {row} has {ends[row + 1] - ends[row]} bytes, and {lengths[row]} by its number of reports"
        raise FormatError(problem, source=source, field=name)
    return np.frombuffer(data, np.uint8)[ends[0] : ends[-1]] if len(column) and data is not None else np.empty(0, "u1")


def _start(cohort: int) -> int:
    """Return the CRC-32 of a cohort as it is stored; the blob's bytes follow."""
    return zlib.crc32(cohort.to_bytes(2, "little"))


def _verify(rows: Any, blobs: Sequence[str], source: str) -> None:
    cohorts = rows.column("cohort").to_pylist() if "cohort" in rows.schema.names else None
    for number, stated in enumerate(rows.column("crc32").to_pylist()):
        computed = 0 if cohorts is None else _start(cohorts[number])
        for name in blobs:
            computed = zlib.crc32(rows.column(name)[number].as_buffer(), computed)
        if computed != stated:
            raise FormatError(f"row {number} was damaged: its CRC-32 differs from the column crc32", source=source)


STORES: Final = re.compile(r"AWS Error|When |google::cloud|GetFileInfo|HTTP|curl", re.IGNORECASE)
"""How what Arrow says begins where an object store did not answer."""


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


@contextmanager
def _opened(path: FilePath) -> Iterator[Any]:
    with open(path, "rb") as raw, opened(raw, os.fspath(path)) as file:  # noqa: PTH123 - a missing file is the operating system's error
        yield file


@contextmanager
def opened(raw: Any, source: str) -> Iterator[Any]:
    """Open a Parquet file; whatever its reader says of a damaged one, not of a store that fails, becomes one error."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(raw) as file:
            yield file
    except (FormatError, MemoryError):
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        # What Arrow says of a damaged file is an OSError without a number, as of a store that does not answer.
        is_bare = type(error) is OSError and error.errno is None and not STORES.match(str(error))
        if isinstance(error, OSError) and not is_bare:
            raise
        reason = str(error).strip().partition("\n")[0]
        raise FormatError(f"this is no sound Parquet file ({reason})", source=source) from error
