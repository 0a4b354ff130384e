"""The entries of application/ohttp-keys (RFC 9458, section 3), read without any cipher, as a registry checks them."""

from __future__ import annotations

from typing import Final, NamedTuple

from overstory.protocol.errors import WireError

X25519_KEM: Final = 0x0020  # DHKEM(X25519, HKDF-SHA256)
KEY_BYTES: Final = 32
HEAD_BYTES: Final = 3  # the key's id and its KEM


class Entry(NamedTuple):
    """A key as a list states it."""

    key_id: int
    kem: int
    public: bytes = b""  # empty for a KEM other than X25519, whose keys have another length
    suites: tuple[tuple[int, int], ...] = ()  # the pairs of KDF and cipher that its owner takes


def read_entries(raw: bytes) -> tuple[Entry, ...]:
    """Read the entries of a list of keys, in its order; WireError where the bytes are no such list.

    >>> listed = bytes.fromhex("0029" + "01" + "0020" + "11" * 32 + "0004" + "0001" + "0003")
    >>> [(entry.key_id, entry.suites) for entry in read_entries(listed)]
    [(1, ((1, 3),))]
    """
    entries, at = [], 0
    while at < len(raw):
        length = int.from_bytes(raw[at : at + 2], "big")
        entry = raw[at + 2 : at + 2 + length]
        if len(entry) != length or length < HEAD_BYTES:
            raise WireError("oblivious", "the list of keys is cut off")
        entries.append(_read_entry(entry))
        at += 2 + length
    return tuple(entries)


def _read_entry(entry: bytes) -> Entry:
    key_id, kem = entry[0], int.from_bytes(entry[1:HEAD_BYTES], "big")
    if kem != X25519_KEM:
        return Entry(key_id, kem)
    public, rest = entry[HEAD_BYTES : HEAD_BYTES + KEY_BYTES], entry[HEAD_BYTES + KEY_BYTES :]
    length, pairs = int.from_bytes(rest[:2], "big"), rest[2:]
    if len(public) != KEY_BYTES or len(pairs) != length or length % 4:
        raise WireError("oblivious", "a key of the list is cut off")
    numbers = [int.from_bytes(pairs[i : i + 2], "big") for i in range(0, length, 2)]
    return Entry(key_id, kem, public, tuple(zip(numbers[::2], numbers[1::2], strict=True)))
