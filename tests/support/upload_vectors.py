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


def vector(number: int) -> dict[str, Any]:
    """One upload: what it holds, as JSON would say it, and its bytes."""
    name, label, reports = UPLOADS[number]
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
    upload = Upload(batch, name, metric.period.parse_label(label), packed)
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


def vectors() -> dict[str, Any]:
    """Return the whole file."""
    uploads = [vector(number) for number in range(len(UPLOADS))]
    return {"registry": REGISTRY, "max_uploads": 2, "uploads": uploads, "must_fail": must_fail()}


if __name__ == "__main__":
    if FILE.exists():
        raise SystemExit(f"{FILE} exists, and known answers are never rewritten")
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n")
