"""CONTRIBUTING.md answers where to change five things, by modules, names and tests that are there, and adds a kind."""

import math
import re
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import numpy as np
import pytest

import overstory
from overstory.analysis.kinds.base import support_of
from overstory.protocol.errors import ParameterError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
ROW = re.compile(
    r"^\| (?P<what>an? |the )(?P<rest>[^|]+) \| (?P<module>[^|]+) \| (?P<names>[^|]+) \| `(?P<test>[^|`]+)` \|$"
)
ROWS = [found for line in PAGE.splitlines() if (found := ROW.match(line))]


def quoted(cell):
    return re.findall(r"`([^`]+)`", cell)


def test_there_are_five_rows_and_what_they_name_is_there():
    assert len(ROWS) == 5
    for row in ROWS:
        modules = quoted(row["module"])
        assert modules, row["rest"]
        assert all(re.fullmatch(r"src/overstory/[\w/]+\.py", module) for module in modules)
        first = (ROOT / modules[0]).read_text("utf-8")
        for name in quoted(row["names"]):
            assert re.search(rf"^(?:def |class )?{name}\b", first, re.MULTILINE), f"{name} in {modules[0]}"
        assert all((ROOT / module).is_file() for module in [*modules, row["test"]])


def test_the_kind_that_the_page_adds_is_a_whole_oracle(monkeypatch):
    blocks = [dedent(block) for block in re.findall(r"^ *```python\n(.*?)^ *```", PAGE, re.DOTALL | re.MULTILINE)]
    names = [f"overstory.{half}.kinds.rankings" for half in ("protocol", "analysis")]
    for name, block in zip(names, blocks, strict=True):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        exec(block, vars(sys.modules[name]))
    device, server = (sys.modules[name] for name in names)

    built = device.ranking(epsilon=2.0)
    assert math.exp(2.0) * (1 - 1e-6) <= built.odds <= math.exp(2.0)
    with pytest.raises(ParameterError, match=re.escape("(0, 0, 1) is no order of the choices 0, 1 and 2")):
        built.encode((0, 0, 1), 0)
    assert [built.encode(order, 0) for order in device.ORDERS] == list(range(6))

    oracle = overstory.FrequencyOracle(built)
    assert type(support_of(built)) is server.RankingSupport
    orders = np.repeat(np.arange(6), (5_000, 0, 0, 0, 0, 15_000))  # 0 before 1 before 2, or the other way around
    estimate = oracle.estimate(oracle.accumulate(oracle.simulate(orders, rng=1)))
    assert support_of(built).preferred(estimate, 0, 2) == pytest.approx(0.25, abs=0.05)  # more than 5 standard errors
