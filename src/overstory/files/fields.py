"""Fields of a record: what stands there, checked, or one error that says what was expected."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from overstory.protocol.errors import FormatError

_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")  # within 64 bits; Python's int would also take 1_000 and other scripts
_NUMBER: Final = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,4})?")
_MARKS: Final = re.compile(r'[,"\r\n]')
_BLANK: Final = " \t\r"


@dataclass(frozen=True, slots=True)
class Place:
    """A record's place in its file.

    Examples
    --------
    >>> Place("params.csv", 2).whole("12", "k", 1, 10)
    Traceback (most recent call last):
    overstory.protocol.errors.FormatError: params.csv, line 2, field k: expected a whole number from 1 to 10, found '12'
    """

    source: str
    line: int

    def error(self, problem: str, field: str | None = None) -> FormatError:
        """Return the error that says `problem` here."""
        return FormatError(problem, source=self.source, line=self.line, field=field)

    def whole(self, text: str, field: str, low: int, high: int) -> int:
        """Return the whole number in `text`."""
        bare = text.strip(_BLANK)
        if not _WHOLE.fullmatch(bare) or not low <= (value := int(bare)) <= high:
            raise self.error(f"expected a whole number from {low} to {high}, found {short(text)}", field)
        return value

    def number(self, text: str, field: str) -> float:
        """Return the decimal number in `text`."""
        bare = text.strip(_BLANK)
        if not _NUMBER.fullmatch(bare):
            raise self.error(f"expected a number such as 0.5, found {short(text)}", field)
        return float(bare)

    def text(self, text: str, field: str) -> str:
        """Return `text`, which must be UTF-8."""
        if not text.isascii() and not _is_utf8(text):
            raise self.error(f"expected UTF-8 text, found {short(text)}", field)
        return text

    def bits(self, text: str, field: str, num_bits: int) -> int:
        """Return the bits in `text`, most significant first, as an integer."""
        if len(text) != num_bits:
            raise self.error(f"expected {num_bits} characters 0 or 1, found {len(text)}", field)
        if text.strip("01"):
            wrong = text.strip("01")[0]
            raise self.error(f"expected {num_bits} characters 0 or 1, found {short(wrong)} among them", field)
        return int(text, 2)

    def column(self, fields: list[str], index: int, count: int) -> str:
        """Return the field at `index` of a record that must have `count`."""
        if len(fields) != count:
            raise self.error(f"expected {count} fields, as in the header, found {len(fields)}")
        return fields[index]


def quoted(text: str) -> str:
    """Return `text` as a CSV field, in quotes where it needs them (Python's own writer leaves a lone CR bare).

    Examples
    --------
    >>> quoted("plain"), quoted('say "hi", twice')
    ('plain', '"say ""hi"", twice"')
    """
    if _MARKS.search(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def short(text: str, longest: int = 40) -> str:
    """Return `text` as an error message quotes it.

    Examples
    --------
    >>> short("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    return ascii(text if len(text) <= longest else text[:longest] + "...")


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
