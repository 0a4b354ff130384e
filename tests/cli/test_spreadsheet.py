"""Values that a spreadsheet runs are made up by devices; `--spreadsheet` writes none, and loses no value."""

import csv

import pytest

from overstory.presentation.render_data import FORMULA
from support.running import within

EVIL = ["=cmd|'/C calc'!A0", "@SUM(1)", "\t=1", "+oak", "-ash", "'tis", "\uff1d1", "=1,\n2", "oak", "-2.5", '="a"']
FILES = {"collect": "out/learned.csv", "decode": "out/results.csv", "discover": "found.csv"}
PARAMS = "k,h,m,p,q,f\n32,2,1,0.5,0.75,0\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("sheets")
    with (path / "evil.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("word",), *((word,) for word in EVIL for _ in range(300))])
    with (path / "candidates.txt").open("w", encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word in EVIL if "\n" not in word)
    (path / "params.csv").write_text(PARAMS)
    (path / "counts.csv").write_text("500" + ",250" * 32 + "\n")
    made = within("map", "--params", "params.csv", "--candidates", "candidates.txt", "-o", "map.csv", cwd=path)
    assert made.returncode == 0, made.stderr
    return path


LINES = {
    "collect": "collect evil.csv --column word --epsilon 8 -o out",
    "decode": "decode --params params.csv --counts counts.csv --map map.csv -o out",
    "discover": "discover evil.csv --column word --bytes 17 --epsilon 8 --seed 1 -o found.csv",
}


def written(folder, command, *options):
    done = within(*LINES[command].split(), *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    with (folder / FILES[command]).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def is_number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("command", LINES)
def test_no_cell_is_a_formula_and_every_value_comes_back(folder, command):
    exact, safe = written(folder, command), written(folder, command, "--spreadsheet")
    assert any(cell.startswith("=") for row in exact for cell in row)  # exact, unless it is asked for
    assert not [cell for row in safe for cell in row if cell.startswith(FORMULA) and not is_number(cell)]
    assert [[cell.removeprefix("'") for cell in row] for row in safe] == exact
