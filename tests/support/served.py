"""A collector that listens on a socket of its own, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import Self

from overstory.collector.server import Server
from overstory.collector.service import Collector
from overstory.collector.settings import Limits
from overstory.supervision.listening import Listening
from support.collector_in_process import METRICS, NEVER, NOW, FakeStore


@contextmanager
def served(limits=None, *, store=None, intervals=None, metrics=METRICS, port=0, **named):
    """A collector on a store in memory, unless another is given, and where it listens."""
    collector = Collector(
        metrics,
        FakeStore() if store is None else store,
        limits=limits,
        intervals=intervals or NEVER,
        **{"open_writes": True, "clock": lambda: NOW} | named,
    )
    listening, ready = Listening(port=port, grace=0.0), threading.Event()
    server = Server(collector, listening, ready.set)
    with listening.bind((limits or Limits()).taking_seconds) as bound:
        thread = threading.Thread(target=server.run, args=([bound],))
        thread.start()
        try:
            assert ready.wait(10)
            yield collector, bound.getsockname()
        finally:
            server.handle_exit(15, None)
            thread.join(30)
    assert not thread.is_alive()
    assert collector.state == "closing"


class Wire:  # a socket that speaks HTTP word by word
    def __init__(self, address: tuple[str, int], timeout: float = 10) -> None:
        self._socket = socket.create_connection(address, timeout)
        self._rest = b""

    def send(self, raw: bytes) -> Wire:
        self._socket.sendall(raw)
        return self

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Read one answer: status, headers, body."""
        status, headers = self.head()
        length = int(headers.get("content-length", "0"))
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return status, headers, body

    def head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        status, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return int(status.split()[1]), headers

    def flood(self, raw: bytes) -> None:
        """Send all of it in a thread of its own, however long it takes to be read, until this is closed."""

        def send() -> None:
            with suppress(OSError):
                self._socket.sendall(raw)

        threading.Thread(target=send, daemon=True).start()

    def half_close(self) -> None:
        """Say that nothing more is sent; answers can still come."""
        self._socket.shutdown(socket.SHUT_WR)

    def rest(self) -> bytes:
        """Read until the other side hangs up."""
        while received := self._socket.recv(65_536):
            self._rest += received
        return self._rest

    def ended(self) -> bool:
        """Whether the other side hung up and sent nothing more."""
        try:
            return not self._rest and self._socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # a flood ends with it
        self._socket.close()

    def _more(self) -> None:
        received = self._socket.recv(65_536)
        assert received, f"hung up after {self._rest!r}"
        self._rest += received

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def post(body: bytes, *more: bytes, length: int | None = None) -> bytes:
    from overstory.protocol.wire.upload import MEDIA_TYPE

    kind = b"Content-Type: " + MEDIA_TYPE.encode()
    size = b"Content-Length: %d" % (len(body) if length is None else length)
    lines = (b"POST /v1/reports HTTP/1.1", b"Host: c", kind, size, *more, b"", b"")
    return b"\r\n".join(lines) + body
