"""What `reproduce` writes, finds again, and refuses."""

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from overstory.protocol.errors import ParameterError
from papers import run
from papers.page import markdown, page
from papers.run import EXPERIMENTS, experiment, key_of, load, reproduce
from support.html_reader import HtmlReader

SMALL = EXPERIMENTS["rappor-75-of-100"]


@pytest.fixture(scope="module")
def made_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    return reproduce(SMALL, folder, quick=True)[0], folder


@pytest.fixture
def made(made_once, tmp_path):
    """A result, and its files in `tmp_path`."""
    result, folder = made_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return result


def test_a_result_is_read_back_as_it_was(made, tmp_path):
    assert load(SMALL.name, tmp_path) == made
    assert {path.name for path in tmp_path.iterdir()} == {f"{SMALL.name}.{end}" for end in ("json", "svg", "png")}


def test_a_finished_result_is_not_computed_again(made, tmp_path, monkeypatch):
    monkeypatch.setattr(type(SMALL), "run", lambda *_: pytest.fail("computed again"))
    again, found = reproduce(SMALL, tmp_path, quick=True)
    assert found
    assert again == made


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": 1}', "null", '{"key": "x", "name": "y"}'])
def test_a_damaged_result_is_not_taken_for_a_finished_one(made, tmp_path, damage):
    (tmp_path / f"{SMALL.name}.json").write_text(damage)
    assert load(SMALL.name, tmp_path) is None


@pytest.mark.parametrize("end", ["png", "svg", "json"])
def test_a_result_that_lacks_a_file_is_not_finished_and_is_computed(made, tmp_path, end):
    (tmp_path / f"{SMALL.name}.{end}").unlink()
    assert load(SMALL.name, tmp_path) is None
    again, found = reproduce(SMALL, tmp_path, quick=True)
    assert not found
    assert again == made


def test_the_same_run_writes_the_same_bytes(made, tmp_path):
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / f"{SMALL.name}.json").unlink()
    reproduce(SMALL, tmp_path, quick=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_key_depends_on_mode_and_seed():
    keys = [key_of(SMALL, quick=True), key_of(SMALL, quick=False), key_of(SMALL, quick=True, seed=2)]
    assert len(set(keys)) == 3


def test_a_key_depends_on_the_version_and_on_every_module_of_the_paper(tmp_path, monkeypatch):
    for name in ("own.py", "shared.py"):
        (tmp_path / name).write_text("1\n")
    monkeypatch.setattr(run, "find_spec", lambda _: SimpleNamespace(origin=str(tmp_path / "own.py")))
    keys = [key_of(SMALL, quick=True)]
    for name in ("own.py", "shared.py"):
        (tmp_path / name).write_text("2\n")
        keys.append(key_of(SMALL, quick=True))
    monkeypatch.setattr(run, "__version__", "another")
    keys.append(key_of(SMALL, quick=True))
    assert len(set(keys)) == len(keys)
    assert keys[-1] == key_of(SMALL, quick=True)


def test_an_unknown_name_lists_those_there_are():
    with pytest.raises(ParameterError, match=SMALL.name):
        experiment("figure-99")


def test_the_summary_has_every_comparison_and_escapes_cells(made):
    odd = replace(made, comparisons=(replace(made.comparisons[0], name="P(a|b)"), *made.comparisons[1:]))
    text = markdown([odd], "overstory reproduce --all")
    assert "P(a\\|b)" in text
    assert text.count("| agrees |") == made.verdicts["agrees"] == 3


def test_the_page_stands_alone_and_can_be_read_without_seeing_it(made):
    text = page([made, replace(made, name="again", figures=(replace(made.figures[0], name="again"),))], "overstory")
    reader = HtmlReader(text)
    addresses = [words[name] for _, words in reader.elements for name in ("src", "href", "xlink:href") if name in words]
    names = [words["id"] for _, words in reader.elements if "id" in words]
    assert all(address.startswith("#") for address in addresses)
    assert reader.all("script") == []
    assert len(set(names)) == len(names)
    assert {address[1:] for address in addresses} <= set(names)
    assert len(reader.all("svg")) == len(reader.all("desc")) == text.count('role="img"') == 2
    assert len(reader.all("caption")) == len(reader.all("table")) == 6
    assert "prefers-color-scheme: dark" in text
    assert "#0072b2" not in text.partition("</style>")[2].lower()  # every colour of a picture is the page's own
