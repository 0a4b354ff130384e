"""Files as google/rappor has them: maps with fewer positions, `rappor` for `irr`, redundant cohorts, odd strings."""

import csv

import numpy as np
import pytest

from overstory.files.rappor import RapporParameters, read_counts, read_map, read_params
from overstory.files.reports import read_reports, sum_reports
from overstory.protocol.errors import FormatError

BITS, HASHES, COHORTS = 12, 2, 3
SHAPE = {"num_bits": BITS, "num_hashes": HASHES, "num_cohorts": COHORTS}


def filled(rows):
    """Return the 0/1 table of (candidate, cohort, bit) as `ReadMapFile` makes it: positions are a set over k * m."""
    table = np.zeros((len(rows), COHORTS * BITS), bool)
    for i, row in enumerate(rows):
        for text in row[1:]:
            if text:
                table[i, int(text) - 1] = True
    return table.reshape(len(rows), COHORTS, BITS)


def test_a_map_row_has_fewer_positions_where_two_hashes_meet(tmp_path):
    """As row 8 of Google's own sample, whose second cohort has one position, so that the row ends with a comma."""
    text = '"V_1",1,5,13,24,26,36\n"V_2",12,14,20,30,31,\n"V_3",3,4,17,18,25\n"V_4",2,13,36,,,\n'
    (tmp_path / "map.csv").write_text(text)
    notes = []
    found = read_map(tmp_path / "map.csv", **SHAPE, notes=notes)
    expected = filled(list(csv.reader(text.splitlines())))
    assert found.candidates == ["V_1", "V_2", "V_3", "V_4"]
    assert notes == []
    made = found.dense().reshape(COHORTS, BITS, 4).transpose(2, 0, 1) > 0
    assert np.array_equal(made, expected)


def test_the_first_of_equal_candidates_counts_and_one_without_a_letter_is_empty(tmp_path):
    (tmp_path / "map.csv").write_text(
        "ash,1,2,13,14,25,26\n,3,4,15,16,27,28\nash,5,6,17,18,29,30\nelm,7,8,19,20,31,32\n"
    )
    notes = []
    found = read_map(tmp_path / "map.csv", **SHAPE, notes=notes)
    assert found.candidates == ["ash", "Empty", "elm"]
    assert found.positions[0].tolist() == [[0, 1], [2, 3], [6, 7]]
    assert ["is called Empty" in notes[0], "1 row with an earlier row's candidate left out" in notes[1]] == [True, True]


def test_counts_of_redundant_cohorts_are_added_up(tmp_path):
    """Row i belongs to cohort i modulo m, as in `AdjustCounts`: tapply(x, rep(1:m, nrow / m), sum)."""
    rows = np.random.default_rng(1).integers(0, 50, (6, BITS + 1))
    rows[:, 0] = 50
    (tmp_path / "counts.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows.tolist()))
    notes = []
    counts = read_counts(tmp_path / "counts.csv", COHORTS, BITS, notes)
    for cohort in range(COHORTS):
        assert counts.totals[cohort] == 100
        assert counts.ones[cohort].tolist() == (rows[cohort] + rows[cohort + COHORTS])[1:].tolist()
    assert notes == [f"{tmp_path}/counts.csv: 6 rows are 2 for each of 3 cohorts (m), and were added up"]


def test_reports_may_call_the_irr_rappor(tmp_path):
    """The header of sum_bits_test.py's input, whose other columns hold no bits."""
    (tmp_path / "r.csv").write_text(
        "user_id,cohort,bloom,prr,rappor\n5,1,dummy,dummy,000011110001\n5,1,dummy,dummy,1\n"
    )
    parameters = RapporParameters(BITS, HASHES, COHORTS, 0.25, 0.75, 0.5)
    with pytest.raises(FormatError, match="line 3, field irr: expected 12 characters"):
        sum_reports(read_reports(tmp_path / "r.csv", parameters), COHORTS, BITS)
    (tmp_path / "r.csv").write_text("user_id,cohort,bloom,prr,rappor\n5,1,dummy,dummy,000011110001\n")
    counts = sum_reports(read_reports(tmp_path / "r.csv", parameters), COHORTS, BITS)
    assert counts.totals.tolist() == [0, 1, 0]
    assert counts.ones[1].tolist() == [1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0]
    (tmp_path / "r.csv").write_text("cohort,rappor,irr\n0,x,000000000001\n")  # where both names stand, irr is irr
    assert sum_reports(read_reports(tmp_path / "r.csv", parameters), COHORTS, BITS).ones[0, 0] == 1


def test_a_quoted_header_and_one_with_blanks(tmp_path):
    (tmp_path / "p.csv").write_text('"k","h","m","p","q","f"\n128,2,8,0.5,0.75,0\n')
    assert read_params(tmp_path / "p.csv") == RapporParameters(128, 2, 8, 0.5, 0.75, 0.0)
    (tmp_path / "p.csv").write_text("k, h, m, p, q, f\n16, 2, 4, 0.1, 0.9, 0.2\n")
    assert read_params(tmp_path / "p.csv") == RapporParameters(16, 2, 4, 0.1, 0.9, 0.2)
