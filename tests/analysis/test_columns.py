"""Columns of pandas, Polars, Arrow and NumPy, and lists: one reading of all of them (finding A14)."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory.analysis.tables.columns import coded, labels_from, read_column, read_numbers
from overstory.protocol.errors import ParameterError

TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
WHOLE = st.integers(-(2**53), 2**53)
ROWS = st.one_of(*(st.lists(st.none() | kind, min_size=1, max_size=12) for kind in (TEXT, WHOLE, st.booleans())))

TYPES = {str: (pl.String, pa.string()), int: (pl.Int64, pa.int64()), bool: (pl.Boolean, pa.bool_())}


def every_form(rows):
    kinds = {type(row) for row in rows if row is not None}
    polars, arrow = TYPES[kinds.pop()] if kinds else (pl.Null, pa.null())
    forms = {
        "list": rows,
        "pandas object": pd.Series(rows, dtype=object),
        "pandas": pd.Series(rows),
        "pandas index": pd.Index(rows),
        "polars": pl.Series(rows, dtype=polars),
        "arrow": pa.array(rows, arrow),
        "arrow chunks": pa.chunked_array([pa.array(rows[:1], arrow), pa.array(rows[1:], arrow)]),
        "numpy object": np.array(rows, object),
    }
    if arrow == pa.string():
        forms |= {
            "pandas category": pd.Series(rows, dtype=object).astype("category"),
            "pandas string": pd.Series(rows, dtype="string"),
            "polars category": pl.Series(rows, dtype=pl.Categorical),
            "arrow dictionary": pa.array(rows, arrow).dictionary_encode(),
            "arrow large": pa.array(rows, pa.large_string()),
            "arrow view": pa.array(rows, pa.string_view()),
        }
    if arrow == pa.int64():
        floats = [float("nan") if row is None else float(row) for row in rows]
        forms |= {
            "floats": floats,
            "pandas floats": pd.Series(floats),
            "pandas Int64": pd.Series(rows, dtype="Int64"),
            "polars floats": pl.Series(floats),
            "numpy floats": np.array(floats),
        }
    if arrow == pa.bool_():
        forms["pandas boolean"] = pd.Series(rows, dtype="boolean")
    return forms


@settings(max_examples=50)
@given(ROWS)
def test_labels_in_are_labels_out_whoever_holds_the_column(rows):
    held = {row for row in rows if row is not None}
    expected = [False, True] if all(isinstance(row, bool) for row in held) and held else sorted(held)
    expected += [None] if None in rows else []
    for name, column in every_form(rows).items():
        read = read_column(column)
        assert list(map(repr, read.labels)) == list(map(repr, expected)), name
        assert [read.labels[code] for code in read.codes] == rows, name
        assert read.missing == rows.count(None), name
        assert read.counts.sum() == len(rows), name


def test_ordered_categories_keep_their_order_and_those_that_no_row_holds():
    sizes = ["small", "medium", "large"]
    expected = ("small", "medium", "large", None)
    assert read_column(pd.Series(pd.Categorical(["large", None], sizes, ordered=True))).labels == expected
    assert read_column(pl.Series(["large", None], dtype=pl.Enum(sizes))).labels == expected
    ordered = pa.DictionaryArray.from_arrays(pa.array([2, None]), sizes, ordered=True)
    assert read_column(ordered).labels == expected
    assert read_column(pd.Series(pd.Categorical(["large"], sizes))).labels == ("large", "medium", "small")


def test_categories_of_another_kind_are_text():
    ages = pd.Series(pd.cut([1, 50, float("nan")], [0, 10, 100]))
    assert read_column(ages).labels == ("(0, 10]", "(10, 100]", None)
    assert read_column(pd.Series([0.5, 1.0]).astype("category")).labels == ("0.5", "1")
    days = pd.Series(pd.to_datetime(["2020-02-01", "2020-01-01"])).astype("category")
    assert read_column(days).labels == ("2020-01-01", "2020-02-01")


def test_numbers_that_arrow_knows_and_python_does_not():
    assert read_column(pa.array([Decimal(2), None])).labels == (2, None)
    assert read_column(np.array([1, 2], np.uint8)).labels == (1, 2)
    assert read_column(np.array([2**63], np.uint64)).labels == (2**63,)
    assert read_column(np.ma.masked_array([1, 2], [False, True])).labels == (1, None)
    assert read_numbers(pd.Series([1.5, None])).tolist()[0] == 1.5
    with pytest.raises(ParameterError, match="a column of numbers is expected"):
        read_numbers(["1"])


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        ([1.0, 0.5], r"row 1 holds 0.5, which is no whole number.*bins=\(0, 1, 20\)"),
        ([1.0, float("inf")], "row 1 holds inf"),
        (pl.Series([1e300]), "no whole number of 64 bits"),
        ([1, "a"], "all of one kind"),
        ([1, True], "all of one kind"),
        (["\ud800"], "cannot be read"),
        ([b"a"], "a column of binary has no labels"),
        (pl.Series([[1]]), "has no labels"),
        ("abc", "'abc' is one value"),
        (np.int64(3), "is one value"),
        (None, "NoneType is no column"),
        ({"a": [1]}, "no single column"),
        (pd.DataFrame({"a": [1]}), "no single column"),
        (pl.LazyFrame({"a": [1]}), "no single column"),
        (pa.table({"a": [1]}), "no single column"),
        (np.zeros((2, 2)), "no single column"),
    ],
    ids=str,
)
def test_what_is_no_column_of_labels_is_one_clear_error(column, problem):
    with pytest.raises(ParameterError, match=problem):
        read_column(column)


def test_values_are_matched_with_labels():
    assert coded(pd.Series(["b", "a"]), ("b", "a")).tolist() == [0, 1]
    assert coded([1.0, 0.0], (True, False)).tolist() == [0, 1]
    assert coded(["a", None], ("a",), missing=-1).tolist() == [0, -1]
    assert coded([], ("a", "b")).tolist() == []
    with pytest.raises(ParameterError, match=r"'c' is none of the 2 labels: 'b', 'a'$"):
        coded(["c"], ("b", "a"))
    with pytest.raises(ParameterError, match="1 of 2 rows hold no value"):
        coded(["a", None], ("b", "a"))


def test_a_list_of_labels_keeps_its_order_and_a_column_is_sorted():
    assert labels_from(["small", "large", None]) == ("small", "large", None)
    assert labels_from(range(3, 0, -1)) == (3, 2, 1)
    assert labels_from(pd.Series(["b", "a", "b"])) == ("a", "b")
    with pytest.raises(ParameterError, match="at least two"):
        labels_from(["a"])
