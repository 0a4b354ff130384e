"""What pages say is so: each law has its tests, the layers are those enforced, walks enter the files they say."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
LAWS = (ROOT / "docs" / "explanation" / "laws.md").read_text(encoding="utf-8")


def laws(page):
    """Each law's number, and what its column "held by" names."""
    found = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|", page, re.MULTILINE)
    return {int(number): re.findall(r"`([^`]+)`", held) for number, held in found}


def is_there(name):
    """Whether a name is that of a folder, a module or a test in one; without a folder, of tests/contract."""
    file, _, test = name.partition("::")
    path = ROOT / (file if "/" in file else f"tests/contract/{file}.py")
    if not test:
        return path.is_file() or (path.is_dir() and any(path.glob("test_*.py")))
    return path.is_file() and test in {getattr(node, "name", "") for node in ast.parse(path.read_text("utf-8")).body}


def faults(page):
    """Laws that are left out, and names of tests that are not there."""
    found = laws(page)
    missing = [number for number in range(1, 12) if not found.get(number)]
    return missing, [name for held in found.values() for name in held if not is_there(name)]


def test_eleven_laws_each_name_tests_that_are_there():
    assert sorted(laws(LAWS)) == list(range(1, 12))
    assert faults(LAWS) == ([], [])


def test_a_law_without_a_test_and_a_test_that_is_gone_are_noticed():
    assert faults(LAWS.replace("`test_law3_rates`", "us"))[0] == [3]
    assert faults(LAWS.replace("test_law7_wire", "test_law7_string"))[1] == ["test_law7_string"]
    again = "test_a_day_reported_again_after_every_restore_is_one_upload"
    assert faults(LAWS.replace(again, "test_a_day"))[1] == ["tests/client/test_restored.py::test_a_day"]


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
    assert agrees(ARCHITECTURE)
    assert not agrees(ARCHITECTURE.replace("| `gateway` |", "| gateway |"))
    assert not agrees(ARCHITECTURE.replace("| `cli` |", "| `protocol` |"))


def test_the_walks_written_down_are_those_that_are_run():
    table = ARCHITECTURE.split("<!-- walks -->")[1].split("<!-- end of walks -->")[0]
    written = {name: int(files) for name, files in re.findall(r"^\| (.+?) \| (\d+) \|", table, re.MULTILINE)}
    command = [sys.executable, str(ROOT / "bench" / "walks.py"), "--json"]
    walks = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=120).stdout)
    assert written == {name: len(walk["files"]) for name, walk in walks.items()}, "run `python bench/walks.py --write`"
