"""The picture of a table: cells are where they belong, coloured where they surely differ, and everybody can read it."""

import json
import re
from html import unescape
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from overstory.presentation.charts.drawing import Scale
from overstory.presentation.charts.heat_map import MOST_COLUMNS, MOST_ROWS, Cells, heat_map
from overstory.presentation.document import Figure
from overstory.presentation.render_html import as_html, as_svg

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '</metadata><script>alert(1)</script>" onload=x \u202e "#0072b2"'


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
    tree = ET.fromstring(svg)
    drawn = {
        tuple(map(int, path.get("data-cell").split())): path
        for path in tree.iter(f"{SVG}path")
        if path.get("data-cell")
    }
    return drawn, *(Scale(*map(float, tree.get(f"data-{axis}").split())) for axis in ("x", "y"))


@pytest.mark.parametrize("part", ["svg", "narrow"])
def test_each_cell_is_in_its_row_and_column_and_its_colour_says_which_way_it_differs(part):
    given = cells()
    drawn, x, y = boxes(getattr(heat_map("p", "c", given), part))
    assert set(drawn) == {(i, j) for i in range(3) for j in range(4)}
    for (i, j), path in drawn.items():
        left, top, right, bottom = map(float, re.fullmatch(r"M(\S+) (\S+)H(\S+)V(\S+)H\S+z", path.get("d")).groups())
        assert x.number((left + right) / 2) == pytest.approx(j + 0.5, abs=0.01)
        assert y.number((top + bottom) / 2) == pytest.approx(i + 0.5, abs=0.01)
        if not given.sure[i, j]:
            assert path.get("fill") == "none"
        else:
            assert path.get("fill") == ("#0072b2" if given.shares[i, j] > given.overall[j] else "#d55e00")
    strongest = max(float(path.get("fill-opacity", 0)) for path in drawn.values())
    assert strongest == pytest.approx(0.5)


def test_a_table_of_noise_has_no_colour():
    drawn, *_ = boxes(heat_map("p", "c", cells(sure=np.zeros((3, 4), bool))).svg)
    assert {path.get("fill") for path in drawn.values()} == {"none"}


def test_the_text_alternative_and_the_cursor_have_the_numbers():
    given = cells()
    picture = heat_map("p", "c", given)
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
    picture = heat_map("p", "c", cells(shares=shares, sure=np.zeros((3, 4), bool)))
    assert picture.svg.count("too few") == 4
    assert ">0.0%<" in picture.svg
    ET.fromstring(as_svg(picture))


def test_of_a_large_table_the_first_rows_and_columns_are_drawn():
    picture = heat_map("p", "c.", cells(MOST_ROWS + 5, MOST_COLUMNS + 2))
    drawn, *_ = boxes(picture.svg)
    assert len(drawn) == MOST_ROWS * MOST_COLUMNS
    assert picture.caption == "c. The first 30 of 35 rows, 16 of 18 columns."


def test_names_are_only_text():
    picture = heat_map("p", EVIL, cells(names=(EVIL, EVIL), labels=([EVIL] * 3, [EVIL] * 4)))
    page = as_html([Figure(picture)])
    assert "<script" not in page
    assert not re.search(r"<[^>]* (onload|style)=", page)
    for svg in (picture.svg, picture.narrow, as_svg(picture)):
        ET.fromstring(svg)
