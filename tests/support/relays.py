"""Real relays, their senders, and a collector's side that counts what comes."""

import argparse
import asyncio
import http.client
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from overstory.cli.service import relay
from overstory.cli.service.commands import RELAY
from overstory.client.upload.http import Request, Response
from overstory.protocol.oblivious.formats import RELEASE_TYPE, REQUEST_TYPE, RESPONSE_TYPE, Release, read_release
from overstory.relay.process import Settings
from overstory.relay.shuffling import Shuffler
from overstory.relay.spool import Rules, Spool, Taken
from overstory.supervision.answers import ON_ALL
from overstory.supervision.clock import TRIAL, ClockWatch
from support.listening_process import ListeningProcess, assigned
from support.oblivious_receiver import Heard, Reply, hop

TOKEN = "ovr_a-token-of-a-relay"


@dataclass
class RelayProcess(ListeningProcess):  # one `overstory relay`
    gateway: str
    options: Sequence[str] = ()
    program: Sequence[str] = (sys.executable, "-m", "overstory", "relay")
    said: list[str] = field(default_factory=list, init=False)

    def command(self) -> list[str]:
        return [*self.program, "--gateway", self.gateway, "--port", "0", *self.options]


def settings_of(command: Sequence[str], folder: Path) -> Settings:
    """Return what a relay reads from its command line; its token is a file of this folder, and it has no TLS."""
    parser = argparse.ArgumentParser()
    RELAY.add_to(parser.add_subparsers(dest="command"))
    words, variables = assigned(command)
    args = parser.parse_args(words)
    assert args.command == "relay"
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    own = {"TOKEN_FILE": str(token), "TLS_CERTIFICATE": "", "TLS_KEY": ""}
    with patch.dict(os.environ, variables | {f"OVERSTORY_RELAY_{name}": value for name, value in own.items()}):
        return relay.read_settings(args)


def shuffling(folder: Path, *more: str, least: int = 10, every: str = "1s") -> list[str]:
    """Return the options of a shuffling relay whose spool and token lie in a folder."""
    token = folder / "relay-token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    spool = ["--spool", str(folder / "spool"), f"OVERSTORY_RELAY_TOKEN_FILE={token}", "OVERSTORY_RELAY_CAPACITY=2000"]
    limits = ["OVERSTORY_RELAY_PER_HOUR=1000000", "OVERSTORY_RELAY_PER_RELEASE=1000000"]
    return [*spool, f"OVERSTORY_RELAY_LEAST={least}", f"OVERSTORY_RELAY_EVERY={every}", *limits, *more]


class StagedRelay:
    """A shuffling relay without a socket: the test moves its clock, and a collector answers as the test has it."""

    def __init__(self, folder: Path, rules: Rules, capacity: int = 600, now: float = 0.0) -> None:
        self.folder, self.rules, self.capacity, self.now = folder / "spool", rules, capacity, now
        self.sent: list[Release] = []
        self.troubles: list[str] = []
        self.answers: Callable[[Release], Any] = take_all  # a `Response`, or the JSON of one
        self.leap = 0.0  # by how many seconds its wall clock is ahead
        self.open()

    def open(self) -> None:
        """Begin, or go on with the folder that is there."""
        watch = ClockWatch(lambda: self.now + self.leap, lambda: self.now, min(TRIAL, self.rules.at_most / 2))
        self.spool = Spool(self.folder, self.capacity, self.rules, watch)
        self.shuffler = Shuffler(self.spool, "http://collector", TOKEN, self._send, self.troubles.append)

    def restart(self) -> None:
        self.spool.close()
        self.open()

    def _send(self, request: Request) -> Response:
        self.sent.append(read_release(request.body))
        answer = self.answers(self.sent[-1])
        return answer if isinstance(answer, Response) else Response(200, {}, json.dumps(answer).encode())

    @property
    def released(self) -> list[bytes]:
        """All messages of all parts that were sent."""
        return [one for part in self.sent for one in part.messages]

    def deliver(self, *messages: bytes) -> list[int]:
        """Let messages of one sender come at once; return the statuses of their answers."""

        async def taking() -> list[int]:
            answers = await asyncio.gather(*(self.shuffler.deliver(one, b"") for one in messages))
            return [answer.status for answer in answers]

        return asyncio.run(taking())

    def passing(self, seconds: float) -> None:
        """Let time pass, and look at the clock."""
        self.now += seconds
        self.spool.observe()

    def look(self) -> None:
        """Let it release or drop what is due, to the end."""
        while self.shuffler.look() is not None:
            pass

    def run(self, condition: Callable[[], object], seconds: float = 10.0) -> None:
        ends = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < ends, "it did not come to pass in time"
            self.shuffler.look()


COMMON = {name.decode(): value.decode() for name, value in ON_ALL}


def message(serial: int, size: int = 567) -> bytes:
    """Return what looks like an encapsulated request, and has a number of its own."""
    return b"\x01\x00\x20\x00\x01\x00\x03" + serial.to_bytes(8, "big") + os.urandom(size - 15)


def put(spool: Spool, messages: Sequence[bytes]) -> list[Taken]:
    """Let messages come, each from a sender of its own."""
    return spool.put(messages, [os.urandom(16) for _ in messages])


def post(address, body, path="/", timeout=20, **headers):
    connection = http.client.HTTPConnection(*address, timeout=timeout)
    try:
        connection.request("POST", path, body, {"Content-Type": REQUEST_TYPE} | headers)
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


class Senders:
    """Two threads that post messages of their own to a relay, each once, while a block lasts; it can be entered again.

    A message without an answer may have been stored, and is not sent again.
    """

    def __init__(self, relay: RelayProcess, pause: float = 0.0) -> None:
        self.relay, self.pause = relay, pause
        self.acknowledged: set[bytes] = set()
        self.statuses: set[int] = set()
        self._over, self._serials = threading.Event(), iter(range(10**9))
        self._threads: list[threading.Thread] = []

    def _send(self) -> None:
        while not self._over.wait(self.pause):
            self.once()

    def once(self) -> bool:
        address, one = self.relay.address, message(next(self._serials))
        if address is None:
            return False  # it was killed
        try:
            status = post(address, one, timeout=5)[0]
        except (OSError, http.client.HTTPException):
            return False
        self.statuses.add(status)
        if status == 202:
            self.acknowledged.add(one)
        return status == 202

    def __enter__(self) -> Self:
        self._over.clear()
        self._threads = [threading.Thread(target=self._send) for _ in range(2)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)


def raw_post(body: bytes) -> bytes:
    head = f"POST / HTTP/1.1\r\nHost: r\r\nContent-Type: {REQUEST_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def page(address: tuple[str, int], path: str, **headers: str) -> tuple[int, dict[str, Any]]:
    with closing(http.client.HTTPConnection(*address, timeout=20)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def health(address: tuple[str, int], **headers: str) -> dict[str, Any]:
    return page(address, "/healthz", **headers)[1]


@dataclass
class Part:  # one part of a release, as it came
    release: Release
    headers: dict[str, str]


Judge = Callable[[Release], dict[str, Any] | int]


@dataclass
class ReceivingSide:  # what stands for a collector: it counts each message once, and answers as `judge` has it
    judge: Judge
    url: str = ""
    passed: list[tuple[dict[str, str], bytes]] = field(default_factory=list)  # by pass-through
    parts: list[Part] = field(default_factory=list)
    counted: Counter[bytes] = field(default_factory=Counter)  # taken, also more than once
    ids: dict[bytes, set[bytes]] = field(default_factory=dict)  # of each message, the releases it came with
    answer: Reply = (200, {"Content-Type": RESPONSE_TYPE}, b"sealed")
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def releases(self) -> int:
        """How many releases parts came of."""
        with self.lock:
            return len({part.release.id for part in self.parts})

    def take(self, headers: dict[str, str], body: bytes) -> Reply:
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
    return {"taken": len(release.messages), "refused": {}, "again": []}


@contextmanager
def receiving(judge: Judge = take_all) -> Iterator[ReceivingSide]:
    side = ReceivingSide(judge)

    def answer(heard: Heard) -> Reply:
        if heard.target == "/v1/oblivious/release" and heard.headers.get("content-type") == RELEASE_TYPE:
            return side.take(heard.headers, heard.body)
        if heard.target == "/v1/oblivious":
            side.passed.append((heard.headers, heard.body))
            return side.answer
        return 404, {}, b""

    with hop(answer) as (side.url, _):
        yield side


@contextmanager
def relaying(gateway: str, *options: str, log: Path | None = None, **more) -> Iterator[RelayProcess]:
    relay = RelayProcess(gateway, options, **more)
    relay.start(log)
    try:
        yield relay
    finally:
        if relay._process is not None:
            relay.kill()
