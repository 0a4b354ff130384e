"""Domain-separated contexts: what a derived value is for, said without ambiguity."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def context(*parts: bytes | str | int) -> bytes:
    """Join `parts` so that different parts never give the same bytes: each is preceded by its kind and length.

    Examples
    --------
    >>> context("ab", "c") != context("a", "bc")
    True
    >>> context(1) != context("1")
    True
    """
    out = bytearray()
    for part in parts:
        if isinstance(part, int):
            raw, kind = str(part).encode(), b"i"
        elif isinstance(part, str):
            raw, kind = part.encode("utf-8", "surrogatepass"), b"s"
        else:
            raw, kind = part, b"b"
        out += kind + len(raw).to_bytes(8, "little") + raw
    return bytes(out)


def canonical(parameters: Mapping[str, Any]) -> str:
    """Write `parameters` in their one canonical form: JSON, keys sorted, no spaces.

    Examples
    --------
    >>> canonical({"b": 1, "a": [2, 3]})
    '{"a":[2,3],"b":1}'
    """
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(parameters: Mapping[str, Any]) -> bytes:
    """Return the 16-byte digest of the canonical form; equal digests mean equal parameters."""
    return hashlib.blake2b(canonical(parameters).encode(), digest_size=16, person=b"parameters").digest()
