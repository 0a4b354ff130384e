"""Logging in and out: by a one-time link, or by a token of the store."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.responses import Response

from overstory.console.forms import read_form
from overstory.console.layout import error_view
from overstory.console.view import View
from overstory.presentation.document import Block, Field, Form, Heading, Paragraph

if TYPE_CHECKING:
    from overstory.console.app import Console

HOME: Final = "/m/"

_OWN_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
"""An address on this console: two slashes, or a backslash, would lead to another host."""


def login_blocks(then: str) -> tuple[Block, ...]:
    """Return the form that asks for a link or a token, and then leads to `then`."""
    fields = (
        Field("token", "Link or token", kind="password", hint="A link works once, within ten minutes of its making."),
        Field("then", "", then, kind="hidden"),
    )
    return (
        Paragraph(
            "Open the link that `overstory console` printed, or paste it here. A token of the role viewer, analyst or "
            "admin works as well: `overstory store tokens add`."
        ),
        Form("Log in", fields, "Log in", "/login", "post"),
    )


async def log_in(console: Console, request: Request) -> Response:
    """Show the form; take a link's token or a token of the store, and set the session's cookie."""
    if request.method != "POST":
        view = View("Log in", (Heading(1, "Log in"), *login_blocks(_then(request.query_params.get("then", "")))))
        return console.page(view, request, None, {})
    fields = await read_form(request)
    token, then = fields.get("token", "").rpartition("#")[2].strip(), _then(fields.get("then", ""))
    session_id = await console.in_thread(lambda: console.gate.log_in(token))
    if session_id is None:
        detail = "This link or token does not work: it was used, has expired, was revoked, or is for a program."
        return console.page(error_view(403, "Not logged in", detail, login_blocks(then)), request, None, {})
    return _redirect(then, console.gate.cookie.header_values(session_id))


async def log_out(console: Console, request: Request) -> Response:
    """End the session."""
    console.gate.sessions.end(console.gate.cookie.read(request.headers.get("cookie", "")))
    return _redirect("/", console.gate.cookie.header_values(""))


def _then(address: str) -> str:
    return address if _OWN_PATH.fullmatch(address) and not address.startswith("/login") else HOME


def _redirect(address: str, cookies: list[str]) -> Response:
    answer = Response(status_code=303, headers={"location": address})
    for cookie in cookies:
        answer.headers.append("set-cookie", cookie)
    return answer
