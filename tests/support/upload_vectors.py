"""The known uploads, and how to write them: `python -m support.upload_vectors`, in `tests`.

Vectors are for ever: a change in one is a change of what collectors accept. Add new ones; never rewrite.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics import parse_registry
from overstory.protocol.wire.upload import Upload, encode_reports, encode_upload

FILE = Path(__file__).parents[1] / "vectors" / "uploads.json"

REGISTRY = """\
registry = "vectors-1"

[metrics."search.engine_2"]
title = "Search engine"
description = "The default search engine's host."
owner = "Search team"
purpose = "https://example.org/issues/1"
domain = {kind = "strings"}
oracle = "rappor"
parameters = {num_bits = 20, num_hashes = 2, num_cohorts = 3}
period = "day"
retention_days = 90
expires = 2027-11-21

[metrics.meter]
title = "Meter"
description = "Energy of half an hour, in kWh."
owner = "Grid team"
purpose = "https://example.org/issues/2"
domain = {kind = "bins", min = 0, max = 2, count = 7}
oracle = "linear-hash"
parameters = {epsilon = 1.0, hash_bits = 2}
period = "30 minutes"
retention_days = 90
expires = 2027-11-21
"""

UPLOADS: list[tuple[str, str, list[tuple[int, int]], str]] = [
    ("search.engine_2", "2026-11-21", [(0, 0), (2, 0xFFFFF), (1, 0x12345)], ""),
    ("search.engine_2", "1970-01-01", [], ""),
    ("meter", "2026-11-21T09:30Z", [(0, 3), ((1 << 31) - 1, 1)], ""),
    ("search.engine_2", "2026-11-21", [(0, 0), (2, 0xFFFFF)], "1.1"),
    ("meter", "2026-11-21T09:30Z", [(0, 3)], "other"),
    ("meter", "1970-01-01T00:00Z", [], "Windows 11 22H2 build+22621.2506"),
]


def vector(number: int) -> dict[str, Any]:
    """One upload: what it holds, as JSON would say it, and its bytes."""
    name, label, reports, group = UPLOADS[number]
    metric = parse_registry(REGISTRY)[name]
    batch = bytes((16 * number + i) % 256 for i in range(16))
    packed = encode_reports(metric.mechanism, [Report(*report) for report in reports])
    width = (metric.mechanism.payload_bits + 7) // 8
    said = {
        "batch": batch.hex(),
        "metric": name,
        "period": label,
        "digest": metric.mechanism.digest.hex(),
        "reports": [[cohort, bits.to_bytes(width, "little").hex()] for cohort, bits in reports],
    }
    if group:
        said["group"] = group
    upload = Upload(batch, name, metric.period.parse_label(label), packed, group)
    return {"json": said, "period": upload.period, "bytes": encode_upload(upload).hex()}


def must_fail() -> list[dict[str, Any]]:
    """Bytes that are no body, each with the reason it is refused for; a group begins after the id, at byte 32 + 15."""
    first, second, grouped = (bytes.fromhex(vector(number)["bytes"]) for number in (0, 1, 3))
    spoiled = [
        (b"", "short", "nothing at all"),
        (first[:31], "short", "less than a header"),
        (b"OVSB" + first[4:], "magic", "a packed batch's magic"),
        (first[:4] + b"\2" + first[5:], "version", "another version"),
        (first[:5] + b"\1" + first[6:], "version", "the zero is one"),
        (first[:6] + b"\0" + first[7:], "metric", "an id of no bytes"),
        (first[:32] + b"S" + first[33:], "metric", "an id with a capital letter"),
        (first[:32] + b"." + first[33:], "metric", "an id that starts with a dot"),
        (first[:28] + b"\xff\xff\xff\xff" + first[32:], "length", "four gigabytes announced"),
        (first[:-1], "length", "the last byte is missing"),
        (first + b"\0", "short", "a byte too many"),
        (first + second[:40], "length", "a second upload cut short"),
        (first + second + first, "too-many", "three uploads where two are allowed"),
        (first[:7] + b"\1" + first[8:], "length", "a group announced that is not there"),
        (grouped[:7] + b"\xff" + grouped[8:], "length", "a group longer than the body"),
        (grouped[:47] + b" .1" + grouped[50:], "group", "a group that starts with a space"),
        (grouped[:47] + b"1. " + grouped[50:], "group", "a group that ends with a space"),
        (grouped[:47] + b"=.1" + grouped[50:], "group", "a group that a spreadsheet computes"),
        (grouped[:47] + b"1\n1" + grouped[50:], "group", "a line break"),
        (grouped[:47] + b"1\x001" + grouped[50:], "group", "a zero byte"),
        (grouped[:47] + b"1\xc3\xa9" + grouped[50:], "group", "a letter that is not ASCII"),
        (grouped[:7] + bytes((33,)) + grouped[8:47] + b"a" * 33 + grouped[50:], "group", "33 characters"),
    ]
    return [{"bytes": raw.hex(), "reason": reason, "why": why} for raw, reason, why in spoiled]


def vectors() -> dict[str, Any]:
    """Return the whole file."""
    uploads = [vector(number) for number in range(len(UPLOADS))]
    return {"registry": REGISTRY, "max_uploads": 2, "uploads": uploads, "must_fail": must_fail()}


if __name__ == "__main__":
    if not FILE.exists():  # known answers are never rewritten
        FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
