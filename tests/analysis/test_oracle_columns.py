"""Columns go into an oracle and come back with their labels, in a notebook and as a data frame, too (finding A14)."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import overstory
from overstory.analysis.comparison import rank
from overstory.analysis.kinds.numbers import simulate_payloads
from overstory.analysis.postprocess import postprocess
from overstory.analysis.tables.output import Row
from overstory.client import Randomizer
from overstory.planning.needs import plan_from_needs
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.numeric.mechanisms import Hybrid
from overstory.protocol.sampling import SeededEntropy
from support.estimates import estimate_of
from support.html_reader import HtmlReader

CLASSES = ["Third", "First", "Second"]
TEXTS = ["First", "Third", "Third", "Second"] * 50


@pytest.mark.parametrize("name", ["grr", "olh", "rappor"])
def test_text_goes_in_and_labels_come_back(name):
    parameters = {} if name == "rappor" else {"epsilon": 8.0}
    oracle = overstory.oracle(name, labels=CLASSES, **parameters)
    learned = oracle.estimate(oracle.accumulate(oracle.simulate(pd.Series(TEXTS, dtype="category"), rng=1)))
    assert list(learned.values) == CLASSES
    expected = oracle.estimate(oracle.accumulate(oracle.simulate(TEXTS, rng=1)))
    assert np.array_equal(learned.raw_counts, expected.raw_counts)
    assert name == "rappor" or abs(learned["Third"].frequency - 0.5) < 0.1


def test_one_device_takes_a_label_too():
    oracle = overstory.oracle("oue", labels=CLASSES, epsilon=1)
    plain = mechanism("oue", domain_size=3, epsilon=1)
    for symbol, label in enumerate(CLASSES):
        seeded = [SeededEntropy(symbol) for _ in range(2)]
        assert oracle.randomize(label, seeded[0]) == plain.randomize(symbol, seeded[1])


def test_labels_are_the_domain_size():
    assert overstory.oracle("grr", labels=pd.Series(TEXTS), epsilon=1).labels == ("First", "Second", "Third")
    assert overstory.oracle("grr", labels=CLASSES, epsilon=1, domain_size=3).mechanism.parameters["domain_size"] == 3
    with pytest.raises(ParameterError, match="domain_size = 4, but 3 labels"):
        overstory.oracle("grr", labels=CLASSES, epsilon=1, domain_size=4)
    with pytest.raises(ParameterError, match="there is no mechanism 'gr'"):
        overstory.oracle("gr", labels=CLASSES)


@pytest.mark.parametrize(
    ("column", "symbols"),
    [
        ([0.0, 2.0, 1.0], [0, 2, 1]),
        (pd.Series([0.0, 2.0]), [0, 2]),
        (pd.Series([0, 2], dtype="Int64"), [0, 2]),
        ([True, False], [1, 0]),
        (pl.Series([2, 0]), [2, 0]),
        (pa.array([2, 0]), [2, 0]),
        (pa.chunked_array([[2], [0]]), [2, 0]),
        ([], []),
    ],
    ids=str,
)
def test_whole_numbers_of_any_kind_are_symbols(column, symbols):
    oracle = overstory.oracle("grr", domain_size=3, epsilon=1)
    assert oracle.devices(column, 1).symbols.tolist() == symbols


@pytest.mark.parametrize(
    ("column", "problem"),
    [
        (pd.Series(TEXTS), r"a column of text.*overstory.oracle\(name, labels=column"),
        (pl.Series(TEXTS), "a column of text"),
        ([0.0, 0.5], "row 1 holds 0.5"),
        (pd.Series([1, None]), "1 of 2 rows hold no value. List None among the labels"),
        ([0, 7], "symbol 7 is outside the domain 0 .. 2"),
        ([0.0, 7.0], "symbol 7 is outside the domain 0 .. 2"),
    ],
    ids=str,
)
def test_a_column_that_does_not_fit_is_one_clear_error(column, problem):
    with pytest.raises(ParameterError, match=problem):
        overstory.oracle("grr", domain_size=3, epsilon=1).simulate(column, 1)


def test_a_missing_text_is_no_text_called_nan():
    for column in (pd.Series(["a", None]), ["a", None], pl.Series(["a", None])):
        with pytest.raises(ParameterError, match="1 of 2 rows hold no value"):
            overstory.oracle("rappor").simulate(column, 1)


def test_strings_without_labels_are_as_they_were():
    oracle = overstory.oracle("rappor")
    first = oracle.simulate(np.array(TEXTS), np.random.default_rng(1))
    for column in (TEXTS, pd.Series(TEXTS), pl.Series(TEXTS), pa.array(TEXTS)):
        assert np.array_equal(oracle.simulate(column, 1).bits, first.bits)
    chosen = oracle.simulate(pd.Series(TEXTS), 1, candidates=["First", "Second", "Third"])
    assert np.array_equal(chosen.bits, first.bits)


def test_rng_is_a_seed_a_generator_or_nothing():
    oracle, held = overstory.oracle("oue", domain_size=100, epsilon=1), np.zeros(50, int)
    same = [oracle.simulate(held, rng).bits.tolist() for rng in (1, np.int32(1), np.random.default_rng(1))]
    assert same[0] == same[1] == same[2]
    assert oracle.simulate(held).bits.tolist() != oracle.simulate(held).bits.tolist()
    payloads = [simulate_payloads(Hybrid(1.0), [0.5] * 9, rng).tolist() for rng in (1, np.random.default_rng(1))]
    assert payloads[0] == payloads[1]
    for wrong in ("x", 1.5, -1, True):
        with pytest.raises(ParameterError, match="rng = "):
            oracle.simulate(held, wrong)  # type: ignore[arg-type]


PARAMETERS = {
    "rappor": {"num_bits": 64, "num_hashes": 2, "num_cohorts": 4},
    "loloha": {"domain_size": 5, "epsilon_permanent": 2.0, "epsilon_report": 1.0},
    "dbitflip": {"domain_size": 5, "epsilon": 1.0, "sampled_bits": 3},
    "subset": {"domain_size": 5, "epsilon": 1.0},
    "projective": {"domain_size": 5, "epsilon": 1.0},
    "oue": {"domain_size": 100, "epsilon": 1.0},
    "opt-wb": {"domain_size": 5, "epsilon": 1.0, "window": 10},
    "olh": {"domain_size": 5, "epsilon": 1.0, "num_seeds": 64},
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_of_numpy_are_pythons_own(name):
    """`domain_size=codes.max() + 1` was refused; and a device's responses must not depend on who made the integer."""
    given = PARAMETERS[name]
    theirs = {k: np.int64(v) if isinstance(v, int) else np.float32(v) for k, v in given.items()}
    built, same = (overstory.oracle(name, **parameters).mechanism for parameters in (given, theirs))
    assert built.digest == same.digest
    assert json.dumps(dict(same.parameters)) == json.dumps(dict(built.parameters))
    assert same.epsilon_n(np.int64(3)) == built.epsilon_n(3)  # type: ignore[arg-type]
    value, wide = ("a", "a") if name == "rappor" else (3, np.int64(3))
    device = Randomizer(built, secret=b"sixteen bytes...", metric="m")
    other = Randomizer(same, secret=b"sixteen bytes...", metric="m", cohort=np.int64(device.cohort))  # type: ignore[arg-type]
    assert other.permanent(wide) == device.permanent(value)
    drawn = [built.randomize(held, SeededEntropy(1)) for held in (value, wide)]
    assert drawn[0] == drawn[1]
    assert type(drawn[1].bits) is int


def test_plans_and_rankings_take_numbers_of_numpy():
    sizes = np.array([100, 10_000])
    ranked = rank(sizes[0], np.float32(1), sizes[1])  # type: ignore[arg-type]
    assert [choice.name for choice in ranked] == [choice.name for choice in rank(100, 1.0, 10_000)]
    planned = plan_from_needs(1.0, 2.0, sizes[1], sizes[0])  # type: ignore[arg-type]
    assert planned.parameters == plan_from_needs(1.0, 2.0, 10_000, 100).parameters


def test_floats_are_no_whole_numbers_and_the_error_says_what_is():
    with pytest.raises(ParameterError, match=r"domain_size = 3.0: give a whole number .*, 3 instead of 3.0"):
        overstory.oracle("grr", domain_size=np.float64(3), epsilon=1)
    with pytest.raises(ParameterError, match=r"domain_size = 3.5: give a whole number from 2 to \d+$"):
        overstory.oracle("grr", domain_size=3.5, epsilon=1)
    with pytest.raises(ParameterError, match="domain_size = True: give a whole number"):
        overstory.oracle("grr", domain_size=np.True_, epsilon=1)


def estimate(values, **more):
    return estimate_of(100.0 * np.arange(1, len(values) + 1), 9.0, values=values, **more)


LABELLED = estimate(["First", "Second", None], standard_errors=[9.0, np.inf, 9.0])


def test_a_row_has_what_the_table_has():
    assert LABELLED.rows()[0] == LABELLED[None]._asdict() | {"value": "(missing)"}


def test_rows_come_most_frequent_first_and_by_their_value():
    assert [row.value for row in LABELLED] == [None, "Second", "First"]
    assert LABELLED["First"].count == 100
    assert LABELLED["First"].frequency == 0.1
    assert LABELLED["Second"].standard_error is None
    for missing in (None, float("nan"), pd.NA, np.float64("nan")):
        assert missing in LABELLED
        assert LABELLED[missing].count == 300
    assert ("First" in LABELLED, "Third" in LABELLED, [] in LABELLED) == (True, False, False)


def test_numbers_and_booleans_are_values_too():
    whole = estimate([3, 7])
    assert [whole[key].count for key in (3, 3.0, np.int64(3), np.float64(3))] == [100] * 4
    assert "3" not in whole
    assert estimate([False, True])[np.True_].count == 200
    assert estimate(["0", "1"])[1].count == 200  # an oracle without labels names its symbols so


def test_an_unknown_value_is_one_error_with_the_nearest():
    with pytest.raises(KeyError) as caught:
        LABELLED["Frist"]
    assert isinstance(caught.value, ParameterError)
    assert str(caught.value) == "there is no value 'Frist': did you mean 'First'?"
    with pytest.raises(ParameterError, match="no value 'x' among the 3: 'First', 'Second', None"):
        LABELLED["x"]


def test_reprs_are_short():
    """A report batch printed 13,735 characters of zeros."""
    oracle = overstory.oracle("oue", domain_size=1000, epsilon=1)
    devices = oracle.devices(np.zeros(5000, int), 1)
    reports = devices.report()
    counts = oracle.accumulate(reports)
    learned = oracle.estimate(counts)
    things = [oracle, devices, reports, counts, learned, postprocess(learned, "clip")]
    assert [len(repr(thing)) < 100 for thing in things] == [True] * 6
    assert repr(reports) == "ReportBatch(5,000 reports, num_bits=1000, num_cohorts=1)"
    assert repr(LABELLED) == "Estimate(1,000 reports, 3 values, 2 detected)"
    assert str(LABELLED) == LABELLED.table()
    assert devices.key.hex() not in repr(devices)


def test_every_library_takes_an_estimate_as_a_table():
    columns = list(Row._fields)
    arrow = pa.table(LABELLED)
    assert arrow.column_names == columns
    assert arrow.column("value").to_pylist() == [None, "Second", "First"]
    assert arrow.column("standard_error").to_pylist() == [9.0, None, 9.0]
    assert arrow.column("detected").to_pylist() == [True, False, True]
    assert pl.DataFrame(LABELLED).equals(pl.DataFrame(arrow))
    assert LABELLED.to_polars().equals(pl.DataFrame(arrow))
    frame, again = LABELLED.to_pandas(), pd.DataFrame(LABELLED)
    assert list(frame.columns) == list(again.columns) == columns
    assert frame["value"].isna().tolist() == again["value"].isna().tolist() == [True, False, False]
    pd.testing.assert_frame_equal(frame.drop(columns="value"), again.drop(columns="value"), check_dtype=False)


@pytest.mark.parametrize(
    ("values", "kind", "dtype"),
    [
        (["a", None], pa.string(), "string"),
        ([3, None], pa.int64(), "Int64"),
        ([False, True, None], pa.bool_(), "boolean"),
        ([None], pa.string(), None),
        ([], pa.string(), "str"),
        ([3, "(another value)"], pa.string(), "string"),
    ],
)
def test_labels_keep_their_kind_in_a_frame(values, kind, dtype):
    learned = estimate(values)
    assert learned.to_arrow().schema.field("value").type == kind
    frame = learned.to_pandas()
    assert dtype is None or frame["value"].dtype == dtype
    assert len(frame) == len(values)
    assert learned._repr_html_().startswith("<div")


def test_a_long_list_says_what_it_leaves_out():
    many = estimate([f"v{i}" for i in range(25)])
    text = "\n".join(HtmlReader(many._repr_html_()).texts)
    assert "... and 5 more" in text
    assert ("v24" in text, "v4" in text.split()) == (True, False)
    assert "... and 5 more\n" in str(many)
