"""Results: frozen, readable by machines and people, nothing infinite where JSON has no word for it."""

import csv
import io
import json

import numpy as np
import pytest

from overstory.discovery import CodedIntegers, discover, find, simulate
from overstory.protocol.errors import ParameterError
from support.populations import zipf

VALUES = zipf(40_000, 2000, 3, bits=20)
PLAN = discover(epsilon=4.0, domain=CodedIntegers(20), known=[int(VALUES[0])], step=7, beam=16)
FOUND = find(PLAN, simulate(PLAN, VALUES, np.random.default_rng(1)))


def test_values_stand_in_order_and_agree():
    assert np.all(np.diff(FOUND.counts) <= 0)
    assert [int(text) for text in FOUND.values] == list(FOUND.raw_values)
    assert FOUND.found() == tuple(v for v, yes in zip(FOUND.raw_values, FOUND.detected(), strict=True) if yes)
    assert np.allclose(FOUND.frequencies, FOUND.counts / 40_000)
    low, high = FOUND.confidence_interval(0.5)
    assert np.all((low < FOUND.counts) & (FOUND.counts < high))
    with pytest.raises(ParameterError, match="between 0 and 1"):
        FOUND.confidence_interval(1)


def test_a_stricter_level_detects_fewer():
    assert FOUND.detected(1e-12).sum() < FOUND.detected().sum() <= FOUND.detected(0.5).sum()


def test_every_detected_value_passed_the_stated_threshold():
    searched = np.array([source == "search" for source in FOUND.sources])
    passed = FOUND.frequencies[searched & FOUND.detected()]
    assert passed.min() >= FOUND.threshold - 1e-12
    assert FOUND.frequencies[searched & ~FOUND.detected()].max() < FOUND.threshold


def test_json_says_it_all():
    read = json.loads(json.dumps(FOUND.to_json(), allow_nan=False))
    assert read["detected"] == len(read["estimates"]) == len(FOUND.found())
    assert {"value", "count", "standard_error", "frequency", "low", "high", "p_value", "q_value", "detected"} <= set(
        read["estimates"][0]
    )
    assert [level["num_bits"] for level in read["levels"]] == [question.num_bits for question in PLAN.levels]
    assert read["epsilon_report"] <= 4.0
    assert read["tried"] > 100
    assert 0 < read["threshold"] < read["detectable_frequency"] < 1
    assert len(FOUND.to_json(everything=True)["estimates"]) == len(FOUND)


def test_csv_is_read_back():
    held = io.StringIO()
    FOUND.to_csv(held)
    rows = list(csv.DictReader(io.StringIO(held.getvalue())))
    assert [row["string"] for row in rows] == list(FOUND.values)
    assert float(rows[0]["estimate"]) == pytest.approx(FOUND.counts[0], rel=1e-9)


def test_it_draws_on_the_current_axes():
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    assert FOUND.plot() is plt.gca()
    plt.close("all")


@pytest.mark.parametrize("result", [FOUND, None])
def test_it_can_be_drawn(result):
    from matplotlib.figure import Figure

    plan = discover(epsilon=4.0, domain=CodedIntegers(4))
    result = result or find(plan, simulate(plan, [], np.random.default_rng(1)))
    axes = result.plot(Figure().subplots())
    assert axes.get_ylabel() == "estimated frequency"
    names = [label.get_text() for label in axes.get_xticklabels()]
    assert names == [level.name for level in result.levels] + ["detected"] * bool(result.found())  # A13: had no name


def test_the_trace_adds_up():
    assert sum(level.num_reports for level in FOUND.levels) < 40_000
    for level, kept in zip(FOUND.levels, FOUND.tree, strict=True):
        assert level.kept == kept.size <= level.tried
        assert level.cut == kept.min()
        assert level.cut > level.background or level.kept == level.tried
    assert FOUND.tried == FOUND.levels[-1].tried + 1
