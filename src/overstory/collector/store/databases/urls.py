"""A store's URL: what it names, and how it is shown, without its passwords."""

from __future__ import annotations

from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from overstory.collector.store.databases.database import StoreError

FORMS: Final = "sqlite:///FILE (or a file's name), or postgresql://USER@HOST/DATABASE"

SECRETS: Final = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"},
)
"""The parameters of libpq whose values nobody else may read."""

HIDDEN: Final = "***"


def parse_url(text: str) -> URL:
    """Return what names a store: a URL, or a file's name."""
    url = _url(text)
    kind = url.get_backend_name()
    unclear = kind == "sqlite" and (url.host or url.query)  # sqlite://folder/FILE lacks a slash
    if kind not in {"sqlite", "postgresql"} or url.database in {None, "", ":memory:"} or unclear:
        raise StoreError(f"a store is named by {FORMS}; not {shown(url)}")
    return url


def _url(text: str) -> URL:
    if "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        return make_url(text)
    except (ArgumentError, ValueError) as error:  # neither is shown: they may quote a password
        raise StoreError(f"a store is named by {FORMS}") from error


def shown(url: URL) -> str:
    """Return a URL with its passwords hidden: that of the user, and those in its parameters."""
    hidden = url.update_query_dict(dict.fromkeys(_secrets(url), HIDDEN))
    return hidden.render_as_string(hide_password=True).replace("=%2A%2A%2A", f"={HIDDEN}")


def shown_text(text: str) -> str:
    """Return what a store is named by, as given, with passwords hidden."""
    return shown(_url(text)) if "://" in text else text


def has_password(text: str) -> bool:
    """Whether a store's URL holds a password, wherever in it; False where it is no URL: opening the store says so."""
    try:
        url = _url(text)
    except StoreError:
        return False
    return bool(url.password or _secrets(url))


def _secrets(url: URL) -> list[str]:
    return [name for name in url.query if name.lower() in SECRETS]
