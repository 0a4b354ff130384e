"""What a person waiting sees on the error stream: a bar, and what was skipped."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import rich.progress

    from overstory.files.csv import Skipped


class Progress:
    """A bar on the error stream, or nothing where that is no terminal."""

    def __init__(self, shown: rich.progress.Progress | None = None, task: Any = None) -> None:
        self._shown, self._task = shown, task

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees it."""
        return self._shown is not None

    def advance(self, amount: float) -> None:
        """Show that so much more is done."""
        if self._shown is not None:
            self._shown.advance(self._task, amount)

    def reach(self, done: float, label: str) -> None:
        """Show how much is done, and what is being done."""
        if self._shown is not None:
            self._shown.update(self._task, completed=done, description=label)


@contextmanager
def progress(label: str, total: float | None, *, quiet: bool = False, in_bytes: bool = False) -> Iterator[Progress]:
    """Show how much of `total` is done while the body runs."""
    if quiet or not sys.stderr.isatty():
        yield Progress()
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
    except ImportError:  # of the extra `analysis`; what it shows is not worth an error
        yield Progress()
        return

    amount = DownloadColumn() if in_bytes else TaskProgressColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as shown:
        yield Progress(shown, shown.add_task(label, total=total))


@contextmanager
def reading_bar(label: str, paths: Sequence[str], *, quiet: bool = False) -> Iterator[Callable[[int], None] | None]:
    """Show how much of some files has been read; yield the function that takes bytes, None where nobody sees it."""
    size = None if "-" in paths else sum(os.path.getsize(path) for path in paths) or None  # noqa: PTH202
    with progress(label, size, quiet=quiet, in_bytes=True) as shown:
        yield shown.advance if shown.is_shown else None


def tell_skipped(skipped: Skipped | None, what: str) -> None:
    """Print on the error stream how much was skipped, and why, for the first few."""
    if skipped is None or not skipped.count:
        return
    for error in skipped.examples:
        print(f"overstory: skipped: {error}", file=sys.stderr)
    left = skipped.count - len(skipped.examples)
    more = f", of which {left:,} not shown" if left else ""
    print(f"overstory: skipped {skipped.count:,} bad {what}{more}", file=sys.stderr)
