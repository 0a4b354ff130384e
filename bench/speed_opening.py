"""What a collector pays to open a message of Oblivious HTTP, in exchanges of X25519: one is the least possible cost.

    python bench/speed_opening.py [--rounds N] [--json]

The message is a report of 340 bytes in a request that is padded to 512, as a device sends it. Opening includes reading
binary HTTP. The least time of some rounds is taken. The goal: 5,000 messages a second on one core.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from _timing import seconds
from overstory.collector.oblivious.keys import PrivateKey
from overstory.collector.oblivious.opening import CIPHERS, KeyRing
from overstory.protocol.oblivious.binary_http import Request, read_request
from overstory.protocol.oblivious.messages import HEADER_BYTES, seal_request

FIELDS = (("content-type", "application/vnd.overstory.reports"), ("authorization", "Bearer ovw_" + "x" * 43))


def main() -> None:
    """Print the times, as ratios to the exchange."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    key = PrivateKey(1, dt.date(2026, 11, 23), bytes(range(32)))
    ring = KeyRing([key])
    inner = Request("POST", "https", "collector.example", "/v1/reports", FIELDS, bytes(340)).encode(512)
    bodies = {
        name: seal_request(inner, key.public, cipher).body
        for name, cipher in zip(("aes", "chacha"), CIPHERS, strict=True)
    }
    private, enc = X25519PrivateKey.from_private_bytes(key.private), bodies["aes"][HEADER_BYTES : HEADER_BYTES + 32]
    opened = ring.open(bodies["aes"])
    jobs = {
        "exchange": lambda: private.exchange(X25519PublicKey.from_public_bytes(enc)),
        "open, AES-128-GCM": lambda: read_request(ring.open(bodies["aes"]).message),
        "open, ChaCha20-Poly1305": lambda: read_request(ring.open(bodies["chacha"]).message),
        "seal a response": lambda: opened.seal(bytes(512)),
    }
    least = dict.fromkeys(jobs, float("inf"))
    for _ in range(args.rounds):  # interleaved: what else the machine does meets all of them
        for name, job in jobs.items():
            least[name] = min(least[name], seconds(job, 200))
    base = least["exchange"]
    rows = {
        name: {"microseconds": round(time * 1e6, 1), "ratio": round(time / base, 2), "per_second": round(1 / time)}
        for name, time in least.items()
    }
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    for name, row in rows.items():
        print(
            f"{name:24} {row['microseconds']:7.1f} us  {row['ratio']:5.2f} exchanges  {row['per_second']:7,} a second"
        )


if __name__ == "__main__":
    main()
