"""From a column to a histogram, in one pass: which values there are, and how many rows hold each.

Who reports does not matter to a collection in which each row is a device of its own, only how many hold each value: so
a histogram is all that is kept of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.collecting.layout import Form
from overstory.collecting.reading import ANY_FORM, BLOCK, Advance, blocks
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.collecting.devices import Devices

MOST_VALUES: Final = 10_000
NOT_LISTED: Final = "(not listed)"
ANOTHER: Final = "(another value)"
READ_OFF: Final = (
    "the list of values was read off your file; a real collection must know it beforehand, or discover it "
    "(`overstory discover`)"
)

I64 = NDArray[np.int64]


class TooManyValuesError(ParameterError):
    """A column of more distinct values than are counted.

    Parameters
    ----------
    message
        What is said.
    seen
        The values until then.
    """

    def __init__(self, message: str, seen: Sequence[str]) -> None:
        self.seen = tuple(seen)
        super().__init__(message)


@dataclass(frozen=True, eq=False)
class People:
    """Who takes part, and what they hold: the truth that no collector would see.

    Attributes
    ----------
    labels
        The values there can be: the domain.
    counts : ndarray of int64, shape (d,)
        How many rows hold each.
    missing
        Rows without a value; they send nothing.
    devices
        Whose rows they are, where several rows belong to one device.
    edges
        The bins' edges, where the labels are bins of numbers.
    notes
        What a reader must know of how they were read.
    """

    labels: tuple[str, ...]
    counts: I64
    missing: int = 0
    devices: Devices | None = None
    edges: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return int(self.counts.sum())

    @property
    def num_devices(self) -> int:
        """Devices that report at all."""
        return len(self) if self.devices is None else len(self.devices)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each value's true share of the rows that have one."""
        return np.asarray(self.counts / max(len(self), 1))


def count_values(
    path: str,
    column: str,
    *,
    most: int = MOST_VALUES,
    candidates: Sequence[str] | None = None,
    form: Form = ANY_FORM,
    advance: Advance | None = None,
    block: int = BLOCK,
) -> People:
    """Count the rows of every distinct value, as text.

    Parameters
    ----------
    path, column
        See `overstory.collecting.reading.blocks`.
    most
        So many distinct values are counted, no more.
    candidates
        The domain, if it is given: all other values count as one, ``(not listed)``.
    form, advance, block
        See `overstory.collecting.reading.blocks`.

    Raises
    ------
    TooManyValuesError
        When there are more; what was seen by then is told.
    ParameterError
        When there is no such column, or it holds nothing.
    FormatError
        When the file is damaged.
    """
    listed = None if candidates is None else dict.fromkeys([*candidates, NOT_LISTED], 0)
    read = blocks(path, [column], form=form, advance=advance, block=block)
    found, missing = _histogram(read, path, column, most, listed)
    if not sum(found.values()):
        raise empty(path, column, missing)
    # A list of candidates keeps its order; what was found has none of its own, so the rows' order does not show.
    labels = tuple(found) if candidates is not None else tuple(sorted(found))
    counts = np.array([found[label] for label in labels], dtype=np.int64)
    if len(labels) == 1:
        labels, counts = (*labels, ANOTHER), np.append(counts, 0)
    return People(labels, counts, missing, notes=_notes(candidates is None))


def _histogram(
    read: Iterable[tuple[Any, ...]], path: str, column: str, most: int, listed: Mapping[str, int] | None
) -> tuple[dict[str, int], int]:
    found, missing = dict(listed or {}), 0
    for (values,) in read:
        missing += values.missing
        for text, count in values.counted().items():
            name = text if listed is None or text in listed else NOT_LISTED
            found[name] = found.get(name, 0) + count
        if listed is None and len(found) > most:
            raise too_many(path, column, most, found)
    return found, missing


def too_many(path: str, column: str, most: int, seen: Any) -> TooManyValuesError:
    """Return the error that says what to do about a column of too many values."""
    return TooManyValuesError(
        f"{path}: the column {column!r} has more than {most:,} distinct values. For numbers give --bins MIN MAX COUNT; "
        "for text give --candidates FILE with those that you would look for (all others then count as one), or look "
        "for them by hashing: `overstory encode` with a column of values, `map` and `decode` with the candidates, or "
        "`overstory discover` without any; a higher --most-values costs time and memory",
        seen,
    )


def empty(path: str, column: str, missing: int) -> ParameterError:
    """Return the error for a column without values."""
    what = f"{missing:,} rows, all without a value" if missing else "no rows"
    return ParameterError(f"{path}: the column {column!r} holds nothing to collect: {what}")


def _notes(from_the_file: bool) -> tuple[str, ...]:  # noqa: FBT001 - one of two sources
    if not from_the_file:
        return (f"values that are not on your list count as one: {NOT_LISTED}",)
    return (READ_OFF,)
