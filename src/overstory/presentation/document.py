"""The document model: what is shown to a person, as blocks. Each renderer turns the same blocks into one form.

A table is rows and a specification of its columns, so that a page, a terminal, a CSV file and JSON show the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from overstory.presentation.formats import Format, marked

if TYPE_CHECKING:
    from overstory.presentation.svg import Picture

Row = Mapping[str, Any]
Tone = Literal["", "good", "warn", "bad", "faint"]


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str  # the row's key; also what JSON calls it
    heading: str | None = None  # what stands above it; None: its name
    text: Format = marked  # how the values of `keys` read
    keys: tuple[str, ...] = ()  # the row's entries that it shows, where they are not `name` alone: low and high
    csv: str = ""  # what a CSV file calls it, where that is not its name
    is_left: bool = False  # text is aligned to the left, numbers to the right
    is_code: bool = False  # bits and bytes
    tone: Callable[[Any], Tone] | None = None  # what a value of the column means, for its colour
    link: Callable[[Row], str] | None = None  # where a page's cell leads; "" for nowhere
    picture: Callable[[Row], Picture | None] | None = None  # what a page draws in the cell, in place of its text

    @property
    def title(self) -> str:
        return self.name if self.heading is None else self.heading

    @property
    def data_keys(self) -> tuple[str, ...]:
        """The entries of a row that the column shows."""
        return self.keys or (self.name,)

    def cell(self, row: Row) -> str:
        return self.text(*(row[key] for key in self.data_keys))


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    level: int
    text: str
    anchor: str = ""  # its address on a page; by default its number


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; the leading one says what a page is about."""

    text: str
    is_lead: bool = False


@dataclass(frozen=True)
class Lines:
    """Sentences or notes that belong together, each on its own line."""

    texts: tuple[str, ...]

    def __init__(self, *texts: str) -> None:
        object.__setattr__(self, "texts", texts)


@dataclass(frozen=True)
class KeyValues:
    """Names and their values: a few large ``figures``, or ``lines`` that are never broken."""

    pairs: tuple[tuple[str, str], ...]
    kind: Literal["text", "figures", "lines"] = "text"


@dataclass(frozen=True)
class Folded:
    """Blocks that a page shows after a click on their summary, and text at once."""

    summary: str
    blocks: tuple[Block, ...]


def unfolded(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks for a reader who cannot click."""
    for block in blocks:
        yield from block.blocks if isinstance(block, Folded) else (block,)


@dataclass(frozen=True)
class Preformatted:
    """Lines of a fixed width: a command, bars."""

    text: str


@dataclass(frozen=True)
class Link:
    """A sentence that leads elsewhere."""

    text: str
    address: str


@dataclass(frozen=True)
class Links:
    """Places to go to, by their texts: other views, downloads; the current one is marked."""

    label: str  # what they are, for a screen reader
    places: tuple[tuple[str, str], ...]  # text and address
    current: str = ""  # the text of the place that the reader is at


@dataclass(frozen=True)
class Notice:
    """A sentence that must not be overlooked: an alarm, a warning, a result."""

    text: str
    tone: Tone = "bad"
    address: str = ""  # where to read more
    more: tuple[str, ...] = ()  # sentences that a page folds away


@dataclass(frozen=True)
class Field:
    """One value that a form asks for."""

    name: str
    label: str
    value: str = ""
    kind: Literal["text", "password", "number", "date", "choice", "lines", "file", "hidden"] = "text"
    choices: tuple[tuple[str, str], ...] = ()  # value and text, of a ``choice``
    least: float | None = None
    most: float | None = None
    step: float | None = None
    hint: str = ""


@dataclass(frozen=True)
class Form:
    """What a reader can ask of a page; text and Markdown leave it out. ``get`` leads to another address of the view."""

    label: str  # what it is for, for a screen reader
    fields: tuple[Field, ...]
    submit: str
    action: str = ""  # the address; by default that of the page
    method: Literal["get", "post"] = "get"
    is_live: bool = False  # with the script, the page follows every change


@dataclass(frozen=True)
class Table:
    """Rows under named columns."""

    caption: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    faint: Collection[int] = frozenset()  # the numbers of the rows that matter less, such as what was not detected
    fold: Literal["", "open", "closed"] = ""  # a page can fold it away; text shows its codes below their meaning

    @classmethod
    def of_cells(
        cls,
        caption: str,
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        *,
        left: Collection[str] = (),
        code: Collection[str] = (),
        fold: Literal["", "open", "closed"] = "",
    ) -> Table:
        """Return a table of texts; the columns named in `left` and `code` are aligned to the left."""
        columns = tuple(
            Column(str(place), heading, is_left=heading in left or heading in code, is_code=heading in code)
            for place, heading in enumerate(headings)
        )
        keyed = [{str(place): cell for place, cell in enumerate(row)} for row in rows]
        return cls(caption, columns, keyed, fold=fold)

    def cells(self) -> Iterator[tuple[str, ...]]:
        return (tuple(column.cell(row) for column in self.columns) for row in self.rows)


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    picture: Picture


Block = Heading | Paragraph | Lines | KeyValues | Folded | Preformatted | Link | Links | Notice | Form | Table | Figure
