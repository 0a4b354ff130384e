"""Law 7 at length: a damaged batch is a valid one or one declared error, `OVERSTORY_DAMAGED` times."""

import random
import zlib

import pytest

from overstory.protocol.errors import WireError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.wire.upload import TRAILER, decode_batch, encode_reports
from support.rounds import rounds

CASES = rounds(100_000, "OVERSTORY_DAMAGED")


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """Change a few bytes, cut, extend or repeat; half of the time with the checksum made right again."""
    body = bytearray(raw[: -TRAILER.size])
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(body))
        kind = rng.randrange(4)
        if kind == 0:
            body[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            body[at] = rng.randrange(256)
        elif kind == 2 and len(body) > 1:
            del body[at : at + rng.randint(1, 9)]
        else:
            body[at:at] = rng.randbytes(rng.randint(1, 9))
        if not body:
            return b""
    checksum = TRAILER.pack(zlib.crc32(body)) if rng.random() < 0.5 else raw[-TRAILER.size :]
    return bytes(body) + checksum


@pytest.mark.slow
def test_no_damage_raises_anything_but_the_declared_error():
    rng = random.Random(20210418)
    built = mechanism("rappor", num_bits=20, num_hashes=2, num_cohorts=3, f=0.5, p=0.5, q=0.75)
    raw = encode_reports(built, [Report(i % 3, rng.getrandbits(20)) for i in range(5)])
    reasons: dict[str, int] = {}
    for _ in range(CASES):
        try:
            batch = decode_batch(damaged(raw, rng))
        except WireError as error:
            reasons[error.reason] = reasons.get(error.reason, 0) + 1
        else:
            assert len(list(batch)) == batch.num_reports
            reasons["valid"] = reasons.get("valid", 0) + 1
    assert {"magic", "version", "length", "checksum", "cohort", "bits", "valid"} <= set(reasons)
