"""Which cells of a table are called surely different: rarely any where the variables are independent."""

import numpy as np
import pytest
from scipy.stats import binom

import overstory
from overstory.analysis.association.independence import depart, departures
from overstory.analysis.association.summary import TableSummary, table_cells, table_picture
from overstory.analysis.association.table import pair_table
from overstory.presentation.render_html import as_svg
from support.random_collections import FALSE_ALARM

ROWS, COLUMNS = 4, 3
ORACLE = overstory.oracle("grr", domain_size=ROWS * COLUMNS, epsilon=3.0)
LABELS = [[f"r{i}" for i in range(ROWS)], [f"c{j}" for j in range(COLUMNS)]]
INDEPENDENT = np.outer([0.4, 0.3, 0.2, 0.1], [0.6, 0.3, 0.1])


def table(shares, seed, people=20_000):
    rng = np.random.default_rng([seed, 77])
    held = rng.choice(shares.size, people, p=shares.ravel())
    counts = ORACLE.accumulate(ORACLE.simulate(held, rng))
    return pair_table(ORACLE.mechanism, ORACLE.estimate(counts, interval_kind="population"), ["row", "column"], LABELS)


def has_any(test, collections=100):
    return sum(bool(test(table(INDEPENDENT, seed)).any()) for seed in range(collections))


def test_independent_variables_rarely_have_a_coloured_cell():
    """Under independence a false discovery rate is the chance of any: 5%. Chance of a false alarm: FALSE_ALARM."""
    assert binom.sf(has_any(depart) - 1, 100, 0.05) > FALSE_ALARM


def test_the_check_notices_cells_that_are_looked_at_one_by_one():
    """Broken on purpose: each cell against its own 5%, as 12 intervals side by side invite."""

    def one_by_one(it):
        differences, errors = departures(it)
        return np.abs(differences) > 1.96 * errors

    assert binom.sf(has_any(one_by_one) - 1, 100, 0.05) < FALSE_ALARM


def test_the_errors_are_the_spread_of_the_differences():
    """100 collections: a standard deviation is uncertain by 7%, and 12 of them stay within 30%."""
    differences = np.array([departures(table(INDEPENDENT, seed))[0] for seed in range(100)])
    assert np.std(differences, axis=0) / departures(table(INDEPENDENT, 0))[1] == pytest.approx(
        np.ones((ROWS, COLUMNS)), abs=0.3
    )


def test_a_cell_that_differs_is_found_and_drawn_on_pages_and_in_files():
    shares = INDEPENDENT.copy()
    shares[0, 2] += 0.05
    shares[0, 0] -= 0.05
    summary = TableSummary(table(shares, 1))
    cells = table_cells(summary)
    assert cells.sure[0, 2]
    assert cells.sure[0, 0]
    picture = table_picture("t", summary)
    assert "c2 in r0:" in picture.alt
    assert f">{100 * cells.shares[0, 2]:.1f}%" in as_svg(picture)


def headline(shares, seed):
    return TableSummary(table(shares, seed)).sentences()[0]


def test_the_headline_names_what_the_rows_and_the_picture_show():
    """M1: "no sign that they depend on each other" stood above rows that differ, and a coloured cell.

    A weak departure in one cell of twelve: the test of all cells sees it less often than that of the cell alone.
    """
    departing = INDEPENDENT + 0.004 * np.outer([0, 1, 0, -1], [1, -1, 0])
    named = 0
    for seed in range(40):
        summary = TableSummary(table(departing, seed))
        first = summary.sentences()[0]
        apart = [f"{each.row} with {each.column}" for each in summary.compared if each.apart]
        sure = [f"r{row} with c{column}" for row, column in np.argwhere(table_cells(summary).sure)]
        assert first.startswith("row and column depend") == summary.tested.rejected
        assert ("but by themselves" in first) == (not summary.tested.rejected and bool(apart or sure))
        named += "but by themselves" in first
    assert named >= 2


def test_independent_variables_rarely_have_a_headline_of_exceptions():
    """5% for the test of all cells, at most 5% each for cells and for rows."""
    said = sum(": " not in headline(INDEPENDENT, n) or "no sign" not in headline(INDEPENDENT, n) for n in range(100))
    assert binom.sf(said - 1, 100, 0.15) > FALSE_ALARM
