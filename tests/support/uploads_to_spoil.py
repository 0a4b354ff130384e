"""Bodies of requests, and ways of damaging them; the long tests go further with the same."""

import random

from overstory.protocol.errors import WireError
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.wire import upload as wire
from overstory.protocol.wire.reasons import Reason

MOST = 4
GROUPS = ("", "1.1", "Windows 11")
REASONS = {"short", "magic", "version", "metric", "group", "length", "too-many"}


def some_body(rng: random.Random) -> bytes:
    built = mechanism("rappor", num_bits=20, num_hashes=2, num_cohorts=3)
    reports = [Report(i % 3, rng.getrandbits(20)) for i in range(rng.randint(0, 4))]
    packed = wire.encode_reports(built, reports)
    return b"".join(
        wire.encode_upload(
            wire.Upload(rng.randbytes(16), f"metric-{i}", rng.randint(-9, 99_999), packed, rng.choice(GROUPS))
        )
        for i in range(rng.randint(1, MOST))
    )


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Change a few bytes, cut, extend, repeat or swap; lengths in the header are likely victims."""
    body = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(body), 44)) if body and rng.random() < 0.5 else rng.randrange(len(body) + 1)
        kind = rng.randrange(6)
        if kind == 0 and at < len(body):
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1 and at < len(body):
            body[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif kind == 2:
            del body[at : at + rng.randint(1, 40)]
        elif kind == 3:
            body[at:at] = rng.randbytes(rng.randint(1, 9))
        elif kind == 4:
            body += body[at:]
        else:
            del body[at:]
    return bytes(body)


def declared(error: WireError, of: set[str] = REASONS) -> str:
    """Return the reason, which must be one of those that a collector can answer with."""
    assert error.reason in of
    assert Reason.of(error).status in {400, 413}
    return error.reason


def outcome(body: bytes) -> str:
    """Decode a body as a collector does: return "valid", or the declared error's reason; anything else goes through."""
    try:
        uploads = wire.decode_uploads(body, MOST)
    except WireError as error:
        return declared(error)
    assert b"".join(map(wire.encode_upload, uploads)) == body
    assert 1 <= len(uploads) <= MOST
    for upload in uploads:
        assert len(upload.batch) == wire.ID_BYTES
        assert wire.METRIC_ID.fullmatch(upload.metric)
        assert upload.period in wire.PERIODS
        try:
            wire.decode_batch(upload.reports)
        except WireError as error:
            declared(error, of={"short", "magic", "version", "length", "checksum", "cohort", "bits"})
    return "valid"


def outcomes(cases: int, seed: int) -> dict[str, int]:
    """Damage bodies so often, and count what came of it."""
    rng = random.Random(seed)
    bodies = [some_body(rng) for _ in range(50)]
    seen: dict[str, int] = {}
    for _ in range(cases):
        what = outcome(damaged(rng.choice(bodies), rng))
        seen[what] = seen.get(what, 0) + 1
    return seen
