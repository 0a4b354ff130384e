"""A request's body as its bytes: compression undone, never beyond a bound."""

from __future__ import annotations

import zlib
from typing import Final

from overstory.protocol.errors import WireError

_WINDOW_BITS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


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
    inflater = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        inflated = inflater.decompress(body, most + 1)
    except zlib.error:
        raise WireError("damaged", f"the body is not {encoding}") from None
    if len(inflated) > most:
        raise WireError("too-large", f"the body inflates to more than {most} bytes: send smaller batches")
    if not inflater.eof or inflater.unused_data:
        raise WireError("damaged", f"the body is not one complete {encoding} stream")
    return inflated
