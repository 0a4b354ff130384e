"""Documents as text: tables as Rich draws them, sentences as wide as the terminal, and nothing that steers it."""

import io
import shutil

import pytest
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from overstory.cli import main as parser
from overstory.presentation import render_text
from overstory.presentation.document import Figure, Heading, KeyValues, Lines, Link, Paragraph, Preformatted, Table
from overstory.presentation.render_text import Layout, as_text, print_document
from overstory.presentation.svg import Picture

HEAD = ("value", "truth", "", "95% interval")
ROWS = [
    ("oak", "66.67%", "9", "0.00–100.00%"),
    ("", "3%", "a longer cell", "–"),
    ("Zürich [bold]no[/bold] :smile: $5", "", "b", "1,234"),
]


def drawn(head, rows, left, width):
    """Return what Rich draws where there is no terminal, without the spaces at the ends of lines."""
    target = io.StringIO()
    shown = RichTable(box=None, header_style="bold", pad_edge=False)
    for name in head:
        shown.add_column(name, justify="left" if name in left else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(Text, row))
    Console(file=target, width=width, highlight=False).print(shown)
    return [line.rstrip() for line in target.getvalue().splitlines()]


def lines(head, rows, left, width):
    return as_text([Table.of_cells("", head, rows, left=left)], Layout(width)).splitlines()


@pytest.mark.parametrize("left", [{"value"}, {"value", ""}, set(), {"95% interval"}])
@pytest.mark.parametrize("rows", [ROWS, ROWS[:1], []])
@pytest.mark.parametrize("width", [100, 75])
def test_a_table_is_drawn_as_rich_draws_it(left, rows, width):
    assert lines(HEAD, rows, left, width) == drawn(HEAD, rows, left, width)


@pytest.mark.parametrize(
    "cell", ["日本", "e\u0301", "x" * 100, "🌲", "word " * 30 + "end", "日本" * 40, "日 本 語 " * 20]
)
@pytest.mark.parametrize("width", [100, 60])
def test_letters_of_other_widths_and_cells_that_are_folded_are_drawn_as_rich_draws_them(cell, width):
    rows = [(cell.strip(), "1", "2", "3")]
    assert lines(HEAD, rows, {"value"}, width) == drawn(HEAD, rows, {"value"}, width)


@pytest.mark.parametrize("cell", ["\u200b", "tab\t", "\x1b[31mred", "a\nb", "\u202etxt"])
def test_nothing_steers_the_terminal(cell):
    table = Table.of_cells(cell, (cell,), [(cell,)])
    blocks = [Heading(1, cell), Paragraph(cell), Lines(cell), KeyValues(((cell, cell),)), table, Link(cell, cell)]
    shown = as_text([*blocks, Preformatted(cell.replace("\n", "")), Figure(Picture("p", cell, cell, ""))])
    assert all(character.isprintable() for line in shown.split("\n") for character in line)


@pytest.mark.parametrize("variable", [None, *render_text.FORCING])
@pytest.mark.parametrize("cell", ["oak", "日本"])
def test_colour_that_is_forced_changes_no_letter(monkeypatch, capsys, variable, cell):
    for name in render_text.FORCING:
        monkeypatch.delenv(name, raising=False)
    expected = drawn(HEAD, [(cell, "1", "2", "3")], {"value"}, 100)
    if variable:
        monkeypatch.setenv(variable, "1")
    print_document([Table.of_cells("", HEAD, [(cell, "1", "2", "3")], left={"value"})])
    shown = capsys.readouterr().out
    assert ("\x1b[1m" in shown) == (variable is not None)
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert plain.splitlines() == expected


def test_in_a_pipe_a_sentence_is_one_line(capsys):
    texts = ["a [bold]line[/bold] :smile: " + "long " * 60 + "end", " 日本", "Page: out/é"]
    print_document([Lines(*texts)])
    assert capsys.readouterr().out == "\n".join(texts) + "\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("term", "is_styled"), [("xterm", True), ("dumb", False)])
def test_at_a_terminal_sentences_are_wrapped_and_headings_are_bold(monkeypatch, term, is_styled):
    for name in render_text.FORCING:
        monkeypatch.delenv(name, raising=False)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", term)
    table = Table("", (), [])
    faint = Table("", Table.of_cells("", ("a",), []).columns, [{"0": "x"}, {"0": "y"}], faint={1})
    print_document([Heading(3, "Title"), Paragraph("word " * 20 + "/a/path/" + "x" * 40), faint])
    shown = terminal.getvalue()
    assert table.rows == []
    assert ("\x1b[1mTitle\x1b[0m" in shown, "\x1b[2my\x1b[0m" in shown) == (is_styled, is_styled)
    assert "/a/path/" + "x" * 40 in shown
    assert all(len(line) <= 30 or "/a/path" in line for line in shown.splitlines())


def test_blocks_are_parted_by_an_empty_line_but_for_headings():
    blocks = [Heading(2, "Colour"), Paragraph("One."), Paragraph("Two."), Heading(3, "Next"), Lines("a", "b")]
    assert as_text(blocks) == "Colour\n------\nOne.\n\nTwo.\n\nNext\na\nb\n"


def test_codes_go_below_their_meaning_where_a_table_can_be_folded_away():
    table = Table.of_cells(
        "Report", ("bytes", "what", "meaning"), [("00ff" * 60, "header", "version 1")], code=("bytes",), fold="open"
    )
    assert as_text([table]).split("\n")[:2] == ["Report", "  header: version 1  " + ("00ff" * 60)[:79]]
    plain = Table.of_cells("", ("n", "bits"), [("1", "0101")], code=("bits",))
    assert as_text([plain]).split("\n")[1:] == ["1", "    0101", ""]


def test_help_is_as_wide_as_the_terminal(monkeypatch):
    for columns in ("", "x", "0", "-3", "55", "200"):
        monkeypatch.setenv("COLUMNS", columns)
        assert parser.terminal_width() == shutil.get_terminal_size().columns
    monkeypatch.delenv("COLUMNS")
    assert parser.terminal_width() == shutil.get_terminal_size().columns
