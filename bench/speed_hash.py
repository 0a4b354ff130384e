"""How fast strings become digests and Bloom positions, as a ratio to the standard library's hashes in a loop.

python bench/speed_hash.py [--strings N] [--cohorts M] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
from typing import TYPE_CHECKING, Any

import numpy as np

from _timing import seconds
from overstory.kernels.hash.bloom import digest64, positions_google, positions_v1
from overstory.kernels.threads import cores

if TYPE_CHECKING:
    from collections.abc import Callable

KEY, PERSON = bytes(range(32)), b"bench-speed-hash"


def hashlib_blake2(strings: list[bytes]) -> None:
    """The obvious loop."""
    for string in strings:
        int.from_bytes(hashlib.blake2b(string, digest_size=8, key=KEY, person=PERSON).digest(), "little")


def hashlib_md5(strings: list[bytes], cohort: bytes) -> None:
    """The obvious loop, for one cohort."""
    for string in strings:
        digest = hashlib.md5(cohort + string).digest()
        digest[0] % 128, digest[1] % 128


def measure(num_strings: int, num_cohorts: int, threads: int, rounds: int) -> dict[str, Any]:
    """Rates (strings, or strings times cohorts, a second) and ratios to the loop."""
    strings = [b"http://example.org/%d" % i for i in range(num_strings)]
    data = np.frombuffer(b"".join(strings), dtype=np.uint8)
    offsets = np.cumsum([0, *(len(s) for s in strings)])
    digests = digest64(offsets, data, KEY, PERSON)
    few = strings[: num_strings // 20]
    jobs: dict[str, tuple[int, Callable[[], Any], str]] = {
        "hashlib_blake2b": (len(few), lambda: hashlib_blake2(few), "hashlib_blake2b"),
        "hashlib_md5": (len(few), lambda: hashlib_md5(few, bytes(4)), "hashlib_md5"),
        "digest64": (num_strings, lambda: digest64(offsets, data, KEY, PERSON, threads=threads), "hashlib_blake2b"),
        "positions_v1": (
            num_strings * num_cohorts,
            lambda: positions_v1(digests, 128, 2, num_cohorts, threads=threads),
            "hashlib_md5",
        ),
        "positions_google": (
            num_strings * num_cohorts,
            lambda: positions_google(offsets, data, 128, 2, num_cohorts, threads=threads),
            "hashlib_md5",
        ),
    }
    for _, job, _ in jobs.values():
        job()
    rates = [{name: count / seconds(job) for name, (count, job, _) in jobs.items()} for _ in range(rounds)]
    return {
        name: {
            "million_per_second": round(statistics.median(r[name] for r in rates) / 1e6, 2),
            "ratio_to": against,
            "ratio": round(statistics.median(r[name] / r[against] for r in rates), 1),
        }
        for name, (_, _, against) in jobs.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--strings", type=int, default=400_000)
    parser.add_argument("--cohorts", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = {
        f"threads_{threads}": measure(arguments.strings, arguments.cohorts, threads, arguments.rounds)
        for threads in sorted({1, cores(None)})
    }
    if arguments.json:
        print(json.dumps(vars(arguments) | results))
        return
    print(f"{arguments.strings:,} strings; positions for {arguments.cohorts} cohorts count each (string, cohort)")
    for threads, jobs in results.items():
        for name, figures in jobs.items():
            rate, ratio, yardstick = figures["million_per_second"], figures["ratio"], figures["ratio_to"]
            print(f"{threads:<12}{name:<18}{rate:>9} M/s   x {ratio} of {yardstick}")


if __name__ == "__main__":
    main()
