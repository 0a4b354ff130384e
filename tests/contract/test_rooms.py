"""The house's plan: no circle among modules, none among the packages of a floor, and no floor with too many rooms."""

import grimp
import pytest

MOST_ROOMS = 14
"""Modules and packages side by side; the root, whose rooms are the layers of pyproject.toml, may have five more."""


@pytest.fixture(scope="module")
def graph():
    """Imports at run time, also those inside functions; what is imported for annotations alone is left out."""
    return grimp.build_graph("overstory", "papers", exclude_type_checking_imports=True, cache_dir=None)


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return what cannot be put in an order in which each imports only what came before."""
    left = {name: set(targets) for name, targets in edges.items()}
    while free := [name for name, targets in left.items() if not targets & left.keys()]:
        for name in free:
            del left[name]
    while needed := [name for name in left if any(name in targets for targets in left.values())]:
        if len(needed) == len(left):
            break
        left = {name: left[name] for name in needed}
    return [sorted(left)] if left else []


def floor(graph, package: str) -> dict[str, set[str]]:
    """Return which of a package's rooms imports which."""
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
