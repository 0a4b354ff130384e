"""The lecture's two protocols, one sign of two and one sign of a public random matrix, against their Hoeffding bounds.

Claimed, with probability at least 1 - beta for each value, for a sign kept with probability 1/2 + a:

- the binary protocol counts the +1's to within ``sqrt(2 n ln(2 / beta)) / (4 a)``;
- the matrix protocol counts any value to within ``sqrt(2 n ln(2 / beta)) / (2 a)``.

The lecture calls a epsilon; the epsilon that its definition gives is ln((1/2 + a) / (1/2 - a)), about 4 a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.oracle import oracle as build_oracle
from overstory.protocol.kinds.base import Mechanism
from papers import figures
from papers.comparison import Comparison, Published, at_most, exact, proportion
from papers.study import Cell, Context, Study, Table, each

BETAS: Final = (0.5, 0.2, 0.05, 0.01)
ADVANTAGES: Final = (0.05, 0.1, 0.2)
DOMAIN: Final = 1000
SHARES: Final = (0.3, 0.1, 0.01, 0.59)
"""Of values 1 to 4 in the mixed population; everybody holds value 0 in a population of its own."""
NOBODYS: Final = DOMAIN - 1
WATCHED: Final = {"held by .3": 0.3, "held by .01": 0.01, "nobody's": 0.0, "everybody's": 1.0}
"""The columns of the matrix protocol's errors, and the share that holds each value."""


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of one protocol at one size: shape (runs, values), in reports."""

    protocol: str
    advantage: float
    num_reports: int
    errors: NDArray[np.float64]

    def bound(self, beta: float) -> float:
        """The lecture's formula, in reports."""
        factor = 4 if self.protocol == BINARY else 2
        return math.sqrt(2 * self.num_reports * math.log(2 / beta)) / (factor * self.advantage)

    def beyond(self, beta: float) -> float:
        """The largest share of runs, over the values, in which a value's error exceeds the bound."""
        return float((np.abs(self.errors) > self.bound(beta)).mean(axis=0).max())


NOTES: Final = """
The bound is of one value, fixed beforehand; for all of a domain at once, divide beta by its size.

Overstory states and charges the exact epsilon of 1/2 + a: ln((1/2 + a) / (1/2 - a)).
"""
BINARY: Final = "one sign of two"
MATRIX: Final = "one sign of the matrix"
FORMULAS: Final = {
    BINARY: "randomized response: sqrt(2 n ln(2 / beta)) / (4 a)",
    MATRIX: "frequency oracle: sqrt(2 n ln(2 / beta)) / (2 a)",
}


def run(context: Context) -> Study:
    """Measure errors over n, epsilon and beta."""
    sizes = context.pick(quick=(1_000, 10_000), full=(1_000, 10_000, 100_000, 1_000_000))
    runs = {size: context.pick(quick=60, full=400 if size < 1_000_000 else 40) for size in sizes}
    cases = [(protocol, a, n) for protocol in (BINARY, MATRIX) for a in ADVANTAGES for n in sizes]
    errors = context.parallel(lambda i: _measure(context, i, runs[cases[i][2]], *cases[i]), range(len(cases)), "runs")
    return Study(
        inputs={"n": list(sizes), "advantages": list(ADVANTAGES), "runs": list(runs.values()), "domain": DOMAIN},
        comparisons=[*_epsilons(), *_formulas(errors), *_exceedances(errors)],
        tables=[_table(errors), _by_value([one for one in errors if one.protocol == MATRIX])],
        figures=[_draw(errors)],
        notes=NOTES,
    )


def error_bound(mechanism: Mechanism, num_reports: float, beta: float) -> float:
    """Bound that the error of one value's frequency exceeds with probability `beta` at most, whatever the data."""
    # Each report adds one of two numbers that lie 1 / (p* - q*) apart: Hoeffding's inequality.
    return math.sqrt(math.log(2 / beta) / (2 * num_reports)) / abs(float(mechanism.p_star - mechanism.q_star))


def _oracle(protocol: str, advantage: float) -> FrequencyOracle:
    name, size = ("random-matrix", DOMAIN) if protocol == MATRIX else ("grr", 2)
    return build_oracle(name, domain_size=size, epsilon=math.log((0.5 + advantage) / (0.5 - advantage)))


def _measure(context: Context, case: int, runs: int, protocol: str, advantage: float, num_reports: int) -> Errors:
    oracle = _oracle(protocol, advantage)
    errors = [_errors(oracle, protocol, num_reports, context.rng(case, i)) for i in range(runs)]
    return Errors(protocol, advantage, num_reports, np.array(errors))


def _errors(oracle: FrequencyOracle, protocol: str, num_reports: int, rng: np.random.Generator) -> list[float]:
    """Errors of the watched values: in a mixed population, and the one that everybody holds."""
    if protocol == BINARY:
        held = (rng.random(num_reports) < 0.3).astype(np.int64)
        return [_count(oracle, held, 1, rng) - int(held.sum())]
    mixed = rng.choice(np.array([1, 2, 3, 4]), num_reports, p=SHARES)
    everybody = np.zeros(num_reports, np.int64)
    counts = oracle.estimate(oracle.accumulate(oracle.simulate(mixed, rng))).counts
    mine = [float(counts[value]) - int((mixed == value).sum()) for value in (1, 3, NOBODYS)]
    return [*mine, _count(oracle, everybody, 0, rng) - num_reports]


def _count(oracle: FrequencyOracle, held: NDArray[np.int64], value: int, rng: np.random.Generator) -> float:
    return float(oracle.estimate(oracle.accumulate(oracle.simulate(held, rng))).counts[value])


def _epsilons() -> list[Comparison]:
    return [
        exact(
            f"epsilon of a sign kept with probability 1/2 + {a}",
            _oracle(MATRIX, a).epsilon_report,
            Published(a, "randomized response, as an epsilon-randomizer", within=0.01 * a),
            because=f"the lecture writes 1/2 + epsilon for small epsilon, to first order and without the constant: by "
            f"its own definition epsilon is ln((1/2 + {a}) / (1/2 - {a})), about four times {a}",
        )
        for a in ADVANTAGES
    ]


def _formulas(errors: list[Errors]) -> list[Comparison]:
    """Our own bound, from p* and q*, is the lecture's formula."""
    largest = max(one.num_reports for one in errors)
    return [
        exact(
            f"{one.protocol}: error bound, a = {one.advantage}, beta = 0.05",
            largest * error_bound(_oracle(one.protocol, one.advantage).mechanism, largest, 0.05),
            Published(one.bound(0.05), FORMULAS[one.protocol], within=1e-6 * one.bound(0.05)),
            unit="reports",
        )
        for one in errors
        if one.num_reports == largest
    ]


def _exceedances(errors: list[Errors]) -> list[Comparison]:
    """How often the worst of the watched values lay beyond the bound, of all runs and sizes."""
    rows = []
    for protocol in (BINARY, MATRIX):
        chosen = [one for one in errors if one.protocol == protocol]
        trials = sum(len(one.errors) for one in chosen)
        for beta in BETAS:
            beyond = sum(round(one.beyond(beta) * len(one.errors)) for one in chosen)
            rarely = at_most(beta, "error, with probability at least 1 - beta")
            name = f"{protocol}: share of runs beyond the bound of beta = {beta}"
            rows.append(proportion(name, beyond, trials, rarely))
    return rows


def _table(errors: list[Errors]) -> Table:
    worst = [float(np.quantile(np.abs(one.errors).max(axis=1), 0.95)) for one in errors]
    columns: dict[str, list[Any]] = {
        "protocol": each(errors, "protocol"),
        "a": each(errors, "advantage"),
        "n": each(errors, "num_reports"),
        "bound, beta = .05": [round(one.bound(0.05), 1) for one in errors],
        "95% of the worst errors below": [round(error, 1) for error in worst],
        "root mean square error": [round(float(np.sqrt((one.errors**2).mean())), 1) for one in errors],
    }
    return Table.of("Errors in reports; the worst over the watched values of a run", columns)


def _by_value(errors: list[Errors]) -> Table:
    """How the error depends on how many hold the value."""
    rows: list[tuple[Cell, ...]] = []
    for one in errors:
        oracle = _oracle(MATRIX, one.advantage)
        for (name, share), of_value in zip(WATCHED.items(), one.errors.T, strict=True):
            theory = one.num_reports * math.sqrt(oracle.variance(one.num_reports, share))
            shown = (round(float(number), 1) for number in (of_value.mean(), of_value.std(), theory))
            rows.append((one.advantage, one.num_reports, name, *shown))
    head = ("a", "n", "value", "mean error", "standard deviation", "in theory")
    return Table("One sign of the matrix: errors in reports, by who holds the value", head, tuple(rows))


def _draw(errors: list[Errors]) -> figures.Picture:
    figure, axes = figures.panels(width=7.2, height=3.8, columns=2, sharey=True)
    for panel, protocol in zip(axes, (BINARY, MATRIX), strict=True):
        panel.set(xscale="log", yscale="log")
        for colour, advantage, shift in zip(figures.SERIES, ADVANTAGES, (0.8, 1.0, 1.25), strict=False):
            chosen = [one for one in errors if one.protocol == protocol and one.advantage == advantage]
            sizes, bounds = each(chosen, "num_reports"), [one.bound(0.05) for one in chosen]
            figures.line(panel, sizes, bounds, colour, linewidth=1.4, linestyle="--")
            for one in chosen:
                dots = np.abs(one.errors).ravel() + 0.5
                at = np.full(dots.size, one.num_reports * shift)
                panel.plot(at, dots, ".", color=colour, markersize=2, alpha=0.25)
            figures.label(panel, sizes[-1], bounds[-1], f"a = {advantage}", colour)
        figures.panel_title(panel, protocol)
        panel.set(xlabel="reports (n)")
        panel.margins(x=0.28)
    axes[0].set_ylabel("error of a count (reports)")
    return figures.picture(
        figure,
        "lecture-bounds",
        "Errors of single runs (dots, side by side for each n) and the bounds at beta = .05 (dashed); the sign "
        "is true with probability 1/2 + a.",
        "Two panels on logarithmic scales: errors grow with the root of n, and nearly all dots lie under the dashed "
        "bound of their colour.",
    )
