"""What travels: packed batches of reports, and uploads that carry them.

A *packed batch*: columns of one mechanism's reports. All integers, here and below, are little-endian.

    magic "OVSB" | version u8 | zero u8 | num_bits u16 | num_cohorts u32 | num_reports u32 | digest 16 bytes
    cohort column  u16 x num_reports (u32 when there are more than 2**16 cohorts: hash seeds, matrix rows)
    bit column     ceil(num_bits / 8) bytes x num_reports, bit i of a report in byte i // 8, place i % 8
    CRC-32 of all the above, u32

The decoder consumes everything or refuses: trailing bytes, a cohort that does not exist, a bit past the last one, and
any damage are one `WireError` each.

An *upload* is a batch of one metric and period. A request's body is one or more uploads, back to back.

    magic "OVSU" | version u8 | zero u8 | length of the metric's id u8 | length of the group u8 | batch id 16 bytes
    period i32 | length of the batch u32 | the metric's id, ASCII | the group, ASCII | a packed batch

Without a group its length is zero. Each upload has one form only.

The batch id is uniform bits, from a device's secret or drawn, and stays with its bytes: a retry is the same upload,
and is counted once. Nothing in it says who sent it, or when.

Programs in other languages may send JSON instead; where the metric has groups, ``"group": "<name>"`` is one key more.

    {"uploads": [{"batch": "<32 hex digits>", "metric": "<id>", "period": "2026-11-21", "digest": "<32 hex digits>",
                  "reports": [[<cohort>, "<the payload's little-endian bytes in hex>"], ...]}]}
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import MAX_COHORTS, SEEDS, Kind, Report, check_cohort, check_count
from overstory.protocol.wire import GROUP, METRIC_ID

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric

MAGIC: Final = b"OVSB"
VERSION: Final = 1
HEADER: Final = struct.Struct("<4sBBHII16s")
TRAILER: Final = struct.Struct("<I")


@dataclass(frozen=True)
class Batch:
    """A decoded batch: raw little-endian columns, to be viewed as arrays or read one by one."""

    digest: bytes
    num_bits: int
    num_cohorts: int
    num_reports: int
    cohorts: bytes
    bits: bytes

    def __iter__(self) -> Iterator[Report]:
        width, cohort_bytes = (self.num_bits + 7) // 8, cohort_width(self.num_cohorts)
        for i in range(self.num_reports):
            cohort = int.from_bytes(self.cohorts[i * cohort_bytes : (i + 1) * cohort_bytes], "little")
            yield Report(cohort, int.from_bytes(self.bits[i * width : (i + 1) * width], "little"))


@cache
def cohort_width(num_cohorts: int) -> int:
    """Return how many bytes a cohort travels in."""
    return 2 if num_cohorts <= MAX_COHORTS else 4


def encode_columns(digest: bytes, num_bits: int, num_cohorts: int, cohorts: bytes, bits: bytes) -> bytes:
    """Write a batch from its columns."""
    header = HEADER.pack(MAGIC, VERSION, 0, num_bits, num_cohorts, len(cohorts) // cohort_width(num_cohorts), digest)
    body = b"".join((header, cohorts, bits))
    return body + TRAILER.pack(zlib.crc32(body))


def encode_reports(mechanism: Kind, reports: Iterable[Report]) -> bytes:
    """Write `reports` of `mechanism` as one batch."""
    num_bits, num_cohorts = mechanism.payload_bits, mechanism.num_cohorts
    width, cohort_bytes, most = (num_bits + 7) // 8, cohort_width(num_cohorts), (1 << num_bits) - 1
    cohorts, bits = bytearray(), bytearray()
    for report in reports:
        check_cohort(report.cohort, num_cohorts)
        check_count("a report's bits", report.bits, 0, most)
        cohorts += report.cohort.to_bytes(cohort_bytes, "little")
        bits += report.bits.to_bytes(width, "little")
    return encode_columns(mechanism.digest, num_bits, num_cohorts, bytes(cohorts), bytes(bits))


def batch_length(header: bytes) -> int:
    """Return the whole length in bytes of the batch that starts with these `HEADER.size` bytes."""
    if len(header) < HEADER.size:
        raise WireError("short", f"a batch's header has {HEADER.size} bytes; {len(header)} are here")
    magic, version, zero, num_bits, num_cohorts, num_reports, _ = HEADER.unpack_from(header)
    if magic != MAGIC:
        raise WireError("magic", f"a batch starts with {MAGIC!r}, this with {magic!r}")
    if version != VERSION or zero:
        raise WireError("version", f"this reads batches of version {VERSION}, not {version}.{zero}")
    length: int = HEADER.size + num_reports * (cohort_width(num_cohorts) + (num_bits + 7) // 8) + TRAILER.size
    return length


def decode_batch(raw: bytes) -> Batch:
    """Read one batch, all of `raw`."""
    expected = batch_length(raw[: HEADER.size])
    if len(raw) != expected:
        raise WireError("length", f"the header announces a batch of {expected} bytes; {len(raw)} are here")
    body = len(raw) - TRAILER.size
    if zlib.crc32(memoryview(raw)[:body]) != TRAILER.unpack_from(raw, body)[0]:
        raise WireError("checksum", "the batch was damaged on its way: its checksum does not match")
    _, _, _, num_bits, num_cohorts, num_reports, digest = HEADER.unpack_from(raw)
    split = HEADER.size + cohort_width(num_cohorts) * num_reports
    batch = Batch(digest, num_bits, num_cohorts, num_reports, raw[HEADER.size : split], raw[split:body])
    _check_columns(batch)
    return batch


MANY: Final = 1 << 8  # numbers of which NumPy, where it is loaded, finds the largest sooner than Python does


def _largest(column: bytes, width: int) -> int:
    numpy = sys.modules.get("numpy") if len(column) >= MANY * width else None
    if numpy is not None:
        return int(numpy.frombuffer(column, f"<u{width}").max())
    numbers = array("H" if width == 2 else "I", column)
    if sys.byteorder == "big":  # pragma: no cover
        numbers.byteswap()
    return max(numbers, default=0)


def _check_columns(batch: Batch) -> None:
    if batch.num_bits == 0:
        raise WireError("bits", "a report has at least one bit")
    if not 1 <= batch.num_cohorts <= SEEDS:
        raise WireError("cohort", f"a collection has 1 to {SEEDS} cohorts, not {batch.num_cohorts}")
    largest = _largest(batch.cohorts, cohort_width(batch.num_cohorts))
    if largest >= batch.num_cohorts:
        raise WireError("cohort", f"cohort {largest} does not exist: cohorts are 0 .. {batch.num_cohorts - 1}")
    width, spare = (batch.num_bits + 7) // 8, -batch.num_bits % 8
    # What is left of the reports' last bytes without those that have no spare bit.
    if spare and batch.bits[width - 1 :: width].translate(None, bytes(range(1 << (8 - spare)))):
        raise WireError("bits", f"a report has bits past its {batch.num_bits}")


MEDIA_TYPE: Final = "application/vnd.overstory.reports"
UPLOAD_MAGIC: Final = b"OVSU"
UPLOAD_VERSION: Final = 1
UPLOAD_HEADER: Final = struct.Struct("<4sBBBB16siI")
ID_BYTES: Final = 16
PERIODS: Final = range(-(1 << 31), 1 << 31)


class Upload(NamedTuple):
    """One batch of reports of one metric and one period."""

    batch: bytes  # its id, 16 bytes: another upload has the same only where it is a copy of this one
    metric: str  # its id
    period: int  # its number
    reports: bytes  # A packed batch, still undecoded; `overstory.protocol.wire.upload.decode_batch` reads it
    group: str = ""  # the group that the devices are in, in clear; empty where the metric has no groups


def encode_upload(upload: Upload) -> bytes:
    """Write one upload."""
    if len(upload.batch) != ID_BYTES:
        raise ParameterError(f"a batch id has {ID_BYTES} bytes, not {len(upload.batch)}")
    if METRIC_ID.fullmatch(upload.metric) is None:
        raise ParameterError(f"{upload.metric!r} is no metric's id: give {METRIC_ID.pattern}")
    if not isinstance(upload.period, int) or upload.period not in PERIODS:  # a range searches for a float one by one
        raise ParameterError(f"period = {upload.period!r}: give a 32-bit number")
    if upload.group and GROUP.fullmatch(upload.group) is None:
        raise ParameterError(f"{upload.group!r:.100} is no group: give {GROUP.pattern}")
    name, group, length = upload.metric.encode("ascii"), upload.group.encode("ascii"), len(upload.reports)
    lengths = len(name), len(group)
    header = UPLOAD_HEADER.pack(UPLOAD_MAGIC, UPLOAD_VERSION, 0, *lengths, upload.batch, upload.period, length)
    return b"".join((header, name, group, upload.reports))


def decode_uploads(body: bytes, max_uploads: int) -> list[Upload]:
    """Read a request's body, all of it."""
    uploads: list[Upload] = []
    at = 0
    while at < len(body) or not uploads:
        if len(uploads) == max_uploads:
            raise WireError("too-many", f"the body holds more than {max_uploads} uploads: send fewer at once")
        upload, at = _upload_at(body, at)
        uploads.append(upload)
    return uploads


def _upload_at(body: bytes, at: int) -> tuple[Upload, int]:
    if len(body) - at < UPLOAD_HEADER.size:
        raise WireError("short", f"an upload's header has {UPLOAD_HEADER.size} bytes; {len(body) - at} are here")
    magic, version, zero, id_length, group_length, batch, period, length = UPLOAD_HEADER.unpack_from(body, at)
    if magic != UPLOAD_MAGIC:
        raise WireError("magic", f"an upload starts with {UPLOAD_MAGIC!r}, this with {magic!r}")
    if version != UPLOAD_VERSION or zero:
        raise WireError("version", f"this reads uploads of version {UPLOAD_VERSION}, not {version}.{zero}")
    name_ends = at + UPLOAD_HEADER.size + id_length
    start = name_ends + group_length
    if len(body) - start < length:
        announced = f"{id_length} + {group_length} + {length}"
        raise WireError("length", f"the header announces {announced} bytes; {len(body) - at} are here")
    name = body[at + UPLOAD_HEADER.size : name_ends].decode("latin-1")
    group = body[name_ends:start].decode("latin-1")
    if METRIC_ID.fullmatch(name) is None:
        raise WireError("metric", f"{name.encode('latin-1')!r} is no metric's id")
    if group and GROUP.fullmatch(group) is None:
        raise WireError("group", f"{group.encode('latin-1')!r:.100} is no group")
    return Upload(batch, name, period, body[start : start + length], group), start + length


def uploads_from_json(parsed: Any, metrics: Mapping[str, Metric], max_uploads: int) -> list[Upload]:
    """Return the uploads of a parsed JSON body, as if they had come in binary."""
    listed = parsed.get("uploads") if isinstance(parsed, dict) else None
    if not isinstance(listed, list) or not listed:
        raise WireError("json", "uploads: give a list of at least one upload")
    if len(listed) > max_uploads:
        raise WireError("too-many", f"the body holds more than {max_uploads} uploads: send fewer at once")
    return [_from_json(entry, metrics, f"uploads[{i}]") for i, entry in enumerate(listed)]


_KEYS: Final = {"batch", "metric", "period", "digest", "reports"}


def _from_json(entry: Any, metrics: Mapping[str, Metric], where: str) -> Upload:
    if not isinstance(entry, dict):
        raise WireError("json", f"{where}: give an object with the keys {', '.join(sorted(_KEYS))}, and no other")
    if missing := sorted(_KEYS - set(entry)):
        raise WireError("json", f"{', '.join(f'{where}.{key}' for key in missing)}: missing")
    if unknown := sorted(set(entry) - {*_KEYS, "group"}):
        raise WireError("json", f"{where}: there is no key {unknown[0]!r:.50}; the keys are {', '.join(sorted(_KEYS))}")
    batch, digest = (_bytes_of(entry[key], ID_BYTES) for key in ("batch", "digest"))
    if batch is None or digest is None:
        key = "batch" if batch is None else "digest"
        raise WireError("json", f"{where}.{key}: give 32 hexadecimal digits, in lower case")
    name = entry["metric"]
    if not isinstance(name, str) or METRIC_ID.fullmatch(name) is None:
        raise WireError("json", f"{where}.metric: give a metric's id, not {name!r:.100}")
    if not isinstance(entry["reports"], list):
        raise WireError("json", f"{where}.reports: give a list of [cohort, bits]")
    group = entry.get("group", "")
    if "group" in entry and (not isinstance(group, str) or GROUP.fullmatch(group) is None):
        raise WireError("json", f"{where}.group: give the name of a group, not {group!r:.100}")
    metric = metrics.get(name)
    if metric is None:
        return Upload(batch, name, 0, b"")
    period = _period(entry["period"], metric, f"{where}.period")
    packed = _packed(entry["reports"], digest, metric.mechanism, f"{where}.reports")
    return Upload(batch, name, period, packed, group)


def _bytes_of(text: Any, length: int) -> bytes | None:
    """Return the bytes that a text spells in lower case; None where it spells none, or another number of them."""
    try:
        raw = bytes.fromhex(text)
    except (TypeError, ValueError):
        return None
    return raw if len(raw) == length and raw.hex() == text else None


def _period(given: Any, metric: Metric, where: str) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given in PERIODS:
        return given
    try:
        return metric.period.parse_label(given)
    except ParameterError as error:
        raise WireError("json", f"{where}: {error}") from None


def _packed(reports: Sequence[Any], digest: bytes, mechanism: Kind, where: str) -> bytes:
    width, cohort_bytes = (mechanism.payload_bits + 7) // 8, cohort_width(mechanism.num_cohorts)
    cohorts, bits = bytearray(), bytearray()
    for i, report in enumerate(reports):
        if not isinstance(report, list) or len(report) != 2:
            raise WireError("json", f"{where}[{i}]: give [cohort, bits]")
        cohort, payload = report
        if not isinstance(cohort, int) or isinstance(cohort, bool) or not 0 <= cohort < 1 << 8 * cohort_bytes:
            raise WireError("cohort", f"{where}[{i}][0]: cohorts are 0 .. {mechanism.num_cohorts - 1}")
        if (raw := _bytes_of(payload, width)) is None:
            raise WireError("bits", f"{where}[{i}][1]: give {2 * width} hexadecimal digits, in lower case")
        cohorts += cohort.to_bytes(cohort_bytes, "little")
        bits += raw
    return encode_columns(digest, mechanism.payload_bits, mechanism.num_cohorts, bytes(cohorts), bytes(bits))
