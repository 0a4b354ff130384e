"""`overstory compare`: oracles, and randomizers of numbers."""

import gzip
import json
import xml.etree.ElementTree as ET

import pyarrow as pa
import pytest
from pyarrow import parquet

from overstory.protocol.kinds.registry import FAMILIES, any_mechanism
from support.running import within

DATA = "state,n\nOhio,1\nUtah,2\nOhio,3\n,4\nIowa,5\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    return tmp_path


def test_the_trial_orders_the_oracles_and_says_how_surely(folder):
    """A12: `sue 9.531e-03` was measured beside `subset 1.244e-02`, which was recommended: one run is noise."""
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


def test_a_column_is_tried(folder):
    done = within("compare", "--epsilon", 2, "data.csv", "--column", "state", "--plot", "o.svg", "--json", cwd=folder)
    said = json.loads(done.stdout)
    assert (said["domain_size"], said["reports"]) == (3, 4)
    assert all(row["measured_error"] > 0 for row in said["oracles"])
    drawn = (folder / "o.svg").read_text()
    assert drawn.startswith("<svg")
    assert "measured, 20 runs, +/- standard error" in drawn


@pytest.mark.parametrize("worse", [1.0, 1.001, 30.0])
def test_every_oracle_has_a_ring_and_a_dot_within_the_axis(worse):
    from overstory.analysis.comparison import Measured, rank
    from overstory.cli.analysis.compare import ranking_picture

    ranking = rank(5, 1.0, 1000)
    picture = ranking_picture(ranking, [Measured(worse * choice.standard_error, 0.001, 4) for choice in ranking])
    drawn = ET.fromstring(picture.svg)
    low, high, start, stop = map(float, drawn.attrib["data-x"].split())
    assert low < ranking[0].standard_error <= worse * ranking[-1].standard_error < high
    places = [float(circle.attrib["cx"]) for circle in drawn.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(places) == 2 * len(ranking) + 2  # and the key's
    assert all(start <= place <= stop for place in places)
    names = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert [name for name in names if name in {choice.name for choice in ranking}] == [
        choice.name for choice in ranking
    ]


def test_a_column_in_another_form_is_the_same_column(folder):
    ask = ("compare", "--epsilon", 2, "--column", "n", "--json")
    written = within(*ask, "data.csv", cwd=folder).stdout
    (folder / "data.csv.gz").write_bytes(gzip.compress(DATA.encode()))
    parquet.write_table(pa.table({"n": [1, 2, 3, 4, 5]}), folder / "numbers.parquet")
    assert [within(*ask, name, cwd=folder).stdout for name in ("data.csv.gz", "numbers.parquet")] == [written] * 2


def test_a_file_without_a_header_is_read_as_collect_reads_it(folder):
    """A10: Adult as downloaded has no header, blanks after its commas, and `?` for what is missing."""
    (folder / "adult.data").write_text("39, State-gov, Male\n50, ?, Male\n38, Private, Female\n28, Private, Female\n")
    ask = ("compare", "adult.data", "--epsilon", 2, "--json", "--csv=no-header", "--csv=tidy", "--csv=missing=?")
    compared = within(*ask, "--column", 2, cwd=folder)
    assert compared.returncode == 0, compared.stderr
    (folder / "plain.csv").write_text("work\nState-gov\nPrivate\nPrivate\n")
    assert (
        compared.stdout
        == within("compare", "plain.csv", "--epsilon", 2, "--json", "--column", "work", cwd=folder).stdout
    )


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


def test_the_same_seed_measures_the_same(folder):
    ask = ("compare", "--epsilon", 2, "data.csv", "--column", "state", "--reports", 300, "--json")
    first, again, other = (within(*ask, "--seed", s, cwd=folder).stdout for s in (1, 1, 2))
    assert first == again != other
