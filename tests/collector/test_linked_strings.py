"""Two strings in linked RAPPOR reports, as a metric: Google's association case, read with the registry's lists.

The population and the nine checks are those of `association_test.R`, test 6: the first variable is 1 + Poisson(1), the
second is the same or one more. Over 400 draws, all nine checks pass in 97.5%; the seed here is fixed.
"""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.client.person.explanation import explain
from overstory.client.state.state import State
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics import load_registry
from overstory.queries.counts import PeriodCounts
from overstory.queries.readings import EstimateOptions, read
from papers.beyond.association import CHECKS, EMPTY, LOW, checks_passed
from support.devices import device
from support.registry_texts import registry_of

FILTER = ", ".join(f"{name} = {value}" for name, value in LOW.letters.items())
DOMAIN = (
    '{kind = "table", names = ["first", "second"], of = ['
    '{kind = "strings", candidates = "first.txt"}, {kind = "strings", candidates = "second.txt"}]}'
)
GOOGLES = '{oracle = "rappor", hash_family = "google-rappor-python", ' + FILTER + "}"
PARAMETERS = '{of = [{oracle = "rappor", ' + FILTER + "}, " + GOOGLES + "]}"


def counts_of(metric: Any, counts: dict[int, Any]) -> PeriodCounts:
    return PeriodCounts(metric, 1, 1, counts)


@pytest.fixture
def reported(tmp_path: Path) -> Any:
    """The counts of 1,000 devices, by a registry with all their strings; the truth, and the registry's folder."""
    rng = np.random.default_rng(20261123)
    first = 1 + rng.poisson(1.0, LOW.reports)
    held = np.stack([first, first + rng.integers(0, 2, LOW.reports)])
    labels = [[str(value) for value in range(1, int(each.max()) + 1)] for each in held]
    for name, texts in zip(("first", "second"), labels, strict=True):
        tmp_path.joinpath(f"{name}.txt").write_text("".join(f"{text}\n" for text in texts))
    metric = {"domain": DOMAIN, "oracle": '"joint"', "parameters": PARAMETERS}
    tmp_path.joinpath("metrics.toml").write_text(registry_of({"pairs": metric}, expires="2099-01-01"))
    pairs = load_registry(tmp_path / "metrics.toml")["pairs"]
    cells = (held[0] - 1) * len(labels[1]) + held[1] - 1
    devices = SimulatedDevices.holding(pairs.mechanism, list(product(*labels)), cells, rng)
    truth = np.zeros(tuple(map(len, labels)))
    np.add.at(truth, (held[0] - 1, held[1] - 1), 1 / LOW.reports)
    return counts_of(pairs, {1: count_reports(pairs.mechanism, devices.report())}), truth, tmp_path


def test_googles_nine_checks_pass_and_the_shares_are_near(reported: Any) -> None:
    """A table that knows nothing passes three of the nine, so they can fail; total variation is .08 on average."""
    counted, truth, _ = reported
    (part,) = read(counted, "total", EstimateOptions(complete=True)).to_json()["readings"]
    shown = np.array([cell["reported"] for cell in part["tables"][0]["cells"]]).reshape(truth.shape)
    assert checks_passed(shown) == len(CHECKS) + len(EMPTY)
    assert np.abs(shown - truth).sum() / 2 < 0.15
    assert checks_passed(np.full(truth.shape, 1 / truth.size)) == 3


def test_strings_outside_a_list_are_another_row(reported: Any) -> None:
    """Shorter lists, chosen after the reports came: what they leave out is "not listed"; a second list finds it."""
    counted, truth, folder = reported
    folder.joinpath("first.txt").write_text("1\n2\nnot listed\n")
    few = load_registry(folder / "metrics.toml")["pairs"]
    assert few.digest == counted.metric.digest
    (part,) = read(counts_of(few, counted.counts)).to_json()["readings"]
    marginals = {row["value"]: row for row in part["tables"][0]["marginals"]["first"]}
    assert list(marginals) == ["1", "2", "not listed", "(not listed)"]
    left = marginals["(not listed)"]
    assert abs(left["share"] - truth[2:].sum()) < 4 * left["standard_error"]


def test_lists_that_are_missing_or_too_long_are_named(reported: Any) -> None:
    counted, _, folder = reported
    unread = load_registry(folder / "metrics.toml", read_candidates=False)["pairs"]
    folder.joinpath("first.txt").write_text("".join(f"{number}\n" for number in range(12_000)))
    long = load_registry(folder / "metrics.toml")["pairs"]
    for metric, options, says in (
        (counted.metric, EstimateOptions(candidates=("1",)), "first and second each take strings: name a file for"),
        (unread, EstimateOptions(), "first has no candidates: name a file in the registry"),
        (long, EstimateOptions(), "cells are too many, at most 4,096"),
    ):
        with pytest.raises(ParameterError, match=says):
            read(counts_of(metric, counted.counts), "total", options)


def test_the_person_sees_both_strings(reported: Any) -> None:
    counted, _, folder = reported
    client = device(folder, registry=load_registry(folder / "metrics.toml"))
    client.record("pairs", {"second": "99", "first": "elsewhere, or not"})
    client.flush()
    explained = explain(State(client.paths), counted.metric, ("elsewhere, or not", "99"))
    assert explained.known == 1
    assert explained.encoded == "first: the string 'elsewhere, or not' and second: the string '99'"
    assert "first part: " in explained.report_words
