"""The table of layers in docs/explanation/architecture.md is the one that import-linter enforces."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def enforced():
    """The packages by layer, as pyproject.toml has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    return [set(re.findall(r"overstory\.(\w+)", layer)) for layer in contract["layers"]]


def written(page):
    """The packages in the table's order."""
    return [
        name
        for cell in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.MULTILINE)
        for name in re.findall(r"\w+", cell)
    ]


def agrees(page):
    layers, names = enforced(), [name for name in written(page) if (ROOT / "src" / "overstory" / name).is_dir()]
    places = [next(place for place, layer in enumerate(layers) if name in layer) for name in names]
    return sorted(names) == sorted(set.union(*layers)) and places == sorted(places)


def test_the_layers_written_down_are_those_enforced():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    assert agrees(page)
    assert not agrees(page.replace("| `gateway` |", "| gateway |"))
    assert not agrees(page.replace("| `cli` |", "| `protocol` |"))
