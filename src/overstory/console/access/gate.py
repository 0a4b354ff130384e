"""The gate that every request passes: its Host, where it comes from, and who sent it."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from overstory.collector.auth import sha256
from overstory.console.access.origin import SAFE_METHODS, Origin
from overstory.console.access.roles import TokenRoles, TrustedProxy, UntrustedHeaderError, allows
from overstory.console.access.sessions import Cookie, Session, Sessions
from overstory.console.view import ScreenError, Viewer


@dataclass(frozen=True, slots=True)
class Gate:
    """Decides about a request before any screen sees it; each error is a `ScreenError` with its status."""

    origin: Origin
    sessions: Sessions
    cookie: Cookie
    tokens: TokenRoles
    proxy: TrustedProxy | None = None

    def check(self, request: Request) -> None:
        """Refuse a request for another host, a forged header, and a change that no page of the console asked for."""
        if len(request.headers.getlist("host")) != 1 or not self.origin.serves(request.headers["host"]):
            raise ScreenError(421, "this console has another name: open it by the address that it printed")
        self._proxied(request)
        if request.method not in SAFE_METHODS and not self.origin.may_change(
            request.headers, has_bearer=bool(_bearer(request))
        ):
            raise ScreenError(
                403, "this form was sent from another site: open the page in the console and send it there"
            )

    def viewer(self, request: Request) -> Viewer | None:
        """Return who sent a request, None for anybody. Blocks while the store's tokens are read."""
        bearer = _bearer(request)
        if bearer:
            return self.tokens.role_of(sha256(bearer))
        session = self.sessions.find(self.cookie.read(request.headers.get("cookie", "")))
        if session is None:
            return self._proxied(request)
        return session.viewer if session.token is None else self.tokens.role_of(session.token)

    def admit(self, request: Request, needed: Viewer | None) -> Viewer | None:
        """Return who sent a request, if that is enough; blocks while the store's tokens are read.

        Raises
        ------
        ScreenError
            401 for somebody who must log in, 403 for somebody whose role is not enough.
        """
        viewer = self.viewer(request)
        if needed is None or (viewer is not None and allows(viewer, needed)):
            return viewer
        if viewer is None:
            raise ScreenError(401, "log in to see this page")
        raise ScreenError(403, f"this needs the role {needed}; yours is {viewer}")

    def log_in(self, token: str) -> str | None:
        """Return the id of a new session for a link's token or a token of the store; None: neither. Blocks."""
        session = self.sessions.use_link(token)
        if session is None:
            key = sha256(token)
            viewer = self.tokens.role_of(key)
            session = None if viewer is None else Session(viewer, key)
        return None if session is None else self.sessions.begin(session)

    def _proxied(self, request: Request) -> Viewer | None:
        if self.proxy is None:
            return None
        server = request.scope.get("server")
        client = request.client.host if request.client else None
        try:
            return self.proxy.role(
                request.headers.getlist(self.proxy.header), client, None if server is None else str(server[0])
            )
        except UntrustedHeaderError as error:
            raise ScreenError(400, str(error)) from None


def _bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
