"""A registry of an oblivious metric and a direct one, a file of private keys for it, and devices' sealed requests."""

import json
from datetime import date
from pathlib import Path

from overstory.collector.oblivious.keys import CIPHERS, KeyRing, PrivateKey, public_line
from overstory.protocol.metrics import parse_registry
from overstory.protocol.oblivious.formats import Request, read_response
from overstory.protocol.oblivious.messages import (
    REQUEST_LABEL,
    SealedRequest,
    context_of,
    encapsulated_secret,
    seal_request,
)
from overstory.protocol.wire.upload import MEDIA_TYPE, Upload, encode_reports, encode_upload
from support.collector_in_process import ABOUT, TODAY, batch_id, sound
from support.registry_texts import COLOURS, registry_of

KEYS = (PrivateKey(1, date(2026, 11, 1), bytes(range(1, 33))), PrivateKey(2, date(2026, 11, 23), bytes(range(2, 34))))
RING = KeyRing(KEYS)
ROUTE = f"""
[oblivious]
relay = "https://relay.example.net/"
operator = "Example Relays"
keys = "{public_line(KEYS)}"
"""
REGISTRY = (
    registry_of(
        {
            "hidden": {"domain": COLOURS, "transport": '"oblivious"'},
            "other": {"domain": COLOURS, "transport": '"oblivious"'},
            "plain": {"domain": COLOURS},
        },
        version="2026-11-23",
        **ABOUT,
    )
    + ROUTE
)
METRICS = parse_registry(REGISTRY)


def write_files(folder: Path) -> tuple[Path, Path]:
    """Write the registry and the private keys; return their paths."""
    registry, keys = folder / "metrics.toml", folder / "oblivious.keys"
    registry.write_text(REGISTRY)
    keys.touch(0o600)
    keys.write_text(
        "".join(f'[[keys]]\nid = {k.key_id}\ncreated = {k.created}\nprivate = "{k.private.hex()}"\n' for k in KEYS)
    )
    return registry, keys


def upload(name: str = "hidden", count: int = 1, *, period: int = TODAY, batch: bytes | None = None) -> bytes:
    metric = METRICS[name]
    packed = encode_reports(metric.mechanism, sound(metric, count))
    return encode_upload(Upload(batch or batch_id(), name, period, packed))


def seal(body, *, token=None, key=KEYS[1], method="POST", path="/v1/reports", fields=(("content-type", MEDIA_TYPE),)):
    headers = (*fields, *([] if token is None else [("authorization", f"Bearer {token}")]))
    request = Request(method, "https", "collector.example", path, headers, body)
    return seal_request(request.encode(512), key.public)


def sealed_quickly(body: bytes, *, token: str | None = None) -> bytes:
    """The same as `seal(...).body`, with `cryptography` on the device's side: for many messages."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

    public, cipher, private = KEYS[1].public, CIPHERS[0], X25519PrivateKey.generate()
    header, enc = public.header(cipher.number), private.public_key().public_bytes_raw()
    secret = encapsulated_secret(private.exchange(X25519PublicKey.from_public_bytes(public.public)), enc, public.public)
    context = context_of(cipher, enc, secret, REQUEST_LABEL + header)
    fields = (("content-type", MEDIA_TYPE), *([] if token is None else [("authorization", f"Bearer {token}")]))
    return header + enc + context.seal(Request("POST", "https", "c.example", "/v1/reports", fields, body).encode(512))


def opened(sealed: SealedRequest, body: bytes):
    """Open a response as a device does; return it, and its JSON."""
    response = read_response(sealed.open(body))
    return response, json.loads(response.body)
