"""Two columns by one report of each row: what the benchmark prints, on a file made here and on a survey."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench" / "two_columns.py"


def _run(folder, *words):
    return subprocess.run([sys.executable, str(BENCH), *words], cwd=folder, capture_output=True, text=True, check=False)


def test_more_epsilon_is_more_accurate_and_intervals_cover(tmp_path):
    """At epsilon 1, 2 and 4, over 6 x 4 cells."""
    lines = [f"{i % 6},{'abcd'[(i * 7 // 6) % 4]}" for i in range(12_000)]
    (tmp_path / "table.csv").write_text("x,y\n" + "\n".join(lines) + "\n")
    ran = _run(tmp_path, "table.csv", "x", "y", "--seeds", "4", "--json")
    assert ran.returncode == 0, ran.stderr
    rows = json.loads(ran.stdout)
    assert rows[0]["rmse"] > 1.5 * rows[1]["rmse"] > 1.5**2 * rows[2]["rmse"]
    # 96 cells for each of three: below .85 about once in ten million.
    assert min(row["covered"] for row in rows) > 0.85
