"""``overstory discover``: find frequent values without a list, in reports of simulated devices."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from overstory.cli.command import Answer, check_pipes, form_of, progress, reading_bar, seekable, tell_notes
from overstory.discovery import AlphabetStrings, CodedIntegers, CodedStrings, discover, find, simulate
from overstory.files.columns import blocks, line_of
from overstory.files.rappor import read_candidates
from overstory.files.recognition import recognize_all
from overstory.presentation.document import Lines
from overstory.presentation.formats import plural, printable
from overstory.protocol.domains.codes import MAX_BYTES
from overstory.protocol.errors import FormatError, NoCodeError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from overstory.discovery import CodedDomain, Discovered, Plan
    from overstory.files.columns import Form
    from overstory.files.io import Advance
    from overstory.presentation.document import Block


SHOWN: Final = 40  # characters of a value that an error shows


def domain_of(bits: int | None, size: int | None, alphabet: str | None) -> CodedDomain:
    """Return the codes of integers of so many bits, or of texts of at most so many bytes."""
    if alphabet is not None:
        if not alphabet:
            raise ParameterError("--alphabet is empty: give the characters that values are made of")
        return AlphabetStrings(MAX_BYTES if size is None else size, alphabet)
    if size is not None:
        return CodedStrings(size)
    return CodedIntegers(64 if bits is None else bits)


def read_column(
    path: str,
    column: str,
    domain: CodedDomain,
    form: Form,
    size: int | None,
    advance: Advance | None,
    *,
    has_elsewhere: bool,
) -> Any:
    """Return the values of a column, one a device; texts without a code are counted if `has_elsewhere`."""
    known: dict[str, int] = {}
    read = [texts.numbered(known) for (texts,) in blocks(path, [column], form=form, advance=advance)]
    numbers = np.concatenate(read) if read else np.zeros(0, np.int32)
    # Texts are searched as they are, unless --csv says how dates or numbers are written.
    asked = form if form.by or form.dates or form.decimal else replace(form, words=True)
    rows = np.bincount(numbers[numbers >= 0], minlength=len(known)).tolist()
    (found,) = recognize_all({column: dict(zip(known, rows, strict=True))}, asked)
    tell_notes("discover", found.notes)
    texts = list(known)
    values: list[Any] = []
    for text, label in zip(texts, found.labels, strict=True):
        try:
            values.append(domain.parse(label) if label else None)
        except ParameterError as error:
            if isinstance(error, NoCodeError) and has_elsewhere:
                values.append(label)
                continue
            line = line_of(path, form, column, text)
            said = _needed(texts, size, domain) or str(error)
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


def run(args: argparse.Namespace) -> Answer:
    check_pipes(args, "file", "known")
    plan, found = _discover(args)
    values, every = found.to_json(everything=True) | {"plan": _plan_json(plan)}, _blocks(plan, found, everything=True)
    return Answer(values, _blocks(plan, found), write_csv=found.to_csv, tables=every)


def _plan_json(plan: Plan) -> dict[str, Any]:
    return {
        **plan.domain.canonical(),
        "beam": plan.beam,
        "levels": [level.num_bits for level in plan.levels],
        "shares": list(plan.shares),
        "known": len(plan.known),
    }


def _blocks(plan: Plan, found: Discovered, *, everything: bool = False) -> Iterator[Block]:
    yield from found.tables(everything=everything)
    cost = f"each device answered one of {plural(len(plan.questions), 'question')}, once, and revealed in all"
    yield Lines(*found.search_sentences(plural(found.num_reports, "report"), "reports", cost), *found.notes)


def _discover(args: argparse.Namespace) -> tuple[Plan, Discovered]:
    """Read the column, simulate its devices, search their answers; return the plan and what was found."""
    domain, form = domain_of(args.bits, args.bytes, args.alphabet), form_of(args.csv)
    known = _known(args.known, domain) if args.known else ()
    key = args.column[:12]  # a hash key has at most 64 bytes, and every level adds to it
    plan = discover(epsilon=args.epsilon, domain=domain, known=known, key=key)
    with seekable(args.file) as path, reading_bar("reading the column", [path], quiet=args.quiet) as advance:
        has_elsewhere = args.alphabet is not None
        values = read_column(path, args.column, domain, form, args.bytes, advance, has_elsewhere=has_elsewhere)
    with progress("devices report", 2.0, quiet=args.quiet) as bar:
        first = (lambda what, done: bar.reach(done, what)) if bar.is_shown else None
        second = (lambda what, done: bar.reach(1 + done, what)) if bar.is_shown else None
        reports = simulate(plan, values, np.random.default_rng(args.seed), progress=first)
        return plan, find(plan, reports, progress=second)


def _known(path: str, domain: CodedDomain) -> list[Any]:
    try:
        return [domain.parse(text) for text in read_candidates(path)]
    except ParameterError as error:
        raise FormatError(str(error), source=path) from error
