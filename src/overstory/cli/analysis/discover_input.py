"""The column that ``overstory discover`` gives its simulated devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.discovery import AlphabetStrings, CodedIntegers, CodedStrings, ModelStrings
from overstory.files.columns import blocks, is_json, is_parquet, line_of
from overstory.presentation.streams import printable
from overstory.protocol.domains.codes import MAX_BYTES
from overstory.protocol.domains.models import MOST_ORDER, MOST_WIDTH, ORDER, WIDTH
from overstory.protocol.errors import FormatError, NoCodeError, ParameterError
from overstory.protocol.kinds.base import check_count

if TYPE_CHECKING:
    import argparse

    from overstory.discovery import CodedDomain
    from overstory.files.columns import Form
    from overstory.files.io import Advance

SHOWN: Final = 40
"""Characters of a value that an error shows."""


def domain_of(args: argparse.Namespace) -> CodedDomain:
    """Return the codes that the options choose."""
    if args.model is None and (args.order is not None or args.width is not None):
        raise ParameterError("--order and --width are of a model: give --model FILE, or leave them out")
    if args.alphabet is not None and (args.model is not None or args.bits is not None):
        raise ParameterError(f"--alphabet does not go with --{'bits' if args.model is None else 'model'}: give one")
    if args.model is not None:
        return _model(args.model, args.order, args.width)
    if args.alphabet is not None:
        if not args.alphabet:
            raise ParameterError("--alphabet is empty: give the characters that values are made of")
        return AlphabetStrings(MAX_BYTES if args.bytes is None else args.bytes, args.alphabet)
    if args.bytes is not None:
        return CodedStrings(args.bytes, is_text=True)
    return CodedIntegers(64 if args.bits is None else args.bits)


def _model(path: str, order: int | None, width: int | None) -> CodedDomain:
    from overstory.files.rappor import read_candidates

    check_count("--order", ORDER if order is None else order, 0, MOST_ORDER)
    check_count("--width", WIDTH if width is None else width, 8, MOST_WIDTH)
    words = tuple(read_candidates(path))
    try:
        return ModelStrings(words, ORDER if order is None else order, WIDTH if width is None else width)
    except ParameterError as error:
        raise FormatError(str(error), source=path) from error


def read_column(path: str, args: argparse.Namespace, domain: CodedDomain, form: Form, advance: Advance | None) -> Any:
    """Return the values of a column, one a device; rows without one, and empty texts, are left out.

    Texts without a code are counted where an alphabet or a model says what is looked for; else whoever chose the
    options made a mistake.
    """
    column, has_elsewhere = args.column, args.alphabet is not None or args.model is not None
    known: dict[str, int] = {}
    read = [texts.numbered(known) for (texts,) in blocks(path, [column], form=form, advance=advance)]
    numbers = np.concatenate(read) if read else np.zeros(0, np.int32)
    texts = list(known)
    values: list[Any] = []
    for text in texts:
        try:
            values.append(domain.parse(text) if text else None)
        except ParameterError as error:
            if isinstance(error, NoCodeError) and has_elsewhere:
                values.append(text)
                continue
            line = None if is_parquet(path) or is_json(path) else line_of(path, form, column, text)
            said = _needed(texts, args.bytes, domain) or str(error)
            raise FormatError(said, source=path, line=line, field=column) from error
    held = [values[number] for number in numbers.tolist() if number >= 0 and values[number] is not None]
    return np.array(held, np.uint64) if domain.is_numeric else held


def _needed(texts: list[str], most: int | None, domain: CodedDomain) -> str | None:
    """Say which option these texts need; None where they are what the domain is of, or were meant to be."""
    numbers = sum(text.strip().isdigit() for text in texts if text)
    if domain.is_numeric and 2 * numbers >= len(texts):
        return None  # a column of numbers, one of which is none
    longest = max(texts, key=_size)
    shown, size = f"{printable(longest)[:SHOWN]!r}", _size(longest)
    said = "the column holds text" if domain.is_numeric else f"values are longer than --bytes {most}"
    if size <= MAX_BYTES:
        return f"{said}: give --bytes {size} (the longest value, {shown}, has {size} bytes in UTF-8)"
    return (
        f"{said}: the longest value, {shown}, has {size} bytes in UTF-8, and at most {MAX_BYTES} can be searched for; "
        "shorten the values, or give a list of them to `overstory collect --candidates`"
    )


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
