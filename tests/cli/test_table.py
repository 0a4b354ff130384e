"""A table without a terminal: the very characters that Rich draws, or Rich itself."""

import io

import pytest
from rich.console import Console
from rich.table import Table
from rich.text import Text

from overstory.cli import parser, table

HEAD = ("value", "truth", "", "95% interval")
ROWS = [
    ("oak", "66.67%", "9", "0.00–100.00%"),
    ("", "3%", "a longer cell", "–"),
    ("Zürich [bold]no[/bold] :smile: $5", "", "b", "1,234"),
]


def drawn(head, rows, left, width):
    """Return what Rich draws where there is no terminal."""
    target = io.StringIO()
    shown = Table(box=None, header_style="bold", pad_edge=False)
    for name in head:
        shown.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))
    Console(file=target, width=width, highlight=False).print(shown)
    return target.getvalue().splitlines()


@pytest.mark.parametrize("left", [{"value"}, {"value", ""}, set(), {"95% interval"}])
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
@pytest.mark.parametrize("width", [100, 75])
def test_plain_lines_are_those_that_rich_draws(left, rows, width):
    assert table.plain_lines(HEAD, rows, left, width) == drawn(HEAD, rows, left, width)


@pytest.mark.parametrize("cell", ["日本", "e\u0301", "x" * 100, "\u200b", "tab\t", "🌲"])
def test_what_must_be_folded_or_takes_other_widths_is_left_to_rich(cell):
    assert table.plain_lines(HEAD, [(cell, "1", "2", "3")], {"value"}, 100) is None


def test_a_table_is_just_as_wide_as_it_may_be():
    wide = max(map(len, drawn(HEAD, ROWS, {"value"}, 200)))
    assert table.plain_lines(HEAD, ROWS, {"value"}, wide) == drawn(HEAD, ROWS, {"value"}, wide)
    assert table.plain_lines(HEAD, ROWS, {"value"}, wide - 1) is None


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("cell", ["oak", "日本"])
def test_a_table_is_printed_the_same_by_either(monkeypatch, capsys, forced, cell):
    monkeypatch.setattr(table, "_is_drawn", lambda: forced)
    rows = [(cell, "1", "2", "3")]
    table.print_table(HEAD, rows, left={"value"}, width=100, dim={0})
    assert capsys.readouterr().out.splitlines() == drawn(HEAD, rows, {"value"}, 100)


@pytest.mark.parametrize("forced", [False, True])
def test_lines_are_printed_the_same_by_either(monkeypatch, capsys, forced):
    monkeypatch.setattr(table, "_is_drawn", lambda: forced)
    lines = ["", "a [bold]line[/bold] :smile: " + "long " * 60, " 日本  ", "Page: out/é"]
    table.print_lines(lines, width=100)
    assert capsys.readouterr().out == "\n".join(lines) + "\n"


def test_colour_that_is_forced_is_still_drawn(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    table.print_table(HEAD, ROWS, left={"value"}, width=100)
    assert "\x1b[1m" in capsys.readouterr().out


def test_help_is_as_wide_as_the_terminal(monkeypatch):
    import shutil

    for columns in ("", "x", "0", "-3", "55", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert parser.terminal_width() == shutil.get_terminal_size().columns
    monkeypatch.delenv("COLUMNS")
    assert parser.terminal_width() == shutil.get_terminal_size().columns
