"""The position of each key in a TOML document. The standard library's parser keeps none, and an error needs its line.

`tomllib` decides whether a document is valid and what it contains. `positions` then finds the keys again in a valid
document, so it checks nothing. The tests compare its paths with the parser's.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

Path = tuple[str | int, ...]  # Keys, and indices into arrays, from the document's root


@dataclass(frozen=True)
class TomlPosition:
    """Where a key and its value are: offsets in the text of the key, of its value, and of the value's end."""

    line: int  # the line on which the key starts, from 1
    start: int
    value: int
    stop: int


_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACES: Final = re.compile(r"[ \t]*")
_STRING: Final = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN: Final = re.compile(r"[^,\]}#\n]*")


def positions(text: str) -> dict[Path, TomlPosition]:
    """Return the position of each key and each element of an array, in a document that `tomllib` accepts."""
    return _Scanner(text).positions


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.newlines = [newline.start() for newline in re.finditer("\n", text)]
        self.positions: dict[Path, TomlPosition] = {}
        self._elements: dict[Path, int] = {}  # how many tables each array of tables has so far
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(text):
            if text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        matched = pattern.match(self.text, self.at)
        assert matched is not None
        self.at = matched.end()
        return matched[0]

    def _next_is(self, sign: str) -> bool:
        assert self.at < len(self.text), "what is open is closed in a document that was accepted"
        here = self.text.startswith(sign, self.at)
        self.at += len(sign) * here
        return here

    def _keep(self, path: Path, start: int, value: int) -> None:
        self.positions[path] = TomlPosition(bisect_right(self.newlines, start - 1) + 1, start, value, self.at)

    def _keep_parents(self, path: Path, start: int) -> None:
        """Let tables that are only named on the way to a key stand where they were first named."""
        for depth in range(1, len(path)):
            if path[:depth] not in self.positions:
                self._keep(path[:depth], start, start)

    def _header(self) -> Path:
        """Read ``[table]`` or ``[[array of tables]]``; return the path of what follows."""
        start, array = self.at, self.text.startswith("[[", self.at)
        self.at += 1 + array
        *parents, last = self._keys()
        self.at += 1 + array
        path: Path = ()
        for key in parents:
            path = (*path, key)
            if path in self._elements:
                path = (*path, self._elements[path] - 1)
        path = (*path, last)
        self._keep_parents(path, start)
        if not array:
            self._keep(path, start, start)
            return path
        index = self._elements.get(path, 0)
        self._elements[path] = index + 1
        if not index:
            self._keep(path, start, start)
        self._keep((*path, index), start, start)
        return (*path, index)

    def _keys(self) -> list[str]:
        keys = []
        while True:
            self._skip(_SPACES)
            keys.append(self._key())
            self._skip(_SPACES)
            if not self._next_is("."):
                return keys

    def _key(self) -> str:
        if self.text[self.at] not in "\"'":
            return self._skip(_BARE)
        quoted = self._skip(_STRING)
        return str(tomllib.loads(f"key = {quoted}")["key"])

    def _pair(self, table: Path) -> None:
        start = self.at
        path = (*table, *self._keys())
        self.at += 1  # the equals sign
        self._keep_parents(path, start)
        self._value(path, start)

    def _value(self, path: Path, start: int) -> None:
        self._skip(_SPACES)
        value = self.at
        self._keep(path, start, value)  # before what it holds
        if self._next_is("["):
            self._array(path)
        elif self._next_is("{"):
            self._inline_table(path)
        elif self.text[value] in "\"'":
            self._skip(_STRING)
        else:
            plain = self._skip(_PLAIN)
            self.at -= len(plain) - len(plain.rstrip())
        self._keep(path, start, value)

    def _array(self, path: Path) -> None:
        index = 0
        self._skip(_BLANK)
        while not self._next_is("]"):
            self._value((*path, index), self.at)
            index += 1
            self._skip(_BLANK)
            self._next_is(",")
            self._skip(_BLANK)

    def _inline_table(self, path: Path) -> None:
        self._skip(_BLANK)
        while not self._next_is("}"):
            self._pair(path)
            self._skip(_BLANK)
            self._next_is(",")
            self._skip(_BLANK)
