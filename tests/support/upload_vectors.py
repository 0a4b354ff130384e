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
GROUPED_FILE = FILE.with_name("grouped-uploads.json")

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
oracle = "olh"
parameters = {epsilon = 1.0, hash_range = 4, num_seeds = 2147483648}
period = "30 minutes"
retention_days = 90
expires = 2027-11-21
"""

UPLOADS: list[tuple[str, str, list[tuple[int, int]]]] = [
    ("search.engine_2", "2026-11-21", [(0, 0), (2, 0xFFFFF), (1, 0x12345)]),
    ("search.engine_2", "1970-01-01", []),
    ("meter", "2026-11-21T09:30Z", [(0, 3), ((1 << 31) - 1, 1)]),
]


GROUPED = [
    ("search.engine_2", "2026-11-21", [(0, 0), (2, 0xFFFFF)], "1.1"),
    ("meter", "2026-11-21T09:30Z", [(0, 3)], "other"),
    ("meter", "1970-01-01T00:00Z", [], "Windows 11 22H2 build+22621.2506"),
]


def vector(number: int) -> dict[str, Any]:
    """One upload: what it holds, as JSON would say it, and its bytes."""
    return known(number, *UPLOADS[number])


def grouped_vector(number: int) -> dict[str, Any]:
    """One upload of devices of a group."""
    return known(number, *GROUPED[number])


def known(number: int, name: str, label: str, reports: list[tuple[int, int]], group: str = "") -> dict[str, Any]:
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
    """Bytes that are no body, each with the reason it is refused for."""
    first, second = (bytes.fromhex(vector(number)["bytes"]) for number in (0, 1))
    spoiled = [
        ("", "short", "nothing at all"),
        (first[:31].hex(), "short", "less than a header"),
        ((b"OVSB" + first[4:]).hex(), "magic", "a packed batch's magic"),
        ((first[:4] + b"\2" + first[5:]).hex(), "version", "another version"),
        ((first[:5] + b"\1" + first[6:]).hex(), "version", "the first zero is one"),
        ((first[:7] + b"\1" + first[8:]).hex(), "version", "the second zero is one"),
        ((first[:6] + b"\0" + first[7:]).hex(), "metric", "an id of no bytes"),
        ((first[:32] + b"S" + first[33:]).hex(), "metric", "an id with a capital letter"),
        ((first[:32] + b"." + first[33:]).hex(), "metric", "an id that starts with a dot"),
        ((first[:28] + b"\xff\xff\xff\xff" + first[32:]).hex(), "length", "four gigabytes announced"),
        (first[:-1].hex(), "length", "the last byte is missing"),
        ((first + b"\0").hex(), "short", "a byte too many"),
        ((first + second[:40]).hex(), "length", "a second upload cut short"),
        ((first + second + first).hex(), "too-many", "three uploads where two are allowed"),
    ]
    return [{"bytes": raw, "reason": reason, "why": why} for raw, reason, why in spoiled]


def grouped_must_fail() -> list[dict[str, Any]]:
    """The same of uploads with a group, which begins after the id: at byte 32 + 15."""
    first = bytes.fromhex(grouped_vector(0)["bytes"])
    spoiled = [
        (first[:4] + b"\1" + first[5:], "version", "a group in version 1, which has none"),
        (first[:7] + b"\0" + first[8:], "version", "version 2 without a group"),
        (first[:4] + b"\3" + first[5:], "version", "another version"),
        (first[:5] + b"\1" + first[6:], "version", "the zero is one"),
        (first[:7] + b"\xff" + first[8:], "length", "a group longer than the body"),
        (first[:47] + b" .1" + first[50:], "group", "a group that starts with a space"),
        (first[:47] + b"1. " + first[50:], "group", "a group that ends with a space"),
        (first[:47] + b"=.1" + first[50:], "group", "a group that a spreadsheet computes"),
        (first[:47] + b"1\n1" + first[50:], "group", "a line break"),
        (first[:47] + b"1\x001" + first[50:], "group", "a zero byte"),
        (first[:47] + b"1\xc3\xa9" + first[50:], "group", "a letter that is not ASCII"),
        (first[:7] + bytes((33,)) + first[8:47] + b"a" * 33 + first[50:], "group", "33 characters"),
        (first[:-1], "length", "the last byte is missing"),
        (first + b"\0", "short", "a byte too many"),
    ]
    return [{"bytes": raw.hex(), "reason": reason, "why": why} for raw, reason, why in spoiled]


def grouped_vectors() -> dict[str, Any]:
    """Return the file of uploads with a group."""
    uploads = [grouped_vector(number) for number in range(len(GROUPED))]
    return {"registry": REGISTRY, "max_uploads": 2, "uploads": uploads, "must_fail": grouped_must_fail()}


def vectors() -> dict[str, Any]:
    """Return the file of uploads without a group."""
    uploads = [vector(number) for number in range(len(UPLOADS))]
    return {"registry": REGISTRY, "max_uploads": 2, "uploads": uploads, "must_fail": must_fail()}


if __name__ == "__main__":
    for file, made in ((FILE, vectors), (GROUPED_FILE, grouped_vectors)):
        if not file.exists():  # known answers are never rewritten
            file.write_text(json.dumps(made(), indent=1) + "\n")
