"""Files and JSON of estimates: one dialect and one shape for every command that prints them; Google's files read."""

import json
from pathlib import Path

import pytest
from running import within


def test_decode_reads_googles_files_and_says_what_it_did(tmp_path: Path) -> None:
    """A15 end to end: the notes reach the table, the JSON and metrics.json."""
    (tmp_path / "params.csv").write_text('"k","h","m","p","q","f"\n12,2,3,0.25,0.75,0\n')
    (tmp_path / "map.csv").write_text('"V_1",1,5,13,24,26,36\n"V_2",12,14,20,30,31,\n"V_1",3,4,17,18,25,26\n')
    counts = [[1000, *([250] * 12)] for _ in range(6)]
    for row, positions in zip(counts, ((1, 5), (1, 12), (2, 12)) * 2, strict=True):
        for bit in positions:
            row[bit] = 750
    (tmp_path / "counts.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in counts))
    files = ("--params", "params.csv", "--counts", "counts.csv", "--map", "map.csv", "-o", "out")
    ran = within("decode", *files, "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert said["reports"] == 6000
    assert [row["value"] for row in said["estimates"] if row["detected"]] == ["V_1"]
    assert said["estimates"][0]["raw_count"] == pytest.approx(6000, rel=0.01)
    for words in ("6 rows are 2 for each of 3 cohorts", "1 row with an earlier row's candidate left out"):
        assert sum(words in note for note in said["notes"]) == 1
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["notes"] == said["notes"]
