"""The view as a local page: this machine alone, behind a random path, for as long as the command runs."""

from __future__ import annotations

import hmac
import secrets
import sys
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from overstory.presentation.render_html import policy_of
from overstory.protocol.errors import OverstoryError

HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class LocalPage(ThreadingHTTPServer):
    """A server of one page, behind a random path that another user of this machine cannot guess."""

    daemon_threads = True

    def __init__(self, page: Callable[[], str], style: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = page
        self.headers = {"Content-Security-Policy": f"{policy_of(style)}; frame-ancestors 'none'"} | HEADERS
        self.path = f"/{secrets.token_urlsafe(24)}/"
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a browser that went away in the middle."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD of the one path, for the right host."""

    server: LocalPage
    timeout = 10.0
    server_version, sys_version = "overstory", ""

    def do_GET(self) -> None:
        if self.headers.get_all("Host") not in [[host] for host in self.server.hosts]:
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "This page is for this machine alone.")
        elif not hmac.compare_digest(self.path.encode(), self.server.path.encode()):
            self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.")
        else:
            try:
                page = self.server.page()
            except OverstoryError as error:
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
            else:
                self._answer(HTTPStatus.OK, page, "text/html; charset=utf-8")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _answer(self, status: HTTPStatus, text: str, media_type: str = "text/plain; charset=utf-8") -> None:
        body = text.encode("utf-8", "backslashreplace")
        self.send_response_only(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing: the path is a secret."""
