"""Forms that are posted: what they carry, and the address of the same screen that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import UploadFile
from starlette.requests import Request

from overstory.console.lists import CandidateLists
from overstory.console.view import Screen, ScreenError, read_query

MOST_BYTES: Final = 16 * 1024 * 1024
"""A form's body."""

LONGEST_ADDRESS: Final = 2_000
"""Bytes of candidates that an address carries; more are held in memory, under a name."""

CANDIDATES: Final = "candidates"
LIST: Final = "list"

Fields = Mapping[str, str]
"""What a form carries: a text for each field, the lines of which end in a line feed."""


async def read_form(request: Request) -> Fields:
    """Return a form's fields; a file's text stands in the field of its name.

    Raises
    ------
    ScreenError
        When it is too large, or a file is no text in UTF-8.
    """
    if int(request.headers.get("content-length") or MOST_BYTES + 1) > MOST_BYTES:
        raise ScreenError(413, f"a form may have {MOST_BYTES:,} bytes, and states its length")
    fields: dict[str, str] = {}
    async with request.form(max_files=1, max_fields=100, max_part_size=MOST_BYTES) as form:
        for name, value in form.multi_items():
            text = await _text_of(value) if isinstance(value, UploadFile) else value
            if text:
                fields[name] = "\n".join(filter(None, (fields.get(name), *text.splitlines())))
    return fields


async def _text_of(file: UploadFile) -> str:
    try:
        return (await file.read()).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ScreenError(400, f"{file.filename}: this is no text in UTF-8; give one candidate a line") from None


def address_of_form(screen: Screen, path: str, fields: Fields, lists: CandidateLists) -> str:
    """Return the address of `screen` that shows what a form asks for.

    A list of candidates that is too long for an address is held in `lists`, and the address names it.
    """
    asked = dict(fields)
    candidates = asked.get(CANDIDATES, "")
    if len(urlencode({CANDIDATES: candidates})) > LONGEST_ADDRESS:
        del asked[CANDIDATES]
        asked[LIST] = lists.hold(candidates.split("\n"))
    read_query(screen.query, asked.items())  # a mistake is answered here, not after the redirect
    return f"{path}?{urlencode(asked)}" if asked else path
