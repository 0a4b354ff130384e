"""Reports from a file of any kind, as batches or already added up.

reports.csv: header ``client,cohort,bloom,prr,irr``, bits as text, most significant first. Only `cohort` and `irr` (also
called `rappor`, as in Google's older files) are needed to sum, in any order. `bloom` and `prr` never leave a
device; tests of a client compare them with another client's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.files.io import (
    SMALLEST,
    Advance,
    Block,
    FilePath,
    bit_string,
    blocks,
    integer,
    is_parquet,
    is_standard,
    read_block,
    reading,
    records,
    row_parser,
    split_header,
    writing_text,
)
from overstory.files.parquet import joined, read_label, read_parquet
from overstory.presentation.render_text import quoted
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.kinds.hashing import FAMILIES

if TYPE_CHECKING:
    from overstory.files.labels import Label
    from overstory.files.rappor import RapporParameters
    from overstory.protocol.kinds.bits import BitMechanism


KINDS: Final = ("csv", "csv.gz", "parquet")


def kind_of(path: FilePath) -> str:
    """Return which kind of report file a name asks for; standard output is CSV."""
    if is_standard(path):
        return "csv"
    for kind in KINDS:
        if os.fspath(path).endswith("." + kind):
            return kind.removesuffix(".gz")
    raise ParameterError(f"cannot tell the format from the name {os.fspath(path)}: end it in .{', .'.join(KINDS)}")


def read_reports(
    path: FilePath, parameters: RapporParameters, *, advance: Advance | None = None
) -> Iterator[ReportBatch]:
    """Yield the reports of a file in batches, in a stream; its first bytes tell the format, labels are checked."""
    if is_parquet(path):
        labelled_mechanism(read_label(path), parameters, os.fspath(path))
        yield from read_parquet(path, advance=advance)
    else:
        yield from read_reports_csv(path, parameters.k, parameters.m, advance=advance)


def labelled_mechanism(label: Label, parameters: RapporParameters, source: str) -> BitMechanism:
    """Return the mechanism of the parameters that made labelled reports; FormatError where none of them did."""
    sizes, expected = (label.num_bits, label.num_cohorts), (parameters.k, parameters.m)
    if sizes != expected:
        raise FormatError(
            f"expected reports of {expected[0]} bits in {expected[1]} cohorts, as the parameters say, "
            f"found {sizes[0]} bits in {sizes[1]} cohorts",
            source=source,
        )
    for name in FAMILIES if parameters.hash_family is None else (parameters.hash_family,):
        with suppress(ParameterError):  # this family has no such filter, or no key
            made = parameters.mechanism(name)
            if made.digest == label.digest:
                return made
    raise FormatError(
        "these reports were randomized with other parameters (p, q, f or h), another hash family or another "
        "hash key than stated: their label differs",
        source=source,
    )


def sum_reports(batches: Iterable[ReportBatch], num_cohorts: int, num_bits: int) -> SupportCounts:
    """Add up batches in a stream, small ones together."""
    counts = SupportCounts.empty(num_cohorts, num_bits)
    for batch in joined(batches):
        counts += batch.accumulate()
    return counts


COLUMNS = ("client", "cohort", "bloom", "prr", "irr")
NEEDED = ("cohort", "irr")
OTHER_NAMES: Final = {"irr": "rappor"}


class ReportRow(NamedTuple):
    """A report with all that the device knows of it; the bits are integers."""

    client: str
    cohort: int
    bloom: int
    prr: int
    irr: int


def write_reports_csv(path: FilePath, rows: Iterable[ReportRow], num_bits: int) -> None:
    """Write reports.csv, in a stream."""
    with writing_text(path) as text:
        text.write(",".join(COLUMNS) + "\n")
        for client, cohort, *vectors in rows:
            cells = ",".join(f"{bits:0{num_bits}b}" for bits in vectors)
            text.write(f"{quoted(client)},{cohort},{cells}\n")


def read_reports_csv(
    path: FilePath, num_bits: int, num_cohorts: int, *, advance: Advance | None = None
) -> Iterator[ReportBatch]:
    """Yield the reports in batches, in a stream: memory does not grow with the file."""
    source = os.fspath(path)
    with reading(path, advance) as stream:
        names, rest = split_header(blocks(stream, source), source, NEEDED, OTHER_NAMES)
        table = _Table(source, names, num_bits, num_cohorts)
        for block in rest:
            yield table.quick(block) or table.exact(block)


class _Table:
    """The columns of one file, and what its reports must look like."""

    def __init__(self, source: str, names: Sequence[str], num_bits: int, num_cohorts: int) -> None:
        self.source, self.num_bits, self.num_cohorts = source, num_bits, num_cohorts
        self.cohort, self.irr, self.width = names.index("cohort"), names.index("irr"), len(names)
        self._cohort_parser = partial(integer, low=0, high=num_cohorts - 1)
        columns = (
            (self.irr, "irr", partial(bit_string, num_bits=num_bits)),
            (self.cohort, "cohort", self._cohort_parser),
        )
        self._parse = row_parser(len(names), columns)

    def batch(self, cohorts: NDArray[np.uint16], bits: NDArray[np.uint64]) -> ReportBatch:
        return ReportBatch(cohorts, bits, self.num_bits, self.num_cohorts)

    def exact(self, block: Block) -> ReportBatch:
        width = 8 * -(-self.num_bits // 64)
        cohorts, octets = [], bytearray()
        for irr, cohort in records(block, self.source, self._parse):
            cohorts.append(cohort)
            octets += irr.to_bytes(width, "little")
        matrix = np.frombuffer(bytes(octets), "<u8").astype(np.uint64, copy=False).reshape(-1, width // 8)
        return self.batch(np.array(cohorts, np.uint16), matrix)

    def quick(self, block: Block) -> ReportBatch | None:
        if len(block.raw) < SMALLEST:
            return None
        import pyarrow as pa

        names = [str(i) for i in range(self.width)]
        types = {names[self.cohort]: pa.dictionary(pa.int32(), pa.binary()), names[self.irr]: pa.binary()}
        table = read_block(block.raw, names, types)
        if table is None or not table.num_rows:
            return None
        cohorts = self._cohorts(_single(table.column(0)))
        bits = packed_text(_single(table.column(1)), self.num_bits)
        return None if cohorts is None or bits is None else self.batch(cohorts, bits)

    def _cohorts(self, column: Any) -> NDArray[np.uint16] | None:
        """Each text that occurs is read once, by the exact reader's own rule."""
        texts = (text.decode("utf-8", "surrogateescape") for text in column.dictionary.to_pylist())
        try:
            cohorts = [self._cohort_parser(text) for text in texts]
        except FormatError:
            return None
        indices: NDArray[np.int32] = column.indices.to_numpy()
        return np.array(cohorts, np.uint16)[indices]


def packed_text(column: Any, num_bits: int) -> NDArray[np.uint64] | None:
    """Pack an Arrow column of bits as text into words of shape (n, words); None when a text is no such bits."""
    _, edges, characters = column.buffers()
    ends = np.frombuffer(edges, np.int32)[column.offset : column.offset + len(column) + 1]
    if (np.diff(ends) != num_bits).any():
        return None
    text = np.frombuffer(characters, np.uint8)[ends[0] : ends[-1]].reshape(-1, num_bits)
    words = -(-num_bits // 64)
    padded = np.zeros((len(column), 64 * words), np.uint8)
    digits = padded[:, -num_bits:]
    np.bitwise_xor(text, np.uint8(ord("0")), out=digits)
    if digits.max() > 1:
        return None
    little = np.ascontiguousarray(np.packbits(padded, axis=1)[:, ::-1])
    return little.view("<u8").astype(np.uint64, copy=False)


def _single(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
