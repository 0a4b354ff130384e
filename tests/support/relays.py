"""Real relays, their senders, and a collector's side that counts what comes."""

from __future__ import annotations

import http.client
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from overstory.protocol.oblivious.messages import REQUEST_TYPE, RESPONSE_TYPE
from overstory.protocol.oblivious.release import RELEASE_TYPE, Release, read_release
from overstory.relay.shuffling import Shuffler
from overstory.relay.spool import Spool, Taken
from support.listening_process import ListeningProcess

TOKEN = "ovr_a-token-of-a-relay"


@dataclass
class RelayProcess(ListeningProcess):
    """One `overstory relay`."""

    gateway: str
    options: Sequence[str] = ()
    program: Sequence[str] = (sys.executable, "-m", "overstory", "relay")
    said: list[str] = field(default_factory=list, init=False)

    def command(self) -> list[str]:
        """Return what to run."""
        return [*self.program, "--gateway", self.gateway, "--port", "0", *self.options]


def shuffling(folder: Path, *more: str, least: int = 10, every: str = "1s") -> list[str]:
    """Return the options of a shuffling relay whose spool and token lie in a folder."""
    token = folder / "relay-token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    spool = ["--spool", str(folder / "spool"), "--token-file", str(token), "--capacity", "2000"]
    limits = ["--per-hour", "1000000", "--per-release", "1000000"]
    return ["--shuffle", *spool, "--least", str(least), "--every", every, *limits, *more]


def finish(shuffler: Shuffler) -> None:
    """Let a relay release or drop what is due, to the end."""
    while shuffler.look() is not None:
        pass


def message(serial: int, size: int = 567) -> bytes:
    """Return what looks like an encapsulated request, and has a number of its own."""
    return b"\x01\x00\x20\x00\x01\x00\x03" + serial.to_bytes(8, "big") + os.urandom(size - 15)


def put(spool: Spool, messages: Sequence[bytes]) -> list[Taken]:
    """Let messages come, each from a sender of its own."""
    return spool.put(messages, [os.urandom(16) for _ in messages])


def post(
    address: tuple[str, int], body: bytes, path: str = "/", timeout: float = 20, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Post a message; return status, headers and body."""
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request("POST", path, body, {"Content-Type": REQUEST_TYPE} | headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def health(address: tuple[str, int], **headers: str) -> dict[str, Any]:
    """Return what /healthz has."""
    connection = http.client.HTTPConnection(*address, timeout=20)
    try:
        connection.request("GET", "/healthz", headers=headers)
        content: dict[str, Any] = json.loads(connection.getresponse().read())
        return content
    finally:
        connection.close()


@dataclass
class Part:
    """One part of a release, as it came."""

    release: Release
    headers: dict[str, str]


Judge = Callable[[Release], dict[str, Any] | int]


@dataclass
class ReceivingSide:
    """What stands for a collector: it counts each message once, and answers as `judge` has it."""

    judge: Judge
    url: str = ""
    passed: list[tuple[dict[str, str], bytes]] = field(default_factory=list)  # by pass-through
    parts: list[Part] = field(default_factory=list)
    counted: Counter[bytes] = field(default_factory=Counter)  # taken, also more than once
    ids: dict[bytes, set[bytes]] = field(default_factory=dict)  # of each message, the releases it came with
    answer: tuple[int, dict[str, str], bytes] = (200, {"Content-Type": RESPONSE_TYPE}, b"sealed")
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Count a part, and answer."""
        release = read_release(body)
        with self.lock:
            self.parts.append(Part(release, headers))
            for one in release.messages:
                self.ids.setdefault(one, set()).add(release.id)
            outcome = self.judge(release)
            if isinstance(outcome, int):
                return outcome, {}, b""
            self.counted.update(one for n, one in enumerate(release.messages) if n not in outcome["again"])
        return 200, {"Content-Type": "application/json"}, json.dumps(outcome).encode()


def take_all(release: Release) -> dict[str, Any]:
    """Answer that everything was taken."""
    return {"taken": len(release.messages), "refused": {}, "again": []}


@contextmanager
def receiving(judge: Judge = take_all) -> Iterator[ReceivingSide]:
    """Listen as a collector would."""
    side = ReceivingSide(judge)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = dict(self.headers.items())
            if self.path == "/v1/oblivious/release" and headers.get("Content-Type") == RELEASE_TYPE:
                status, more, content = side.take(headers, body)
            elif self.path == "/v1/oblivious":
                side.passed.append((headers, body))
                status, more, content = side.answer
            else:
                status, more, content = 404, {}, b""
            self.send_response(status)
            for name, value in (more | {"Content-Length": str(len(content))}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A relay that is killed leaves connections open."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    side.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield side
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def relaying(gateway: str, *options: str, log: Path | None = None, **more: Any) -> Iterator[RelayProcess]:
    """Run a relay until the end of the block."""
    relay = RelayProcess(gateway, options, **more)
    relay.start(log)
    try:
        yield relay
    finally:
        if relay._process is not None:
            relay.kill()
