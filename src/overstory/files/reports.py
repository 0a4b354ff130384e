"""Reports from a file of any kind, as batches or already added up.

Packed reports (.ovsb): wire batches one after the other, read and written one at a time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.files.io import is_standard, reading, writing
from overstory.protocol.encodings.hashing import FAMILIES
from overstory.protocol.errors import FormatError, ParameterError, WireError
from overstory.protocol.wire.batch import HEADER, MAGIC, Batch, batch_length, decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overstory.files.csv import Skipped
    from overstory.files.io import Advance, FilePath
    from overstory.files.params import RapporParameters


KINDS: Final = ("csv", "csv.gz", "ovsb", "ovsb.gz", "parquet")
PARQUET_MAGIC: Final = b"PAR1"


def kind_of(path: FilePath) -> str:
    """Return which kind of report file a name asks for; standard output is CSV.

    Examples
    --------
    >>> kind_of("reports.csv.gz"), kind_of("reports.ovsb")
    ('csv', 'ovsb')
    """
    if is_standard(path):
        return "csv"
    for kind in KINDS:
        if os.fspath(path).endswith("." + kind):
            return kind.removesuffix(".gz")
    raise ParameterError(f"cannot tell the format from the name {os.fspath(path)}: end it in .{', .'.join(KINDS)}")


def read_reports(
    path: FilePath,
    parameters: RapporParameters,
    *,
    hash_family: str | None = None,
    hash_key: str = "",
    skipped: Skipped | None = None,
    advance: Advance | None = None,
) -> Iterator[ReportBatch]:
    """Yield the reports of a file in batches, in a stream. Its first bytes tell the format, not its name.

    Parameters
    ----------
    parameters
        What the reports must have been made with. Packed and Parquet files are labelled, and are checked.
    advance
        Told about progress, in bytes.
    """
    source = os.fspath(path)
    start = _first_bytes(path)
    known = _Known(source, parameters, hash_family, hash_key)
    if start == MAGIC:
        for batch in read_packed(path, skipped=skipped, advance=advance):
            known.check(batch.num_bits, batch.num_cohorts, batch.digest)
            yield as_reports(batch)
    elif start == PARQUET_MAGIC:
        from overstory.files.parquet import read_label, read_parquet

        label = read_label(path)
        known.check(label.num_bits, label.num_cohorts, label.digest)
        yield from read_parquet(path, advance=advance)
    else:
        from overstory.files.reports_csv import read_reports_csv

        yield from read_reports_csv(path, parameters.k, parameters.m, skipped=skipped, advance=advance)


def _first_bytes(path: FilePath) -> bytes:
    """A pipe can be read once only: it carries CSV."""
    if not Path(path).is_file():
        return b""
    with reading(path) as stream:
        return stream.read(4)


class _Known:
    """What labelled reports must say of themselves."""

    def __init__(self, source: str, parameters: RapporParameters, hash_family: str | None, hash_key: str) -> None:
        self.source, self.parameters = source, parameters
        names = FAMILIES if hash_family is None else (hash_family,)
        self.digests = set(filter(None, (self._digest(name, hash_key) for name in names)))

    def _digest(self, hash_family: str, hash_key: str) -> bytes | None:
        try:
            return self.parameters.mechanism(hash_family, hash_key).digest
        except ParameterError:
            return None  # this family has no such filter, or no key

    def check(self, num_bits: int, num_cohorts: int, digest: bytes) -> None:
        """Raise FormatError unless these are reports of our parameters."""
        expected = (self.parameters.k, self.parameters.m)
        if (num_bits, num_cohorts) != expected:
            raise FormatError(
                f"expected reports of {expected[0]} bits in {expected[1]} cohorts, as the parameters say, "
                f"found {num_bits} bits in {num_cohorts} cohorts",
                source=self.source,
            )
        if digest not in self.digests:
            raise FormatError(
                "these reports were randomized with other parameters (p, q, f or h), another hash family or another "
                "hash key than stated: their label differs",
                source=self.source,
            )


def sum_reports(batches: Iterable[ReportBatch], num_cohorts: int, num_bits: int) -> SupportCounts:
    """Add up batches in a stream.

    Examples
    --------
    >>> sum_reports([], 1, 2).totals.tolist()
    [0]
    """
    counts = SupportCounts.empty(num_cohorts, num_bits)
    for batch in batches:
        counts += batch.accumulate()
    return counts


LONGEST_BATCH = 1 << 28
"""Bytes of one batch at most; writers make them about a megabyte."""


def write_packed(path: FilePath, batches: Iterable[bytes]) -> None:
    """Write encoded batches, in a stream."""
    with writing(path) as stream:
        for batch in batches:
            stream.write(batch)


def read_packed(path: FilePath, *, skipped: Skipped | None = None, advance: Advance | None = None) -> Iterator[Batch]:
    """Yield the batches, in a stream; several files put end to end are one file.

    With `skipped`, a damaged batch is counted and passed over, as long as its header says where the next one starts.
    """
    source = os.fspath(path)
    with reading(path, advance) as stream:
        number = 0
        while header := stream.read(HEADER.size):
            number += 1
            raw = header + _rest(stream, header, f"batch {number}", source)
            try:
                yield decode_batch(raw)
            except WireError as error:
                refusal = FormatError(f"batch {number}: {error.problem}", source=source)
                if skipped is None:
                    raise refusal from error
                skipped.add(refusal)
        if not number:
            raise FormatError("the file is empty: expected at least one packed batch", source=source)


def _rest(stream: BinaryIO, header: bytes, name: str, source: str) -> bytes:
    """Read what follows the header, in pieces: a length that lies does not claim memory."""
    try:
        missing = batch_length(header) - len(header)
    except WireError as error:
        raise FormatError(f"{name}: {error.problem}", source=source) from error
    if missing > LONGEST_BATCH:
        raise FormatError(f"{name}: it announces {missing} bytes; expected at most {LONGEST_BATCH}", source=source)
    pieces = []
    while missing and (piece := stream.read(min(missing, 1 << 20))):
        pieces.append(piece)
        missing -= len(piece)
    if missing:
        raise FormatError(f"{name}: the file ends {missing} bytes before the batch does", source=source)
    return b"".join(pieces)


def as_reports(batch: Batch) -> ReportBatch:
    """Return a wire batch as arrays."""
    return ReportBatch.from_wire(batch)
