"""The address of a collector: a socket to bind, a certificate to check, a queue of connections to look at."""

from __future__ import annotations

import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

from overstory.collector.settings import Limits
from overstory.protocol.errors import OverstoryError
from overstory.protocol.wire.addresses import is_loopback


class ServingError(OverstoryError):
    """A collector that cannot listen or cannot start."""


@dataclass(frozen=True, slots=True)
class Listening:
    """The address that a collector listens on, and its TLS certificate."""

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

    def bind(self, limits: Limits | None = None) -> socket.socket:
        """Return a socket that is bound to the address."""
        taking = round(1000 * (limits or Limits()).taking_seconds)
        try:
            addresses = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, _, _, _, address = addresses[0]
            bound = socket.socket(family, socket.SOCK_STREAM)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                # Its connections end when answers are not read, also those that the process has closed. (Linux.)
                bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, taking)
            bound.bind(address)
        except (OSError, OverflowError, UnicodeError) as error:  # the name of no host
            reason = getattr(error, "strerror", None) or str(error)
            raise ServingError(f"cannot listen on {self.host}:{self.port}: {reason}") from error
        return bound

    def check_certificate(self) -> None:
        """Check that certificate and key can be read and belong together, before anything uses them."""
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise ServingError(f"{file}: there is no such file; TLS needs a certificate and its key in PEM")
        if self.certificate is None:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except OSError as error:  # an SSLError is one
            raise ServingError(f"{self.certificate}: no certificate and key that belong together: {error}") from error


def queued(listening: socket.socket) -> int:
    """Return the number of connections that wait to be accepted; 0 where the system does not report it."""
    if not sys.platform.startswith("linux"):
        return 0
    # struct tcp_info: 8 bytes, then rto, ato, snd_mss, rcv_mss and unacked, which of a listening socket is its queue.
    info = listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    return int.from_bytes(info[24:28], sys.byteorder)
