"""Documents as HTML and Markdown, tables as CSV and JSON: the same rows, and no text that is anything but text."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.presentation import render_text
from overstory.presentation.document import (
    Column,
    Field,
    Figure,
    Form,
    Heading,
    KeyValues,
    Lines,
    Link,
    Links,
    Notice,
    Paragraph,
    Preformatted,
    Table,
)
from overstory.presentation.formats import detection, interval, percent, thousands
from overstory.presentation.render_html import STYLE, as_html, as_page
from overstory.presentation.render_text import (
    CHUNK,
    FORMULA,
    as_csv,
    as_json,
    as_markdown,
    as_text,
    csv_lines,
    for_spreadsheet,
)
from overstory.presentation.svg import INK, VARIABLES, Picture
from support.html_reader import HtmlReader

EVIL = '<script>alert(1)</script>" onload="x\' =cmd() \u202egnp.exe \x1b[2J [a](javascript:x) | `c` *b* &lt;'
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="8pt" viewBox="0 0 9 8">'
    f'<path fill="{INK}" stroke="none"/><text font-weight="bold">x</text></svg>'
)
COLUMNS = (
    Column("value", is_left=True, csv="string"),
    Column("count", text=thousands),
    Column("ends", "95% interval", interval(percent), ("low", "high")),
    Column("detected", "", detection, tone=lambda detected: "good" if detected else "faint"),
)
TABLE = Table(
    "Estimates",
    COLUMNS,
    [
        {"value": "oak", "count": 1234.5, "low": 0.1, "high": 0.2, "detected": True},
        {"value": "ash", "count": -3.0, "low": None, "high": float("inf"), "detected": False},
    ],
    faint={1},
)


def blocks(text):
    picture = Picture("shares", text, text, SVG)
    return [
        *(Heading(level, text) for level in (1, 2, 3)),
        Paragraph(text, is_lead=True),
        Lines(text, text),
        *(KeyValues(((text, text),), kind) for kind in ("text", "figures", "lines")),
        Preformatted(text),
        Link(text, "/v1/metrics"),
        Table.of_cells(text, (text, "b"), [(text, text)], code=("b",)),
        Table.of_cells(text, (text, "b"), [(text, text)], code=("b",), fold="open"),
        Figure(picture),
    ]


def test_no_text_is_markup():
    page = HtmlReader(as_page(blocks(EVIL), contents=True))
    assert page.all("script") == []
    assert not any(name.startswith("on") or name == "style" for _, attributes in page.elements for name in attributes)
    assert all(character.isprintable() or character == "\n" for text in page.texts for character in text)
    assert sum("<script>alert(1)</script>" in text for text in page.texts) >= 20


def test_a_page_needs_its_own_style_sheet_and_nothing_else():
    page = as_page(blocks("plain"), contents=True)
    assert "style=" not in page
    assert page.count("<style>") == 1
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert not re.findall(r'(?:src|href)="(?!#|/v1)[^"]*"', page)
    assert {f"--{name}" for name in VARIABLES.values()} <= set(re.findall(r"--[a-z]+", STYLE))


def test_a_page_can_be_read_without_seeing_it():
    page = HtmlReader(
        as_page(
            [Heading(1, "Title"), Heading(2, "Part", "part"), TABLE, Figure(Picture("p", "c", "d", SVG))], contents=True
        )
    )
    assert page.all("html") == [{"lang": "en"}]
    assert {attributes["scope"] for attributes in page.all("th")} == {"col", "row"}
    assert len(page.all("caption")) == len(page.all("table")) == 1
    assert page.all("section") == [{"aria-labelledby": "part"}]
    assert {"href": "#part"} in page.all("a")
    assert page.all("div") == [{"class": "wide", "tabindex": "0", "role": "region", "aria-label": "Estimates"}]
    (picture,) = page.all("svg")
    assert picture["role"] == "img"
    assert "width" not in picture
    assert len(page.all("desc")) == 1
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))


def test_addresses_alone_become_links():
    pairs = (("why", "https://example.org/a"), ("odd", "https://example.org/ b"), ("bad", "javascript:alert(1)"))
    page = HtmlReader(as_html([KeyValues(pairs)]))
    assert page.all("a") == [{"href": "https://example.org/a", "rel": "noreferrer"}]


def test_rows_read_the_same_everywhere():
    cells = [("oak", "1,234", "10.00% to 20.00%", "detected"), ("ash", "-3", "unknown", "not detected")]
    assert list(TABLE.cells()) == cells
    page = HtmlReader(as_html([TABLE]))
    assert [text for text in page.texts if text.strip()][4:] == [cell for row in cells for cell in row]
    assert page.all("tr")[2] == {"class": "faint"}
    assert [attributes.get("class") for attributes in page.all("td")][3::3] == ["good", "faint"]
    assert as_markdown([TABLE]).split("\n")[2:] == [
        "| value | count | 95% interval |  |",
        "|---|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in cells),
        "",
    ]


def test_files_hold_the_numbers_behind_the_texts():
    assert list(csv.DictReader(as_csv(TABLE))) == [
        {"string": "oak", "count": "1234.5", "low": "0.1", "high": "0.2", "detected": "true"},
        {"string": "ash", "count": "-3", "low": "", "high": "", "detected": "false"},
    ]
    assert json.loads(json.dumps(as_json(TABLE), allow_nan=False)) == [
        {"value": "oak", "count": 1234.5, "low": 0.1, "high": 0.2, "detected": True},
        {"value": "ash", "count": -3.0, "low": None, "high": None, "detected": False},
    ]


def slow_line(cells):
    """A line of CSV, cell by cell."""
    texts = []
    for cell in cells:
        text = "" if cell is None else str(cell)
        if isinstance(cell, bool):
            text = text.lower()
        elif isinstance(cell, float):
            text = format(cell, ".10g") if math.isfinite(cell) else ""
        texts.append('"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text)
    return ",".join(texts) + "\n"


def slow_for_spreadsheet(lines):
    """The same lines with a mark before every text that begins like a formula or has the mark."""
    for cells in csv.reader(lines):
        yield slow_line(
            [cell if NUMBER.fullmatch(cell) or cell[:1] not in {*FORMULA, "'"} else "'" + cell for cell in cells]
        )


NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?")
TEXTS = st.text(st.sampled_from(list("ab,;'\"=+-@\t\r\n %\uff1d\u2028\x85\u00e4")), max_size=6)
NUMBERS = st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, 1e-320, 0.5, 12345678905.0, 99999999995e-1])
CELLS = TEXTS | NUMBERS | st.integers() | st.booleans() | st.none() | NUMBERS.map(np.float64)


@given(st.data(), st.integers(1, 4))
def test_columns_are_written_as_their_cells_one_by_one(data, width):
    kinds = data.draw(st.lists(st.sampled_from([TEXTS, NUMBERS, st.integers(), CELLS]), min_size=width, max_size=width))
    records = data.draw(st.lists(st.tuples(*kinds), max_size=8))
    columns = [Column(f"c{number}") for number in range(width)]
    expected = [slow_line(column.name for column in columns), *map(slow_line, records)]
    assert list(csv_lines(columns, records)) == expected
    assert list(for_spreadsheet(expected)) == list(slow_for_spreadsheet(expected))


def test_no_cell_of_a_column_of_one_kind_is_written_by_itself(monkeypatch):
    monkeypatch.setattr(render_text, "data_text", None)
    records = [(f"v{number}", number / 7, number, number > 3, "reports") for number in range(CHUNK + 3)]
    assert list(csv_lines([Column("a")], records))[1:] == list(map(slow_line, records))


def test_a_chunk_of_columns_ends_in_the_middle_of_no_record():
    records = [(f"v{number}", number / 7, number) for number in range(2 * CHUNK + 3)]
    records[CHUNK] = ("a, b", math.nan, None)
    assert list(csv_lines([Column("a")], records))[1:] == list(map(slow_line, records))


@pytest.mark.parametrize("text", ["=1+1", "@SUM(1)", "-ash", 'a "b", c', "line\rend", "'tis"])
def test_a_cell_of_csv_comes_back_and_is_no_formula_where_that_is_asked_for(text):
    table = Table.of_cells("", ("a",), [(text,)])
    assert list(csv.reader(io.StringIO("".join(as_csv(table)), newline="")))[1] == [text]
    (safe,) = list(csv.reader(for_spreadsheet(as_csv(table))))[1]
    assert not safe.startswith(FORMULA)
    assert safe.removeprefix("'") == text


def test_markdown_shows_every_text_as_it_is():
    text = "\n".join(line for line in as_markdown(blocks(EVIL)).split("\n") if not line.startswith("    "))  # no code
    assert "<script" not in text.replace("\\<script", "")
    assert "](javascript:" not in text
    assert all(character.isprintable() or character == "\n" for character in text)


HOSTILE = '"><script>alert(1)</script>'


def test_a_form_holds_its_values_and_limits_without_a_script():
    fields = (
        Field("from", "From", "2026-W01"),
        Field("epsilon", "Epsilon", "1.5", "number", least=0.1, most=8, step=0.1),
        Field("level", "Level", "0.9", "choice", choices=(("0.9", "90%"), ("0.95", "95%"))),
        Field("candidates", "Candidates", "\nfirst line is empty", "lines"),
    )
    elements = HtmlReader(as_html([Form("Range", fields, "Show", is_live=True)]))
    assert elements.all("form") == [{"method": "get", "aria-label": "Range", "data-live": None}]
    number = elements.all("input")[1]
    assert (number["name"], number["min"], number["max"], number["step"]) == ("epsilon", "0.1", "8", "0.1")
    assert [option.get("value") for option in elements.all("option") if "selected" in option] == ["0.9"]
    assert "\n\n" in as_html([Form("Range", fields[3:4], "Show")]), "a browser drops one line end after the tag"


def test_a_file_makes_a_form_multipart():
    form = HtmlReader(as_html([Form("List", (Field("list", "List", kind="file"),), "Send", method="post")])).all("form")
    assert form[0]["enctype"] == "multipart/form-data"
    assert form[0]["method"] == "post"


@pytest.mark.parametrize("kind", ["text", "number", "choice", "lines", "hidden"])
def test_no_field_lets_markup_out(kind):
    field = Field(HOSTILE, HOSTILE, HOSTILE, kind, choices=((HOSTILE, HOSTILE),), hint=HOSTILE)
    assert not HtmlReader(as_html([Form(HOSTILE, (field,), HOSTILE, action=HOSTILE)])).all("script")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "JAVASCRIPT:alert(1)", "data:text/html,x", " javascript:x"])
def test_no_link_runs_a_script(address):
    column = Column("name", link=lambda row: str(row["to"]))
    blocks = [
        Links("Views", (("a", address),)),
        Notice("b", "bad", address),
        Table("c", (column,), [{"name": "x", "to": address}]),
    ]
    assert [link["href"] for link in HtmlReader(as_html(blocks)).all("a")] == ["#", "#", "#"]


def test_the_current_place_is_marked():
    links = HtmlReader(as_html([Links("Views", (("chart", "/a"), ("table", "/b?x=1:2")), "table")])).all("a")
    assert [(link["href"], link.get("aria-current")) for link in links] == [("/a", None), ("/b?x=1:2", "page")]


def test_text_and_markdown_leave_forms_out_and_write_addresses():
    form = Form("Range", (Field("from", "From"),), "Show")
    notices = Notice("careful"), Notice("red", "bad", more=("It means <this>.", "Look there."))
    blocks = [Paragraph("before"), form, *notices, Links("Views", (("chart", "/a"),))]
    assert as_text(blocks) == "before\n\ncareful\n\nred\nIt means <this>.\nLook there.\n\nchart: /a\n"
    assert as_markdown(blocks) == ("before\n\n**careful**\n\n**red** It means \\<this>. Look there.\n\n- [chart](/a)\n")


def test_what_a_notice_folds_away_is_behind_its_sentence():
    notice = Notice("Red: step.", "bad", more=("It means <this>.", "Look there."))
    folded = "<details><summary>Red: step.</summary><p>It means &lt;this&gt;.</p><p>Look there.</p></details>"
    assert as_html([notice]).strip() == f'<div class="notice bad" role="note">{folded}</div>'
