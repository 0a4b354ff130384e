"""docs/reference/oracles.md is what the registry says, and each oracle names its paper."""

import importlib.util
from pathlib import Path

import pytest

from overstory.protocol.kinds.registry import REGISTRY

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("oracle_page", ROOT / "bench" / "oracle_page.py")
page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(page)


def test_the_page_is_fresh():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text, "run `python bench/oracle_page.py --write`"


@pytest.mark.parametrize("name", REGISTRY)
def test_every_oracle_says_what_it_is_and_where_it_comes_from(name):
    what, paper = page.described(REGISTRY[name])
    assert len(what) > 20
    assert any(str(year) in paper for year in range(2014, 2026)), paper
    assert f"`{name}`" in page.PAGE.read_text(encoding="utf-8").split(page.STOP)[1], "its proof"
