"""Forms, notices and rows of links: on a page, and left out or flattened elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from overstory.presentation.document import Column, Field, Form, Links, Notice, Paragraph, Table
from overstory.presentation.render_html import as_html
from overstory.presentation.render_markdown import as_markdown
from overstory.presentation.render_text import as_text

HOSTILE = '"><script>alert(1)</script>'


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.all if name == tag]


def test_a_form_holds_its_values_and_limits_without_a_script() -> None:
    fields = (
        Field("from", "From", "2026-W01"),
        Field("epsilon", "Epsilon", "1.5", "slider", least=0.1, most=8, step=0.1),
        Field("level", "Level", "0.9", "choice", choices=(("0.9", "90%"), ("0.95", "95%"))),
        Field("candidates", "Candidates", "\nfirst line is empty", "lines"),
        Field("complete", "Complete", "true", "switch"),
    )
    elements = Elements(as_html([Form("Range", fields, "Show", is_live=True)]))
    assert elements.of("form") == [{"method": "get", "aria-label": "Range", "data-live": None}]
    number, slider = elements.of("input")[1:3]
    assert (number["name"], number["min"], number["max"], number["step"]) == ("epsilon", "0.1", "8", "0.1")
    assert "name" not in slider, "a slider without a script must send no second value"
    assert [option.get("value") for option in elements.of("option") if "selected" in option] == ["0.9"]
    assert "checked" in elements.of("input")[-1]
    assert "\n\n" in as_html([Form("Range", fields[3:4], "Show")]), "a browser drops one line end after the tag"


def test_a_slider_of_ratios_moves_on_their_logarithms_and_its_number_takes_any_digits() -> None:
    field = Field("reports", "Devices", "12345", "slider", least=100, most=10**9, is_logarithmic=True)
    number, slider = Elements(as_html([Form("Needs", (field,), "Plan")])).of("input")
    assert (number["value"], number["min"], number["max"], number["step"]) == ("12345", "100", "1e+09", "any")
    assert (slider["value"], slider["min"], slider["max"]) == ("4.09149", "2", "9")
    assert "data-log" in slider


def test_a_file_makes_a_form_multipart() -> None:
    form = Elements(as_html([Form("List", (Field("list", "List", kind="file"),), "Send", method="post")])).of("form")
    assert form[0]["enctype"] == "multipart/form-data"
    assert form[0]["method"] == "post"


@pytest.mark.parametrize("kind", ["text", "number", "slider", "choice", "switch", "lines", "hidden"])
def test_no_field_lets_markup_out(kind: str) -> None:
    field = Field(HOSTILE, HOSTILE, HOSTILE, kind, choices=((HOSTILE, HOSTILE),), hint=HOSTILE)  # type: ignore[arg-type]
    assert not Elements(as_html([Form(HOSTILE, (field,), HOSTILE, action=HOSTILE)])).of("script")


@pytest.mark.parametrize("address", ["javascript:alert(1)", "JAVASCRIPT:alert(1)", "data:text/html,x", " javascript:x"])
def test_no_link_runs_a_script(address: str) -> None:
    column = Column("name", link=lambda row: str(row["to"]))
    blocks = [
        Links("Views", (("a", address),)),
        Notice("b", "bad", address),
        Table("c", (column,), [{"name": "x", "to": address}]),
    ]
    assert [link["href"] for link in Elements(as_html(blocks)).of("a")] == ["#", "#", "#"]


def test_the_current_place_is_marked() -> None:
    links = Elements(as_html([Links("Views", (("chart", "/a"), ("table", "/b?x=1:2")), "table")])).of("a")
    assert [(link["href"], link.get("aria-current")) for link in links] == [("/a", None), ("/b?x=1:2", "page")]


def test_text_and_markdown_leave_forms_out_and_write_addresses() -> None:
    form = Form("Range", (Field("from", "From"),), "Show")
    blocks = [Paragraph("before"), form, Notice("careful"), Links("Views", (("chart", "/a"),))]
    assert as_text(blocks) == "before\n\ncareful\n\nchart: /a\n"
    assert as_markdown(blocks) == "before\n\n**careful**\n\n- [chart](/a)\n"
