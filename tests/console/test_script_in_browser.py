"""What the console's script adds: a cursor on charts by keyboard and mouse, and forms that follow every change."""

from __future__ import annotations

import pytest

from support.console_browser import logged_in

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def reading(browser, served):
    with logged_in(browser, served) as opened:
        yield opened


def expected(reading, week):
    """Return how the cursor reads a week's numbers, from the page's own file."""
    rows = reading.page.request.get(f"{reading.served.address}/m/theme.json").json()["rows"]
    parts = []
    for row in (row for row in rows if row["to"] == week):
        share, low, high = (f"{100 * row[key]:.2f}" for key in ("frequency", "frequency_low", "frequency_high"))
        missing = "" if row["detected"] else ", not detected"
        parts.append(f"{row['value']} {share}% ({low} to {high}%){missing}")
    return parts


def test_arrow_keys_read_the_numbers_of_a_chart_out(reading) -> None:
    reading.open("/m/theme")
    figure = reading.page.locator("figure").first
    output = figure.locator("output")
    assert figure.get_attribute("role") == "group"
    figure.focus()
    figure.press("End")
    assert output.get_attribute("aria-live") == "polite"
    for week in ("2026-W47", "2026-W46", "2026-W45"):
        words = output.text_content()
        assert words.startswith(f"{week}: ")
        assert sorted(words.removeprefix(f"{week}: ").split("; ")) == sorted(expected(reading, week))
        figure.press("ArrowLeft")
    figure.press("Home")
    assert output.text_content().startswith("2026-W32: ")
    figure.press("ArrowLeft")
    assert output.text_content().startswith("2026-W32: ")
    assert reading.problems == []


def test_the_mouse_reads_the_column_under_it(reading) -> None:
    reading.open("/m/theme")
    figure = reading.page.locator("figure").first
    drawing = figure.locator("svg.on-wide")
    box, size = drawing.bounding_box(), drawing.get_attribute("viewBox").split()
    first, last = (float(number) for number in drawing.get_attribute("data-cursor").split()[1:])
    for column, week in ((0, "2026-W32"), (7, "2026-W39"), (15, "2026-W47")):
        across = first + (last - first) * column / 15
        reading.page.mouse.move(box["x"] + across / float(size[2]) * box["width"] + 1, box["y"] + box["height"] / 2)
        assert figure.locator("output").text_content().startswith(f"{week}: ")
    line = drawing.locator(".cursor-line")
    assert float(line.get_attribute("x1")) == pytest.approx(last, abs=0.1)


def test_a_live_form_changes_the_page_and_its_address_and_the_field_keeps_the_focus(reading) -> None:
    reading.open("/m/theme")
    page = reading.page
    page.get_by_label("Interval level").fill("0.9")
    page.locator("figcaption", has_text="with 90% intervals").wait_for()
    assert page.url.endswith("/m/theme?level=0.9&adjustment=fcr&reading=per-period")
    assert page.evaluate("document.activeElement.name") == "level"
    assert page.get_by_label("Interval level").input_value() == "0.9"
    assert page.locator("figure").first.get_attribute("tabindex") == "0"
    shown = page.locator("main").inner_text()
    reading.open(page.url.removeprefix(reading.served.address))
    assert page.locator("main").inner_text() == shown
    assert reading.problems == []
