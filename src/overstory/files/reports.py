"""Reports from a file of any kind, as batches or already added up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from overstory.analysis.counts import SupportCounts
from overstory.files.opening import is_standard, reading
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.hashing import FAMILIES
from overstory.protocol.wire import MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overstory.analysis.reports import ReportBatch
    from overstory.files.opening import Advance, FilePath
    from overstory.files.params import RapporParameters
    from overstory.files.records import Skipped

KINDS: Final = ("csv", "csv.gz", "ovsb", "ovsb.gz", "parquet")
PARQUET_MAGIC: Final = b"PAR1"


def kind_of(path: FilePath) -> str:
    """Return which kind of report file a name asks for; standard output is CSV.

    Raises
    ------
    ParameterError
        When it asks for none.

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
    path
        reports.csv, packed batches, or Parquet; the first two also gz.
    parameters
        What the reports must have been made with. Packed and Parquet files are labelled, and are checked.
    hash_family, hash_key
        The family, where it is known; otherwise any family will do.
    skipped
        Where bad records are counted; without it the first one is an error.
    advance
        Told about progress, in bytes.

    Raises
    ------
    FormatError
        When the file is not what it should be, or its label names other parameters.
    """
    source = os.fspath(path)
    start = _first_bytes(path)
    known = _Known(source, parameters, hash_family, hash_key)
    if start == MAGIC:
        from overstory.files.packed import as_reports, read_packed

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
