"""Every screen in a real browser: nothing stopped by the policy, nothing from elsewhere, and everybody can read it."""

from __future__ import annotations

import pytest

from overstory.console.layout import POLICY
from support.console_browser import NARROW, axe_violations, logged_in, reader
from support.console_screens import ALL, METRICS, addresses

pytestmark = pytest.mark.browser

MOST_BYTES = 300_000
SMALLEST_TEXT = 11.0

QUICK = "home"
"""The metric whose pages are looked at in every run; the others' are looked at in the long one."""


def _cases():
    for screen in ALL:
        for number in range(len(METRICS) if "{" in screen.path else 1):
            name = METRICS[number] if "{" in screen.path else "page"
            marks = [] if name in {QUICK, "page"} else [pytest.mark.slow]
            yield pytest.param(screen, number, id=f"{screen.path}-{name}", marks=marks)


each_screen = pytest.mark.parametrize(("screen", "number"), list(_cases()))


def address_of(screen, number, data):
    return addresses(screen, data.registry)[number]


@pytest.fixture(scope="module", params=["light", "dark"])
def viewing(request, browser, served):
    with logged_in(browser, served, scheme=request.param) as reading:
        yield reading


@each_screen
def test_a_page_is_clean_and_everybody_can_read_it(viewing, console_data, screen, number) -> None:
    viewing.problems.clear()
    response = viewing.open(address_of(screen, number, console_data))
    assert response.status in {200, 404}, response.text()
    assert response.headers["content-security-policy"] == POLICY
    assert len(response.body()) < MOST_BYTES
    assert viewing.problems == []
    assert axe_violations(viewing.page) == []
    assert viewing.problems == []


# What a reader without a script must get as well: everything but the numbers under a cursor.
CONTENT = """() => ({
  headings: [...document.querySelectorAll("h1, h2, h3")].map((one) => one.textContent),
  tables: [...document.querySelectorAll("table")].map((one) => one.textContent),
  pictures: [...document.querySelectorAll("main svg:not([data-cursor])")].map((one) => one.outerHTML),
  charts: [...document.querySelectorAll("main svg[data-cursor] title")].map((one) => one.textContent),
})"""


@pytest.fixture(scope="module")
def without_script(browser, served):
    with logged_in(browser, served, scripts=False) as reading:
        yield reading


@pytest.fixture(scope="module")
def with_script(browser, served):
    with logged_in(browser, served) as reading:
        yield reading


@each_screen
def test_without_a_script_a_page_says_the_same(with_script, without_script, console_data, screen, number) -> None:
    address = address_of(screen, number, console_data)
    with_script.open(address)
    without_script.open(address)
    assert without_script.page.evaluate(CONTENT) == with_script.page.evaluate(CONTENT)


# Sizes in pixels as they are drawn: a drawing's text is scaled with it.
TEXT_SIZES = """() => {
  const sizes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    if (element.closest("title, desc, metadata, .skip, caption")) continue;
    const drawn = element.ownerSVGElement ? element.getScreenCTM() : {a: 1, b: 0};
    const scale = Math.hypot(drawn.a, drawn.b);  // also of a text that is turned
    sizes.push([parseFloat(getComputedStyle(element).fontSize) * scale, walker.currentNode.textContent.trim()]);
  }
  return sizes;
}"""


@pytest.fixture(scope="module")
def on_a_phone(browser, served):
    with logged_in(browser, served, width=NARROW) as reading:
        yield reading


@each_screen
def test_on_a_phone_nothing_is_cut_off_or_too_small(on_a_phone, console_data, screen, number) -> None:
    on_a_phone.open(address_of(screen, number, console_data))
    assert on_a_phone.page.evaluate("document.documentElement.scrollWidth") <= NARROW
    sizes = on_a_phone.page.evaluate(TEXT_SIZES)
    assert sizes
    assert [text for size, text in sizes if size < SMALLEST_TEXT - 0.01] == []


PRINTED = """() => ({
  shown: [...document.querySelectorAll("header, nav, form")]
    .filter((one) => one.checkVisibility()).map((one) => one.outerHTML),
  cut: [...document.querySelectorAll(".wide")].filter((one) => getComputedStyle(one).overflowX !== "visible").length,
})"""


@each_screen
def test_on_paper_there_is_no_navigation_and_tables_are_not_cut(with_script, console_data, screen, number) -> None:
    with_script.open(address_of(screen, number, console_data))
    with_script.page.emulate_media(media="print")
    try:
        assert with_script.page.evaluate(PRINTED) == {"shown": [], "cut": 0}
    finally:
        with_script.page.emulate_media(media="screen")


VIEW = "document.querySelector('main').innerText"


@each_screen
def test_back_forward_reload_and_a_fresh_session_show_the_same_view(
    browser, served, with_script, console_data, screen, number
) -> None:
    page, address = with_script.page, address_of(screen, number, console_data)
    with_script.open(address)
    shown = page.evaluate(VIEW)
    with_script.open("/login")
    page.go_back()
    assert page.evaluate(VIEW) == shown
    page.go_forward()
    page.go_back()
    page.reload()
    assert page.evaluate(VIEW) == shown
    with logged_in(browser, served) as fresh:
        fresh.open(address)
        assert fresh.page.evaluate(VIEW) == shown


@each_screen
def test_a_keyboard_reaches_every_control(with_script, console_data, screen, number) -> None:
    page = with_script.page
    with_script.open(address_of(screen, number, console_data))
    wanted = page.evaluate(
        """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary,"
            + " [tabindex='0']")].filter((one) => one.checkVisibility()).length"""
    )
    page.evaluate("window.reached = new Set(); document.activeElement.blur()")
    for _ in range(min(wanted, 400) + 5):
        page.keyboard.press("Tab")
        page.evaluate("window.reached.add(document.activeElement)")
    assert page.evaluate("[...window.reached].filter((one) => one !== document.body).length") >= min(wanted, 400)


def test_a_link_opens_the_console_and_leaves_no_token_behind(browser, served) -> None:
    with reader(browser, served) as reading:
        link = served.link()
        reading.page.goto(link)
        reading.page.wait_for_url(f"{served.address}/m/")
        names = {cookie["name"]: cookie for cookie in reading.page.context.cookies()}
        assert any(name.startswith("__Host-overstory-") for name in names)
        assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in names.values())
        assert link.partition("#")[2] not in reading.page.content() + reading.page.url
        assert reading.problems == []


def test_without_a_script_a_link_is_pasted(browser, served) -> None:
    with reader(browser, served, scripts=False) as reading:
        reading.page.goto(f"{served.address}/login")
        reading.page.get_by_label("Link or token").fill(served.link())
        reading.page.get_by_role("button", name="Log in").click()
        reading.page.wait_for_url(f"{served.address}/m/")
        reading.page.get_by_role("button", name="Log out").click()
        reading.page.wait_for_url(f"{served.address}/")
        reading.page.goto(f"{served.address}/m/hostile")
        assert reading.page.get_by_role("button", name="Log in").is_visible()


def test_the_login_page_is_clean_and_everybody_can_read_it(browser, served) -> None:
    for scheme in ("light", "dark"):
        with reader(browser, served, scheme) as reading:
            reading.open("/login")
            assert axe_violations(reading.page) == []
            assert reading.problems == []


def test_what_a_page_does_wrong_is_noticed(browser, served) -> None:
    with reader(browser, served) as reading:
        reading.open("/login")
        reading.page.evaluate(
            """() => {
              const main = document.querySelector("main");
              main.setAttribute("style", "color: red");
              main.append(Object.assign(document.createElement("img"), {src: "https://elsewhere.example/x.png"}));
              main.append(document.createElement("input"));
              console.error("an error");
            }"""
        )
        reading.page.goto(f"{served.address}/login#none")
        reading.note_violations()
        noticed = "\n".join(reading.problems)
        for part in ("policy: style-src-attr", "policy: img-src: https://elsewhere.example/x.png", "console: an error"):
            assert part in noticed
        assert [rule for rule in axe_violations(reading.page) if rule.startswith(("label", "image-alt"))] != []


def test_a_request_to_elsewhere_is_noticed(browser, served) -> None:
    with reader(browser, served) as reading:
        reading.page.route("https://elsewhere.example/**", lambda route: route.fulfill(body="elsewhere"))
        reading.page.goto("https://elsewhere.example/")
        assert reading.problems == ["elsewhere: https://elsewhere.example/"]
