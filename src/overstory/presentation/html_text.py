"""Text and addresses inside HTML: nothing in them is markup, and no link runs a script."""

from __future__ import annotations

import re
from html import escape
from typing import Final

from overstory.presentation.streams import printable

_SAFE_ADDRESS: Final = re.compile(r"https?://|[^:]*\Z|[^:]*[/?#]")
"""An address of the web, or one without a scheme."""


def escaped(text: str) -> str:
    """Return text as HTML shows it: nothing in it is markup, and nothing turns its letters round."""
    return escape(printable(text))


def escaped_lines(text: str) -> str:
    """Return the lines of a text; their ends stay."""
    return "\n".join(map(escaped, text.split("\n")))


def safe_address(address: str) -> str:
    """Return an address for an attribute; one of another scheme than the web's leads nowhere.

    Examples
    --------
    >>> safe_address("/m/colour?a=1&b=2"), safe_address("javascript:alert(1)")
    ('/m/colour?a=1&amp;b=2', '#')
    """
    return escaped(address) if _SAFE_ADDRESS.match(address) else "#"


def linked(text: str, address: str, *, is_current: bool = False) -> str:
    """Return a text that leads to an address, where there is one."""
    current = ' aria-current="page"' if is_current else ""
    return f'<a href="{safe_address(address)}"{current}>{escaped(text)}</a>' if address else escaped(text)
