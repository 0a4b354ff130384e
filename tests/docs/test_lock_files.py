"""Files that follow pyproject.toml: the locks satisfy it and name no machine; CITATION.cff is of its version."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS, GROUPS = PROJECT["project"]["optional-dependencies"], PROJECT["dependency-groups"]
LOCKS = {
    "dev": (("all",), ("dev",)),
    "image": (("postgres",), ("build",)),
    "lowest": (("all", "dask"), ("build", "test")),
}


def direct(extras, groups):
    listed = [one for extra in extras for one in EXTRAS[extra]]
    listed += [one for group in groups for one in GROUPS[group]]
    for one in listed:
        if isinstance(one, dict):
            yield from direct((), (one["include-group"],))
        elif (asked := Requirement(one)).name == "overstory":
            yield from direct(tuple(asked.extras), ())
        else:
            yield asked


def pinned(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    pins = {}
    for library, version in re.findall(r"^([\w.-]+)==([^ \n]+)", text, re.MULTILINE):
        pins.setdefault(canonicalize_name(library), set()).add(Version(version))
    return pins


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_file_satisfies_the_project(name):
    pins = pinned(name)
    for asked in direct(*LOCKS[name]):
        versions = pins[canonicalize_name(asked.name)]
        assert all(map(asked.specifier.contains, versions)), f"{asked}, not {versions}: make lock"


def test_the_lowest_versions_are_those_of_the_project():
    pins = pinned("lowest")
    for asked in direct(*LOCKS["lowest"]):
        (bound,) = (Version(one.version) for one in asked.specifier if one.operator == ">=")
        assert pins[canonicalize_name(asked.name)] == {bound}, f"{asked}: make lock, or raise the bound"


def test_the_image_has_what_the_tests_ran_with():
    tested = pinned("dev")
    assert {name: versions for name, versions in pinned("image").items() if versions != tested.get(name)} == {}


@pytest.mark.parametrize("name", ["dev", "image"])
def test_every_library_has_hashes(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    entries = re.findall(r"^\w[^ ]*==.*(?:\n .*)*", text, re.MULTILINE)
    assert len(entries) > 35
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("name", LOCKS)
def test_no_address_is_in_a_lock_file(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    assert not re.search(r"://|^-|index|find-links| @ ", text, re.MULTILINE)


def test_a_library_whose_private_classes_are_used_has_a_cap():
    source = "".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    private = set(re.findall(r"^from (uvicorn)\.protocols", source, re.MULTILINE))
    capped = {one.name for one in direct(("server",), ()) if any(limit.operator == "<" for limit in one.specifier)}
    assert private == {"uvicorn"} <= capped


def test_the_citation_is_of_this_version():
    cited, project = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8")), PROJECT["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    assert cited["authors"] == project["authors"] == [{"name": "The Overstory authors"}]
