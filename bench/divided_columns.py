"""Users divided over columns, here and in multi-freq-ldpy: `python bench/divided_columns.py [--people N] [--seeds S]`.

Both let each device answer about one part of its row at the whole epsilon, on the same data. multi-freq-ldpy's solution
SMP asks for one column, by GRR or OUE, and removes negative shares; it says nothing of two columns together, so their
cells are the products of its shares. Here a device answers about two columns at once, or about one, too; shares are not
processed. Two columns cost accuracy in each of them, and are the only way without bias in the cells.
`pip install multi-freq-ldpy` has the other side; nothing of Overstory needs it.

Printed are root mean square errors of the shares, in percentage points, and what part of the cells' error is bias.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from itertools import combinations
from typing import Any

import numpy as np

from overstory.analysis.association.several import divided_tables
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.support.divided import DividedHalf
from overstory.analysis.support.registry import SimulatedDevices, count_reports
from overstory.presentation.document import Column, Table
from overstory.presentation.render_text import print_document
from overstory.protocol.mechanisms.divided import divided

SIZES = (8, 5, 3)
"""Values of each column."""
EPSILONS = (1.0, 2.0, 4.0)


def rows_of(people: int, seed: int) -> Any:
    """Return rows of three columns, shape (n, 3): the second and third follow the first in half of the rows."""
    drawn = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, SIZES[0] + 1)
    first = drawn.choice(SIZES[0], people, p=weights / weights.sum())
    others = [np.where(drawn.random(people) < 0.5, first % k, drawn.integers(0, k, people)) for k in SIZES[1:]]
    return np.column_stack((first, *others))


def here(rows: Any, epsilon: float, seed: int) -> tuple[list[Any], list[Any]]:
    """Return the columns' shares and the cells of each two columns, as Overstory learns them."""
    tables = ", ".join(f"{a} {b}" for a, b in combinations(range(len(SIZES)), 2))
    asked = divided(oracle="oue", epsilon=epsilon, sizes=" ".join(map(str, SIZES)), tables=tables)
    cells = np.ravel_multi_index(rows.T, SIZES)
    fleet = SimulatedDevices.holding(asked, range(int(np.prod(SIZES))), cells, np.random.default_rng(seed))
    labels = [[str(value) for value in range(size)] for size in SIZES]
    learned = divided_tables(asked, count_reports(asked, fleet.report()), ["a", "b", "c"], labels)
    return [learned[0].marginals[0].shares, *(table.marginals[1].shares for table in learned[:2])], [
        table.shares for table in learned
    ]


def alone(rows: Any, epsilon: float, seed: int) -> tuple[list[Any], list[Any]]:
    """Return the same where a device answers about one column, as in SMP; cells are products of the shares."""
    oracle = "grr" if max(SIZES) < 3 * np.exp(epsilon) + 2 else "oue"  # the better one of the largest column
    asked = divided(oracle=oracle, epsilon=epsilon, sizes=" ".join(map(str, SIZES)), tables="0, 1, 2")
    cells = np.ravel_multi_index(rows.T, SIZES)
    fleet = SimulatedDevices.holding(asked, range(int(np.prod(SIZES))), cells, np.random.default_rng(seed))
    counts, half = count_reports(asked, fleet.report()), DividedHalf(asked)
    shares = [
        FrequencyOracle(part).estimate(half.of_table(counts, number)).raw_frequencies
        for number, part in enumerate(asked.parts)
    ]
    return shares, [np.outer(shares[a], shares[b]) for a, b in combinations(range(len(SIZES)), 2)]


def peer(rows: Any, epsilon: float, seed: int) -> tuple[list[Any], list[Any]]:
    """Return the same by multi-freq-ldpy's SMP; cells are products of the shares."""
    from multi_freq_ldpy.mdim_freq_est.SMP_solution import SMP_ADP_Aggregator_MI, SMP_ADP_Client

    np.random.seed(seed)  # noqa: NPY002 - its clients draw from NumPy's global generator
    reports = [SMP_ADP_Client(row, list(SIZES), len(SIZES), epsilon) for row in rows.tolist()]
    shares = [np.asarray(each, float) for each in SMP_ADP_Aggregator_MI(reports, list(SIZES), len(SIZES), epsilon)]
    return shares, [np.outer(shares[a], shares[b]) for a, b in combinations(range(len(SIZES)), 2)]


def measure(people: int, seeds: int, ways: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the errors of each way at each epsilon."""
    measured = []
    for epsilon in EPSILONS:
        for name, learn in ways.items():
            columns, cells = [], []
            for seed in range(seeds):
                rows = rows_of(people, seed)
                shares, tables = learn(rows, epsilon, seed)
                true = [np.bincount(rows[:, place], minlength=size) / people for place, size in enumerate(SIZES)]
                joint = [_cells(rows, a, b) for a, b in combinations(range(len(SIZES)), 2)]
                columns.append(np.concatenate([x - y for x, y in zip(shares, true, strict=True)]))
                cells.append(np.concatenate([(x - y).ravel() for x, y in zip(tables, joint, strict=True)]))
            of_cells = np.array(cells)
            errors = {
                "columns": _root(np.array(columns)),
                "cells": _root(of_cells),
                "bias": _root(of_cells.mean(axis=0)),
            }
            measured.append({"epsilon": epsilon, "way": name, **errors})
    return measured


def _cells(rows: Any, a: int, b: int) -> Any:
    table = np.zeros((SIZES[a], SIZES[b]))
    np.add.at(table, (rows[:, a], rows[:, b]), 1 / len(rows))
    return table


def _root(errors: Any) -> float:
    return 100 * float(np.sqrt(np.mean(errors**2)))


def main() -> None:
    """Print the errors of both sides, or of Overstory alone where the other is not installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    ways = {"here, two columns": here, "here, one column": alone}
    if find_spec("multi_freq_ldpy") is None:
        print("multi-freq-ldpy is not installed: pip install multi-freq-ldpy")
    else:
        ways["multi-freq-ldpy"] = peer
    number = "{:.2f}".format
    columns = (
        Column("epsilon", text=str),
        Column("way", is_left=True),
        *(Column(name, text=number) for name in ("columns", "cells", "bias")),
    )
    print_document([Table("", columns, measure(args.people, args.seeds, ways))])


if __name__ == "__main__":
    main()
