"""The page around a view: where else to go, what the figures rest on, and the same view in other forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from overstory.console.access import allows
from overstory.console.view import View, Viewer
from overstory.presentation.document import Block, Form, Heading, KeyValues, Links, Notice
from overstory.presentation.render_html import STYLE, as_html, escaped

STATIC: Final = Path(__file__).parent / "static"

POLICY: Final = "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
"""The Content-Security-Policy of every page: nothing inline, and nothing from elsewhere."""

FORMS: Final = ("json", "csv", "parquet", "svg", "toml")


def static_files() -> dict[str, bytes]:
    """Return the style sheets, scripts and icons by their names."""
    own = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in {".css", ".js", ".svg"}}
    return {"page.css": STYLE.encode(), **own}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page is, and who reads it."""

    path: str
    query: str = ""  # what comes after the question mark
    viewer: Viewer | None = None  # None: somebody who is not logged in
    menu: tuple[tuple[str, str], ...] = ()  # the text and the address of each page that has one address
    rests_on: tuple[tuple[str, str], ...] = ()  # names and texts at the page's foot
    can_leave: bool = False  # there is a session to end
    scripts: tuple[str, ...] = ("console.js",)

    def address(self, form: str = "") -> str:
        path = f"{download_path(self.path)}.{form}" if form else self.path
        return f"{path}?{self.query}" if self.query else path


def download_path(path: str) -> str:
    """Return what comes before the dot of a download's address: ``/m`` of ``/m/``, and ``/index`` of ``/``."""
    return path.rstrip("/") or "/index"


def as_page(view: View, place: Place, files: Sequence[str]) -> str:
    """Return a view as a page; `files` are the static files that there are."""
    refresh = f'<meta http-equiv="refresh" content="{view.refresh}">\n' if view.refresh else ""
    styles = "".join(f'<link rel="stylesheet" href="/static/{name}">\n' for name in files if name.endswith(".css"))
    scripts = "".join(f'<script src="/static/{name}" defer></script>\n' for name in place.scripts if name in files)
    blocks = [block for block in view.blocks if _is_usable(block, place.viewer)]
    if not any(isinstance(block, Heading) and block.level == 1 for block in blocks):
        blocks.insert(0, Heading(1, view.title))
    current = next((text for text, address in place.menu if address == place.path), "")
    leave = [Form("Log out", (), "Log out", "/logout", "post")] if place.can_leave else []
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{refresh}'
        f'<title>{escaped(view.title)} - Overstory</title>\n<link rel="icon" href="/static/icon.svg">\n'
        f'{styles}{scripts}</head>\n<body class="console">\n<a class="skip" href="#main">To the content</a>\n'
        f"<header>{as_html([Links('Console', place.menu, current)])}{as_html(leave)}</header>\n"
        f'<main id="main" tabindex="-1">\n{as_html(blocks)}</main>\n'
        f"<footer>\n{as_html(list(_footer(view, place)))}</footer>\n</body>\n</html>\n"
    )


def _is_usable(block: Block, viewer: Viewer | None) -> bool:
    """Whether a reader can use a block: a form that changes something is for analysts, or for logging in."""
    is_change = isinstance(block, Form) and block.method == "post" and block.action != "/login"
    return not is_change or (viewer is not None and allows(viewer, "analyst"))


def _footer(view: View, place: Place) -> Iterator[Block]:
    if place.rests_on:
        yield KeyValues(place.rests_on)
    if view.status < 400 and (view.table or view.picture or view.facts):
        has = {"json": True, "csv": view.table, "parquet": view.table, "svg": view.picture, "toml": view.toml}
        files = tuple((form.upper(), place.address(form)) for form in FORMS if has[form])
        yield Links("The same as a file", files)


def error_view(status: int, title: str, detail: str, more: Sequence[Block] = ()) -> View:
    """Return the page of an error."""
    return View(title, (Heading(1, title), Notice(detail), *more), status=status)
