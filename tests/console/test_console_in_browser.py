"""Every screen in a real browser: nothing stopped by the policy, nothing from elsewhere, and everybody can read it."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from overstory.console.app import POLICY
from support.console_browser import ALL, METRICS, NARROW, addresses, axe_violations, logged_in, reader

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
def test_a_page_is_clean_and_everybody_can_read_it(viewing, console_data, screen, number):
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
def test_on_a_phone_nothing_is_cut_off_or_too_small(on_a_phone, console_data, screen, number):
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


VIEW = "document.querySelector('main').innerText"


CONTROLS = """() => [...document.querySelectorAll(
  "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
)].filter((one) => one.checkVisibility()).length"""


@each_screen
def test_a_page_is_the_same_without_a_script_on_paper_when_it_comes_again_and_for_a_keyboard(
    browser, served, with_script, without_script, console_data, screen, number
):
    page, address = with_script.page, address_of(screen, number, console_data)
    for reading in (with_script, without_script):
        reading.open(address)
    assert without_script.page.evaluate(CONTENT) == page.evaluate(CONTENT)

    page.emulate_media(media="print")
    try:
        assert page.evaluate(PRINTED) == {"shown": [], "cut": 0}, "no navigation, and no table is cut"
    finally:
        page.emulate_media(media="screen")

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

    wanted = page.evaluate(CONTROLS)
    page.evaluate("window.reached = new Set(); document.activeElement.blur()")
    for _ in range(min(wanted, 400) + 5):
        page.keyboard.press("Tab")
        page.evaluate("window.reached.add(document.activeElement)")
    assert page.evaluate("[...window.reached].filter((one) => one !== document.body).length") >= min(wanted, 400)


def test_a_link_opens_the_console_and_leaves_no_token_behind(browser, served):
    with reader(browser, served) as reading:
        link = served.link()
        reading.page.goto(link)
        reading.page.wait_for_url(f"{served.address}/m/")
        names = {cookie["name"]: cookie for cookie in reading.page.context.cookies()}
        assert any(name.startswith("__Host-overstory-") for name in names)
        assert all(cookie["httpOnly"] and cookie["sameSite"] == "Lax" for cookie in names.values())
        assert link.partition("#")[2] not in reading.page.content() + reading.page.url
        assert reading.problems == []


def test_without_a_script_a_link_is_pasted(browser, served):
    with reader(browser, served, scripts=False) as reading:
        reading.page.goto(f"{served.address}/login")
        reading.page.get_by_label("Link or token").fill(served.link())
        reading.page.get_by_role("button", name="Log in").click()
        reading.page.wait_for_url(f"{served.address}/m/")
        reading.page.get_by_role("button", name="Log out").click()
        reading.page.wait_for_url(f"{served.address}/")
        reading.page.goto(f"{served.address}/m/hostile")
        assert reading.page.get_by_role("button", name="Log in").is_visible()


def test_the_login_page_is_clean_and_everybody_can_read_it(browser, served):
    for scheme in ("light", "dark"):
        with reader(browser, served, scheme) as reading:
            reading.open("/login")
            assert axe_violations(reading.page) == []
            assert reading.problems == []


def test_what_a_page_does_wrong_is_noticed(browser, served):
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


def test_a_request_to_elsewhere_is_noticed(browser, served):
    with reader(browser, served) as reading:
        reading.page.route("https://elsewhere.example/**", lambda route: route.fulfill(body="elsewhere"))
        reading.page.goto("https://elsewhere.example/")
        assert reading.problems == ["elsewhere: https://elsewhere.example/"]


@contextmanager
def other_site(page):
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def attack_page(target):
    field = '<input name="candidates" value="ash">'
    return (
        f'<form method="post" action="{target}/m/hostile">{field}<button>Go</button></form>'
        f'<form method="post" action="{target}/logout"><button>Out</button></form><a href="{target}/m/hostile">See</a>'
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_form_on_another_port_or_name_is_refused_and_a_link_works(browser, served, host):
    with other_site(attack_page(served.address)) as port, logged_in(browser, served) as reading:
        page = reading.page
        for button in ("Go", "Out"):
            page.goto(f"http://{host}:{port}/")
            with page.expect_navigation() as navigation:
                page.get_by_role("button", name=button).click()
            assert navigation.value.status == 403
        page.goto(f"http://{host}:{port}/")
        with page.expect_navigation() as navigation:
            page.get_by_role("link", name="See").click()
        assert navigation.value.status == 200  # the cookie travels with a link: a shared address shows the page


def test_the_same_form_on_the_consoles_own_page_is_taken(browser, served):
    with logged_in(browser, served) as reading:
        reading.open("/m/hostile")
        reading.page.get_by_label("Candidates").fill("ash\noak")
        with reading.page.expect_navigation() as navigation:
            reading.page.get_by_role("button", name="Decode").click()
        assert navigation.value.status == 200
        assert navigation.value.url == f"{served.address}/m/hostile?candidates=ash%0Aoak"


def test_a_page_cannot_be_put_into_a_frame(browser, served):
    with other_site(f'<iframe src="{served.address}/login"></iframe>') as port, reader(browser, served) as reading:
        reading.page.goto(f"http://127.0.0.1:{port}/")
        assert any("frame-ancestors" in problem for problem in reading.problems)


def test_hostile_words_are_shown_as_text(browser, served):
    with logged_in(browser, served) as reading:
        dialogs = []
        reading.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        reading.open("/m/hostile?candidates=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
        heading = reading.page.get_by_role("heading", level=1).inner_text()
        assert heading.startswith("<script>alert(1)</script>")
        assert "\u202e" not in reading.page.content()
        assert reading.page.locator("main img, main script").count() == 0
        assert (dialogs, reading.problems) == ([], [])


@pytest.fixture(scope="module")
def reading(browser, served):
    with logged_in(browser, served) as opened:
        yield opened


def expected(reading, week):
    rows = reading.page.request.get(f"{reading.served.address}/m/theme.json").json()["rows"]
    parts = []
    for row in (row for row in rows if row["to"] == week):
        share, low, high = (f"{100 * row[key]:.2f}" for key in ("frequency", "frequency_low", "frequency_high"))
        missing = "" if row["detected"] else ", not detected"
        parts.append(f"{row['value']} {share}% ({low} to {high}%){missing}")
    return parts


def test_arrow_keys_read_the_numbers_of_a_chart_out(reading):
    reading.open("/m/theme")
    figure = reading.page.locator("figure").first
    output = figure.locator("output")
    assert figure.get_attribute("role") == "group"
    figure.focus()
    figure.press("End")
    assert output.get_attribute("aria-live") == "polite"
    for week, day in (("2026-W47", "16 Nov"), ("2026-W46", "9 Nov"), ("2026-W45", "2 Nov")):
        words = output.text_content()
        assert words.startswith(f"{day}: ")
        assert sorted(words.removeprefix(f"{day}: ").split("; ")) == sorted(expected(reading, week))
        figure.press("ArrowLeft")
    figure.press("Home")
    assert output.text_content().startswith("3 Aug: ")
    figure.press("ArrowLeft")
    assert output.text_content().startswith("3 Aug: ")
    assert reading.problems == []


def test_the_mouse_reads_the_column_under_it(reading):
    reading.open("/m/theme")
    figure = reading.page.locator("figure").first
    drawing = figure.locator("svg.on-wide")
    box, size = drawing.bounding_box(), drawing.get_attribute("viewBox").split()
    first, last = (float(number) for number in drawing.get_attribute("data-cursor").split()[1:])
    for column, day in ((0, "3 Aug"), (7, "21 Sep"), (15, "16 Nov")):
        across = first + (last - first) * column / 15
        reading.page.mouse.move(box["x"] + across / float(size[2]) * box["width"] + 1, box["y"] + box["height"] / 2)
        assert figure.locator("output").text_content().startswith(f"{day}: ")
    line = drawing.locator(".cursor-line")
    assert float(line.get_attribute("x1")) == pytest.approx(last, abs=0.1)


def test_a_click_on_a_name_in_the_chart_leaves_it_out_as_its_link_does(reading):
    reading.open("/m/theme?level=0.9")
    link = reading.page.get_by_role("link", name="without light").get_attribute("href")
    reading.page.locator("figure svg.on-wide [data-name=light]").click()
    reading.page.wait_for_url(f"{reading.served.address}{link}")
    assert reading.page.locator("figure svg.on-wide [data-name=light]").count() == 0
    assert reading.page.get_by_label("Values, one a line").input_value() == "dark\nsystem\ncontrast"
    assert reading.problems == []


INK_AND_PAPER = """() => [...document.querySelectorAll("h1, th, td, .notice, svg text")]
  .filter((one) => one.checkVisibility())
  .map((one) => [getComputedStyle(one).color, getComputedStyle(one).backgroundColor, getComputedStyle(one).fill])
  .flat().filter((colour) => colour.startsWith("rgb("))
  .filter((colour) => colour.match(/\\d+/g).some((part) => part > 60 && part < 250))"""


@pytest.mark.parametrize("path", ["/m/", "/m/theme"])
def test_on_paper_a_dark_page_is_black_on_white_and_alarms_are_unfolded(browser, served, path):
    with logged_in(browser, served, scheme="dark") as reading:
        reading.open(path)
        page = reading.page
        assert page.evaluate(INK_AND_PAPER) != []
        page.emulate_media(media="print")
        assert page.evaluate(INK_AND_PAPER) == []
        assert page.get_by_text("A release, another mix of devices").first.is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        page.set_viewport_size({"width": 718, "height": 1000})  # A4 with Chromium's margins
        assert page.evaluate("document.documentElement.scrollWidth") <= 718
        assert page.pdf(format="A4").startswith(b"%PDF-")


def test_the_board_is_painted_within_half_a_second(reading):
    reading.open("/m/")
    times = []
    for _ in range(3):
        reading.page.reload()
        while not (painted := reading.page.evaluate("performance.getEntriesByName('first-contentful-paint')")):
            reading.page.wait_for_timeout(20)
        times.append(painted[0]["startTime"])
    assert min(times) < 500


def test_a_live_form_changes_the_page_and_its_address_and_the_field_keeps_the_focus(reading):
    reading.open("/m/theme")
    page = reading.page
    page.get_by_label("Interval level").fill("0.9")
    page.locator("figcaption", has_text="with 90% intervals").wait_for()
    assert page.url.endswith("/m/theme?level=0.9&reading=per-period&pool=1")
    assert page.evaluate("document.activeElement.name") == "level"
    assert page.get_by_label("Interval level").input_value() == "0.9"
    assert page.locator("figure").first.get_attribute("tabindex") == "0"
    shown = page.locator("main").inner_text()
    reading.open(page.url.removeprefix(reading.served.address))
    assert page.locator("main").inner_text() == shown
    assert reading.problems == []
