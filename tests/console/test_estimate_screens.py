"""A metric over time and one period: the numbers of the page, of its files and of the command line are the same."""

import csv
import json
import re
from html import unescape
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from overstory.analysis.difference import total
from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import open_store
from overstory.console.app import SCREENS
from overstory.console.data import ConsoleData
from overstory.console.screens.page import capitalized
from overstory.console.screens.series import SharesOverTime
from overstory.presentation.charts.drawing import Scale
from overstory.presentation.document import Links
from overstory.presentation.formats import date_words, detection, interval, p_value, percent, thousands
from overstory.protocol.metrics import parse_registry
from support.console_in_process import SAME_ORIGIN
from support.console_store import add_batch
from support.decoding import shared_estimates
from support.devices import Clock
from support.registry_texts import registry_of
from support.running import within

DAY, WEEK = "2026-11-21", "2026-W47"
LAST_WEEK, LAST_DAY = 2968, 20_778
NOW = 1_795_254_000.0
TREES = ("oak", "elm", "ash", "beech", "birch", "maple", "pine", "yew")
THEMES = ("dark", "light", "system", "contrast", "sepia", "mono", "amber")

FILTERS = "{num_bits = 32, num_cohorts = 8, num_hashes = 2, f = 0.0, p = 0.25, q = 0.75}"
LETTERS = '{kind = "categories", names = ["a", "b", "c"]}'
METRICS = {
    "theme": {
        "domain": f'{{kind = "categories", names = {list(THEMES)}}}',
        "parameters": "{epsilon = 3.0}",
        "period": '"week"',
    },
    "tree": {"domain": '{kind = "strings", candidates = "trees.txt"}', "oracle": '"rappor"', "parameters": FILTERS},
    "word": {"domain": '{kind = "strings"}', "oracle": '"rappor"', "parameters": FILTERS},
    "rare": {"domain": LETTERS, "parameters": "{epsilon = 0.2}"},
    "none": {"domain": LETTERS},
}
TEXT = registry_of(METRICS, retention_days="900", grace_days="2", expires="2040-01-01")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def registry(folder):
    (folder / "trees.txt").write_text("".join(f"{tree}\n" for tree in TREES))
    (folder / "metrics.toml").write_text(TEXT)
    return parse_registry(TEXT, folder)


def fill(store, metric, period, values, seed):
    oracle = FrequencyOracle(metric.mechanism)
    columns = values if metric.domain.size is None else np.array([metric.labels.index(value) for value in values])
    add_batch(store, metric, period, oracle.simulate(columns, rng=seed))


@pytest.fixture(scope="module")
def store(folder, registry):
    store = open_store(str(folder / "store.db"), registry, create=True)
    rng = np.random.default_rng(20261122)
    shares = [0.4, 0.3, 0.15, 0.1, 0.05, 0.0, 0.0]
    for week in (5, 4, 3, 1, 0):
        fill(store, registry["theme"], LAST_WEEK - week, rng.choice(THEMES, 2_000, p=shares).tolist(), week)
    shares = [0.3, 0.2, 0.15, 0.1, 0.1, 0.08, 0.07, 0.0]
    for day in range(3):
        for name in ("tree", "word"):
            fill(store, registry[name], LAST_DAY - day, rng.choice(TREES, 6_000, p=shares).tolist(), 10 + day)
    fill(store, registry["rare"], LAST_DAY, ["a"] * 12, 20)
    with store:
        yield store


@pytest.fixture(scope="module")
def data(store, registry):
    decoder = shared_estimates(120)  # no page of these tests is to be asked for twice
    yield ConsoleData(registry, store, Clock(NOW), decoder)
    decoder.close()


def tables(html):
    bodies = re.findall(r"<tbody>(.*?)</tbody>", html, re.DOTALL)
    rows = [re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL) for body in bodies]
    cell = re.compile(r"<t[hd][^>]*>(.*?)</t[hd]>", re.DOTALL)
    return [[[unescape(re.sub("<[^>]*>", "", text)) for text in cell.findall(row)] for row in body] for body in rows]


def decode(folder, metric, *options):
    answer = within(
        *("decode", "--store", "store.db", "--registry", "metrics.toml", "--metric", metric),
        *("--interval", "population", "--quiet", *options),
        cwd=folder,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def printed(row):
    number = {key: None if text == "" else float(text) for key, text in row.items() if key not in TEXTS}
    scale = number["estimate"] / number["proportion"] if number["proportion"] else 0.0
    low, high = number["prop_low_95"], number["prop_high_95"]
    cells = [row["string"], thousands(number["estimate"]), None, percent(number["proportion"])]
    assert scale >= 0
    return [*cells, interval(percent)(low, high), p_value(number["p_value"])]


TEXTS = {"from", "to", "string", "detected", "interval", "adjustment"}


@pytest.mark.parametrize(("metric", "period"), [("theme", WEEK), ("tree", DAY)])
def test_a_period_reads_the_same_on_the_page_in_its_files_and_on_the_command_line(client, folder, metric, period):
    ends = ("--from", period, "--to", period)
    file = client.get(f"/m/{metric}/{period}.csv").text
    assert file == decode(folder, metric, *ends, "-o", "-")
    (reading,) = json.loads(decode(folder, metric, *ends, "--json", "--all"))["readings"]
    assert client.get(f"/m/{metric}/{period}.json").json()["notes"] == reading["notes"]
    page = client.get(f"/m/{metric}/{period}").text
    shown = {cells[0]: cells for cells in tables(page)[0]}
    for row in csv.DictReader(file.splitlines()):
        cells, expected = shown[row["string"]], printed(row)
        assert [cells[at] for at in (0, 1, 3, 4, 5)] == [expected[at] for at in (0, 1, 3, 4, 5)]
        assert cells[6] == detection(row["detected"] == "true", float(row["prop_low_95"]))


@pytest.mark.parametrize("metric", ["theme", "tree"])
@pytest.mark.parametrize("reading", ["per-period", "total"])
def test_a_series_reads_the_same_in_its_files_and_on_the_command_line(client, folder, metric, reading):
    expected = decode(folder, metric, "--aggregate", reading, "-o", "-")
    assert client.get(f"/m/{metric}.csv?reading={reading}").text == expected
    rows = client.get(f"/m/{metric}.json?reading={reading}").json()["rows"]
    assert [row["value"] for row in rows] == [row["string"] for row in csv.DictReader(expected.splitlines())]


def test_the_picture_of_a_series_is_its_rows_and_the_download_is_the_page_s(client):
    answer = client.get("/m/theme.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    tree = ET.fromstring(answer.text).find(f"{SVG}svg")
    x, y = (Scale(*map(float, tree.get(f"data-{axis}").split())) for axis in ("x", "y"))
    rows = client.get("/m/theme.json").json()["rows"]
    names = [line["name"] for line in json.loads(tree.find(f".//{SVG}metadata").text)["series"]]
    assert names == [*THEMES[:5], "2 more values"]
    half = 0.5 * (y.high - y.low) / (y.start - y.stop)
    seen = 0
    for group in (group for group in tree.iter(f"{SVG}g") if group.get("data-series")):
        name = names[int(group.get("data-series"))]
        shares = {row["from"]: row["frequency"] for row in rows if row["value"] == name}
        for mark in (path for path in group.iter(f"{SVG}path") if path.get("data-detected") and shares):
            for across, up in re.findall(r"M(-?[\d.]+) (-?[\d.]+)", mark.get("d")):
                week = f"2026-W{47 - 5 + round(x.number(float(across)))}"
                assert abs(y.number(float(up)) - shares[week]) <= half
                seen += 1
    assert seen == 25
    page = client.get("/m/theme").text
    assert all(path in page for path in re.findall(r' d="([^"]*)"', answer.text))


def test_a_picture_of_a_period_can_leave_out_the_most_frequent(client):
    every, fewer = (ET.fromstring(client.get(f"/m/theme/{WEEK}.svg{query}").text) for query in ("", "?rank=3"))
    rows, rest = (len(root.findall(f".//{SVG}g[@data-row]")) for root in (every, fewer))
    assert rest == rows - 2 > 0
    page = client.get(f"/m/theme/{WEEK}?rank=3").text
    assert f"ranks 3 to {rows} of {rows}." in page
    assert len(ET.fromstring(client.get(f"/m/theme/{WEEK}.svg?rank=999").text).findall(f".//{SVG}g[@data-row]")) == 1


def test_other_is_the_sum_with_an_interval_of_its_own(client, data, registry):
    values = json.loads(ET.fromstring(client.get("/m/theme.svg").text).find(f".//{SVG}metadata").text)
    other = values["series"][-1]
    assert other["name"] == "2 more values"  # "other" may be what the registry calls a value
    (part,) = data.read(data.counts(registry["theme"], LAST_WEEK, LAST_WEEK), "per-period").parts
    expected = total(part.estimate, THEMES[5:])
    assert [other[key][-1] for key in ("share", "low", "high")] == pytest.approx(
        [100 * expected.estimate, 100 * expected.low, 100 * expected.high], abs=0.005
    )
    assert other["share"][3] is None  # the week without reports


def test_what_is_not_listed_is_one_number_over_time_and_in_a_period(client):
    """Its interval is of all devices like these, as all others of a page are."""
    page = unescape(client.get(f"/m/tree/{DAY}").text)
    words = re.search(r"Not listed \((.*? to .*?)\)", page)[1]
    cells = next(cells for cells in tables(client.get("/m/tree").text)[1] if cells[0] == "21 November")
    in_tenths = " to ".join(f"{float(end.removesuffix('%')):.1f}%" for end in words.split(" to "))
    assert f"({in_tenths})" in cells[-1]


def test_strings_left_out_raise_the_fit_warning_and_typing_them_in_detects_them(client, store, registry):
    before = {metric.id: store.counts(metric, 0, LAST_DAY + 1) for metric in registry.metrics.values()}
    left_out = {"candidates": "\r\n".join(TREES[2:])}
    answer = client.post(f"/m/word/{DAY}", data=left_out, headers=SAME_ORIGIN)
    assert answer.status_code == 303
    poor = client.get(answer.headers["location"]).text
    assert "are set far more often than your list explains" in poor
    assert "hold strings that are not in your list" in poor
    assert '<th scope="row" class="text">oak</th>' not in poor
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', poor[poor.index('method="post"') :]))
    answer = client.post(f"/m/word/{DAY}", data={"candidates": "\n".join(TREES)}, headers=SAME_ORIGIN)
    assert answer.status_code == 303
    good = client.get(answer.headers["location"]).text
    assert hidden["alpha"] == "0.05"
    assert "are set far more often than your list explains" not in good
    assert "hold strings that are not in your list" not in good
    detected = {cells[0]: cells[6:] for cells in tables(good)[0]}
    assert detected["oak"] == detected["elm"] == ["detected"]
    after = {metric.id: store.counts(metric, 0, LAST_DAY + 1) for metric in registry.metrics.values()}
    for name, periods in before.items():
        assert periods.keys() == after[name].keys()
        assert all(np.array_equal(counts.ones, after[name][period].ones) for period, counts in periods.items())


def test_a_file_of_candidates_is_read_and_a_long_list_has_a_name(client):
    names = "\n".join(f"tree{number}" for number in range(400))
    answer = client.post(
        f"/m/word/{DAY}",
        files={"candidates": ("list.txt", f"{names}\noak\n")},
        data={"alpha": "0.01"},
        headers=SAME_ORIGIN,
    )
    assert answer.status_code == 303
    assert re.search(r"list=[0-9a-f]{64}", answer.headers["location"])
    page = client.get(answer.headers["location"]).text
    assert "of 401 detected" in page
    assert client.get(f"/m/word/{DAY}?list={'0' * 64}").status_code == 404


def test_too_many_candidates_are_for_the_command_line(client, data):
    many = data.lists.hold([f"tree{number}" for number in range(100_001)])
    answer = client.get(f"/m/word/{DAY}?list={many}")
    assert answer.status_code == 400
    assert "100,001 candidates are too many for a page, which takes 100,000; run: overstory decode" in answer.text


RESTS_ON = ("Percent of what", "Last period with reports", "of all devices like these", "running until")


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        *((page, 200, words) for page in ("/m/theme", f"/m/theme/{WEEK}", f"/m/tree/{DAY}") for words in RESTS_ON),
        ("/m/rare", 200, "Too few reports for shares: 12 devices"),
        ("/m/rare", 200, "To see a share of 10%, it needs about 53,085 devices"),
        ("/m/rare.svg", 200, "Reports by day"),
        ("/m/word", 200, "Look for strings in 20 November"),
        (f"/m/word/{DAY}", 200, "Type the strings to look for"),
        ("/m/none", 200, "There are no reports of this metric yet"),
        ("/m/theme?from=2027-W01", 200, "there are some from the week of 12 October to the week of 16 November"),
        ("/m/theme/2026-W45", 200, "there are some from the week of 12 October to the week of 16 November"),
        ("/m/theme?from=&level=", 200, "Over time"),
        ("/m/theme?colour=1", 400, "olour: this page has no such parameter"),
        ("/m/theme?values=purple", 400, "alues: theme has no value"),
        ("/m/theme?from=yesterday", 400, "yesterday"),
        ("/m/theme?level=2", 400, "evel: Input should be less than 1"),
        ("/m/theme?level=much", 400, "evel: Input should be a valid number"),
        ("/m/theme?level=nan", 400, "evel: Input should be a finite number"),
        ("/m/theme?reading=weekly", 400, "eading: Input should be 'per-period' or 'total'"),
        ("/m/theme/yesterday", 400, "yesterday"),
        ("/m/theme/2026-W47?candidates=oak", 400, "other candidates cannot be looked for"),
        ("/m/theme/2026-W47?alpha=2", 400, "lpha: "),
        ("/m/?sort=colour", 400, "ort: "),
    ],
)
def test_an_address_shows_what_its_numbers_rest_on_or_says_why_there_are_none(client, address, status, words):
    answer = client.get(address)
    assert answer.status_code == status
    assert words in unescape(answer.text)


def test_chosen_values_are_the_lines_and_stay_in_the_form(client):
    page = client.get("/m/theme?values=mono%0D%0Aamber&level=0.9").text
    drawing = ET.fromstring(client.get("/m/theme.svg?values=mono&values=amber").text)
    names = [line["name"] for line in json.loads(drawing.find(f".//{SVG}metadata").text)["series"]]
    assert names == ["mono", "amber"]
    assert "mono\namber</textarea>" in page
    assert "90% interval" in page
    assert "prop_low_90,prop_high_90" in client.get("/m/theme.csv?level=0.9").text


def links_of(page, label):
    nav = re.search(rf'<nav class="links" aria-label="{label}">(.*?)</nav>', page)[1]
    found = re.findall(r'<a href="([^"]*)"( aria-current="page")?>(.*?)</a>', nav)
    return {text: unescape(address) for address, _, text in found}, [
        text for _, is_current, text in found if is_current
    ]


def test_usual_ranges_are_links_that_the_form_obeys_and_no_week_is_typed(client):
    page = client.get("/m/theme?level=0.9").text
    places, current = links_of(page, "Range")
    assert places == {"last 4 weeks": "/m/theme?from=2026-W44&level=0.9", "all": "/m/theme?level=0.9"}
    assert current == ["all"]
    page = client.get(places["last 4 weeks"]).text
    assert links_of(page, "Range")[1] == ["last 4 weeks"]
    form = page[page.index('<select name="from">') : page.index("</select>")]
    assert re.findall(r'<option value="([^"]*)" selected>(.*?)</option>', form) == [("2026-W44", "week of 26 October")]
    assert [row[0] for row in tables(page)[1]] == ["week of 16 November", "week of 9 November", "week of 26 October"]
    assert links_of(client.get("/m/theme?from=2026-W44&to=2026-W46").text, "Range")[1] == []


def test_a_dominating_value_is_left_out_by_a_link_and_another_one_is_added(client):
    def names(address):
        tree = ET.fromstring(client.get(address.replace("/m/theme", "/m/theme.svg")).text)
        lines = json.loads(tree.find(f".//{SVG}metadata").text)["series"]
        return [line["name"] for line in lines], float(tree.find(f"{SVG}svg").get("data-y").split()[1])

    every, top = names("/m/theme")
    places, _ = links_of(client.get("/m/theme").text, "Values in the chart")
    assert [text for text in places if text.startswith("without ")] == [f"without {name}" for name in every[:-1]]
    fewer, lower = names(places[f"without {every[0]}"])
    assert fewer == every[1:-1]
    assert lower < 0.9 * top, "the others have room"
    again, current = links_of(client.get(places[f"without {every[0]}"]).text, "Values in the chart")
    assert (again["the most frequent"], current) == ("/m/theme", [])
    assert names(again[f"with {every[0]}"])[0] == [*fewer, every[0]]
    assert links_of(client.get(again[f"with {every[0]}"]).text, "Range")[0]["all"].count("values=") == len(every) - 1


def test_releases_and_incidents_are_marked(client, store):
    note = store.add_note("release <4.1>", LAST_DAY - 12, "release")
    other = store.add_note("only for trees", LAST_DAY, "incident", "tree")
    try:
        page = client.get("/m/theme").text
        assert "release: release &lt;4.1&gt;" in page
        assert "only for trees" not in page
        assert "only for trees" in client.get("/m/tree").text
    finally:
        store.remove_note(note.id)
        store.remove_note(other.id)


def test_of_a_long_range_the_newest_periods_are_shown_and_the_page_says_how_many_are_left_out(client, monkeypatch):
    monkeypatch.setattr(SharesOverTime, "most", 3)
    page = client.get("/m/theme")
    assert "the newest 3 periods; 3 older ones with reports can be asked for in the form." in page.text
    rows = client.get("/m/theme.json").json()["rows"]
    assert {row["from"] for row in rows} == {"2026-W46", "2026-W47"}
    older = client.get("/m/theme.json?to=2026-W44").json()["rows"]
    assert {row["from"] for row in older} <= {"2026-W42", "2026-W43", "2026-W44"}
    assert client.get("/m/unheard").status_code == 404


@pytest.mark.parametrize("metric", ["theme", "start", "home"])
def test_every_page_of_a_metric_has_the_same_row_of_links(console_data, metric):
    period, periods = console_data.metric(metric).period, console_data.store.periods(metric)
    newest, older = period.label(max(periods)), period.label(min(periods))
    screens = {each.path: each for each in SCREENS if each.path.startswith("/m/{metric}")}
    assert len(screens) == 3

    def links(path, label):
        shown = screens[path].view(console_data, screens[path].query(), metric=metric, period=label)
        return next(block for block in shown.blocks if isinstance(block, Links))

    name, other = (capitalized(date_words(label, 2026)) for label in (newest, older))
    ends = {"Over time": "", name: f"/{newest}", "Compare": "/compare"}
    places = (*((text, f"/m/{metric}{end}") for text, end in ends.items()), ("Privacy", f"/about/{metric}#privacy"))
    assert {links(path, newest).places for path in screens} == {places}
    of_older = links("/m/{metric}/{period}", older)
    assert (of_older.current, [text for text, _ in of_older.places][1:3]) == (other, [name, other])
