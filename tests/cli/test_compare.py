"""`overstory compare`, and `overstory plan` for a domain."""

import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet

from support.running import within

NEEDS = ("--domain-size", 10, "--epsilon", 2, "--reports", 5000)
DATA = "state,n\nOhio,1\nUtah,2\nOhio,3\n,4\nIowa,5\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.csv").write_text(DATA)
    (tmp_path / "empty.csv").write_text("state\n\n")
    (tmp_path / "data.parquet").write_text("PAR1 and no more of it")
    parquet.write_table(pa.table({"state": [["Ohio"], ["Utah"]]}), tmp_path / "lists.parquet")
    return tmp_path


def test_the_ranking_for_a_person(folder):
    shown = within("compare", *NEEDS, "--measure", 2, cwd=folder).stdout
    assert "recommended: overstory.oracle('grr', domain_size=10, epsilon=2.0)" in shown
    assert shown.splitlines()[0].split()[-1] == "measured"
    assert "measured: root mean square error of 2 simulated collections, +/- its standard error" in shown


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
    assert drawn.startswith("<?xml")
    assert "measured, 20 runs, +/- standard error" in drawn


def test_no_bar_stands_on_a_logarithmic_axis(monkeypatch, tmp_path):
    """A12: bars from a cut base say how long they are, and it means nothing."""
    from matplotlib.figure import Figure

    from overstory.analysis.comparison import Measured, rank
    from overstory.cli.analysis.compare import draw

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    ranking = rank(5, 1.0, 1000)
    draw(ranking, [Measured(choice.standard_error, 0.001, 4) for choice in ranking], str(tmp_path / "o.svg"))
    (axes,) = drawn[0].axes
    assert (axes.get_xscale(), list(axes.patches)) == ("log", [])
    assert [label.get_text() for label in axes.get_yticklabels()] == [choice.name for choice in ranking]


def test_a_column_in_another_form_is_the_same_column(folder):
    ask = ("compare", "--epsilon", 2, "--column", "n", "--json")
    written = within(*ask, "data.csv", cwd=folder).stdout
    (folder / "data.csv.gz").write_bytes(gzip.compress(DATA.encode()))
    parquet.write_table(pa.table({"n": [1, 2, 3, 4, 5]}), folder / "numbers.parquet")
    assert [within(*ask, name, cwd=folder).stdout for name in ("data.csv.gz", "numbers.parquet")] == [written] * 2


def test_a_file_without_a_header_is_read_as_collect_reads_it(folder):
    """A10: Adult as downloaded has no header, blanks after its commas, and `?` for what is missing."""
    (folder / "adult.data").write_text("39, State-gov, Male\n50, ?, Male\n38, Private, Female\n28, Private, Female\n")
    ask = ("compare", "adult.data", "--epsilon", 2, "--json", "--no-header", "--strip", "--missing", "?")
    compared = within(*ask, "--column", 2, cwd=folder)
    assert compared.returncode == 0, compared.stderr
    (folder / "plain.csv").write_text("work\nState-gov\nPrivate\nPrivate\n")
    assert (
        compared.stdout
        == within("compare", "plain.csv", "--epsilon", 2, "--json", "--column", "work", cwd=folder).stdout
    )


def test_the_same_seed_measures_the_same(folder):
    ask = ("compare", "--epsilon", 2, "data.csv", "--column", "state", "--reports", 300, "--json")
    first, again, other = (within(*ask, "--seed", s, cwd=folder).stdout for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--epsilon", 1), "give --domain-size D and --reports N, or FILE"),
        (("--epsilon", 1, "data.csv"), "go together"),
        (("--epsilon", 1, "data.csv", "--column", "x"), "there is no column 'x'; there are: 'state', 'n'"),
        (("--epsilon", 1, "none.csv", "--column", "x"), "none.csv"),
        (("--epsilon", 1, "data.csv", "--column", "n", "--domain-size", 3), "has 5 different values"),
        ((*NEEDS, "--measure", 0), "--measure takes a whole number from 1"),
        ((*NEEDS, "--seed", -1), "--seed -1: give a whole number, 0 or more"),
        (("--domain-size", 1, "--epsilon", 1, "--reports", 5), "domain_size = 1"),
        (("--domain-size", 4, "--epsilon", 0, "--reports", 5), "epsilon = 0.0"),
        (("--domain-size", 4, "--epsilon", 1, "--reports", 0), "num_reports = 0"),
        (("--domain-size", 4, "--epsilon", 1, "--reports", -2, "--measure", 1), "num_reports = -2"),
        (("--domain-size", 0, "--epsilon", 1, "--reports", 5, "--measure", 1), "domain_size = 0"),
        (("--epsilon", 1, "data.csv", "--column", "state", "--reports", -2), "num_reports = -2"),
        (("--epsilon", 1, "empty.csv", "--column", "state"), "the column 'state' holds no values"),
        (("--epsilon", 1, "lists.parquet", "--column", "state"), "a column of text or numbers is expected"),
        (("--epsilon", 1, "data.parquet", "--column", "state"), "data.parquet"),
        ((*NEEDS, "--plot", "errors"), "--plot errors: end the name in .svg, .pdf or .png"),
    ],
)
def test_bad_input_is_one_sentence(folder, arguments, words):
    done = within("compare", *arguments, cwd=folder)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr


def test_plan_recommends_an_oracle(folder):
    said = json.loads(within("plan", *NEEDS, "--json", cwd=folder).stdout)
    assert (said["oracle"], said["parameters"]) == ("grr", {"domain_size": 10, "epsilon": 2.0})
    assert "recommended: overstory.oracle('grr'" in within("plan", *NEEDS, cwd=folder).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--domain-size", 10, "--reports", 5), "takes --domain-size D, --epsilon E"),
        ((*NEEDS, "--candidates", 5), "it takes no --candidates"),
        ((*NEEDS, "--thrifty", "--num-bits", 8), "it takes no --num-bits, --thrifty"),
        ((*NEEDS, "--alpha", 0.01, "--share", 0), "share = 0.0: give a fraction above 0"),
        ((*NEEDS, "--alpha", 1), "alpha = 1.0: give a fraction above 0 and below 1"),
        ((*NEEDS, "--hash-family", "google-rappor-python"), "it takes no --hash-family"),
        (("--epsilon", 1, "--epsilon-permanent", 2, "--reports", 5), "give --candidates M"),
    ],
)
def test_plan_says_what_is_missing_or_too_much(folder, arguments, words):
    done = within("plan", *arguments, cwd=folder)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
