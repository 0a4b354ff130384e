"""A result: what was learned, as a typed table, facts, notes and pictures; every surface shows it from these."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from overstory.presentation.document import Block, Column, Figure, Heading, Lines, Paragraph, Row, Table
from overstory.presentation.formats import data_text
from overstory.presentation.render_text import UNFOLDED, as_csv, as_json, as_latex, as_markdown, as_text, keys_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from overstory.presentation.svg import Picture

STYLE: Final = ".overstory .text { text-align: left; } .overstory .faint { opacity: .7; }"
"""What a notebook's own style lacks."""


TableForm = Literal["text", "markdown", "latex", "csv"]
ENDINGS: Final[dict[str, TableForm]] = {".csv": "csv", ".md": "markdown", ".tex": "latex"}
"""Of files that tables are written into."""


def in_form(blocks: Iterable[Block], form: TableForm) -> str:
    """Return blocks as text or Markdown, or their tables as LaTeX or CSV."""
    if form == "markdown":
        return as_markdown(blocks)
    if form == "latex":
        return as_latex(blocks)
    if form == "csv":
        return "\n".join("".join(as_csv(block)) for block in blocks if isinstance(block, Table))
    if form != "text":
        raise ValueError(f"form={form!r}: give text, markdown, latex or csv")
    return as_text(blocks, UNFOLDED).rstrip("\n")


def as_arrow(table: Table) -> pa.Table:
    """Return an Arrow table; a column is of texts where only some are, such as names and numbers of quantiles."""
    import pyarrow as pa

    rows, columns = as_json(table), {}
    for key in keys_of(table.columns):
        values = [row[key] for row in rows]
        is_mixed = any(isinstance(value, str) for value in values)
        columns[key] = [None if value is None else data_text(value) for value in values] if is_mixed else values
    return pa.table(columns)


def as_parquet(table: Table) -> bytes:
    """Return a Parquet file of `as_arrow`."""
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(as_arrow(table), file)
    return file.getvalue()


class Result:
    """What was learned; it shows itself alike in a terminal, a notebook, a page and a file.

    A kind of result says what is its own: `rows` or `as_table`, `plot` or `pictures`, and `sentences` and `notes`.
    ``polars.DataFrame(result)`` and ``pyarrow.table(result)`` work, as in any library that reads the Arrow C stream.
    """

    stem: ClassVar[str] = "result"
    """What a file with it is called."""
    every: ClassVar[str] = "value"
    """What a line of such a file is of."""

    def rows(self) -> Iterable[Row]:
        """Return a dictionary per estimate."""
        return self.as_table().rows

    def as_table(self) -> Table:
        """Return a row per estimate, for files of every form."""
        rows = list(self.rows())
        return Table("", tuple(Column(name) for row in rows[:1] for name in row), rows)

    def sentences(self) -> Iterable[str]:
        """Return what was read, how, and what it costs."""
        return ()

    @property
    def notes(self) -> Sequence[str]:
        """What a reader must know before trusting the numbers."""
        return ()

    def all_notes(self) -> Iterable[str]:
        """Return the notes, with those of its parts."""
        return self.notes

    def plot(self) -> Picture:
        """Return a picture with its caption; a notebook shows it, and `Picture.svg` is its text, for a file."""
        return self.pictures()[0]

    def pictures(self) -> list[Picture]:
        """Return the pictures, whose captions say what is left out; none without reports."""
        return [] if type(self).plot is Result.plot else [self.plot()]

    def _headline(self) -> str:
        """Return how much was learned of how many, in a few words."""
        return next(iter(self.sentences()), self.stem)

    def tables(self, *, everything: bool) -> Iterable[Block]:  # noqa: ARG002 - most have nothing to leave out
        """Return the tables that a person reads; `everything`: not only what was detected."""
        yield self.as_table()

    def blocks(self, *, everything: bool = False, written: str | None = None) -> Iterator[Block]:
        """Return what a person reads; `everything`: not only what was detected; `written`: a file that has it all."""
        yield from self.tables(everything=everything)
        notes = (f"note: {note}" for note in self.all_notes())
        yield Lines(*self.sentences(), *notes, *([] if written is None else [f"every {self.every}: {written}"]))

    def page_blocks(self) -> Iterator[Block]:
        """Yield what the page shows."""
        yield Heading(1, self._headline())
        yield from map(Figure, self.pictures())
        yield from self.blocks()

    def table(self, *, form: TableForm = "text") -> str:
        """Return the tables and what to read them by as plain text, or as ``markdown``; as ``latex`` or ``csv`` alone.

        LaTeX needs the package ``booktabs``; a CSV has the numbers as they are.
        """
        return in_form(self.blocks(), form)

    def page(self) -> str:
        """Return a page as HTML text, for a file: the picture, the tables and the notes."""
        from overstory.presentation.render_html import as_page

        return as_page(self.page_blocks())

    def csv_lines(self) -> Iterable[str]:
        """Return the lines of a CSV file of `as_table`."""
        return as_csv(self.as_table())

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table, a row for each of `rows`; what is not known is null."""
        return as_arrow(Result.as_table(self))

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame, a row for each estimate."""
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a Polars DataFrame, a row for each estimate."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export `to_arrow` by the Arrow PyCapsule interface: Polars, DuckDB and others take a result as a table."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._headline()})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a headline, the pictures and the tables; a value is only ever text."""
        from overstory.presentation.render_html import as_html, as_svg

        images = [
            f'<img alt="the table\'s numbers as a picture" src="data:image/svg+xml;base64,{drawing}">'
            for picture in self.pictures()
            for drawing in [b64encode(as_svg(picture).encode()).decode()]  # an image: nothing of a value can run
        ]
        headline = as_html([Paragraph(repr(self))])
        return (
            f'<div class="overstory"><style>{STYLE}</style>{headline}{"".join(images)}{as_html([*self.blocks()])}</div>'
        )
