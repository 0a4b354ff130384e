"""CITATION.cff is of this version, and has what the format requires."""

import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_it_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert cited["authors"] == project["authors"] == [{"name": "The Overstory authors"}]
