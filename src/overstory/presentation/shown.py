"""What a result of Python's functions shows of itself: a table, a picture, a page, a frame, and notes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

from overstory.presentation.document import Block, Column, Figure, Heading, Paragraph, Row, Table
from overstory.presentation.render_data import as_arrow, as_csv
from overstory.presentation.render_markup import as_latex, as_markdown
from overstory.presentation.render_text import UNFOLDED, as_text

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


class Shown(ABC):
    """A result that shows itself alike in a terminal, a notebook and a page.

    ``polars.DataFrame(result)`` and ``pyarrow.table(result)`` work, as in any library that reads the Arrow C stream.
    """

    @abstractmethod
    def _headline(self) -> str:
        """Return how much was learned of how many, in a few words."""

    @abstractmethod
    def _screen(self) -> Iterable[Block]:
        """Return the tables, and what to read them by; the notes last."""

    @abstractmethod
    def plot(self) -> Picture:
        """Return a picture with its caption; a notebook shows it, and `Picture.svg` is its text, for a file."""

    @abstractmethod
    def rows(self) -> Iterable[Row]:
        """Return a dictionary per estimate; there is at least one."""

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table, a row for each of `rows`; what is not known is null."""
        rows = list(self.rows())
        return as_arrow(Table("", tuple(map(Column, rows[0])), rows))

    def table(self, *, form: TableForm = "text") -> str:
        """Return the tables and what to read them by as plain text, or as ``markdown``; as ``latex`` or ``csv`` alone.

        LaTeX needs the package ``booktabs``; a CSV has the numbers as they are.
        """
        return in_form(self._screen(), form)

    def page(self) -> str:
        """Return a page as HTML text, for a file: the picture, the tables and the notes."""
        from overstory.presentation.render_html import as_page

        return as_page(self.page_blocks())

    def page_blocks(self) -> Iterator[Block]:
        """Yield what the page shows."""
        yield Heading(1, self._headline())
        yield Figure(self.plot())
        yield from self._screen()

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
        """Return what a notebook shows: a headline, the picture and the tables; a value is only ever text."""
        from overstory.presentation.render_html import as_html, as_svg

        drawing = b64encode(as_svg(self.plot()).encode()).decode()  # an image: nothing of a value can run
        image = f'<img alt="the table\'s numbers as a picture" src="data:image/svg+xml;base64,{drawing}">'
        headline = as_html([Paragraph(repr(self))])
        return f'<div class="overstory"><style>{STYLE}</style>{headline}{image}{as_html([*self._screen()])}</div>'
