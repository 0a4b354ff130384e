"""How bytes reach a collector: one POST on a connection of its own, that never raises and never outstays its time.

A request says as little as HTTP lets it: no name or version of a program, no languages, no cookies, and no connection
shared with another report. Certificates are verified, always. Redirects are not followed: they are answers.
"""

from __future__ import annotations

import base64
import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, unquote, urlsplit

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

MOST_READ: Final = 1 << 16  # bytes of an answer: a collector's are a few hundred
PATH: Final = "/v1/reports"


@dataclass(frozen=True)
class Request:
    """What is sent, and how long it may take.

    Attributes
    ----------
    body, media_type
        The bytes, and what they are.
    """

    url: str  # the whole address that is posted to
    body: bytes
    media_type: str
    token: str = field(default="", repr=False)  # the application's write token, public by nature; none when empty
    timeout: float = 30.0  # seconds, for everything together

    def headers(self) -> dict[str, str]:
        """Return every header of the request apart from Host and Content-Length, which follow from it."""
        asked = {"Content-Type": self.media_type, "Connection": "close"}
        return asked | ({"Authorization": f"Bearer {self.token}"} if self.token else {})


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int | None  # the HTTP status; None when there was no answer that HTTP allows
    headers: Mapping[str, str] = field(default_factory=dict)  # by their names in lower case
    body: bytes = b""  # at most `MOST_READ` bytes
    trouble: str = ""  # why there was no answer, in a few words


Transport = Callable[[Request], Answer]
"""Whatever delivers a request. It does not raise: no answer is an answer too."""


def endpoint(server: str) -> str:
    """Return the address that a collector takes reports at.

    Examples
    --------
    >>> endpoint("https://collector.example/")
    'https://collector.example/v1/reports'
    """
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
    """Return the transport over HTTP and HTTPS, through the proxy that the environment names, if any.

    Parameters
    ----------
    environ
        Where HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are looked up: the process's, unless given.
    """
    named = os.environ if environ is None else environ

    def send(request: Request) -> Answer:
        return _within(request.timeout, _Exchange(request, proxy_of(request.url, named)))

    return send


def proxy_of(url: str, environ: Mapping[str, str]) -> str | None:
    """Return the address of the proxy for `url`, as the environment has it; lower-case names come first.

    Examples
    --------
    >>> proxy_of("https://collector.example/", {"HTTPS_PROXY": "proxy:3128", "NO_PROXY": "localhost"})
    'http://proxy:3128'
    """
    parts = urlsplit(url)
    # A CGI program's HTTP_PROXY is a header of whoever asked, no setting of this machine.
    names = [parts.scheme, "all"] if parts.scheme == "https" or "REQUEST_METHOD" not in environ else ["all"]
    keys = [form for name in names for form in (f"{name}_proxy", f"{name}_proxy".upper())]
    named = next((environ[key] for key in keys if environ.get(key)), None)
    if named is None or _direct(parts, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    return named if "://" in named else f"http://{named}"


def _direct(parts: SplitResult, listed: str) -> bool:
    """Whether a list such as ``localhost, .example.org`` names the host, its port too or not, or a domain above it."""
    host, netloc = (parts.hostname or "").lower(), parts.netloc.lower()
    names = [name.strip().lower().lstrip(".") for name in listed.split(",")]
    return "*" in names or any(name and (name in {host, netloc} or host.endswith(f".{name}")) for name in names)


class _Exchange:
    """One request and its answer, on one connection; `cut` ends it from another thread."""

    def __init__(self, request: Request, proxy: str | None) -> None:
        self.request, self._proxy = request, proxy
        self._connection: HTTPConnection | None = None

    def __call__(self) -> Answer:
        import http.client
        import ssl

        try:
            return self._exchanged()
        except ssl.SSLCertVerificationError as error:
            return Answer(None, trouble=f"the server's certificate is not to be trusted: {error.verify_message}")
        except TimeoutError:
            return Answer(None, trouble="no answer in time")
        except (http.client.HTTPException, ValueError):
            return Answer(None, trouble="the answer is not HTTP")
        except OSError as error:
            return Answer(None, trouble=f"no connection: {error.strerror or error}")
        finally:
            if self._connection is not None:
                self._connection.close()

    def _exchanged(self) -> Answer:
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
        """Choose the connection; return what to ask it for, and with which headers."""
        url = urlsplit(self.request.url)
        path = url.path or "/"
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
        # A proxy in front of TLS has a port of its own kind.
        port = to.port or (443 if to.scheme == "https" else 80)
        context = ssl.create_default_context()
        return http.client.HTTPSConnection(to.hostname or "", port, timeout=timeout, context=context)

    def cut(self) -> None:
        """End the connection, so that whoever waits on it wakes up."""
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


def _read(response: HTTPResponse) -> Answer:
    if response.status == 407:
        return Answer(None, trouble="the proxy asks for a password")  # the collector has not answered
    body = response.read(MOST_READ + 1)
    if len(body) > MOST_READ:
        return Answer(None, trouble="the answer is too long")
    if getattr(response, "length", None):
        return Answer(None, trouble="the answer ended early")
    return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, body)


def _within(seconds: float, exchange: _Exchange) -> Answer:
    """Return the exchange's answer, or give it up when its time is over.

    A socket's own timeout bounds one step, not their sum, and no step of a name's resolution. So a thread does it, and
    is left behind where it hangs: it changes nothing but its own answer.
    """
    answers: list[Answer] = []

    def run() -> None:
        answers.append(exchange())

    thread = threading.Thread(target=run, name="overstory-upload", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is leaving, or there are too many threads
        return exchange()
    thread.join(seconds)
    if answers:
        return answers[0]
    exchange.cut()
    return Answer(None, trouble="no answer in time")


def said(answer: Answer) -> dict[str, Any] | None:
    """Return an answer's JSON object, or None when it is none.

    Examples
    --------
    >>> said(Answer(200, {}, b'{"results": []}')), said(Answer(200, {}, b"<html>Please log in</html>"))
    ({'results': []}, None)
    """
    import json

    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
