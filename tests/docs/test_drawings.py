"""The committed drawings are what their programs make, say in words what they show, and follow the reader's colours."""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
SVG = "{http://www.w3.org/2000/svg}"
AGAIN = "run `python docs/drawings/draw.py`"

sys.path.insert(0, str(ROOT / "docs" / "drawings"))
import draw  # noqa: E402
import life_of_a_value  # noqa: E402

QUICK = ("life-of-a-value", "who-sees-what")


def committed(name):
    return (IMAGES / f"{name}.svg").read_text("utf-8")


@pytest.mark.parametrize("name", QUICK)
def test_a_drawing_is_fresh(name):
    assert draw.DRAWINGS[name]() == committed(name), AGAIN


@pytest.mark.slow
def test_the_picture_of_the_readme_is_fresh():
    assert draw.DRAWINGS["truth-and-estimate"]() == committed("truth-and-estimate"), AGAIN


def test_the_readme_prints_the_numbers_of_its_picture():
    readme = (ROOT / "README.md").read_text("utf-8")
    rows = re.findall(r"^(\w[\w ]+?) {2,}([\d.]+%) +[\d.]+% to [\d.]+% +([\d.]+%) ", readme, re.MULTILINE)
    assert len(rows) >= 4
    for name, estimate, truth in rows:
        assert f"{name} {truth} and {estimate}" in committed("truth-and-estimate"), name


@pytest.mark.parametrize("name", draw.DRAWINGS)
def test_a_drawing_has_words_and_colours_for_light_and_dark(name):
    drawing = ET.fromstring(committed(name))
    title, description = (drawing.find(f"{SVG}{part}").text for part in ("title", "desc"))
    assert title
    assert len(description) > 200
    assert (drawing.get("role"), drawing.get("aria-labelledby")) == ("img", "title description")
    style = drawing.find(f"{SVG}style").text
    schemes = style.split("@media (prefers-color-scheme: dark)")
    light, dark = (dict(re.findall(r"--(\w+): (#\w+)", scheme)) for scheme in schemes)
    assert set(light) == set(dark)
    assert all(light[colour] != dark[colour] for colour in light)
    assert "#" not in re.sub(r"--\w+: #\w+", "", style), "a colour that does not follow the scheme"


def test_how_it_works_has_the_numbers_of_its_drawing():
    page = (ROOT / "docs" / "explanation" / "how-it-works.md").read_text("utf-8")
    (one,) = re.findall(r"epsilon ([\d.]+) for one report", committed("life-of-a-value"))
    assert f"epsilon {one} changes the odds" in page
    assert f"{life_of_a_value.DEVICES:,} devices" in page
