"""`overstory compare`: oracles, and randomizers of numbers."""

import json

import pytest

from overstory.protocol.kinds.registry import FAMILIES, any_mechanism
from support.running import within

DATA = "state,n\nOhio,1\nUtah,2\nOhio,3\n,4\nIowa,5\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    return tmp_path


def test_the_trial_orders_the_oracles_and_says_how_surely(folder):
    (folder / "many.csv").write_text("state\n" + "".join(f"s{i % 7 * i % 11}\n" for i in range(2_000)))
    shown = within("compare", "--epsilon", 2, "many.csv", "--column", "state", "--json", cwd=folder).stdout
    rows = json.loads(shown)["oracles"]
    assert {row["measured_runs"] for row in rows} == {20}
    off = [(row["measured_error"] - row["standard_error"]) / row["measured_standard_error"] for row in rows]
    assert max(map(abs, off)) < 6  # a spread from 20 runs: t with 19 degrees of freedom
    exact, measured = ([row[name] for row in rows] for name in ("standard_error", "measured_error"))
    worse = [i for i, error in enumerate(exact) if error > 1.3 * exact[0]]
    assert worse
    assert all(measured[i] > measured[0] for i in worse)


WARNING = (
    "warning: with grr a crafted report counts for 59 honest ones: 1% liars raise any value's share by 59 percentage"
)


def test_an_oracle_is_warned_of_with_which_a_liar_has_more_than_ten_votes(folder):
    def compared(epsilon):
        ask = ("--domain-size", 100, "--epsilon", epsilon, "--reports", 100_000)
        return " ".join(within("compare", *ask, cwd=folder).stdout.split())

    warned = compared(1.0)
    assert WARNING in warned
    assert "warning: with oue" not in warned
    assert "warning: with grr" not in compared(4.0)


def of_numbers(folder, low, high, *more):
    ask = ("--numeric", low, high, "--epsilon", 1, "--reports", 10**4)
    return within("compare", *ask, *more, cwd=folder).stdout


def test_the_error_of_a_mean_at_equal_privacy(folder):
    read = json.loads(of_numbers(folder, -1, 1, "--json"))
    rows = {row["name"]: row for row in read["randomizers"]}
    assert set(rows) == set(FAMILIES["numbers"].builders)
    assert read["randomizers"] == sorted(read["randomizers"], key=lambda row: row["worst"])
    for name, row in rows.items():
        built = any_mechanism(name, epsilon=1.0, minimum=-1.0, maximum=1.0)
        assert row["middle"] == pytest.approx((float(built.variance(0)) / 10**4) ** 0.5)
        assert row["end"] == pytest.approx((float(built.variance(1)) / 10**4) ** 0.5)
        assert row["epsilon_report"] <= 1
    assert rows["duchi"]["report_bits"] == 1
    assert of_numbers(folder, -1, 1).splitlines()[1].split() == ["hybrid", "2.071e-02", "2.071e-02", "22"]


def test_errors_grow_with_the_range_and_never_overflow(folder):
    small, large = (
        {row["name"]: row["worst"] for row in json.loads(of_numbers(folder, 0, high, "--json"))["randomizers"]}
        for high in (1, 1e200)
    )
    assert large == pytest.approx({name: 1e200 * error for name, error in small.items()}, rel=1e-9)
