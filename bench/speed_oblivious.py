"""What a device pays to seal a report for the collector, beside one X25519 exchange of `cryptography`.

    python bench/speed_oblivious.py [--rounds N] [--json]

A report of 340 bytes in its request, padded to 512, sealed by the standard library alone (two exchanges in Python,
ChaCha20-Poly1305), and the answer opened. Every job's processor time is taken beside that of exchanges of
`cryptography`; the best and the median of the rounds and the median of the ratios of neighbours are printed, so that a
busy machine slows both alike. Goal: a report sealed in less than 10 ms.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from overstory.client.upload.http import Request
from overstory.client.upload.oblivious import inner_request
from overstory.protocol.oblivious.binary_http import PADDED_TO
from overstory.protocol.oblivious.hpke import sender
from overstory.protocol.oblivious.messages import KeyConfiguration, SealedRequest, response_keys, seal_request

if TYPE_CHECKING:
    from collections.abc import Callable

REPORT: Final = 340
GOAL: Final = 0.010
TIMES: Final = {"seal": 20, "open": 200, "exchange": 500}


def jobs() -> dict[str, Callable[[], Any]]:
    """Return what is timed: sealing, opening an answer, and the exchange that they are compared with."""
    private, other = X25519PrivateKey.generate(), X25519PrivateKey.generate().public_key()
    key = KeyConfiguration(1, private.public_key().public_bytes_raw())
    request = Request("https://collector.example.com/v1/reports", bytes(REPORT), "application/octet-stream", "t" * 40)

    def seal() -> Any:
        return seal_request(inner_request(request).encode(PADDED_TO), key)

    context, nonce = sender(key.public, b""), bytes(32)
    cipher_key, cipher_nonce = response_keys(context, nonce)
    answer = nonce + context.cipher.seal(cipher_key, cipher_nonce, bytes(200), b"")
    opening = SealedRequest(b"", context)
    return {"seal": seal, "open": lambda: opening.open(answer), "exchange": lambda: private.exchange(other)}


def processor_seconds(job: Callable[[], Any], times: int) -> float:
    """Return the processor time of one call, as the mean of some."""
    start = time.process_time()
    for _ in range(times):
        job()
    return (time.process_time() - start) / times


def measure(rounds: int) -> dict[str, dict[str, float]]:
    """Return milliseconds and the ratio to one exchange, by job."""
    timed: dict[str, list[float]] = {name: [] for name in TIMES}
    work = jobs()
    for _ in range(rounds):
        for name, times in TIMES.items():
            timed[name].append(processor_seconds(work[name], times))
    return {
        name: {
            "best_ms": round(1000 * min(each), 3),
            "median_ms": round(1000 * statistics.median(each), 3),
            "ratio_to_exchange": round(
                statistics.median(a / b for a, b in zip(each, timed["exchange"], strict=True)), 1
            ),
        }
        for name, each in timed.items()
    }


def main() -> None:
    """Time, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    measured = measure(args.rounds)
    if args.json:
        print(json.dumps(measured, indent=2))
        return
    for name, row in measured.items():
        best, median, ratio = row.values()
        print(f"{name:9} {best:8.3f} ms at best, {median:8.3f} ms in the middle, {ratio:8.1f} exchanges")
    met = measured["seal"]["best_ms"] < 1000 * GOAL
    print(f"goal: seal in less than {1000 * GOAL:g} ms: {'met' if met else 'missed'}")


if __name__ == "__main__":
    main()
