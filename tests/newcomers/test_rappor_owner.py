"""The owner of old RAPPOR files: parameters, counts and a map, or reports and candidates, in google/rappor's shapes.

`make google-rappor-files CHECKOUT=DIR` reads the files of a checkout.
"""

import csv
import io

import pytest

from support.playing import PLAYS, Newcomer

STATES = ["Ohio", "Texas", "Maine", "Iowa"]
PARAMS = '"k","h","m","p","q","f"\n32,2,4,0.25,0.75,0.5\n'
GOOGLE = "--hash-family google-rappor-python"


@pytest.fixture(params=PLAYS)
def owner(request, tmp_path):
    """Return somebody with a folder of files that an old deployment left."""
    newcomer = Newcomer(tmp_path, processes=request.param)
    newcomer.write("params.csv", PARAMS)
    values = [f"{i},{i % 4},{STATES[min(i % 7, 3)]}" for i in range(4_000)]
    newcomer.write("values.csv", "client,cohort,value\n" + "\n".join(values) + "\n")
    newcomer.write("candidates.txt", "\n".join([*STATES, "Utah"]) + "\n")
    newcomer.shell(f"overstory encode --params params.csv --values values.csv {GOOGLE} --seed 1 -o made.csv")
    rows = csv.DictReader(io.StringIO(newcomer.read("made.csv")))
    old = "".join(f"{row['client']},{row['cohort']},dummy,dummy,{row['irr']}\n" for row in rows)
    newcomer.write("reports.csv", "user_id,cohort,bloom,prr,rappor\n" + old)
    return newcomer


def test_from_reports_and_candidates_to_estimates(owner):
    """A15: `expected a header with cohort,irr; irr not found`."""
    owner.shell("overstory sum --params params.csv --reports reports.csv -o counts.csv")
    owner.shell(f"overstory map --params params.csv --candidates candidates.txt {GOOGLE} -o map.csv")
    said = owner.shell(f"overstory decode --params params.csv --counts counts.csv --map map.csv {GOOGLE} -o results")
    assert "4 of 5 candidates detected" in said
    rows = {row["string"]: row for row in csv.DictReader(io.StringIO(owner.read("results/results.csv")))}
    assert {name for name, row in rows.items() if row["detected"] == "true"} == set(STATES)
    low, high = (float(rows["Iowa"][f"prop_{end}_95"]) for end in ("low", "high"))
    assert low < 4 / 7 < high


def test_maps_and_counts_as_they_were_kept(owner):
    """A15: rows with fewer positions where two hashes meet, a candidate twice, several rows of counts a cohort."""
    owner.shell("overstory sum --params params.csv --reports reports.csv -o counts.csv")
    owner.shell(f"overstory map --params params.csv --candidates candidates.txt {GOOGLE} -o map.csv")
    counts = owner.read("counts.csv").splitlines()
    nothing = ",".join("0" * 33)
    owner.write("counts.csv", "\n".join([*counts, *[nothing] * 4]) + "\n")
    rows = [line.split(",") for line in owner.read("map.csv").splitlines()]
    fewer = [[row[0], *sorted(set(row[1:]), key=int)] for row in rows]
    width = max(map(len, fewer))
    fewer = [[f'"{row[0]}"', *row[1:], *[""] * (width - len(row))] for row in [*fewer, fewer[0]]]
    owner.write("map.csv", "\n".join(map(",".join, fewer)) + "\n")
    said = owner.shell(f"overstory decode --params params.csv --counts counts.csv --map map.csv {GOOGLE} -o results")
    assert "4 of 5 candidates detected" in said
    assert "1 row with an earlier row's candidate left out" in said
    assert "8 rows are 2 for each of 4 cohorts" in said


def test_files_in_each_other_s_place_are_named(owner):
    owner.shell("overstory sum --params params.csv --reports reports.csv -o counts.csv")
    said = owner.shell("overstory decode --params counts.csv --counts params.csv --map values.csv -o out", status=2)
    assert said.startswith("overstory: error: counts.csv")
