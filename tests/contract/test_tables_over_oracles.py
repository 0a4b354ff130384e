"""A table over every oracle of symbols: a device's report of a cell, the server's table, and what is said of it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from overstory.analysis.association.summary import TableSummary
from overstory.analysis.association.table import pair_table
from overstory.analysis.oracle import FrequencyOracle
from overstory.client import Randomizer
from overstory.protocol.domains import Categories, Integers, Table
from overstory.protocol.mechanisms.registry import REGISTRY, mechanism
from support.contract_cases import TYPICAL

CELLS = Table((Categories(("1.0", "2.0"), other="another"), Integers(1, 3)), ("version", "size"))
SHARES = np.array([0.30, 0.10, 0.05, 0.05, 0.05, 0.30, 0.05, 0.05, 0.05])
DEVICES = 40_000
ERRORS = 5.7
"""Standard errors by which none of the cells below is off by chance, but in one run of this file in a million."""

FITTING = [
    (name, {key: value for key, value in given.items() if key != "domain_size"})
    for name, cases in TYPICAL.items()
    if "domain_size" in inspect.signature(REGISTRY[name]).parameters
    for given in cases
    if "domain_size" in given
]


def test_every_oracle_of_symbols_is_tried() -> None:
    """The cases below leave none out."""
    takes = {name for name, build in REGISTRY.items() if "domain_size" in inspect.signature(build).parameters}
    assert {name for name, _ in FITTING} == takes


@pytest.mark.sampled(10)
@pytest.mark.parametrize(("name", "given"), FITTING, ids=lambda part: part if isinstance(part, str) else None)
def test_a_table_is_learned(name: str, given: dict[str, Any]) -> None:
    """Cells within 5.7 standard errors, marginals of sum 1, and a summary without a fault; epsilon is the oracle's."""
    oracle = FrequencyOracle(mechanism(name, domain_size=CELLS.size, **given))
    drawn = np.random.default_rng(1)
    held = drawn.choice(CELLS.size, DEVICES, p=SHARES)
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(held, drawn)), CELLS.labels)
    labels = [part.labels for part in CELLS.of]
    table = pair_table(oracle.mechanism, estimate, CELLS.names, labels, other=CELLS.other)
    assert (np.abs(table.shares - SHARES.reshape(3, 3)) < ERRORS * table.standard_errors).all()
    for axis, marginal in enumerate(table.marginals):
        truth = SHARES.reshape(3, 3).sum(axis=1 - axis)
        assert (np.abs(marginal.shares - truth) < ERRORS * marginal.standard_errors + 1e-9).all()
    unit = np.eye(9).reshape(9, 3, 3)
    together = table.covariance.apply(unit).reshape(9, 9)
    np.testing.assert_allclose(together, together.T, atol=1e-12)
    assert np.linalg.eigvalsh(together).min() > -1e-9 * np.trace(together)
    said = TableSummary(table).to_json()
    assert sum(cell["reported"] for cell in said["cells"]) == pytest.approx(1.0)
    assert table.other == (2, None)
    device = Randomizer(oracle.mechanism, secret=b"s" * 32, metric="m")
    responses = [device.permanent(CELLS.encode(value)) for value in CELLS.examples()]
    assert responses == [device.permanent(symbol) for symbol in range(9)]
