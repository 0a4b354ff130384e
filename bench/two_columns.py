"""Two columns of a public survey, learned from one report of each row: `python bench/two_columns.py [FILE A B]`.

Without a file: how 6,366 people rate their marriage, and for how many years they have been married (Fair, "A theory of
extramarital affairs", Journal of Political Economy 1978), from statsmodels' package; `pip install statsmodels` has it.

Each row reports both values at once, at the whole epsilon, by the most accurate oracle. Figures are means over the
seeds.
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
from overstory.presentation.document import Table
from overstory.presentation.formats import finite
from overstory.presentation.render_text import print_document
from overstory.protocol.errors import ParameterError
from overstory.trial.run import TrialBudget
from overstory.trial.tables import Pairs, collect_pairs, count_pairs

EPSILONS = (1.0, 2.0, 4.0)


def survey_file() -> str:
    """Return the survey's file in statsmodels' package, which is not imported."""
    spec = find_spec("statsmodels")
    if spec is None or spec.origin is None:
        raise ParameterError("give FILE A B, or install the package that has a survey: pip install statsmodels")
    return str(Path(spec.origin).parent / "datasets" / "fair" / "fair.csv")


def measure(pairs: Pairs, epsilon: float, seeds: int) -> dict[str, Any]:
    """Return the figures of the tables at one epsilon."""
    truth = pairs.counts / len(pairs)
    tables = [collect_pairs(pairs, TrialBudget(epsilon), "auto", seed).estimate for seed in range(seeds)]
    tested = [independence(table) for table in tables]
    strengths = [v.estimate for table in tables if (v := cramers_v(table, independence(table))) is not None]
    inside = [np.mean((low <= truth) & (truth <= high)) for low, high in (table.interval() for table in tables)]
    return {
        "epsilon": epsilon,
        "rmse": float(np.sqrt(np.mean([(table.shares - truth) ** 2 for table in tables]))),
        "covered": float(np.mean(inside)),
        "rejected": float(np.mean([test is not None and test.rejected for test in tested])),
        "detectable": float(np.mean([test.detectable for test in tested if test is not None])),
        "v": float(np.nanmean(strengths)) if np.isfinite(strengths).any() else math.nan,
    }


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", nargs="*", metavar="FILE A B", help="a file and two of its columns")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    path, *columns = args.file or [survey_file(), "rate_marriage", "yrs_married"]
    pairs = count_pairs(path, columns)
    rows = [measure(pairs, epsilon, args.seeds) for epsilon in EPSILONS]
    if args.json:
        print(json.dumps([{key: finite(value) for key, value in row.items()} for row in rows]))
        return
    headings = "epsilon", "rmse", "covered", "rejected", "V detected 8 in 10", "V"
    keys = ("rmse", "covered", "rejected", "detectable", "v")
    cells = [[f"{row['epsilon']:g}", *(f"{row[key]:.3f}" for key in keys)] for row in rows]
    shape = " x ".join(map(str, pairs.counts.shape))
    print_document(
        [Table.of_cells(f"{' and '.join(pairs.names)}: {len(pairs):,} rows, {shape} cells", headings, cells)]
    )


if __name__ == "__main__":
    main()
