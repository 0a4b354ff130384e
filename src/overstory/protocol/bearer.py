"""Bearer tokens, as they go into a header: what a device, a gateway and a reader of counts show to a collector."""

from __future__ import annotations

from overstory.protocol.errors import ParameterError


def check_token(token: str) -> str:
    """Return `token`, or raise ParameterError unless it can stand in a header.

    Examples
    --------
    >>> check_token("ovs-w-4f1c")
    'ovs-w-4f1c'
    """
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise ParameterError("token: give it as it was handed out, printable ASCII without spaces")
    return token
