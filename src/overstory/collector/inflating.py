"""A request's body as its bytes: compression undone, never beyond a bound."""

from __future__ import annotations

import zlib
from typing import Final

from overstory.protocol.errors import WireError

_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}

MEMBERS: Final = 16
"""A gzip body may have several members (RFC 1952, 2.2), up to so many."""


def inflate(body: bytes, encoding: str, most: int) -> bytes:
    """Return the body that `encoding` (a Content-Encoding: gzip, deflate, identity or nothing) stands for.

    No more than `most` bytes are ever inflated, whatever the body announces.

    Raises
    ------
    WireError
        With the reason `wrong-type` for another encoding, `too-large` beyond `most`, `damaged` for anything that is
        not one complete compressed stream.

    Examples
    --------
    >>> inflate(zlib.compress(bytes(1000)), "deflate", 1000) == bytes(1000)
    True
    >>> inflate(zlib.compress(bytes(1001)), "deflate", 1000)
    Traceback (most recent call last):
        ...
    overstory.protocol.errors.WireError: the body inflates to more than 1000 bytes: send smaller batches
    """
    if encoding in {"", "identity"}:
        return body
    if encoding not in _WINDOW_BITS:
        raise WireError("wrong-type", f"Content-Encoding {encoding!r:.40} is not read here: send gzip or deflate")
    inflated, rest = bytearray(), body
    for _ in range(MEMBERS if encoding != "deflate" else 1):
        inflater = zlib.decompressobj(_WINDOW_BITS[encoding])
        try:
            inflated += inflater.decompress(rest, most + 1 - len(inflated))
        except zlib.error:
            raise WireError("damaged", f"the body is not {encoding}") from None
        if len(inflated) > most:
            raise WireError("too-large", f"the body inflates to more than {most} bytes: send smaller batches")
        rest = inflater.unused_data
        if inflater.eof and not rest:
            return bytes(inflated)
    raise WireError("damaged", f"the body is not one complete {encoding} stream")
