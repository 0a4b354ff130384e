"""`overstory reproduce`, run as a person runs it."""

import json

import pytest

from papers.run import EXPERIMENTS
from support.running import within

SMALL = "rappor-75-of-100"


def test_it_prints_what_was_published_beside_ours_and_writes_everything(tmp_path):
    done = within("reproduce", SMALL, "--quick", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1.39e-24 (section 3)" in done.stdout
    assert "agrees" in done.stdout
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {f"{SMALL}.json", f"{SMALL}.png", f"{SMALL}.svg", "index.html", "summary.md"}


def test_json_is_the_result_and_nothing_else(tmp_path):
    done = within("reproduce", SMALL, "--quick", "--json", "-o", "out", cwd=tmp_path)
    (result,) = json.loads(done.stdout)["results"]
    assert result == json.loads((tmp_path / "out" / f"{SMALL}.json").read_text())


def test_the_page_says_how_to_get_it_again_with_its_options(tmp_path):
    done = within("reproduce", "rappor-figure-1", "--quick", "--value", "a b", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "overstory reproduce --all --quick --value 'a b'" in (tmp_path / "out" / "summary.md").read_text()


def test_the_list_names_everything(tmp_path):
    lines = within("reproduce", "--list", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    listed = json.loads(within("reproduce", "--list", "--json", cwd=tmp_path).stdout)["experiments"]
    assert [row["name"] for row in listed] == list(EXPERIMENTS)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["figure-99"], SMALL),
        ([], SMALL),
        ([SMALL, "--all"], "give --all, or names"),
        ([SMALL, "--readings", "x.csv"], "does not take --readings"),
    ],
)
def test_bad_options_get_one_sentence_and_status_2(options, words, tmp_path):
    done = within("reproduce", *options, "--quick", "-o", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
