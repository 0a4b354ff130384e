"""Reports by Oblivious HTTP (RFC 9458): encrypted for the collector, and posted to a relay.

The relay learns from which address a message comes, when, and how long it is, a multiple of 512 bytes apart from its
head. The collector learns what is inside. A message has nothing of the device: each has a key of its own.

Every device takes the same cipher, because a relay can read which one it is.
"""

from __future__ import annotations

import time
from dataclasses import replace
from urllib.parse import urlsplit

from overstory.client.upload.http import Request, Response, Transport
from overstory.client.upload.retry import NO_KEY, UNOPENED
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.metrics.oblivious import ObliviousRoute
from overstory.protocol.oblivious import binary_http
from overstory.protocol.oblivious.messages import (
    REQUEST_TYPE,
    RESPONSE_TYPE,
    SealedRequest,
    seal_request,
    usable_key,
)


def oblivious_transport(route: ObliviousRoute, over: Transport) -> Transport:
    """Return the transport that encrypts a request for the collector and posts it to the relay.

    Parameters
    ----------
    route
        The relay, and the collector's keys.
    over
        How the encrypted message travels to the relay.

    Returns
    -------
    Transport
        Its response is the collector's, or, with `relay` true, what came instead of one. Each call encrypts anew.
    """

    def send(request: Request) -> Response:
        began = time.monotonic()
        try:
            sealed = seal_request(inner_request(request).encode(binary_http.PADDED_TO), usable_key(route.keys))
        except (WireError, ParameterError):
            return Response(None, error=NO_KEY, relay=True)
        left = max(request.timeout - (time.monotonic() - began), 0.001)
        return opened(over(Request(route.relay, sealed.body, REQUEST_TYPE, timeout=left)), sealed)

    return send


def inner_request(request: Request) -> binary_http.Request:
    """Return what the collector reads: the request as it would be posted directly."""
    parts = urlsplit(request.url)
    fields = tuple((name, value) for name, value in request.headers().items() if name != "Connection")
    return binary_http.Request("POST", parts.scheme, parts.netloc, parts.path, fields, request.body)


def opened(answer: Response, sealed: SealedRequest) -> Response:
    """Return the collector's response in a relay's answer; the answer itself where there is none in it."""
    encrypted = answer.headers.get("content-type", "").partition(";")[0].strip().lower() == RESPONSE_TYPE
    if answer.status != 200 or not encrypted:
        return replace(answer, relay=True)
    try:
        inner = binary_http.read_response(sealed.open(answer.body))
    except (ParameterError, WireError):
        return Response(None, error=UNOPENED, relay=True)
    return Response(inner.status, {name.lower(): value for name, value in inner.fields}, inner.body)
