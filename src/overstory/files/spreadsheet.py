"""CSV for spreadsheets: no cell of it is a formula, and every value can be read back exactly."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from overstory.files.io import FilePath, writing_text
from overstory.presentation.render_data import for_spreadsheet


@contextmanager
def writing_csv(path: FilePath, *, spreadsheet: bool) -> Iterator[TextIO]:
    """Open a file to write CSV into; with `spreadsheet`, no cell of what is written is a formula."""
    with writing_text(path) as text:
        if not spreadsheet:
            yield text
            return
        lines = io.StringIO(newline="")
        yield lines
        lines.seek(0)
        text.writelines(for_spreadsheet(lines))
