"""An estimate in a notebook and as a data frame: rows by value, pandas, Polars, Arrow, HTML with the picture.

All of it shows what `estimate_output.columns` has. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections import namedtuple
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from overstory.analysis.tables import output
from overstory.analysis.tables.columns import lookup_key
from overstory.analysis.tables.output import label_text
from overstory.presentation.document import Lines, Paragraph
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from overstory.analysis.selection import Adjustment, IntervalKind

SHOWN: Final = 20
"""Values that a notebook shows, the most frequent."""


STYLE: Final = ".overstory .text { text-align: left; } .overstory .faint { opacity: .7; }"
"""What a notebook's own style lacks."""


class Row(NamedTuple):
    """One value of an estimate; an unknown number is None.

    Attributes
    ----------
    count, frequency
        The estimate as it is reported, in reports and as a share of them.
    raw_count, standard_error, frequency_standard_error
        The unbiased estimate and its standard error.
    low, high, frequency_low, frequency_high
        The 95% interval, adjusted for detection as `adjustment` says.
    plain_low, plain_high, plain_frequency_low, plain_frequency_high
        The same interval without an adjustment.
    z, p_value, q_value, detected
        Whether the value is surely present: see `Estimate.detected`.
    """

    value: Any  # the value itself; None where it stands for a missing one
    count: float  # type: ignore[assignment] # a tuple's own `count` is given up for it
    raw_count: float
    standard_error: float | None
    frequency: float
    frequency_standard_error: float | None
    low: float | None
    high: float | None
    frequency_low: float | None
    frequency_high: float | None
    z: float
    p_value: float
    q_value: float
    detected: bool
    interval: IntervalKind  # what the standard errors and the interval are for: ``reports``, or ``population``
    adjustment: Adjustment  # of this value's interval: ``none`` where it was not detected
    plain_low: float | None
    plain_high: float | None
    plain_frequency_low: float | None
    plain_frequency_high: float | None


CorrectedRow: Final[Any] = namedtuple(  # type: ignore[misc]  # noqa: PYI024
    "CorrectedRow", (*Row._fields, "corrected_count", "corrected_frequency")
)
"""A `Row` of an estimate whose adjustment is ``conditional``: with the estimate corrected for detection."""


class UnknownValueError(ParameterError, KeyError):
    """A value that an estimate does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class Frame:
    """What makes an estimate a table: rows, the most frequent first, and each of them by its value.

    ``estimate["First"]`` is a `Row`; ``for row in estimate`` goes through all of them; ``pandas.DataFrame(estimate)``,
    ``polars.DataFrame(estimate)`` and ``pyarrow.table(estimate)`` work.
    """

    def __iter__(self: Any) -> Iterator[Row]:
        """Yield a row for each value, most frequent first; of a corrected estimate a `CorrectedRow`."""
        places, row = self.order(), _row_class(self)
        columns = output.columns(self, places).values()
        for place, *numbers in zip(places, *map(output.plain, columns), strict=True):
            yield row(self.values[place], *numbers)

    def __getitem__(self: Any, value: Any) -> Row:
        """Return the row of a value; None, NaN and NA stand for a missing one.

        Raises
        ------
        UnknownValueError
            When there is no such value; it is a KeyError too.
        """
        place = self._place(lookup_key(value))
        columns = output.columns(self, np.array([place])).values()
        row: Row = _row_class(self)(self.values[place], *(output.plain(column)[0] for column in columns))
        return row

    def __contains__(self, value: Any) -> bool:
        """Whether there is such a value."""
        try:
            self._place(lookup_key(value))
        except UnknownValueError:
            return False
        return True

    def _place(self: Any, key: Any) -> int:
        places: dict[Any, int] = self._places
        if key not in places and isinstance(key, int) and str(key) in places:
            key = str(key)  # an oracle without labels names its symbols "0", "1", ...
        if key not in places:
            raise UnknownValueError(_unknown(key, self.values))
        return places[key]

    @cached_property
    def _places(self: Any) -> dict[Any, int]:
        return {value: place for place, value in reversed(list(enumerate(self.values)))}

    def to_arrow(self: Any) -> pa.Table:
        """Return an Arrow table, a row for each value, most frequent first; what is not known is null."""
        import pyarrow as pa

        places = self.order()
        columns = output.columns(self, places)
        arrays = {
            name: pa.array(column, mask=~np.isfinite(column) if column.dtype.kind == "f" else None)
            for name, column in columns.items()
        }
        return pa.table({"value": _arrow_labels([self.values[place] for place in places]), **arrays})

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame, a row for each value, most frequent first; a missing value is NA."""
        import pandas as pd

        table = self.to_arrow()
        frame: pd.DataFrame = table.drop_columns("value").to_pandas()
        labels = table.column("value").to_pylist()
        frame.insert(0, "value", pd.array(labels) if labels else pd.array([], dtype="str"))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return a Polars DataFrame, a row for each value, most frequent first."""
        import polars as pl

        return pl.DataFrame(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export `to_arrow` by the Arrow PyCapsule interface: Polars, DuckDB and others take an estimate as a table."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self: Any) -> str:
        return output.table(self, SHOWN, 0.95, self.notes)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._headline()})"

    def _headline(self: Any) -> str:
        detected = int(np.count_nonzero(self.detected()))
        return f"{self.num_reports:,} reports, {len(self.values):,} values, {detected:,} detected"

    def _repr_html_(self: Any) -> str:
        """Return what a notebook shows: a headline, the picture, the table and the notes; a value is only ever text."""
        from overstory.presentation.render_html import as_html

        rows = output.rows(self, SHOWN)
        left = len(self.values) - len(rows)
        notes = [*([f"{left:,} more values are not shown"] if left else []), *self.notes]
        picture = f'<img alt="the table\'s shares with their intervals" src="{_picture(self)}">'
        headline = Paragraph(f"{type(self).__name__}: {self._headline()}")
        table = as_html([output.estimate_table(rows), *([Lines(*notes)] if notes else [])])
        return f'<div class="overstory"><style>{STYLE}</style>{as_html([headline])}{picture}{table}</div>'


def _row_class(estimate: Any) -> Any:
    return CorrectedRow if estimate.adjustment == "conditional" else Row


def _picture(estimate: Any) -> str:
    """Return the picture as the address of an image, in which nothing of a value can run."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    drawn = io.BytesIO()
    height = output.plot_height(estimate, SHOWN)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "overstory"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # the browser has fonts of its own
        figure = Figure(figsize=(8, height), layout="constrained")
        estimate.plot(figure.subplots(), SHOWN)
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return f"data:image/svg+xml;base64,{b64encode(drawn.getvalue()).decode()}"


def _arrow_labels(labels: list[Any]) -> Any:
    """Return labels as one Arrow array: text, where they are of several kinds."""
    import pyarrow as pa

    kinds = {type(label) for label in labels if label is not None}
    if len(kinds) > 1:
        labels = [None if label is None else label_text(label) for label in labels]
    return pa.array(labels, None if kinds else pa.string())


def _unknown(key: Any, values: Sequence[Any]) -> str:
    import difflib  # only after a mistake

    texts = [label_text(value) for value in values]
    near = difflib.get_close_matches(label_text(key), texts, n=1)
    if near:
        return f"there is no value {key!r}: did you mean {values[texts.index(near[0])]!r}?"
    first = ", ".join(repr(value) for value in values[:5])
    return f"there is no value {key!r} among the {len(values):,}: {first}{', ...' if len(values) > 5 else ''}"
