"""What a collector takes from a relay: messages a second, one by one and released, and what direct posts feel of it.

    python bench/load_releases.py [--messages 20000] [--part 500] [--json]

A real `overstory serve` on a fresh store; a client over loopback. Messages a second are compared with those of
opening alone, on one core of the same run; one by one, they come on 32 connections. The latency of a direct post is
taken while nothing else comes, and during a release. Memory is the collector's, after a tenth of the messages and at
the end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from statistics import quantiles

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from _timing import seconds
from overstory.collector.oblivious.keys import add_key, public_line, read_private_keys
from overstory.collector.oblivious.opening import CIPHERS, KeyRing
from overstory.collector.store import open_store
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.metrics import Metric, load_registry
from overstory.protocol.oblivious.binary_http import Request, read_request
from overstory.protocol.oblivious.hpke import context_of, encapsulated_secret
from overstory.protocol.oblivious.messages import REQUEST_LABEL, REQUEST_TYPE, KeyConfiguration
from overstory.protocol.oblivious.release import RELEASE_TYPE, Release
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload

METRIC = """
[metrics.{id}]
title = "Homepage"
description = "The page that opens first."
owner = "Load test"
purpose = "https://example.org/issues/1"
domain = {{kind = "strings"}}
oracle = "rappor"
parameters = {{num_bits = 128, num_hashes = 2, num_cohorts = 16, f = 0.5, p = 0.5, q = 0.75}}
period = "day"
retention_days = 90
expires = 2100-01-01
{more}
"""
CONNECTIONS = 32
ROUTE = '[oblivious]\nrelay = "https://relay.example.net/"\noperator = "Load test"\nkeys = "{keys}"\n'


def upload(metric: Metric) -> bytes:
    """Return one report with an id of its own."""
    packed = encode_reports(metric.mechanism, [Report(1, int.from_bytes(os.urandom(16), "little"))])
    return encode_upload(Upload(os.urandom(16), metric.id, metric.period.number(time.time()), packed))


def seal(body: bytes, key: KeyConfiguration) -> bytes:
    """Seal a post of reports, with fast cryptography: here the collector is measured."""
    cipher, private = CIPHERS[0], X25519PrivateKey.generate()
    header, enc = key.header(cipher.number), private.public_key().public_bytes_raw()
    secret = encapsulated_secret(private.exchange(X25519PublicKey.from_public_bytes(key.public)), enc, key.public)
    inner = Request("POST", "https", "c.example", "/v1/reports", (("content-type", MEDIA_TYPE),), body).encode(512)
    return header + enc + context_of(cipher, enc, secret, REQUEST_LABEL + header).seal(inner)


def memory(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


class Poster:
    """A client on one connection."""

    def __init__(self, address: str, headers: dict[str, str], path: str) -> None:
        self._connection = HTTPConnection(address, timeout=60)
        self._headers, self._path = headers, path

    def post(self, body: bytes) -> bytes:
        """Post a body and return the answer's."""
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        raw = answer.read()
        assert answer.status == 200, raw
        return raw


def latency(poster: Poster, metric: Metric, until: threading.Event, least: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of direct posts, in milliseconds, a hundred a second."""
    taken: list[float] = []
    while len(taken) < least or not until.is_set():
        body, start = upload(metric), time.perf_counter()
        poster.post(body)
        taken.append(1000 * (time.perf_counter() - start))
        time.sleep(0.01)
    cuts = quantiles(taken, n=100)
    return cuts[49], cuts[98]


def measure(folder: Path, messages: int, part: int) -> dict[str, float]:
    """Return the figures."""
    (key,) = add_key(folder / "keys")
    text = 'registry = "1"\n' + METRIC.format(id="sealed", more='transport = "oblivious"')
    text += METRIC.format(id="direct", more="") + ROUTE.format(keys=public_line((key,)))
    (folder / "metrics.toml").write_text(text)
    registry, ring = load_registry(folder / "metrics.toml"), KeyRing(read_private_keys(folder / "keys"))
    with open_store(str(folder / "store.db"), registry, create=True) as store:
        token = store.add_token("relay", "load")
    command = [sys.executable, "-m", "overstory", "serve", "--open-writes", "--port", "0", "--oblivious-keys", "keys"]
    command += ["--registry", "metrics.toml", "--store", "store.db"]
    sealed = [seal(upload(registry["sealed"]), key.public) for _ in range(messages + messages // 10)]
    single, sealed = sealed[: messages // 10], sealed[messages // 10 :]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().split("//")[1].strip()
            relay = Poster(
                address, {"Content-Type": RELEASE_TYPE, "Authorization": f"Bearer {token}"}, "/v1/oblivious/release"
            )
            direct = Poster(address, {"Content-Type": MEDIA_TYPE}, "/v1/reports")
            none = threading.Event()
            none.set()
            alone = latency(direct, registry["direct"], none, 300)
            figures = {"opened_a_second": 1 / seconds(lambda: read_request(ring.open(single[0]).message), 2000)}
            figures["one_by_one_a_second"] = len(single) / seconds(lambda: pass_on(address, single))
            figures |= release(relay, direct, registry["direct"], sealed, part, serving.pid)
        finally:
            serving.terminate()
    return figures | {"direct_alone_p50_ms": alone[0], "direct_alone_p99_ms": alone[1]}


def pass_on(address: str, sealed: list[bytes]) -> None:
    """Post messages one by one, as a relay does that passes them on."""
    posters = [Poster(address, {"Content-Type": REQUEST_TYPE}, "/v1/oblivious") for _ in range(CONNECTIONS)]

    def work(number: int) -> None:
        for body in sealed[number::CONNECTIONS]:
            posters[number].post(body)

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(work, range(CONNECTIONS)))


def release(
    relay: Poster, direct: Poster, metric: Metric, sealed: list[bytes], part: int, pid: int
) -> dict[str, float]:
    """Post a release in parts, while direct posts come."""
    release_id, ended, during = os.urandom(16), threading.Event(), []
    thread = threading.Thread(target=lambda: during.extend(latency(direct, metric, ended, 10)))
    early = 0.0
    thread.start()
    start = time.perf_counter()
    for first in range(0, len(sealed), part):
        some = tuple(sealed[first : first + part])
        counted = json.loads(relay.post(Release(release_id, some).encode()))
        assert counted == {"taken": len(some), "refused": {}, "again": []}, counted
        if not early and first >= len(sealed) // 10:
            early = memory(pid)
    took = time.perf_counter() - start
    ended.set()
    thread.join()
    return {
        "released_a_second": len(sealed) / took,
        "direct_during_p50_ms": during[0],
        "direct_during_p99_ms": during[1],
        "memory_early_mib": early,
        "memory_end_mib": memory(pid),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--part", type=int, default=500)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), args.messages, args.part)
    if args.json:
        print(json.dumps({name: round(value, 2) for name, value in figures.items()}, indent=2))
        return
    opened = figures["opened_a_second"]
    for name, words in (("one_by_one_a_second", "one by one"), ("released_a_second", "released")):
        print(f"{words:12} {figures[name]:7,.0f} messages a second, {figures[name] / opened:.2f} of opening alone")
    for name, words in (("alone", "alone"), ("during", "during a release")):
        p50, p99 = figures[f"direct_{name}_p50_ms"], figures[f"direct_{name}_p99_ms"]
        print(f"a direct post {words}: median {p50:.1f} ms, 99th percentile {p99:.1f} ms")
    print(f"memory: {figures['memory_early_mib']:.0f} MiB early, {figures['memory_end_mib']:.0f} MiB at the end")


if __name__ == "__main__":
    main()
