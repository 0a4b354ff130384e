"""Two columns of a public survey, learned in two ways at equal epsilon: `python bench/two_columns.py [FILE A B]`.

Without a file: how 6,366 people rate their marriage, and for how many years they have been married (Fair, "A theory of
extramarital affairs", Journal of Political Economy 1978), from statsmodels' package; `pip install statsmodels` has it.

*Pair* is one report of both values at the whole epsilon. *Apart* are two reports of half of it, each by the best of grr
and oue, linked and decoded by least squares: what a splitting of epsilon over the columns comes to, as the solution
SPL of multi-freq-ldpy does for the columns alone. Figures are means over the seeds.
"""

from __future__ import annotations

import argparse
import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from overstory.analysis.association.independence import cramers_v, independence
from overstory.analysis.association.linked import linked_cells
from overstory.analysis.association.table import TableEstimate
from overstory.analysis.kinds.base import SimulatedDevices, count_reports
from overstory.analysis.variance import frequency_variance
from overstory.presentation.document import Table
from overstory.presentation.formats import finite
from overstory.presentation.render_text import print_document
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.joint import joint
from overstory.protocol.kinds.registry import mechanism
from overstory.trial.run import TrialBudget
from overstory.trial.tables import Pairs, collect_pairs, count_pairs

EPSILONS = (1.0, 2.0, 4.0)


def survey_file() -> str:
    """Return the survey's file in statsmodels' package, which is not imported."""
    spec = find_spec("statsmodels")
    if spec is None or spec.origin is None:
        raise ParameterError("give FILE A B, or install the package that has a survey: pip install statsmodels")
    return str(Path(spec.origin).parent / "datasets" / "fair" / "fair.csv")


def pair(pairs: Pairs, epsilon: float, seed: int) -> TableEstimate:
    """Return the table from one report of each row's pair."""
    return collect_pairs(pairs, TrialBudget(epsilon), "auto", seed).summary.table


def apart(pairs: Pairs, epsilon: float, seed: int) -> TableEstimate:
    """Return the table from two linked reports of each row, each at half of epsilon."""
    sizes = pairs.counts.shape
    parts = [{"oracle": _best(size, epsilon / 2), "domain_size": size, "epsilon": epsilon / 2} for size in sizes]
    linked, drawn = joint(of=parts), np.random.default_rng(seed)
    held = np.repeat(np.arange(pairs.counts.size), pairs.counts.ravel())
    fleet = SimulatedDevices.holding(linked, range(pairs.counts.size), held, drawn)
    return linked_cells(linked, count_reports(linked, fleet.report()), pairs.names, pairs.labels)


def _best(size: int, epsilon: float) -> str:
    built = {name: mechanism(name, domain_size=size, epsilon=epsilon) for name in ("grr", "oue")}
    return min(built, key=lambda name: frequency_variance(built[name], 1.0))


def measure(pairs: Pairs, epsilon: float, seeds: int) -> list[dict[str, Any]]:
    """Return the figures of both ways at one epsilon."""
    truth, measured = pairs.counts / len(pairs), []
    for name, learn in (("pair", pair), ("apart", apart)):
        tables = [learn(pairs, epsilon, seed) for seed in range(seeds)]
        tested = [independence(table) for table in tables]
        strengths = [v.estimate for table in tables if (v := cramers_v(table)) is not None]
        inside = [np.mean((low <= truth) & (truth <= high)) for low, high in (table.interval() for table in tables)]
        measured.append(
            {
                "epsilon": epsilon,
                "way": name,
                "rmse": float(np.sqrt(np.mean([(table.shares - truth) ** 2 for table in tables]))),
                "covered": float(np.mean(inside)),
                "rejected": float(np.mean([test is not None and test.rejected for test in tested])),
                "detectable": float(np.mean([test.detectable for test in tested if test is not None])),
                "v": float(np.nanmean(strengths)) if np.isfinite(strengths).any() else math.nan,
            }
        )
    ratio = (measured[1]["rmse"] / measured[0]["rmse"]) ** 2
    return [{**each, "people": 1.0 if each["way"] == "pair" else ratio} for each in measured]


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="*", metavar="FILE A B", help="a file and two of its columns")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    path, *columns = args.file or [survey_file(), "rate_marriage", "yrs_married"]
    pairs = count_pairs(path, columns)
    rows = [row for epsilon in EPSILONS for row in measure(pairs, epsilon, args.seeds)]
    if args.json:
        print(json.dumps([{key: finite(value) for key, value in row.items()} for row in rows]))
        return
    headings = "epsilon", "way", "rmse", "covered", "people for the same rmse", "rejected", "V detected 8 in 10", "V"
    keys = ("rmse", "covered", "people", "rejected", "detectable", "v")
    cells = [[f"{row['epsilon']:g}", row["way"], *(f"{row[key]:.3f}" for key in keys)] for row in rows]
    shape = " x ".join(map(str, pairs.counts.shape))
    print_document(
        [Table.of_cells(f"{' and '.join(pairs.names)}: {len(pairs):,} rows, {shape} cells", headings, cells)]
    )


if __name__ == "__main__":
    main()
