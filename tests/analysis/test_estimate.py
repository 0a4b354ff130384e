"""Closed-form estimates and the ways to show them."""

import csv
import io
from typing import Any

import numpy as np
import pytest

from overstory.analysis.estimate import Estimate, debias
from overstory.analysis.reports import SupportCounts
from overstory.analysis.tables.output import plot_height
from overstory.protocol.errors import ParameterError
from support.estimates import estimate_of
from support.random_collections import P_STAR, Q_STAR


def test_several_cohorts_are_added_up() -> None:
    counts = SupportCounts([10, 30], [[4, 2], [9, 9]])
    together = SupportCounts([40], [[13, 11]])
    a, b = (debias(c, P_STAR, Q_STAR, ["a", "b"]) for c in (counts, together))
    assert a.counts.tolist() == b.counts.tolist()


def test_both_corrections_act() -> None:
    close = estimate_of([5.0, 2.4, 2.3, 2.2, 0.0], 1.0)
    assert close.detected(0.05, "fdr").sum() == 4
    assert close.detected(0.05, "bonferroni").sum() == 2
    assert close.detected(0.001, "bonferroni").sum() == 1


def test_csv_to_a_path_quotes_what_needs_quoting(tmp_path: Any) -> None:
    odd = debias(SupportCounts([4], [[2, 1]]), P_STAR, Q_STAR, ['a,"b"', "é"])
    odd.to_csv(tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        assert {line[0] for line in csv.reader(file)} == {"string", 'a,"b"', "é"}


def axes() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    return Figure().add_subplot()


def many(detected: int, absent: int) -> Estimate:
    counts = np.array([500.0 - i for i in range(detected)] + [0.0] * absent)
    return estimate_of(counts, 5.0, reports=50_000)


def test_a_picture_says_how_much_it_leaves_out() -> None:
    """A13: 115 of 300 were detected, the picture ended at the fiftieth, and did not say so."""
    ax = axes()
    many(115, 185).plot(ax)
    assert len(ax.get_yticklabels()) == 50
    said = ax.get_title("left")
    assert said == "50 of 300 values shown, the most frequent; 50 of the 115 detected are among them"
    ax = axes()
    many(3, 4).plot(ax)
    assert ax.get_title("left") == "3 of 7 values detected"
    assert plot_height(many(115, 185)) > 2 * plot_height(many(3, 4))


@pytest.mark.parametrize("name", ["$x_$", "$5 to $10", "$\\frac$", "a\nb\x1b[31m", "x" * 300])
def test_a_label_is_text_whatever_stands_in_it(name: str) -> None:
    """T21: `$x_$` ended decode --plot with exit status 70, and `$5 to $10` was drawn as a formula."""
    ax = axes()
    estimate_of([50.0, 20.0], 1.0, values=[name, "plain"], reports=100).plot(ax)
    ax.figure.savefig(io.BytesIO(), format="svg")
    label = ax.get_yticklabels()[0]
    assert not label.get_parse_math()
    assert all(c.isprintable() for c in label.get_text())
    assert len(label.get_text()) <= 40
    if "$" in name:
        assert label.get_text() == name


def test_no_reports_is_said_and_not_numbered() -> None:
    nothing = debias(SupportCounts.empty(1, 2), P_STAR, Q_STAR, ["a", "b"])
    assert nothing.notes
    assert not nothing.detected().any()
    row = nothing.to_json()["estimates"][0]
    assert row["standard_error"] is None
    assert row["low"] is None
    assert "unknown" in nothing.table()


def test_bad_arguments_are_refused() -> None:
    counts = SupportCounts([4], [[2, 1]])
    with pytest.raises(ParameterError, match="1 values, but reports of 2 bits"):
        debias(counts, P_STAR, Q_STAR, ["a"])
    with pytest.raises(ParameterError, match="say nothing"):
        debias(counts, 0.5, 0.5, ["a", "b"])
    with pytest.raises(ParameterError, match="probability"):
        debias(counts, 1.5, 0.5, ["a", "b"])
    found = debias(counts, P_STAR, Q_STAR, ["a", "b"])
    with pytest.raises(ParameterError, match="confidence level"):
        found.confidence_interval(95)
    with pytest.raises(ParameterError, match="alpha"):
        found.detected(5)
    with pytest.raises(ParameterError, match="fdr or bonferroni"):
        found.detected(0.05, "holm")
    with pytest.raises(ParameterError, match="shape"):
        Estimate(values=["a"], counts=np.ones(2), raw_counts=np.ones(1), standard_errors=np.ones(1), num_reports=1)
