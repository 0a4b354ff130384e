"""Through how many of our files one piece of work runs: `python bench/walks.py [--files WALK | --json | --write]`.

Every walk has a process of its own, in which nothing of ours has run before but what gets it ready. A file is entered
where a function in it is called; a move is a call from a file to another; depth counts frames of ours; what is imported
on the way is apart. `--write` brings the table in docs/explanation/architecture.md up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import overstory
from _tracing import Trace, Walk, follow
from overstory.cli.main import main as command_line
from overstory.client import Client, parse_registry
from speed_cold import REGISTRY as WEEKLY

PAGE: Final = Path(__file__).parents[1] / "docs" / "explanation" / "architecture.md"
START, STOP = "<!-- walks -->\n", "<!-- end of walks -->\n"
DAY: Final = 86_400
GOALS: Final = {
    "first `record`": 22,
    "second `record`": 13,
    "`flush` and send": 12,
    "POST to answer": 10,
    "POST, writer thread": 4,
    "counts to estimate": 12,
    "`decode` of files": 20,
}
"""Files at most, where there is a goal."""

REGISTRY: Final = WEEKLY.replace('"week"', '"day"').replace("2027-11-21", "2099-12-31")

# --- a device ---------------------------------------------------------------------------------------------------------


class Clock:
    """The time of day, moved by hand."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        """Return unix time in seconds."""
        return self.now


def device(folder: Path, **settings: Any) -> Client:
    """Return a client as a program builds it at its start: the person agreed earlier, and nothing was recorded yet."""
    named: dict[str, Any] = {"state": folder, "environ": {}, "policy": folder / "policy.json", "spread": 0.0} | settings
    registry = parse_registry(REGISTRY)
    Client("walks", registry, **named).consent("on")
    return Client("walks", registry, **named)


def first_record(folder: Path) -> dict[str, Walk]:
    """Record where the state is still to be made."""
    client = device(folder)
    return {"first `record`": follow(partial(record, client))}


def second_record(folder: Path) -> dict[str, Walk]:
    """Record the same value on the next day."""
    clock = Clock()
    client = device(folder, clock=clock)
    record(client)
    clock.now += DAY
    return {"second `record`": follow(partial(record, client))}


def record(client: Client) -> None:
    """Record a value."""
    assert client.record("tree", "oak") == "recorded"


class Stub(BaseHTTPRequestHandler):
    """A collector that takes every report, with nothing of ours in it."""

    def do_POST(self) -> None:
        """Answer that the one upload is stored."""
        upload = self.rfile.read(int(self.headers["content-length"]))
        result = {"batch": upload[8:24].hex(), "accepted": 1, "duplicate": False, "reason": None, "rejected": []}
        answer = json.dumps({"results": [result]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


def flush_and_send(folder: Path) -> dict[str, Walk]:
    """Write one report to the disk, and send it over HTTP."""
    clock = Clock()
    with HTTPServer(("127.0.0.1", 0), Stub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = device(folder, clock=clock, server=f"http://127.0.0.1:{server.server_port}")
        record(client)
        clock.now += 1.0
        walk = follow(client.flush)
        server.shutdown()
    assert client.status().outbox["sent"] == 1
    return {"`flush` and send": walk}


# --- a collector ------------------------------------------------------------------------------------------------------


def request(folder: Path) -> bytes:
    """Return the post of a device's report, as HTTP."""
    posts: list[bytes] = []

    def send(request: Any) -> Any:
        lines = (
            "POST /v1/reports HTTP/1.1",
            "Host: collector",
            f"Content-Type: {request.media_type}",
            f"Content-Length: {len(request.body)}",
        )
        posts.append("\r\n".join((*lines, "\r\n")).encode() + request.body)
        raise OSError("this device has no network")

    client = device(folder / "device", server="http://collector", transport=send)
    record(client)
    client.flush()
    return posts[0]


def post_and_compact(folder: Path) -> dict[str, Walk]:
    """Post a report to a collector in this process; compact it when that has ended."""
    from overstory.collector.store import open_store

    registry, store = folder / "metrics.toml", folder / "reports.db"
    registry.write_text(REGISTRY, encoding="utf-8")
    post = request(folder)
    trace, written = Trace(), io.StringIO()
    walks: list[dict[str, Walk]] = []

    def sender() -> None:
        try:
            send()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)  # `serve` ends, whatever came of it

    def send() -> None:
        with contextlib.closing(socket.create_connection(address(written), timeout=10)) as connection:
            trace.learn_idleness()
            with trace.within() as walked:
                connection.sendall(post)
                answer = connection.recv(65_536)
                trace.wait_until_quiet()  # the collector goes on after the answer
            assert answer.startswith(b"HTTP/1.1 200"), answer
            walks.append(walked)

    thread = threading.Thread(target=sender)
    thread.start()
    options = ("--port", "0", "--open-writes")
    os.environ.update(OVERSTORY_COMPACT_EVERY="0", OVERSTORY_GRACE="0")
    with contextlib.redirect_stdout(written), contextlib.redirect_stderr(io.StringIO()), trace.installed():
        command_line(["serve", "--registry", str(registry), "--store", str(store), *options])
    thread.join()
    assert walks, "the post was not answered"
    with contextlib.closing(open_store(str(store))) as opened:
        opened.remember(parse_registry(REGISTRY))
        compacted = follow(partial(opened.compact, time.time()))
    return {
        "POST to answer": walks[0]["MainThread"],
        "POST, writer thread": walks[0]["overstory-committer"],
        "`Store.compact`": compacted,
    }


def address(written: io.StringIO) -> tuple[str, int]:
    """Wait until a collector writes where it listens; return that."""
    until = time.monotonic() + 60
    while "http://" not in written.getvalue():
        assert time.monotonic() < until, written.getvalue()
        time.sleep(0.01)
    host, port = written.getvalue().split("http://")[1].split()[0].rsplit(":", 1)
    return host, int(port)


# --- the analyst ------------------------------------------------------------------------------------------------------


def estimate(_: Path) -> dict[str, Walk]:
    """Build an oracle, estimate from counts, and write JSON."""
    grr = partial(overstory.oracle, "grr", domain_size=4, epsilon=1.0)
    counting = grr()
    counts = counting.accumulate(counting.simulate([0, 1, 2, 3] * 100, rng=1))
    return {"counts to estimate": follow(lambda: json.dumps(grr().estimate(counts).to_json()))}


def oracles(_: Path) -> dict[str, Walk]:
    """Build two oracles."""
    rappor = {"num_bits": 128, "num_hashes": 2, "num_cohorts": 16, "f": 0.5, "p": 0.5, "q": 0.75}
    return {
        '`oracle("olh")`': follow(partial(overstory.oracle, "olh", domain_size=1000, epsilon=1.0)),
        '`oracle("rappor")`': follow(partial(overstory.oracle, "rappor", **rappor)),
    }


def encode_and_decode(folder: Path) -> dict[str, Walk]:
    """Randomize 2,000 values; learn from their reports which of four they hold."""
    os.chdir(folder)
    Path("params.csv").write_text("k,h,m,p,q,f\n64,2,8,0.25,0.75,0.25\n", encoding="utf-8")
    rows = [f"c{row},{row % 8},{'oak' if row % 2 else 'ash'}\n" for row in range(2000)]
    Path("values.csv").write_text("client,cohort,value\n" + "".join(rows), encoding="utf-8")
    Path("trees.txt").write_text("ash\nelm\noak\nyew\n", encoding="utf-8")
    encoded = follow(partial(run, "encode --values values.csv -o reports.csv"))
    run("sum reports.csv -o counts.csv")
    run("map --candidates trees.txt -o map.csv")
    decoded = follow(partial(run, "decode --counts counts.csv --map map.csv -o results"))
    return {"`decode` of files": decoded, "`encode` of 2,000 rows": encoded}


def run(command: str) -> None:
    """Run one command of the command line."""
    with contextlib.redirect_stdout(io.StringIO()):
        assert command_line([*command.split(), "--params", "params.csv"]) == 0


# --- all of them ------------------------------------------------------------------------------------------------------

WALKS: Final[dict[str, Callable[[Path], dict[str, Walk]]]] = {
    "first `record`": first_record,
    "second `record`": second_record,
    "`flush` and send": flush_and_send,
    "POST to answer": post_and_compact,
    "POST, writer thread": post_and_compact,
    "`Store.compact`": post_and_compact,
    "counts to estimate": estimate,
    "`decode` of files": encode_and_decode,
    "`encode` of 2,000 rows": encode_and_decode,
    '`oracle("olh")`': oracles,
    '`oracle("rappor")`': oracles,
}
"""Each walk, and the function that takes it."""


def taken(job: Callable[[Path], dict[str, Walk]]) -> dict[str, Walk]:
    """Take the walks of one function, in a folder that is removed afterwards."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        try:
            return job(Path(folder))
        finally:
            os.chdir(before)


def measured(names: Iterable[str]) -> dict[str, Walk]:
    """Take these walks, and those that share a process with them."""
    jobs = dict.fromkeys(WALKS[name] for name in names)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=fresh, max_tasks_per_child=1) as processes:
        return {name: walk for walks in processes.map(taken, jobs) for name, walk in walks.items()}


def rows(walks: dict[str, Walk]) -> Iterator[str]:
    """Yield the table, line by line."""
    yield "| walk | files | goal | moves | depth | imported |\n|---|---|---|---|---|---|\n"
    for name in WALKS:
        walk = walks[name]
        goal = GOALS.get(name, "")
        yield f"| {name} | {len(walk.files)} | {goal} | {walk.moves:,} | {walk.depth} | {walk.imported} |\n"


def main() -> None:
    """Take the walks, and print or write what they entered."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--files", metavar="WALK", help="the files of one walk, in the order of first entry")
    shown.add_argument("--json", action="store_true", help="all walks, with their files")
    shown.add_argument("--write", action="store_true", help="the table in docs/explanation/architecture.md")
    arguments = parser.parse_args()
    plain = {name.replace("`", ""): name for name in WALKS}
    if arguments.files:
        name = plain.get(arguments.files.replace("`", ""))
        if name is None:
            parser.error(f"there is no walk {arguments.files!r}: give one of {', '.join(plain)}")
        print(*measured([name])[name].files, sep="\n")
        return
    walks = measured(WALKS)
    if arguments.json:
        print(json.dumps({name: asdict(walks[name]) for name in WALKS}, indent=2))
    elif arguments.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(START)
        PAGE.write_text(before + START + "".join(rows(walks)) + STOP + rest.split(STOP)[1], encoding="utf-8")
    else:
        print("".join(rows(walks)), end="")


if __name__ == "__main__":
    main()
