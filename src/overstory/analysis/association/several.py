"""The tables of devices that were divided over them, and what all of them say of one variable.

Each table is learned from its own devices. A variable that is in several tables has a marginal in each, from different
devices, so their errors are independent: the weighted mean with the inverse variances is the best of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING

import numpy as np

from overstory.analysis.association.table import Marginal, TableEstimate, pair_table
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.support.divided import DividedHalf

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.mechanisms.divided import DividedMechanism


def divided_tables(
    mechanism: DividedMechanism,
    counts: SupportCounts,
    names: Sequence[str],
    labels: Sequence[Sequence[str]],
    *,
    reports_per_device: float = 1.0,
    other: Sequence[int | None] = (),
) -> list[TableEstimate]:
    """Return the table of each two variables that were asked together, with the marginals of all tables.

    Parameters
    ----------
    mechanism, counts
        Which devices answer which table, and what was counted.
    names, labels
        Each variable's name, and its values.
    reports_per_device
        How many of the reports one device sent.
    other
        Which value of each variable stands for all that are not listed.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.divided import divided
    >>> from overstory.analysis.support.registry import SimulatedDevices
    >>> asked = divided(oracle="grr", epsilon=3.0, sizes="2 2", tables="0 1, 0")
    >>> held = np.repeat([0, 1, 3], [20_000, 10_000, 10_000])
    >>> fleet = SimulatedDevices.holding(asked, range(4), held, np.random.default_rng(1))
    >>> counts = DividedHalf(asked).count(fleet.report())
    >>> (table,) = divided_tables(asked, counts, ["os", "crash"], [["a", "b"], ["no", "yes"]])
    >>> table.shares.round(1).tolist(), table.num_reports < 40_000
    ([[0.5, 0.2], [0.0, 0.2]], True)
    """
    half = DividedHalf(mechanism)
    tables: list[tuple[int, TableEstimate]] = []
    single: list[tuple[str, Marginal]] = []
    others = list(other) or [None] * len(names)
    for number, variables in enumerate(mechanism.tables):
        own = [list(labels[variable]) for variable in variables]
        cells = [", ".join(cell) for cell in product(*own)]
        oracle = FrequencyOracle(mechanism.parts[number])
        estimate = oracle.estimate(
            half.of_table(counts, number), cells, reports_per_device=reports_per_device, interval_kind="population"
        )
        if len(variables) == 1:
            single.append((names[variables[0]], _marginal(estimate)))
        for of in combinations(range(len(variables)), 2):
            chosen = [others[variable] for variable in variables]
            called = [names[variable] for variable in variables]
            tables.append((number, pair_table(oracle.mechanism, estimate, called, own, of=of, other=chosen)))
    return _with_marginals(tables, single)


def _marginal(estimate: Estimate) -> Marginal:
    return Marginal(estimate.raw_frequencies, estimate.errors("population") / max(estimate.num_reports, 1))


def _with_marginals(tables: list[tuple[int, TableEstimate]], single: list[tuple[str, Marginal]]) -> list[TableEstimate]:
    """Give each table the marginals that all tables together know.

    Of a table of three variables only the first pair counts for a variable: its pairs share their devices.
    """
    known: dict[str, list[Marginal]] = {}
    for name, marginal in single:
        known.setdefault(name, []).append(marginal)
    seen: set[tuple[str, int]] = set()
    for number, table in tables:
        for name, marginal in zip(table.names, table.marginals, strict=True):
            if (name, number) not in seen:
                seen.add((name, number))
                known.setdefault(name, []).append(marginal)
    return [
        replace(table, own_shares=(weighted(known[table.names[0]]), weighted(known[table.names[1]])))
        for _, table in tables
    ]


def weighted(marginals: Sequence[Marginal]) -> Marginal:
    """Return the mean of independent estimates of the same shares, each weighted with its inverse variance.

    Examples
    --------
    >>> both = weighted([Marginal(np.array([0.2]), np.array([0.1])), Marginal(np.array([0.5]), np.array([0.2]))])
    >>> both.shares.round(2).tolist(), both.standard_errors.round(3).tolist()
    ([0.26], [0.089])
    """
    precisions = np.array([1.0 / np.maximum(marginal.standard_errors, 1e-300) ** 2 for marginal in marginals])
    shares = np.array([marginal.shares for marginal in marginals])
    total = precisions.sum(axis=0)
    return Marginal((precisions * shares).sum(axis=0) / total, 1.0 / np.sqrt(total))
