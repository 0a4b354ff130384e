"""The planner with its script: the page follows a slider that stays in the hand, and links fill the form."""

from __future__ import annotations

import re

import pytest

from support.console_browser import reader

pytestmark = pytest.mark.browser


@pytest.fixture
def planner(browser, served):
    from playwright.sync_api import expect

    with reader(browser, served) as reading:
        reading.open("/plan")
        yield reading, expect
        reading.note_violations()
        assert reading.problems == []


def odds(page):
    return page.locator(".figures dd").first


def test_the_page_follows_a_slider_and_leaves_it_in_the_hand(planner) -> None:
    reading, expect = planner
    page = reading.page
    slider = page.get_by_role("slider", name="Epsilon of one report")
    handle = slider.element_handle()
    slider.focus()
    for _ in range(30):
        page.keyboard.press("ArrowRight")
    expect(page).to_have_url(re.compile("epsilon=2&"))
    expect(page.locator("input[name=epsilon]")).to_have_value("2")
    expect(odds(page)).to_have_text("7.39 times")
    assert handle.evaluate("(slider) => slider === document.activeElement"), "the same slider, still in the hand"
    assert page.locator("figure").count() == 2


def test_a_drag_goes_on_while_the_page_changes(planner) -> None:
    reading, expect = planner
    page = reading.page
    slider = page.get_by_role("slider", name="Devices")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.57, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.4, middle, steps=4)
    expect(page).to_have_url(re.compile("reports="))
    first = int(page.locator("input[name=reports]").input_value())
    page.mouse.move(box["x"] + box["width"] * 0.1, middle, steps=4)
    page.mouse.up()
    expect(page.locator(".notice")).to_contain_text("is too small for these needs")
    assert int(page.locator("input[name=reports]").input_value()) < first


def test_a_link_to_needs_that_can_be_met_fills_the_form(planner) -> None:
    reading, expect = planner
    page = reading.page
    page.locator("input[name=reports]").fill("10000")
    link = page.get_by_role("navigation", name="Needs that can be met").get_by_role("link", name="devices")
    number = link.inner_text().split()[0].replace(",", "")
    link.click()
    expect(page.locator("input[name=reports]")).to_have_value(number)
    expect(page.locator(".notice")).to_have_count(0)


def test_a_mistake_leaves_the_form_to_be_corrected(planner) -> None:
    reading, expect = planner
    page = reading.page
    field = page.locator("input[name=epsilon]")
    field.fill("9")
    expect(page.locator(".notice")).to_contain_text("is below epsilon_report")
    expect(field).to_be_focused()
    field.fill("1")
    expect(odds(page)).to_have_text("2.72 times")
    reading.problems = [problem for problem in reading.problems if "status of 400" not in problem]
