"""sum and decode of the files of Google's association tools, in both of their forms, and with a boolean variable."""

import csv
import json
from itertools import product

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices
from overstory.files.rappor import RapporParameters, hash_candidates, write_map, write_params
from overstory.protocol.kinds.joint import joint
from support.association_populations import population
from support.running import done

PARAMETERS = RapporParameters(k=32, h=2, m=8, p=0.1, q=0.9, f=0.2)
REPORTS = 30_000
WORDS = tuple(f"word{i}" for i in range(6)), tuple(f"page{i}" for i in range(4))
SHARES = population(6, 4, 0.6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Parameters, maps, and the same reports in Google's two forms; and reports with a boolean variable."""
    path = tmp_path_factory.mktemp("pairs")
    write_params(path / "params.csv", PARAMETERS)
    letters = {"oracle": "rappor", "num_bits": 32, "num_hashes": 2, "num_cohorts": 8}
    letters |= {"f": 0.2, "p": 0.1, "q": 0.9}
    built = joint(of=[{**letters, "hash_key": "one"}, {**letters, "hash_key": "two"}])
    for number, (part, words) in enumerate(zip(built.components, WORDS, strict=True), start=1):
        write_map(path / f"map_{number}.csv", hash_candidates(words, part.encoding))
    drawn = np.random.default_rng(4)
    held = drawn.choice(24, REPORTS, p=SHARES.ravel() / SHARES.sum())
    batch = SimulatedDevices.holding(built, list(product(*WORDS)), held, drawn).report()
    rows = [(int(c), int(b) & 0xFFFFFFFF, int(b) >> 32) for c, b in zip(batch.cohorts, batch.bits[:, 0], strict=True)]
    lines = [f"client{i},{c},{x:032b},{y:032b}" for i, (c, x, y) in enumerate(rows)]
    (path / "reports.csv").write_text("client,cohort,word,page\n" + "\n".join(lines) + "\n")
    lines = [f"{c + 1},{format(x, '032b')[::-1]},{format(y, '032b')[::-1]}" for c, x, y in rows]
    (path / "assoc_sim.csv").write_text("\n".join(lines) + "\n")
    # A boolean variable has one bit with the same noise: true for the first two pages.
    p, q = float(built.components[0].p_star), float(built.components[0].q_star)
    true = drawn.random(REPORTS) < np.where(held % 4 < 2, p, q)
    lines = [f"{c},{x:032b},{int(bit)}" for (c, x, _), bit in zip(rows, true, strict=True)]
    (path / "boolean.csv").write_text("cohort,word,early\n" + "\n".join(lines) + "\n")
    return path


def summed(folder, reports, counts, *options):
    command = "sum", "--params", "params.csv", reports, "-o", counts
    return done(folder, *command, *(options or ("--pair", "word", "page")), "--json")


PAIR = "--params", "params.csv", "--map", "map_1.csv", "map_2.csv", "--pair", "word", "page"


def test_both_forms_have_the_same_counts(folder):
    first = json.loads(summed(folder, "reports.csv", "counts.csv").stdout)
    summed(folder, "assoc_sim.csv", "again.csv")
    assert (folder / "counts.csv").read_bytes() == (folder / "again.csv").read_bytes()
    assert first["reports"] == REPORTS
    assert first["bits"] == [32, 32]
    assert sum(first["cohorts"]) == REPORTS
    rows = (folder / "counts.csv").read_text().splitlines()
    assert len(rows) == 8 * 33
    assert sum(int(row.rsplit(",", 1)[1]) for row in rows[32::33]) == REPORTS


def cells_of(ran, shape, what="share"):
    cells = json.loads(ran.stdout)["cells"]
    return np.array([cell[what] for cell in cells]).reshape(shape)


def test_decode_finds_the_table_from_the_counts(folder):
    summed(folder, "reports.csv", "counts.csv")
    ran = done(folder, "decode", *PAIR, "--counts", "counts.csv", "--complete", "--json", "-o", "out")
    shares, errors = cells_of(ran, (6, 4)), cells_of(ran, (6, 4), "standard_error")
    assert (np.abs(shares - SHARES) < 5 * errors).all()
    assert errors.max() < 0.02
    read = json.loads(ran.stdout)
    assert read["variables"] == ["word", "page"]
    assert read["independence"]["independence_rejected"]
    single = done(folder, "privacy", "--params", "params.csv", "--json")
    alone = json.loads(single.stdout)["epsilon_report"]
    assert read["epsilon_report"] == pytest.approx(2 * alone)
    with (folder / "out" / "table.csv").open(newline="") as text:
        assert len(list(csv.DictReader(text))) == 24
    ran = done(folder, "decode", *PAIR, "--counts", "counts.csv", "--json")
    assert cells_of(ran, (7, 5))[6, 4] == pytest.approx(0, abs=0.05)  # strings outside both lists: nobody


def test_a_boolean_variable_is_one_bit(folder):
    pair = "--pair", "word", "early:bit"
    assert json.loads(summed(folder, "boolean.csv", "boolean_counts.csv", *pair).stdout)["bits"] == [32, 1]
    maps = "--params", "params.csv", "--map", "map_1.csv"
    ran = done(folder, "decode", "--counts", "boolean_counts.csv", *maps, *pair, "--complete", "--json")
    truth = np.column_stack((SHARES[:, :2].sum(axis=1), SHARES[:, 2:].sum(axis=1)))
    shares, errors = cells_of(ran, (6, 2)), cells_of(ran, (6, 2), "standard_error")
    assert (np.abs(shares - truth) < 5 * errors).all()
    assert [cell["column"] for cell in json.loads(ran.stdout)["cells"][:2]] == ["true", "false"]


def test_a_bad_line_is_named_or_passed_over(folder):
    """As Google's files have them: a variable that a device did not report is empty."""
    good = (folder / "reports.csv").read_text().splitlines()[:3]
    empty = f"x,1,{'0' * 32},"
    (folder / "bad.csv").write_text("\n".join([*good, empty]) + "\n")
    command = "sum", "--params", "params.csv", "bad.csv", "-o", "-", "--pair", "word", "page"
    ran = done(folder, *command, status=2)
    assert "bad.csv, line 4, field page: expected 32 characters 0 or 1, found 0" in ran.stderr
    (folder / "short.csv").write_text("1,01,10\n")
    ran = done(folder, *command[:3], "short.csv", *command[4:], status=2)
    assert "short.csv, line 1, field word: expected 32 characters" in ran.stderr


def test_counts_that_cannot_be_are_refused(folder):
    summed(folder, "reports.csv", "counts.csv")
    lines = (folder / "counts.csv").read_text().splitlines()
    (folder / "fewer.csv").write_text("\n".join(lines[:-1]) + "\n")
    ran = done(folder, "decode", *PAIR, "--counts", "fewer.csv", status=2)
    assert "expected 264 rows" in ran.stderr
    wrong = ["9999999" if place == 0 else cell for place, cell in enumerate(lines[40].split(","))]
    (folder / "wrong.csv").write_text("\n".join([*lines[:40], ",".join(wrong), *lines[41:]]) + "\n")
    ran = done(folder, "decode", *PAIR, "--counts", "wrong.csv", status=2)
    assert "wrong.csv, line 41" in ran.stderr
