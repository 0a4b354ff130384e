"""Made-up TOML, in every form the language has, for what has to find its way in it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

LETTERS = st.sampled_from(list("ab#\"'=[]{},.\\ \té\n"))
TEXTS = st.lists(LETTERS, max_size=6).map("".join)
PLAIN = st.sampled_from(
    ["0", "-17", "0x1F", "1_000", "6.5e-3", "inf", "-nan", "true", "1979-05-27", "1979-05-27 07:32:00Z", "07:32:00"]
)
GAPS = st.sampled_from(["", " ", "\t"])
WIDE_GAPS = st.sampled_from(["", " ", "\n", " # a ] comment, } with = signs \" and ' quotes\n", "\n\n\t"])
ENDS = st.sampled_from(["\n", " \n", " # a comment [here] = 'x'\n", "\n\n", "\r\n"])


@st.composite
def strings(draw: Any) -> str:
    """Return a string in one of its four forms."""
    text, form = draw(TEXTS), draw(st.integers(0, 3))
    if form == 1 and "'" not in text and "\n" not in text:
        return f"'{text}'"
    if form == 2:
        escaped = text.replace("\\", "\\\\").replace('"""', '""\\"')
        return f'"""{draw(st.sampled_from(["", chr(10), chr(92) + chr(10)]))}{escaped}"""'
    if form == 3 and "'''" not in text:
        return f"'''{text}'''"
    return json.dumps(text, ensure_ascii=False)


@st.composite
def keys(draw: Any) -> str:
    """Return a key, dotted or not, quoted or bare."""
    parts = st.one_of(st.sampled_from(["a", "b", "c-1", "2_d"]), st.sampled_from(['"a"', "'x.y'", '"\\u00e9 ="', '""']))
    gap = draw(GAPS)
    return f"{gap}.{gap}".join(draw(st.lists(parts, min_size=1, max_size=3)))


@st.composite
def arrays(draw: Any, inner: Any) -> str:
    """Return an array over as many lines as it likes."""
    items = draw(st.lists(inner, max_size=3))
    body = ",".join(f"{draw(WIDE_GAPS)}{item}{draw(WIDE_GAPS)}" for item in items)
    return f"[{body}{',' if items and draw(st.booleans()) else ''}{draw(WIDE_GAPS)}]"


@st.composite
def inline_tables(draw: Any, inner: Any) -> str:
    """Return a table on one line, but for what is inside of it."""
    pairs = [f"{draw(GAPS)}{draw(keys())} = {draw(inner)}{draw(GAPS)}" for _ in range(draw(st.integers(0, 3)))]
    return "{" + ",".join(pairs) + "}"


VALUES = st.recursive(st.one_of(PLAIN, strings()), lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)


@st.composite
def lines(draw: Any) -> str:
    """Return one statement: a pair, a table's header, or one of an array of tables."""
    kind, key = draw(st.sampled_from(["pair", "pair", "pair", "table", "array"])), draw(keys())
    if kind == "pair":
        return f"{draw(GAPS)}{key}{draw(GAPS)}={draw(GAPS)}{draw(VALUES)}{draw(ENDS)}"
    opening, closing = ("[", "]") if kind == "table" else ("[[", "]]")
    return f"{opening}{draw(GAPS)}{key}{draw(GAPS)}{closing}{draw(ENDS)}"


DOCUMENTS = st.lists(lines(), max_size=7).map("".join)
"""Texts that are TOML unless they define a key twice."""
