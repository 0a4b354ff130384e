"""``overstory plan``: what is asked reaches the planner, and no sentence says what cannot be."""

import json
import re

import pytest

from support.running import within


@pytest.mark.parametrize("reports", [60, 80, 100, 140, 200, 300])
def test_no_share_above_all_and_no_one_strings(reports, tmp_path):
    given = ["--epsilon", 1, "--epsilon-permanent", 2, "--reports", reports, "--candidates", 3]
    words = " ".join(within("plan", *given, cwd=tmp_path).stdout.split())
    shares = [float(share) for share in re.findall(r"(?:share of|from) ([0-9.]+)%", words)]
    assert all(share <= 100 for share in shares), words
    assert " 1 strings" not in words
    assert ("and no share nine times in ten" in words) == (len(shares) == 2)


def test_thrifty_needs_of_a_size_that_is_given(tmp_path):
    given = ["--epsilon", 1.0743, "--epsilon-permanent", 4.3945, "--reports", "1000000", "--candidates", 200]
    planned = json.loads(within("plan", *given, "--num-cohorts", 16, "--thrifty", "--json", cwd=tmp_path).stdout)
    assert planned["epsilon_permanent"] < 1.36
    assert planned["parameters"]["m"] == 16
