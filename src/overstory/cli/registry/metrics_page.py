"""Metrics' public pages: in the terminal, and in Markdown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from overstory.presentation.streams import printable
from overstory.privacy.text import columns

if TYPE_CHECKING:
    from rich.console import Console

    from overstory.privacy.registry.page import MetricPage
    from overstory.privacy.registry.totals import TotalCost
    from overstory.protocol.metrics import MetricRegistry


def show(pages: Sequence[MetricPage]) -> None:
    """Print the pages."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    with console.capture() as captured:  # rich pads the cells of a table to the end of the line
        for number, page in enumerate(pages):
            if number:
                console.print()
                console.rule(style="dim")
            _print(console, page)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def _print(console: Console, page: MetricPage) -> None:
    from rich.table import Table
    from rich.text import Text

    from overstory.cli.registry.claims_table import print_claims

    console.print(Text(f"{printable(page.metric.title)}  ({page.metric.id})", style="bold"))
    console.print(Text(printable(page.metric.description)))
    console.print()
    facts = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for question, answer in page.facts:
        facts.add_row(Text(question, style="bold"), Text(printable(answer)))
    console.print(facts)
    console.print()
    console.print(Text(page.plain_words()))
    console.print()
    print_claims(console, page.claims)


def markdown(registry: MetricRegistry, pages: Iterable[MetricPage]) -> Iterator[str]:
    """Return the lines of a Markdown document."""
    from overstory.privacy.claims import COLUMNS

    yield "# What is collected, and how privately"
    yield ""
    yield f"Registry {_escaped(registry.version)}. An epsilon is a privacy loss (smaller is more private), exact, and"
    yield "rounded up; the odds are what it means: how far what is seen can move them between two values of one device."
    for page in pages:
        yield from ("", f"## {_escaped(page.metric.title)}", "")
        yield from (f"`{page.metric.id}`. {_escaped(page.metric.description)}", "")
        for question, answer in page.facts:
            linked = f"<{answer}>" if question == "Why" else _escaped(answer)
            yield f"- **{question}**: {linked}"
        yield from ("", _escaped(page.plain_words()), "", f"| {' | '.join(COLUMNS)} |", "|---|---:|---:|---|")
        for row in page.table():
            yield f"| {' | '.join(map(_escaped, row))} |"
        yield ""
        for words, note in page.notes().items():
            yield f"[{note}] {_escaped(words)}\n"


def show_end(totals: Iterable[TotalCost], budget: Sequence[str]) -> None:
    """Print what the metrics cost together, and what the budget allows."""
    for total in totals:
        print(f"\nTogether: {printable(total.about)}")
        print("\n".join(columns(total.pairs())))
    if budget:
        print("\nBudget")
        print("\n".join(f"  {printable(sentence)}" for sentence in budget))


def markdown_end(totals: Iterable[TotalCost], budget: Sequence[str]) -> Iterator[str]:
    """Return the lines of what the metrics cost together, and of what the budget allows."""
    for total in totals:
        yield from ("", f"## Together: {_escaped(total.about)}", "")
        yield from (f"- {_escaped(amount)}: {_escaped(words)}" for amount, words in total.pairs())
    if budget:
        yield from ("", "## Budget", "")
        yield from (f"- {_escaped(sentence)}" for sentence in budget)


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_<>|#" else c for c in printable(text))
