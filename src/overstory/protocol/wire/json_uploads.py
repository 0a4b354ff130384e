"""Uploads written as JSON, for programs in other languages.

    {"uploads": [{"batch": "<32 hex digits>", "metric": "<id>", "period": "2026-11-21", "digest": "<32 hex digits>",
                  "reports": [[<cohort>, "<the payload's little-endian bytes in hex>"], ...]}]}

Where the metric has groups, ``"group": "<name>"`` names that of the devices.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.kinds.base import Kind
from overstory.protocol.wire import GROUP, METRIC_ID
from overstory.protocol.wire.upload import PERIODS, Upload, cohort_width, encode_columns

if TYPE_CHECKING:
    from overstory.protocol.metrics.metric import Metric

_HEX_16: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII)


def uploads_from_json(parsed: Any, metrics: Mapping[str, Metric], max_uploads: int) -> list[Upload]:
    """Return the uploads of a parsed JSON body, as if they had come in binary."""
    listed = parsed.get("uploads") if isinstance(parsed, dict) else None
    if not isinstance(listed, list) or not listed:
        raise WireError("json", "uploads: give a list of at least one upload")
    if len(listed) > max_uploads:
        raise WireError("too-many", f"the body holds more than {max_uploads} uploads: send fewer at once")
    return [_from_json(entry, metrics, f"uploads[{i}]") for i, entry in enumerate(listed)]


_KEYS: Final = {"batch", "metric", "period", "digest", "reports"}
_KEYS_AND_GROUP: Final = {*_KEYS, "group"}


def _from_json(entry: Any, metrics: Mapping[str, Metric], where: str) -> Upload:
    if not isinstance(entry, dict):
        raise WireError("json", f"{where}: give an object with the keys {', '.join(sorted(_KEYS))}, and no other")
    if missing := sorted(_KEYS - set(entry)):
        raise WireError("json", f"{', '.join(f'{where}.{key}' for key in missing)}: missing")
    if unknown := sorted(set(entry) - _KEYS_AND_GROUP):
        raise WireError("json", f"{where}: there is no key {unknown[0]!r:.50}; the keys are {', '.join(sorted(_KEYS))}")
    batch, digest = (_hex_16(entry[key], f"{where}.{key}") for key in ("batch", "digest"))
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


def _hex_16(text: Any, where: str) -> bytes:
    if not isinstance(text, str) or _HEX_16.fullmatch(text) is None:
        raise WireError("json", f"{where}: give 32 hexadecimal digits, in lower case")
    return bytes.fromhex(text)


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
        if not isinstance(payload, str) or len(payload) != 2 * width or _HEX.fullmatch(payload) is None:
            raise WireError("bits", f"{where}[{i}][1]: give {2 * width} hexadecimal digits, in lower case")
        cohorts += cohort.to_bytes(cohort_bytes, "little")
        bits += bytes.fromhex(payload)
    return encode_columns(digest, mechanism.payload_bits, mechanism.num_cohorts, bytes(cohorts), bytes(bits))
