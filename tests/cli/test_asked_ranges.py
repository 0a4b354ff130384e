"""`decode --range A:B`: the share of a range."""

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import parse_registry
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import EstimateOptions, read
from support.registry_texts import registry_of

AGES = {"domain": '{kind = "integers", min = 0, max = 63}', "oracle": '"ranges"', "parameters": "{epsilon = 3.0}"}
WORDS = {
    "domain": '{kind = "categories", names = ["never", "at 8:00", "daily", "always"], ordered = true}',
    "oracle": '"ranges"',
    "parameters": "{epsilon = 3.0}",
}


def counted(entry, held):
    metric = parse_registry(registry_of({"age": entry}))["age"]
    values = range(metric.domain.size or 0)
    devices = SimulatedDevices.holding(metric.mechanism, values, held, np.random.default_rng(1))
    return PeriodCounts(metric, 1, 1, {1: count_reports(metric.mechanism, devices.report())})


def asked(counts, *ranges):
    (part,) = read(counts, "total", EstimateOptions(ranges=ranges)).to_json()["readings"]
    return {row["of"]: row for row in part["estimates"] if row["kind"] == "share"}


def test_the_share_of_a_range_comes_with_its_interval():
    held = np.random.default_rng(3).integers(0, 64, 40_000)
    counts = counted(AGES, held)
    rows, plain = asked(counts, "18:25", "0:63", "7:7"), asked(counts)
    assert set(rows) - set(plain) == {"18 .. 25", "0 .. 63", "7"}
    row = rows["18 .. 25"]
    truth = float(((held >= 18) & (held <= 25)).mean())
    assert abs(row["value"] - truth) < 4 * row["standard_error"] < 0.04
    assert row["low"] < row["value"] < row["high"]
    assert rows["0 .. 63"]["value"] == pytest.approx(1)
    assert asked(counts, next(iter(plain)).replace(" .. ", ":")).keys() == plain.keys()


def test_names_may_have_colons():
    rows = asked(counted(WORDS, np.arange(4_000) % 4), "at 8:00:daily")
    assert abs(rows["at 8:00 .. daily"]["value"] - 0.5) < 0.1


@pytest.mark.parametrize("text", ["18", "25:18", "a:b", ":", "1:2:3"])
def test_what_is_no_range_is_named(text):
    with pytest.raises(ParameterError, match=f"--range {text}: give the first and the last value"):
        asked(counted(AGES, np.arange(640) % 64), text)


def test_other_metrics_have_no_ranges():
    metric = {"domain": '{kind = "categories", names = ["a", "b"]}', "oracle": '"grr"', "parameters": "{epsilon = 1.0}"}
    with pytest.raises(
        ParameterError, match="age is read as shares of values: a range of numbers does not apply to it"
    ):
        asked(counted(metric, np.zeros(10, int)), "1:2")
