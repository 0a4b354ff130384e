"""Closed-form estimates and the ways to show them."""

import csv

import numpy as np
import pytest

from overstory.analysis.estimate import Estimate, debias
from overstory.analysis.reports import SupportCounts
from overstory.protocol.errors import ParameterError
from support.estimates import estimate_of
from support.random_collections import P_STAR, Q_STAR


def test_several_cohorts_are_added_up():
    counts = SupportCounts([10, 30], [[4, 2], [9, 9]])
    together = SupportCounts([40], [[13, 11]])
    a, b = (debias(c, P_STAR, Q_STAR, ["a", "b"]) for c in (counts, together))
    assert a.counts.tolist() == b.counts.tolist()


def test_both_corrections_act():
    close = estimate_of([5.0, 2.4, 2.3, 2.2, 0.0], 1.0)
    assert close.detected(0.05, "fdr").sum() == 4
    assert close.detected(0.05, "bonferroni").sum() == 2
    assert close.detected(0.001, "bonferroni").sum() == 1


def test_csv_to_a_path_quotes_what_needs_quoting(tmp_path):
    odd = debias(SupportCounts([4], [[2, 1]]), P_STAR, Q_STAR, ['a,"b"', "é"])
    odd.to_csv(tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as file:
        assert {line[0] for line in csv.reader(file)} == {"string", 'a,"b"', "é"}


def many(detected, absent):
    counts = np.array([500.0 - i for i in range(detected)] + [0.0] * absent)
    return estimate_of(counts, 5.0, reports=50_000)


def test_a_picture_says_how_much_it_leaves_out():
    """A13: 115 of 300 were detected, the picture ended at the fiftieth, and did not say so."""
    picture = many(115, 185).plot()
    assert picture._repr_svg_().count("data-row=") == 50
    shown = "50 of 300 values shown, the most frequent; 50 of the 115 detected are among them"
    assert picture.caption == f"{shown}, with 95% intervals of these reports, wider for detected values."
    assert many(3, 4).plot().caption.startswith("3 of 7 values detected, with ")


def test_no_reports_is_said_and_not_numbered():
    nothing = debias(SupportCounts.empty(1, 2), P_STAR, Q_STAR, ["a", "b"])
    assert nothing.notes
    assert not nothing.detected().any()
    row = nothing.to_json()["estimates"][0]
    assert row["standard_error"] is None
    assert row["low"] is None
    assert "unknown" in nothing.table()


def test_bad_arguments_are_refused():
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
