"""Sends bytes to a collector: one POST on its own connection, within a time limit, never raising.

A request carries as little as HTTP allows: no program name or version, no languages, no cookies, and no connection
shared with another report. Certificates are always verified. Redirects are not followed.
"""

from __future__ import annotations

import _thread
import base64
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

MOST_READ: Final = 1 << 16  # bytes of an answer: a collector's are a few hundred
PATH: Final = "/v1/reports"


@dataclass(frozen=True)
class Request:
    """The bytes of one POST, and the time that it may take."""

    url: str  # the complete address
    body: bytes
    media_type: str
    token: str = field(default="", repr=False)  # the application's write token, which is public; empty: none
    timeout: float = 30.0  # seconds, for the complete exchange

    def headers(self) -> dict[str, str]:
        """Return every header of the request apart from Host and Content-Length, which follow from it."""
        headers = {"Content-Type": self.media_type, "Connection": "close"}
        return headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


@dataclass(frozen=True)
class Response:
    """A response, or the reason why there was none."""

    status: int | None  # the HTTP status; None when there was no answer that HTTP allows
    headers: Mapping[str, str] = field(default_factory=dict)  # by their names in lower case
    body: bytes = b""  # at most `MOST_READ` bytes
    error: str = ""  # why there was no answer, in a few words
    relay: bool = False  # whether this is what a relay answered, or failed to, and not the collector


Transport = Callable[[Request], Response]
"""Delivers a request and returns the response. It does not raise: see `Response.error`."""


@lru_cache(maxsize=16)
def endpoint(server: str) -> str:
    """Return the address to which reports are posted."""
    try:
        parts = urlsplit(server)
        usable = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or not server.isascii() or not server.isprintable() or " " in server:
        raise ParameterError(f"server = {server!r}: give an address such as https://collector.example")
    if parts.username is not None or parts.query or parts.fragment:
        raise ParameterError(f"server = {server!r}: leave out what is before an @ and after a ? or #")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}{PATH}"


def http_transport(environ: Mapping[str, str] | None = None) -> Transport:
    """Return the transport over HTTP and HTTPS, through the proxy that the environment names, if any."""
    named = os.environ if environ is None else environ

    def send(request: Request) -> Response:
        return with_deadline(request.timeout, _Exchange(request, proxy_of(request.url, named)))

    return send


def proxy_of(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the address of the proxy for `url`, as the environment has it; lower-case names come first."""
    parts = urlsplit(url)
    # In a CGI program HTTP_PROXY comes from the client's Proxy header, and is no setting of this machine.
    names = [parts.scheme, "all"] if parts.scheme == "https" or "REQUEST_METHOD" not in environ else ["all"]
    keys = [form for name in names for form in (f"{name}_proxy", f"{name}_proxy".upper())]
    named = next((environ[key] for key in keys if environ.get(key)), None)
    if named is None or _direct(parts, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    return named if "://" in named else f"http://{named}"


def _direct(parts: SplitResult, listed: str) -> bool:
    """Whether a list such as ``localhost, .example.org`` has the host, with or without port, or a parent domain."""
    host, netloc = (parts.hostname or "").lower(), parts.netloc.lower()
    names = [name.strip().lower().lstrip(".") for name in listed.split(",")]
    return "*" in names or any(name and (name in {host, netloc} or host.endswith(f".{name}")) for name in names)


class _Exchange:
    """One request and its response on one connection; `cut` ends it from another thread."""

    def __init__(self, request: Request, proxy: str | None) -> None:
        self.request, self._proxy = request, proxy
        self._connection: HTTPConnection | None = None

    def __call__(self) -> Response:
        import http.client
        import ssl

        try:
            return self._exchange()
        except ssl.SSLCertVerificationError as error:
            return Response(None, error=f"the server's certificate cannot be trusted: {error.verify_message}")
        except TimeoutError:
            return Response(None, error="no answer in time")
        except (http.client.HTTPException, ValueError):
            return Response(None, error="the answer is not HTTP")
        except OSError as error:
            return Response(None, error=f"no connection: {error.strerror or error}")
        finally:
            if self._connection is not None:
                self._connection.close()

    def _exchange(self) -> Response:
        target, headers = self._connect()
        assert self._connection is not None
        self._connection.putrequest("POST", target, skip_accept_encoding=True)
        for name, value in (headers | self.request.headers()).items():
            self._connection.putheader(name, value)
        self._connection.putheader("Content-Length", str(len(self.request.body)))
        self._connection.endheaders(self.request.body)
        with self._connection.getresponse() as response:
            return _read(response)

    def _connect(self) -> tuple[str, dict[str, str]]:
        url = urlsplit(self.request.url)
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        if self._proxy is None:
            self._connection = self._open(url, secure=url.scheme == "https")
            return path, {}
        proxy = urlsplit(self._proxy)
        if proxy.scheme != "http":
            raise OSError(f"proxies of the kind {proxy.scheme} are not supported")
        self._connection = self._open(proxy, secure=url.scheme == "https")
        if url.scheme == "https":
            self._connection.set_tunnel(url.hostname or "", url.port or 443, headers=_credentials(proxy))
            return path, {}
        return self.request.url, _credentials(proxy)

    def _open(self, to: SplitResult, *, secure: bool) -> HTTPConnection:
        import http.client
        import ssl

        timeout = self.request.timeout
        if not secure:
            return http.client.HTTPConnection(to.hostname or "", to.port, timeout=timeout)
        # The default port is that of the proxy's scheme, not of TLS.
        port = to.port or (443 if to.scheme == "https" else 80)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(to.hostname or "", port, timeout=timeout, context=context)

    def cut(self) -> None:
        """End the connection, so that the thread that waits for it continues."""
        import socket

        connected = getattr(self._connection, "sock", None)
        if connected is not None:
            with contextlib.suppress(OSError):  # it may have ended by itself
                connected.shutdown(socket.SHUT_RDWR)


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _read(response: HTTPResponse) -> Response:
    if response.status == 407:
        return Response(None, error="the proxy asks for a password")  # the collector has not answered
    body = response.read(MOST_READ + 1)
    if len(body) > MOST_READ:
        return Response(None, error="the answer is too long")
    if getattr(response, "length", None):
        return Response(None, error="the answer ended early")
    return Response(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def with_deadline(seconds: float, exchange: _Exchange) -> Response:
    """Return the response, or an error in time: a thread that hangs is abandoned; sockets bound single steps."""
    responses: list[Response] = []
    over = threading.Lock()
    over.acquire()

    def run() -> None:
        try:
            responses.append(exchange())
        finally:
            over.release()

    try:
        # `Thread.start` waits for ever if the new thread has no memory to begin.
        _thread.start_new_thread(run, ())
    except RuntimeError:  # the interpreter is leaving, or there are too many threads
        return exchange()
    over.acquire(timeout=seconds)
    if responses:
        return responses[0]
    exchange.cut()
    return Response(None, error="no answer in time")


def parse_object(response: Response) -> dict[str, Any] | None:
    """Return the JSON object in a response's body; None where there is none, as in a page that asks to log in."""
    import json

    try:
        content = json.loads(response.body)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
