"""The address of a daemon: a socket to bind, a certificate to check."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from overstory.protocol.errors import OverstoryError
from overstory.protocol.wire import is_loopback


class ServingError(OverstoryError):
    """A daemon that cannot listen or cannot start."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Upper bounds of one connection."""

    reading_seconds: float = 30.0  # until a request has arrived completely
    taking_seconds: float = 30.0  # until a sender has read an answer
    head_bytes: int = 32 * 1024  # the head of a request, and its trailers


@dataclass(frozen=True, slots=True)
class Listening:
    """The address that a daemon listens on, and its TLS certificate."""

    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free port
    certificate: Path | None = None  # PEM files, for TLS; None: plain HTTP, for a proxy on the same machine
    key: Path | None = None
    # Seconds between the signal to end and the end of listening: posts are refused with Retry-After meanwhile, and a
    # load balancer sees that this collector is not ready.
    grace: float = 1.0

    @property
    def exposed(self) -> bool:
        """Whether tokens and reports would cross a network unencrypted."""
        return self.certificate is None and not is_loopback(self.host)

    def bind(self, taking_seconds: float | None = None, backlog: int | None = None) -> socket.socket:
        """Return a bound socket, listening where `backlog` is given; unread answers end its connections in time."""
        try:
            addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = addresses[0]
            bound = socket.socket(family, socket.SOCK_STREAM)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if taking_seconds is not None and hasattr(socket, "TCP_USER_TIMEOUT"):
                # Also connections that the process has closed. (Linux.)
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1000 * taking_seconds))
            bound.bind(address)
            if backlog is not None:
                bound.listen(backlog)
        except (OSError, OverflowError, UnicodeError) as error:  # the name of no host
            reason = getattr(error, "strerror", None) or str(error)
            raise ServingError(f"cannot listen on {self.host}:{self.port}: {reason}") from error
        return bound

    def address(self, bound: socket.socket) -> str:
        host, port = bound.getsockname()[:2]
        return f"{'http' if self.certificate is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"

    def check_certificate(self) -> None:
        """Raise `ServingError` unless the files of TLS can be read and belong together."""
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise ServingError(f"{file}: there is no such file; TLS needs a certificate and its key in PEM")
        if self.certificate is None:
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except OSError as error:  # an SSLError is one
            raise ServingError(f"{self.certificate}: no certificate and key that belong together: {error}") from error
