"""What pages say is so: laws and promises have their tests, layers are those enforced, walks enter the files named."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

import overstory

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
LAWS = (ROOT / "docs" / "explanation" / "laws.md").read_text(encoding="utf-8")
THREATS = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")


def laws(page):
    found = re.findall(r"^\| (\d+) \| [^|]+ \| ([^|]+) \|", page, re.MULTILINE)
    return {int(number): re.findall(r"`([^`]+)`", held) for number, held in found}


def is_there(name):
    file, _, test = name.partition("::")
    path = ROOT / (file if "/" in file else f"tests/contract/{file}.py")
    if not test:
        return path.is_file() or (path.is_dir() and any(path.glob("test_*.py")))
    return path.is_file() and test in {getattr(node, "name", "") for node in ast.parse(path.read_text("utf-8")).body}


def faults(page):
    found = laws(page)
    missing = [number for number in range(1, 12) if not found.get(number)]
    return missing, [name for held in found.values() for name in held if not is_there(name)]


def test_eleven_laws_each_name_tests_that_are_there():
    assert sorted(laws(LAWS)) == list(range(1, 12))
    assert faults(LAWS) == ([], [])


def test_a_law_without_a_test_and_a_test_that_is_gone_are_noticed():
    assert faults(LAWS.replace("`test_law6_accumulate`", "us"))[0] == [6]
    assert faults(LAWS.replace("test_law7_wire", "test_law7_string"))[1] == ["test_law7_string"]
    again = "test_a_day_reported_again_after_every_restore_is_one_upload"
    assert faults(LAWS.replace(again, "test_a_day"))[1] == ["tests/client/test_restored.py::test_a_day"]


def promises(page):
    """Return the rows of the tables whose last column is the test of a promise."""
    tables = re.findall(r"^\| [^\n]* \| test \|\n\|---[^\n]*\n((?:\|[^\n]*\n?)*)", page, re.MULTILINE)
    return [line.strip("| ").split(" | ") for table in tables for line in table.splitlines()]


def test_every_promise_of_the_threat_model_names_a_test_that_is_there():
    found = promises(THREATS)
    assert len(found) > 20
    assert [row for row in found if len(row) != 2 or "::test_" not in row[1]] == []
    assert [name for name in re.findall(r"`(tests/[\w/]+\.py::\w+)`", THREATS) if not is_there(name)] == []


def test_a_promise_without_a_test_is_noticed():
    page = "| promised | test |\n|---|---|\n| everything | trust us |\n\n| no | more |"
    assert promises(page) == [["everything", "trust us"]]


def enforced():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = [contract for contract in settings["contracts"] if contract["type"] == "layers"]
    return [set(re.findall(r"overstory\.(\w+)", layer)) for layer in contract["layers"]]


def written(page):
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


# The house's plan: no circle among modules, none among the packages of a floor, and no floor with too many rooms
MOST_ROOMS = 14
"""Modules and packages side by side; the root, whose rooms are the layers of pyproject.toml, may have five more."""


@pytest.fixture(scope="module")
def graph():
    """Imports at run time, also those inside functions; what is imported for annotations alone is left out."""
    return grimp.build_graph("overstory", "papers", exclude_type_checking_imports=True, cache_dir=None)


def circles(edges):
    """Return a circle, where there is one."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        return [sorted({*error.args[1]})]
    return []


def floor(graph, package):
    rooms = graph.find_children(package)
    room_of = {module: room for room in rooms for module in (room, *graph.find_descendants(room))}
    imported = {
        room: {
            room_of[target]
            for module in (room, *graph.find_descendants(room))
            for target in graph.find_modules_directly_imported_by(module)
            if target in room_of
        }
        for room in rooms
    }
    return {room: targets - {room} for room, targets in imported.items()}


def test_no_module_imports_itself_through_others(graph):
    assert circles({name: graph.find_modules_directly_imported_by(name) for name in graph.modules}) == []


def test_the_rooms_of_a_floor_have_an_order(graph):
    packages = sorted(name for name in graph.modules if graph.find_children(name))
    assert [circle for package in packages for circle in circles(floor(graph, package))] == []


def test_no_floor_has_too_many_rooms(graph):
    counts = {
        name: sum(f"{name}._" not in room for room in graph.find_children(name)) for name in sorted(graph.modules)
    }
    assert {name: count for name, count in counts.items() if count > MOST_ROOMS + 5 * (name == "overstory")} == {}


def test_a_circle_is_noticed():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()}) == [["a", "b", "c"]]
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []


# No signature shows the environment (finding A2): `help` and a notebook's tooltips print every default
LONGEST = 125
SECRET = "correct horse battery staple"

LOOK = """
import importlib, inspect, json, os, pkgutil, sys
import overstory

def signatures(module):
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", None) != module.__name__ or name.startswith("_"):
            continue
        yield name, thing
        if inspect.isclass(thing):
            for inner, method in vars(thing).items():
                if not inner.startswith("_") or inner in ("__init__", "__call__", "__new__"):
                    yield f"{name}.{inner}", getattr(method, "__func__", method)

looked = {}
wanted = tuple(sys.argv[1:])
names = [module.name for module in pkgutil.walk_packages(overstory.__path__, "overstory.")]
names = [name for name in names if name.split(".")[1] in wanted or not wanted]
for name in names:
    if name.endswith("__main__"):
        continue
    module = importlib.import_module(name)
    for thing, what in signatures(module):
        try:
            parameters = inspect.signature(what).parameters.values()
        except (TypeError, ValueError):
            continue
        for parameter in parameters:
            if parameter.default is not parameter.empty:
                looked[f"{name}:{thing}({parameter.name})"] = repr(parameter.default)
json.dump(looked, sys.stdout)
"""


def defaults(*packages):
    """The repr of every default of every public function, class and method, read where a variable is a secret."""
    environ = os.environ | {"DATABASE_PASSWORD": SECRET}
    done = subprocess.run([sys.executable, "-c", LOOK, *packages], env=environ, capture_output=True, check=True)
    shown = json.loads(done.stdout)
    here = str(Path(overstory.__file__).parent)  # where the package lies may be in the environment, too
    return {name: default.replace(here, "") for name, default in shown.items()}


ON_A_DEVICE = ("client", "gateway", "protocol", "privacy", "cli")


@pytest.mark.parametrize("packages", [ON_A_DEVICE, pytest.param((), marks=pytest.mark.slow)], ids=["device", "all"])
def test_no_default_shows_the_environment(packages):
    shown = defaults(*packages)
    assert shown["overstory.client.client:Client.__init__(environ)"] == "None"
    assert shown["overstory.gateway.gateway:Gateway.__init__(environ)"] == "None"
    looked_at = {name.split(".")[1] for name in shown}
    assert looked_at == set(packages) or looked_at > {"analysis", "client", "collector", "discovery", "kernels"}
    assert {name: default[:40] for name, default in shown.items() if len(default) > LONGEST} == {}
    # Spark is told by a variable to stay on this machine (SPARK_LOCAL_IP): the loopback address is nobody's secret.
    values = ({value for value in os.environ.values() if len(value) >= 8} - {"127.0.0.1"}) | {SECRET}
    assert [name for name, default in shown.items() if any(value in default for value in values)] == []
