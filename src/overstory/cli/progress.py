"""What a person waiting sees on the error stream: a bar, and what was skipped."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overstory.files.csv import Skipped


@contextmanager
def reading_bar(args: argparse.Namespace, label: str, paths: Sequence[str]) -> Iterator[Callable[[int], object] | None]:
    """Show how much of some files has been read, if the error stream is a terminal; give the function to tell it."""
    if args.quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=_size(paths))

        yield lambda count: bar.advance(task, count)


@contextmanager
def bar(label: str, total: int) -> Iterator[Callable[[int], object]]:
    """Show how much of `total` is done, if the error stream is a terminal; give the function to tell it."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(label, total=total)
        yield lambda count: shown.advance(task, count)


def _size(paths: Sequence[str]) -> int | None:
    """Return how many bytes the files have; None where nobody knows, as of standard input."""
    return None if "-" in paths else sum(os.path.getsize(path) for path in paths) or None  # noqa: PTH202


def tell_skipped(skipped: Skipped | None, what: str) -> None:
    """Say on the error stream how much was skipped, and why, for the first few."""
    if skipped is None or not skipped.count:
        return
    for error in skipped.examples:
        print(f"overstory: skipped: {error}", file=sys.stderr)
    left = skipped.count - len(skipped.examples)
    more = f", of which {left:,} not shown" if left else ""
    print(f"overstory: skipped {skipped.count:,} bad {what}{more}", file=sys.stderr)
