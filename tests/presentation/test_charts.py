"""Charts: what is drawn is what was counted, to half a pixel, on wide and on narrow pages and in files."""

import json
import re
from html import unescape
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from overstory.presentation.charts import numbers
from overstory.presentation.charts.drawing import NARROW, WIDE, Scale
from overstory.presentation.charts.numbers import Cells, Dots, counts_over_time, with_intervals
from overstory.presentation.charts.series import MOST_COLUMNS, Event, Line, over_time, small_multiple
from overstory.presentation.document import Figure
from overstory.presentation.render_html import DRAWING_STYLE, as_html, as_svg
from overstory.presentation.svg import COLOUR, VERMILION

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '</metadata><script>alert(1)</script>" onload=x \u202e =cmd() "#0072b2"'
COLUMNS = 104


def lines(columns=COLUMNS, names=("dark", "light", "sepia", "solar", "rare")):
    """Return five lines: two gaps, a lone column between gaps, a value that nobody has."""
    random = np.random.default_rng(20261122)
    made = []
    for name, share in zip(names, (0.4, 0.25, 0.1, 0.03, 0.0), strict=True):
        shares = share + random.normal(0, 0.01, columns)
        shares[[3, 5, 6, 40 % columns]] = np.nan
        made.append(Line(name, shares, shares - 0.0196, shares + 0.0196, np.nan_to_num(shares) > 0.03))
    return made


def labels(columns=COLUMNS):
    return [f"2024-W{place:03d}" for place in range(columns)]


def drawn(svg):
    """Return the drawing, and its scales as it carries them."""
    tree = ET.fromstring(svg)
    return tree, *(Scale(*map(float, tree.get(f"data-{axis}").split())) for axis in ("x", "y"))


def ends(path):
    """Return the places that a path goes through: one place, and steps from there."""
    numbers = [float(number) for number in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", path)]
    return np.cumsum(np.reshape(numbers, (-1, 2)), axis=0).tolist()


def paths(group, name):
    return [path for path in group.iter(f"{SVG}path") if name in path.attrib]


def half_pixel(scale):
    return 0.5 * abs((scale.high - scale.low) / (scale.stop - scale.start))


@pytest.mark.parametrize("columns", [COLUMNS, MOST_COLUMNS])
@pytest.mark.parametrize("part", ["svg", "narrow"])
def test_the_coordinates_of_lines_and_bands_are_the_numbers(part, columns):
    given = lines(columns)
    tree, x, y = drawn(getattr(over_time("p", "c", labels(columns), given), part))
    groups = [group for group in tree.iter(f"{SVG}g") if group.get("data-series")]
    assert len(groups) == len(given)
    assert np.nanmin(given[4].shares) < -0.01, "what is below zero is drawn below the zero line"
    assert [float(path.get("data-zero")) for path in paths(tree, "data-zero")] == [pytest.approx(y.at(0), abs=0.06)]
    for group in groups:
        line = given[int(group.get("data-series"))]
        places = set()
        for line_path in paths(group, "data-line"):
            for across, up in ends(line_path.get("d")):
                column = round(x.number(across))
                assert abs(x.at(column) - across) <= 0.5
                assert abs(y.number(up) - line.shares[column]) <= half_pixel(y)
                places.add(column)
        band_places = set()
        for band in paths(group, "data-band"):
            around = ends(band.get("d"))
            edges = [(line.high, around[: len(around) // 2]), (line.low, around[len(around) // 2 :])]
            for column_ends, edge in edges:
                for across, up in edge:
                    column = round(x.number(across))
                    assert abs(y.number(up) - column_ends[column]) <= half_pixel(y)
                    band_places.add(column)
        joined = {place for place in np.flatnonzero(np.isfinite(line.shares)).tolist() if place != 4}
        assert places == band_places == joined


def test_what_was_not_detected_is_dashed_and_hollow():
    shares = np.full(8, 0.2)
    detected = np.array([True] * 4 + [False] * 4)
    picture = over_time("p", "c", labels(8), [Line("oak", shares, shares - 0.1, shares + 0.1, detected)])
    tree, x, _ = drawn(picture.svg)
    (group,) = (group for group in tree.iter(f"{SVG}g") if group.get("data-series"))
    dashed = {"stroke-dasharray" in line.attrib: ends(line.get("d")) for line in paths(group, "data-line")}
    assert [round(x.number(across)) for across, _ in dashed[False]] == [0, 1, 2, 3]
    assert [round(x.number(across)) for across, _ in dashed[True]] == [3, 4, 5, 6, 7]
    marks = {path.get("data-detected"): path for path in group.iter(f"{SVG}path") if path.get("data-detected")}
    assert marks["0"].get("fill") not in (None, group.get("fill"))
    assert marks["1"].get("fill") is None
    assert [marks[key].get("d").count("M") for key in "10"] == [4, 4]


@pytest.mark.parametrize("part", ["svg", "narrow"])
def test_rows_of_intervals_and_of_differences_are_the_numbers(part):
    shares = np.array([0.3, 0.05, -0.01, np.nan])
    low, high, sure = shares - 0.03, shares + 0.04, np.array([True, True, False, False])
    names, truth = ["a", "b", "c", "d"], np.array([0.28, 0.09, 0.0, 0.6])
    pictures = [
        Dots(names=names, shares=shares, low=low, high=high, sure=sure, **more).picture("p", "c")
        for more in ({"truth": truth}, {"is_difference": True})
    ]
    for picture in pictures:
        tree, x, y = drawn(getattr(picture, part))
        rows = [group for group in tree.iter(f"{SVG}g") if group.get("data-row")]
        assert [int(row.get("data-row")) for row in rows] == [0, 1, 2]
        for row, group in enumerate(rows):
            bar, dot = group.findall(f"{SVG}path")
            start, up, stop = map(float, re.fullmatch(r"M([\d.]+) ([\d.]+)H([\d.]+)", bar.get("d")).groups())
            at = float(re.match(r"M([\d.]+)", dot.get("d"))[1])
            assert [x.number(place) for place in (start, at, stop)] == pytest.approx(
                [low[row], shares[row], high[row]], abs=half_pixel(x)
            )
            assert round(y.number(up)) == row
            assert ("stroke-dasharray" in bar.attrib) == (not sure[row])
        assert float(re.match(r"M([\d.]+)", rows[2].findall(f"{SVG}path")[1].get("d"))[1]) < x.at(0)
    tree, x, y = drawn(getattr(pictures[0], part))
    bars = [path for path in tree.iter(f"{SVG}path") if path.get("d").endswith("v10")][: len(truth)]
    assert [x.number(float(bar.get("d")[1:].split()[0])) for bar in bars] == pytest.approx(truth, abs=half_pixel(x))
    assert drawn(getattr(pictures[1], part))[1].low == -drawn(getattr(pictures[1], part))[1].high


def test_bars_and_small_lines_are_the_numbers():
    counts = np.array([10.0, 0.0, 25.0])
    tree, x, y = drawn(counts_over_time("p", "c", labels(3), counts).svg)
    (bars,) = (path for path in tree.iter(f"{SVG}path") if path.get("data-bars"))
    tops = re.findall(r"M([\d.]+) [\d.]+V([\d.]+)h([\d.]+)", bars.get("d"))
    middles = [round(x.number(float(start) + float(width) / 2)) for start, _, width in tops]
    assert middles == [0, 2]
    assert [y.number(float(top)) for _, top, _ in tops] == pytest.approx([10, 25], abs=half_pixel(y))
    tree, x, y = drawn(small([1.0, 2.0, np.nan, 3.0, -2.0]).svg)
    found = [ends(path.get("d")) for path in paths(tree, "data-line")]
    assert [[round(x.number(across)) for across, _ in each] for each in found] == [[0, 1], [3, 4]]
    assert [y.number(up) for each in found for _, up in each] == pytest.approx([1, 2, 3, -2], abs=half_pixel(y))
    assert y.number(84) <= -2.5
    assert "the newest is -2." in small([3.0, -2.0], is_share=False).alt


@pytest.mark.parametrize("part", ["svg", "narrow"])
def test_intervals_their_truth_and_their_bars_are_the_numbers(part):
    names, values = ["a", "b", "c"], np.array([0.3, 0.1, -0.05])
    ends = {"values": values, "low": values - 0.1, "high": values + 0.2, "truth": np.array([0.25, 0.15, 0.0])}
    for is_histogram, mark in ((True, "path[@fill-opacity]"), (False, "circle")):
        picture = with_intervals("p", "c", names, [*ends.values()], is_histogram=is_histogram)
        tree, x, y = drawn(getattr(picture, part))
        shapes = tree.findall(f"{SVG}{mark}")
        tops = [float(one.get("cy") or re.search(r"V([\d.]+)h", one.get("d"))[1]) for one in shapes]
        expected = np.maximum(values, 0) if is_histogram else values
        assert [y.number(top) for top in tops] == pytest.approx(expected, abs=half_pixel(y))
        intervals = [
            list(map(float, re.match(r"M(\S+) (\S+)V([\d.]+)M", path.get("d")).groups()))
            for path in tree.iter(f"{SVG}path")
            if path.get("stroke-width") == "1.2"
        ]
        for place, (across, bottom, top) in enumerate(intervals):
            assert x.number(across) == pytest.approx(place, abs=half_pixel(x))
            shown = (max(ends["low"][place], y.low), ends["high"][place])
            assert (y.number(bottom), y.number(top)) == pytest.approx(shown, abs=half_pixel(y))
        strokes = [path.get("d") for path in tree.iter(f"{SVG}path") if path.get("stroke") == VERMILION]
        levels = [y.number(float(re.match(r"M\S+ (\S+)H", stroke)[1])) for stroke in strokes]
        assert levels == pytest.approx(ends["truth"], abs=half_pixel(y))


def small(numbers, **options):
    """Draw a line of numbers with a band of half a unit to either side."""
    numbers = np.array(numbers)
    line = Line("oak", numbers, numbers - 0.5, numbers + 0.5, np.ones(numbers.size, bool))
    return small_multiple("s", "The second", ("first", "last"), [line], events=[Event(0.5, "3.1")], **options)


@pytest.mark.parametrize("columns", [0, 1, 2])
def test_few_columns_are_a_picture_too(columns):
    empty = [Line("oak", *(np.full(columns, share) for share in (0.1, 0.0, 0.2)), np.ones(columns, bool))]
    tree, *_ = drawn(over_time("p", "c", labels(columns), empty, events=[Event(0, "first")]).svg)
    assert sum(path.get("d").count("M") for path in tree.iter(f"{SVG}path") if path.get("data-detected")) == columns
    drawn(counts_over_time("p", "c", labels(columns), np.ones(columns)).svg)
    drawn(small(np.ones(max(columns, 1)), has_zero=False).svg)
    nothing = np.zeros(0)
    drawn(Dots(names=[], shares=nothing, low=nothing, high=nothing, sure=np.zeros(0, bool)).picture("p", "c").svg)


def test_a_picture_carries_its_numbers_for_a_script():
    given = lines()
    picture = over_time("p", "c", labels(), given)
    values = json.loads(ET.fromstring(picture.svg).find(f"{SVG}metadata").text)
    assert values["labels"] == labels()
    for line, read in zip(given, values["series"], strict=True):
        assert read["name"] == line.name
        assert [np.nan if share is None else share for share in read["share"]] == pytest.approx(
            100 * line.shares, abs=0.005, nan_ok=True
        )
        assert [flag == "1" for flag in read["detected"]] == line.detected.tolist()
    first, last = map(float, ET.fromstring(picture.svg).get("data-cursor").split()[1:])
    _, x, _ = drawn(picture.svg)
    assert (x.number(first), x.number(last)) == pytest.approx((0, COLUMNS - 1), abs=0.01)


def test_events_are_lines_with_their_text():
    events = [Event(10, "release 1"), Event(10.5, "release 2"), Event(60, "outage", "incident"), Event(61, EVIL)]
    tree, x, _ = drawn(over_time("p", "c", labels(), lines(), events=events).svg)
    titled = [path for path in tree.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None]
    assert [x.number(float(path.get("d")[1:].split()[0])) for path in titled] == pytest.approx(
        [10, 10.5, 60, 61], abs=0.1
    )
    assert [path.find(f"{SVG}title").text for path in titled][:3] == [
        "release: release 1",
        "release: release 2",
        "incident: outage",
    ]
    assert {"release 1", "release 2", "outage"} <= {text.text for text in tree.iter(f"{SVG}text")}
    assert len({path.get("stroke-dasharray") for path in titled}) == 2


def test_words_in_a_picture_are_text():
    names = [EVIL, "light", "sepia", "solar", "rare"]
    picture = over_time("p", EVIL, labels(), lines(names=names), events=[Event(3, EVIL)], xlabel=EVIL)
    table = cells(names=(EVIL, EVIL), labels=([EVIL] * 3, [EVIL] * 4)).picture("p", EVIL)
    for svg in (each for one in (picture, table) for each in (one.svg, one.narrow, as_svg(one))):
        tree = ET.fromstring(svg)
        assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= {
            "svg", "rect", "path", "g", "text", "title", "desc", "metadata", "style",
        }  # fmt: skip
        assert not any(name.startswith("on") or name == "style" for element in tree.iter() for name in element.attrib)
        assert "\u202e" not in unescape(svg)
    html = as_html([Figure(picture), Figure(table)])
    assert "<script" not in html
    assert "style=" not in html
    assert json.loads(ET.fromstring(picture.svg).find(f"{SVG}metadata").text)["series"][0]["name"].endswith('"#0072b2"')
    assert "&quot;#0072b2&quot;" in html  # a colour in a text is a text


def test_text_is_legible_at_390_pixels_and_on_a_page_of_56_rem():
    assert NARROW.font * (390 - 2 * 20) / NARROW.width >= 11
    assert WIDE.font * (50 * 16 - 2 * 20) / WIDE.width >= 11
    picture = over_time("p", "c", labels(), lines())
    for sheet, svg in ((WIDE, picture.svg), (NARROW, picture.narrow)):
        tree = ET.fromstring(svg)
        assert tree.get("viewBox").split()[2] == str(sheet.width)
        assert {float(text.get("font-size")) for text in tree.iter(f"{SVG}text")} == {sheet.font}
    html = as_html([Figure(picture)])
    assert html.count('class="on-wide"') == html.count('class="on-narrow"') == 1


def test_a_file_has_light_colours_of_its_own_and_the_dark_ones_in_its_style():
    picture = over_time("p", "The caption", labels(), lines())
    tree = ET.fromstring(as_svg(picture))
    assert tree.find(f"{SVG}text").text == tree.find(f"{SVG}svg/{SVG}title").text == "The caption"
    assert tree.find(f"{SVG}svg/{SVG}desc").text.startswith(
        "5 line(s) over 104 column(s), 2024-W000 to 2024-W103. dark, "
    )
    assert tree.find(f"{SVG}style").text == DRAWING_STYLE
    used = {value for element in tree.iter() for key, value in element.attrib.items() if key in {"fill", "stroke"}}
    assert all(f'fill="{colour}"' in DRAWING_STYLE for colour in used - {"none"})
    assert "var(" not in as_svg(picture)
    assert not COLOUR.search(as_html([Figure(picture)]).replace("&quot;", ""))


def test_a_file_of_several_pictures_has_each_below_its_caption():
    pictures = [over_time("p", f"{EVIL} " * 9, labels(), lines()), small([1.0, 2.0])]
    tree = ET.fromstring(as_svg(*pictures))
    assert tree.find(f"{SVG}style").text == DRAWING_STYLE
    drawings = tree.findall(f"{SVG}svg")
    assert [drawing.find(f"{SVG}title").text.split()[-1] for drawing in drawings] == ['"#0072b2"', "second"]
    tops = [(float(each.get("y")), float(each.get("y")) + float(each.get("height").rstrip("px"))) for each in drawings]
    lines_of_text = [(float(text.get("y")), text.text) for text in tree.findall(f"{SVG}text")]
    assert [words for place, words in lines_of_text if tops[0][1] < place < tops[1][0]] == ["The second"]
    assert all(place < tops[0][0] for place, words in lines_of_text if words != "The second")
    assert float(tree.get("height")) == tops[1][1]
    assert not list(tree.iter(f"{SVG}script"))


def test_the_size_of_five_series_stays_small():
    assert len(as_html([Figure(over_time("p", "c", labels(), lines()))])) < 100_000
    assert len(as_html([Figure(over_time("p", "c", labels(MOST_COLUMNS), lines(MOST_COLUMNS)))])) < 250_000
    with pytest.raises(ValueError, match="401 columns of 5 lines: at most 400 and 7"):
        over_time("p", "c", labels(401), lines(401))


def cells(rows=3, columns=4, **changes):
    rng = np.random.default_rng(5)
    shares = rng.dirichlet(np.ones(columns), rows)
    given = {
        "names": ("version", "outcome"),
        "labels": ([f"v{i}" for i in range(rows)], [f"o{j}" for j in range(columns)]),
        "shares": shares,
        "reach": np.full((rows, columns), 0.02),
        "overall": shares.mean(axis=0),
        "sure": np.abs(shares - shares.mean(axis=0)) > 0.1,
    }
    return Cells(**given | changes)


def boxes(svg):
    """Return each cell's path, by its row and column, and the scales."""
    tree, x, y = drawn(svg)
    return {tuple(map(int, path.get("data-cell").split())): path for path in paths(tree, "data-cell")}, x, y


@pytest.mark.parametrize("part", ["svg", "narrow"])
def test_each_cell_is_in_its_row_and_column_and_its_colour_says_which_way_it_differs(part):
    given = cells()
    found, x, y = boxes(getattr(given.picture("p", "c"), part))
    assert set(found) == {(i, j) for i in range(3) for j in range(4)}
    for (i, j), path in found.items():
        left, top, right, bottom = map(float, re.fullmatch(r"M(\S+) (\S+)H(\S+)V(\S+)H\S+z", path.get("d")).groups())
        assert x.number((left + right) / 2) == pytest.approx(j + 0.5, abs=0.01)
        assert y.number((top + bottom) / 2) == pytest.approx(i + 0.5, abs=0.01)
        if not given.sure[i, j]:
            assert path.get("fill") == "none"
        else:
            assert path.get("fill") == ("#0072b2" if given.shares[i, j] > given.overall[j] else "#d55e00")
    strongest = max(float(path.get("fill-opacity", 0)) for path in found.values())
    assert strongest == pytest.approx(0.5)


def test_the_text_alternative_and_the_cursor_have_the_numbers():
    given = cells()
    picture = given.picture("p", "c")
    i, j = np.unravel_index(np.where(given.sure, np.abs(given.departures), 0).argmax(), given.sure.shape)
    assert f"o{j} in v{i}: {100 * given.shares[i, j]:.2f}%" in picture.alt
    data = json.loads(unescape(re.search("<metadata>(.*?)</metadata>", picture.svg)[1]))
    assert data["labels"] == ["v0", "v1", "v2"]
    for column, series in enumerate(data["series"]):
        assert series["share"] == pytest.approx(100 * given.shares[:, column], abs=0.01)
        assert series["unsure"] == "may be as in all rows"
    assert "<metadata>" not in picture.narrow


def test_a_row_that_is_too_small_says_so_and_a_negative_share_shows_as_nothing():
    shares = cells().shares.copy()
    shares[1] = np.nan
    shares[0, 0] = -0.05
    picture = cells(shares=shares, sure=np.zeros((3, 4), bool)).picture("p", "c")
    assert picture.svg.count("too few") == 4
    assert ">0.0%<" in picture.svg
    ET.fromstring(as_svg(picture))


def test_of_a_large_table_the_first_rows_and_columns_are_drawn():
    picture = cells(numbers.MOST_ROWS + 5, numbers.MOST_COLUMNS + 2).picture("p", "c.")
    found, *_ = boxes(picture.svg)
    assert len(found) == numbers.MOST_ROWS * numbers.MOST_COLUMNS
    assert picture.caption == "c. The first 30 of 35 rows, 16 of 18 columns."
