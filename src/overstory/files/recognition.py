"""What the texts of a column are: numbers with a decimal comma, dates, or words; what may be two things is refused."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from overstory.analysis.tables.columns import PERIODS, period_labels
from overstory.files.columns import NO_NUMBERS, Form, as_number, blocks
from overstory.protocol.errors import ParameterError

MARKS: Final = {",": "comma", ".": "point"}
ORDERS: Final = ("dmy", "mdy")
DATE: Final = re.compile(
    r"(?:(?P<year>[0-9]{4})(?P<first>[-/.])(?P<month>[0-9]{1,2})(?P=first)(?P<day>[0-9]{1,2})"
    r"|(?P<a>[0-9]{1,2})(?P<mark>[-/.])(?P<b>[0-9]{1,2})(?P=mark)(?P<last>[0-9]{4}))"
    r"(?:[T ,]+[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"
    r"(?: ?[AaPp][Mm])?(?: ?(?:Z|UTC|[-+][0-9]{2}:?[0-9]{2}))?)?"
)
"""A date with a year of four digits, and the time of day that may follow."""
UNUSUAL: Final = re.compile("[,'’ \\xa0\\u202f\\u2212]")  # what is in no number that Python reads
ALIKE: Final = 3  # pairs of texts that a note names


@dataclass(frozen=True)
class Recognized:
    """A label for each text of a column, and what a reader must know of how it was found."""

    labels: tuple[str, ...]
    notes: tuple[str, ...] = ()
    decimal: str | None = None  # the mark that the column's numbers have, where Python reads them not
    are_dates: bool = False

    def added(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Return the rows of each label, from those of each text."""
        rows: dict[str, int] = {}
        for label, count in zip(self.labels, counts.values(), strict=True):
            rows[label] = rows.get(label, 0) + count
        return rows


def recognize_all(columns: Mapping[str, Mapping[str, int]], form: Form) -> list[Recognized]:
    """Return what the texts of some columns are, from the rows of each; dates that are asked for must be there."""
    found = [recognize(column, counts, form) for column, counts in columns.items()]
    if (form.by or form.dates) and not any(column.are_dates for column in found):
        raise ParameterError(
            f"--csv dates={form.by or form.dates}: {' and '.join(columns)} holds texts that are no dates"
        )
    return found


def recognize(column: str, counts: Mapping[str, int], form: Form) -> Recognized:
    """Return what the texts of a column are, from the rows of each; ParameterError where they may be two things."""
    texts = tuple(counts)
    if not form.words:
        bare = {text: text.strip() for text in texts if text.strip() not in NO_NUMBERS.union(form.missing)}
        values = list(dict.fromkeys(bare.values()))
        if decimal := decimal_of(column, values, form):
            notes = (f"{read_as_numbers(column, decimal)[0]}; --csv words counts the texts as they are",)
            numbers = {text: as_number(value, decimal) or text for text, value in bare.items()}
            return Recognized(tuple(numbers.get(text, text) for text in texts), notes, decimal)
        if days := days_of(column, values, form):
            by, named = period_labels(np.array(list(days.values()), "datetime64[D]"), form.by)
            label = dict(zip(days, named, strict=True))
            labels = tuple(label[bare[text]] if text in bare else text for text in texts)
            return Recognized(labels, (_counted_by(column, by, next(iter(days.values())), named[0]),), are_dates=True)
    if form.tidy:
        return Recognized(tuple(map(_spellings(counts).__getitem__, texts)))
    return Recognized(texts, look_alikes(column, counts, "--csv tidy counts them as one"))


def read_as_numbers(column: str, decimal: str | None) -> tuple[str, ...]:
    """Return the note of what a column's numbers were read as; none where they are written as usual."""
    return () if decimal is None else (f"{column}: read as numbers with a decimal {MARKS[decimal]}",)


def number_form(path: str, column: str, form: Form) -> tuple[Form, tuple[str, ...]]:
    """Return the form with the decimal mark of a column of numbers, by the first block, and what a reader must know."""
    first, no_numbers = next(blocks(path, [column], form=form), None), NO_NUMBERS.union(form.missing)
    if form.decimal is not None or first is None:
        return form, ()
    decimal = decimal_of(column, {text.strip() for text in first[0].counted()} - no_numbers, form)
    return replace(form, decimal=decimal), read_as_numbers(column, decimal)


def decimal_of(column: str, values: Collection[str], form: Form) -> str | None:
    """Return the decimal mark of numbers that Python does not read; None where it does, and for other texts."""
    if not values or (not form.decimal and not any(map(UNUSUAL.search, values))):
        return None
    marks = [mark for mark in form.decimal or ",." if all(as_number(value, mark) is not None for value in values)]
    unsure = [value for value in values if len({as_number(value, mark) for mark in marks}) > 1]
    if unsure:
        raise ParameterError(
            f"{column}: {unsure[0]!r} is {as_number(unsure[0], ',')} with a decimal comma and "
            f"{as_number(unsure[0], '.')} with a point: give --csv decimal=, or decimal=. (or words)"
        )
    return marks[-1] if marks else None


def days_of(column: str, values: Sequence[str], form: Form) -> dict[str, dt.date] | None:
    """Return the day of each text, None unless all are dates; the order of the parts is the one that fits them all."""
    found = [match for value in values if (match := DATE.fullmatch(value))]
    orders = [form.dates] if form.dates else ORDERS
    read = [days for order in orders if (days := _days(found, order, is_told=form.dates is not None))]
    if not read or len(found) < len(values):
        return None
    unsure = next((value for value, *days in zip(values, *read, strict=True) if len(set(days)) > 1), None)
    if unsure is not None:
        raise ParameterError(
            f"{column}: {unsure!r} may begin with the day or with the month: give --csv dates=dmy or dates=mdy (or "
            "words, to count the texts)"
        )
    return dict(zip(values, read[0], strict=True))


def _days(found: Sequence[re.Match[str]], order: str, *, is_told: bool) -> list[dt.date] | None:
    """Return the days in an order of the parts; None where a month or a day is none. Points stand after the day."""
    days = []
    for match in found:
        year, month, day, last = match["year"], match["month"], match["day"], match["last"]
        if last is not None:
            is_day_first = order == "dmy" or (match["mark"] == "." and not is_told)
            year, (day, month) = last, (match["a"], match["b"]) if is_day_first else (match["b"], match["a"])
        try:
            days.append(dt.date(int(year), int(month), int(day)))
        except ValueError:
            return None
    return days


def _counted_by(column: str, by: str, day: dt.date, label: str) -> str:
    monday = day - dt.timedelta(day.weekday())
    example = f" ({label} is the week of {monday.day} {monday:%B %Y})" if by == "week" else ""
    others = ", ".join(f"dates={other}" for other in PERIODS if other != by)
    return f"{column}: read as dates and counted by {by}{example}; --csv {others} or words (texts) count otherwise"


def folded(text: str) -> str:
    """Return a text without what `tidy` overlooks: blanks, case, and the form of letters."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _spellings(counts: Mapping[str, int]) -> dict[str, str]:
    """Return for each text the most frequent of those that differ in blanks, case or the form of letters alone."""
    groups: dict[str, list[str]] = {}
    for text in counts:
        groups.setdefault(folded(text), []).append(text)
    best = {key: max(sorted(texts), key=counts.__getitem__) for key, texts in groups.items()}
    return {text: best[key] for key, texts in groups.items() for text in texts}


def look_alikes(column: str, counts: Mapping[str, int], cure: str) -> tuple[str, ...]:
    """Return the note that texts differ in blanks, case or the form of letters alone; nothing where none do."""
    twins = [(text, spelling) for text, spelling in _spellings(counts).items() if text != spelling]
    if not twins:
        return ()
    shown = ", ".join(f"{text!r} and {other!r}" for text, other in sorted(twins)[:ALIKE])
    more = f" and {len(twins) - ALIKE:,} more" if len(twins) > ALIKE else ""
    return (f"{column}: {shown}{more} look alike and are counted apart; {cure}",)
