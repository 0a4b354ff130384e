"""The receiving side of Oblivious HTTP, written with `cryptography` and from the RFCs alone, and hops that remember.

Nothing of `overstory.protocol.oblivious` is used here: what a device sends is opened by other code than made it.
"""

import hashlib
import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

CIPHERS = {1: (AESGCM, 16), 3: (ChaCha20Poly1305, 32)}
REQUEST_TYPE, RESPONSE_TYPE = "message/ohttp-req", "message/ohttp-res"


def two(number: int) -> bytes:
    return number.to_bytes(2, "big")


def labeled_extract(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    return hmac.new(salt or bytes(32), b"HPKE-v1" + suite + label + secret, hashlib.sha256).digest()


def labeled_expand(suite: bytes, key: bytes, label: bytes, info: bytes, length: int) -> bytes:
    return HKDFExpand(SHA256(), length, two(length) + b"HPKE-v1" + suite + label + info).derive(key)


@dataclass
class Receiver:  # a gateway's private key
    private: X25519PrivateKey = field(default_factory=X25519PrivateKey.generate)
    key_id: int = 1
    ciphers: tuple[int, ...] = (3,)

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def keys(self) -> bytes:
        """The list of this key alone, as application/ohttp-keys."""
        suites = b"".join(two(1) + two(cipher) for cipher in self.ciphers)
        entry = bytes([self.key_id]) + two(0x20) + self.public + two(len(suites)) + suites
        return two(len(entry)) + entry

    def open(self, message: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
        """Return what is inside a message, and what seals an answer to it; raise where it does not open."""
        header, enc, sealed = message[:7], message[7:39], message[39:]
        assert header[:5] == bytes([self.key_id]) + two(0x20) + two(1)
        cipher_number = int.from_bytes(header[5:7], "big")
        cipher, key_bytes = CIPHERS[cipher_number]
        exchanged = self.private.exchange(X25519PublicKey.from_public_bytes(enc))
        kem, suite = b"KEM" + two(0x20), b"HPKE" + two(0x20) + two(1) + two(cipher_number)
        secret = labeled_expand(
            kem, labeled_extract(kem, b"", b"eae_prk", exchanged), b"shared_secret", enc + self.public, 32
        )
        info = labeled_extract(suite, b"", b"info_hash", b"message/bhttp request\0" + header)
        about = b"\0" + labeled_extract(suite, b"", b"psk_id_hash", b"") + info
        base = labeled_extract(suite, secret, b"secret", b"")
        key, nonce = (
            labeled_expand(suite, base, label, about, n) for label, n in ((b"key", key_bytes), (b"base_nonce", 12))
        )
        exporter = labeled_expand(suite, base, b"exp", about, 32)
        exported = labeled_expand(suite, exporter, b"sec", b"message/bhttp response", key_bytes)

        def answer(content: bytes, drawn: bytes | None = None) -> bytes:
            random = secrets.token_bytes(key_bytes) if drawn is None else drawn
            prk = hmac.new(enc + random, exported, hashlib.sha256).digest()
            sealing, once = (
                HKDFExpand(SHA256(), n, label).derive(prk) for n, label in ((key_bytes, b"key"), (12, b"nonce"))
            )
            return random + cipher(sealing).encrypt(once, content, b"")

        return cipher(key).decrypt(nonce, sealed, b""), answer


def read_inner(raw: bytes) -> tuple[list[str], dict[str, str], bytes]:
    """Return the four words of a binary request's head, its fields and its body; check that only zeros follow."""
    at = 0

    def number() -> int:
        nonlocal at
        length = 1 << (raw[at] >> 6)
        value = int.from_bytes(raw[at : at + length], "big") & ((1 << 8 * length - 2) - 1)
        at += length
        return value

    def counted() -> bytes:
        nonlocal at
        length = number()
        at += length
        return raw[at - length : at]

    assert number() == 0
    head = [counted().decode() for _ in range(4)]
    fields, end = {}, number()
    end += at
    while at < end:
        name = counted().decode()
        fields[name] = counted().decode()
    body = counted()
    assert not any(raw[at:])
    return head, fields, body


def inner_response(status: int, body: bytes, **fields: str) -> bytes:
    """Return a binary response of known length; every number in four bytes."""

    def number(value: int) -> bytes:
        return (value | 2 << 30).to_bytes(4, "big")

    def counted(content: bytes) -> bytes:
        return number(len(content)) + content

    listed = b"".join(
        counted(name.replace("_", "-").encode()) + counted(value.encode()) for name, value in fields.items()
    )
    return number(1) + number(status) + counted(listed) + counted(body)


@dataclass
class Heard:  # a request as a hop received it
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def everything(self) -> bytes:
        return json.dumps([self.target, self.headers]).encode() + self.body


Reply = tuple[int, dict[str, str], bytes]


@contextmanager
def hop(answer: Callable[[Heard], Reply]) -> Iterator[tuple[str, list[Heard]]]:
    """Serve on a port of this machine; give the address and all that was received."""
    received: list[Heard] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            heard = Heard(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            received.append(heard)
            status, headers, content = answer(heard)
            self.send_response_only(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A sender that is killed leaves connections open."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def passing_on(gateway: str) -> Callable[[Heard], Reply]:
    """Return what a pass-through relay does: the message and its type go on, and nothing else."""
    target = urlsplit(gateway)

    def answer(heard: Heard) -> Reply:
        connection = HTTPConnection(target.hostname or "", target.port, timeout=10)
        try:
            connection.request("POST", target.path, heard.body, {"Content-Type": heard.headers["content-type"]})
            response = connection.getresponse()
            return response.status, {"Content-Type": response.headers["content-type"]}, response.read()
        finally:
            connection.close()

    return answer


def opening(receiver, collect):
    """Return what a collector's gateway does: open, judge the report inside, and seal the answer."""

    def answer(heard: Heard) -> Reply:
        assert heard.headers["content-type"] == REQUEST_TYPE
        inner, sealed = receiver.open(heard.body)
        _, fields, body = read_inner(inner)
        status, content = collect(fields, body)
        return (
            200,
            {"Content-Type": RESPONSE_TYPE},
            sealed(inner_response(status, content, content_type="application/json")),
        )

    return answer
