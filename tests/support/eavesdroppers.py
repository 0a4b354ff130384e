"""Who listens on the network: connections that are recorded as they pass, and what must not be in the records."""

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from scipy.stats import spearmanr

from overstory.protocol.oblivious.formats import RELEASE_TYPE, read_release

PADDED_TO: Final = 512
AROUND: Final = 55  # bytes of a sealed message around what is padded: its header, a key, and a tag

# |rho| of n ranks in random order exceeds 5.3 / sqrt(n - 1) in about one run in 10^7.
FAR: Final = 5.3


@dataclass
class Recorded:  # one connection: from which address it came, and the bytes of both directions
    source: str
    sent: bytearray = field(default_factory=bytearray)
    received: bytearray = field(default_factory=bytearray)

    @property
    def headers(self) -> dict[str, str]:
        lines = bytes(self.sent).partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> bytes:
        return bytes(self.sent).partition(b"\r\n\r\n")[2]


@dataclass
class Eavesdropper:  # passes connections on, and records them
    to: tuple[str, int]
    source: str = "127.0.0.1"  # of the next connections, as the side that they lead to sees it
    address: tuple[str, int] = ("", 0)
    records: list[Recorded] = field(default_factory=list)

    def carry(self, connected: socket.socket) -> None:
        record = Recorded(self.source)
        self.records.append(record)
        from_here = (record.source, 0)
        with (
            connected,
            contextlib.suppress(OSError),
            socket.create_connection(self.to, 30, source_address=from_here) as further,
        ):
            back = threading.Thread(target=pump, args=(further, connected, record.received))
            back.start()
            pump(connected, further, record.sent)
            back.join()


def pump(source: socket.socket, target: socket.socket, record: bytearray) -> None:
    """Copy bytes in one direction until its end."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            record += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextmanager
def listening_in(to: tuple[str, int]) -> Iterator[Eavesdropper]:
    """Listen on a port of this machine, in the way to another."""
    with socket.create_server(("127.0.0.1", 0), backlog=256) as server:
        eavesdropper = Eavesdropper(to, address=server.getsockname()[:2])

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = server.accept()
                    threading.Thread(target=eavesdropper.carry, args=(connected,), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield eavesdropper
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def held(raw: bytes, secrets: Mapping[str, bytes]) -> list[str]:
    """Return the names of those secrets that bytes hold, also in other letters or as hexadecimal digits."""
    lower = raw.lower()
    return [
        name
        for name, secret in secrets.items()
        if secret.lower() in lower or (len(secret) >= 4 and secret.hex().encode() in lower)
    ]


def spellings(address: str) -> dict[str, bytes]:
    """Return the ways to write an address that may be in a file: as text; four bytes are too few to search for."""
    return {
        f"address {address}": address.encode(),
        f"{address} in hex": ipaddress.ip_address(address).packed.hex().encode(),
    }


def released(passed: Sequence[Recorded]) -> dict[bytes, list[bytes]]:
    """Return the messages of each release, in the order in which they left."""
    messages: dict[bytes, list[bytes]] = {}
    for record in passed:
        if record.headers.get("content-type") == RELEASE_TYPE:
            release = read_release(record.body)
            messages.setdefault(release.id, []).extend(release.messages)
    return messages


def faults(arrived: Sequence[Recorded], passed: Sequence[Recorded], secrets: Mapping[str, bytes]) -> list[str]:
    """Return what the two eavesdroppers of a relay have recorded although they must not."""
    wrong = [f"device to relay: {name}" for one in arrived for name in held(bytes(one.sent + one.received), secrets)]
    for record in arrived:
        if set(record.headers) != {"host", "content-type", "content-length", "connection"}:
            wrong.append(f"device to relay: headers {sorted(record.headers)}")
        if len(record.body) % PADDED_TO != AROUND:
            wrong.append(f"device to relay: a message of {len(record.body)} bytes")
    devices = {name: text for record in arrived for name, text in spellings(record.source).items()}
    wrong += [f"relay to collector: {name}" for one in passed for name in held(bytes(one.sent), {**secrets, **devices})]
    around = {tuple((name, value) for name, value in one.headers.items() if name != "content-length") for one in passed}
    if len(around) != 1:
        wrong.append(f"relay to collector: {len(around)} kinds of headers")
    order = {record.body: place for place, record in enumerate(arrived)}
    for messages in released(passed).values():
        places = [order[message] for message in dict.fromkeys(messages)]
        if len({len(message) for message in messages}) != 1:
            wrong.append("relay to collector: messages of several sizes")
        if abs(spearmanr(range(len(places)), places).statistic) > FAR / (len(places) - 1) ** 0.5:
            wrong.append("relay to collector: the order of arrival")
    return sorted(set(wrong))
