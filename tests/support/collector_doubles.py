"""Stand-ins for a collector, good and bad: in process, and as a real HTTP server."""

import json
import socket
import socketserver
import ssl
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from overstory.client.upload.http import Request, Response
from overstory.protocol.wire.reasons import Reason, problem_type
from overstory.protocol.wire.upload import Upload, decode_uploads


def accepted(body: bytes, *, duplicate: bool = False) -> bytes:
    """What a collector answers when it takes everything."""
    results = [
        {"batch": upload.batch.hex(), "accepted": int(not duplicate), "duplicate": duplicate, "reason": None}
        for upload in decode_uploads(body, 999)
    ]
    return json.dumps({"results": results}).encode()


def refusal(reason: Reason, results: Sequence[Any] = ()) -> Response:
    """What a collector answers when it refuses a whole request."""
    problem = {"type": problem_type(reason), "status": reason.status, "detail": reason.detail, "reason": reason}
    return Response(reason.status, {}, json.dumps(problem | {"results": [*results]}).encode())


def after(*answers: Response) -> Callable[[Request], Response | None]:
    """Give these answers, one to each request; then the collector's own."""
    left = list(answers)
    return lambda _: left.pop(0) if left else None


@dataclass
class CountingCollector:
    """A transport to one that counts every batch id once, as a real one does, and remembers every request."""

    answer: Callable[[Request], Response | None] = lambda _: None  # an answer in place of its own, where it is one
    requests: list[Request] = field(default_factory=list)
    counted: dict[bytes, Upload] = field(default_factory=dict)

    def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answer(request)
        if answer is not None:
            return answer
        results = []
        for upload in decode_uploads(request.body, 10_000):
            again = upload.batch in self.counted
            self.counted.setdefault(upload.batch, upload)
            results.append({"batch": upload.batch.hex(), "accepted": int(not again), "duplicate": again})
        return Response(200, {}, json.dumps({"results": results}).encode())

    @property
    def bodies(self) -> list[bytes]:
        return [request.body for request in self.requests]


@dataclass
class Heard:  # one request as it came over the wire
    head: bytes
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}


Reply = Callable[[socket.socket, Heard], None]


def replying(raw: bytes) -> Reply:
    return lambda connection, heard: connection.sendall(raw)


def http(status: int, body: bytes = b"", **headers) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


class BadServer(socketserver.ThreadingTCPServer):  # a socket that answers whatever it is told to
    def __init__(self, reply: Reply, context: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self.reply, self.context = reply, context  # the context for TLS
        self.heard: list[Heard] = []
        self.connections, self.port = 0, self.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def finish_request(self, request, client_address) -> None:
        self.connections += 1
        request.settimeout(10)
        with request if self.context is None else self.context.wrap_socket(request, server_side=True) as connection:
            heard = hear(connection)
            self.heard.append(heard)
            self.reply(connection, heard)

    def handle_error(self, request, client_address) -> None:
        """Say nothing of a client that went away or never spoke."""
        if not isinstance(sys.exc_info()[1], OSError | ValueError):
            super().handle_error(request, client_address)


def hear(connection: socket.socket) -> Heard:
    raw = b""
    while b"\r\n\r\n" not in raw:
        more = connection.recv(4096)
        if not more:
            raise ValueError("the request ended early")
        raw += more
    head, _, body = raw.partition(b"\r\n\r\n")
    heard = Heard(head, body)
    length = int(heard.headers.get("content-length", "0"))
    while len(heard.body) < length:
        heard.body += connection.recv(4096)
    return heard


@contextmanager
def bad_server(reply: Reply, context: ssl.SSLContext | None = None) -> Iterator[BadServer]:
    with BadServer(reply, context) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(5)
