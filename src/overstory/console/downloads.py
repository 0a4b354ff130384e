"""A view as a file: JSON, CSV, Parquet or a picture, of the same rows that its page shows."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from overstory.console.view import ScreenError, View
from overstory.presentation.document import Table
from overstory.presentation.formats import finite
from overstory.presentation.render_data import as_csv, as_json, for_spreadsheet
from overstory.presentation.render_svg import as_svg

MEDIA_TYPES: Final = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "svg": "image/svg+xml",
    "toml": "application/toml",
}

_STYLE: Final = re.compile(r"<style[^>]*>(.*?)</style>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Download:
    """The body of a file, its media type, and the headers that it needs."""

    body: bytes
    media_type: str
    headers: Mapping[str, str] = field(default_factory=dict)


def as_download(view: View, form: str, name: str) -> Download:
    """Return a view in a form of `MEDIA_TYPES`; `name` is the file's, without its end.

    Raises
    ------
    ScreenError
        With status 404, where the view has no table, no picture or no text.
    """
    headers = {"content-disposition": f'attachment; filename="{name}.{form}"'}
    if form == "json":
        return Download(_json(view), MEDIA_TYPES[form])
    if form == "svg":
        if view.picture is None:
            raise ScreenError(404, "this page has no picture to download")
        svg = as_svg(view.picture)
        return Download(svg.encode(), MEDIA_TYPES[form], headers | _policy(svg))
    if form == "toml":
        if not view.toml:
            raise ScreenError(404, "this page has no text to download")
        return Download(view.toml.encode(), MEDIA_TYPES[form], headers)
    if view.table is None:
        raise ScreenError(404, "this page has no table to download")
    body = "".join(for_spreadsheet(as_csv(view.table))).encode() if form == "csv" else _parquet(view.table)
    return Download(body, MEDIA_TYPES[form], headers)


def _json(view: View) -> bytes:
    rows = {} if view.table is None else {"rows": as_json(view.table)}
    return json.dumps({"title": view.title, **_values(view.facts), **rows}, allow_nan=False, indent=2).encode()


def _values(facts: Any) -> Any:
    """Return JSON values, with None for each number that JSON cannot hold."""
    if isinstance(facts, Mapping):
        return {str(key): _values(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_values(value) for value in facts]
    return finite(facts)


def _parquet(table: Table) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    rows = as_json(table)
    keys = list(dict.fromkeys(key for column in table.columns for key in column.data_keys))
    columns = {key: pa.array([row[key] for row in rows]) for key in keys}
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def _policy(svg: str) -> dict[str, str]:
    """Return the Content-Security-Policy of a picture that is opened by itself: its own style, and nothing else."""
    hashes = (hashlib.sha256(style.encode()).digest() for style in _STYLE.findall(svg))
    allowed = "".join(f" 'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes) or " 'none'"
    return {"content-security-policy": f"default-src 'none'; style-src{allowed}"}
