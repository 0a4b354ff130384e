"""See the forest, never the trees: statistics under local differential privacy.

The client half (`overstory.client`, `overstory.protocol`, `overstory.privacy`) needs the standard library alone;
the rest is loaded when it is first used and comes with ``pip install ".[analysis]"``.

>>> from overstory import Estimate, FormatError, ParameterError, oracle, oracles, survey
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from overstory._lazy import lazy_names

if TYPE_CHECKING:
    from overstory.analysis.difference import Difference, Total, difference, total
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.oracle import FrequencyOracle, oracle
    from overstory.analysis.postprocess import postprocess
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.protocol.errors import FormatError, OverstoryError, ParameterError
    from overstory.protocol.kinds.own_oracles import OwnBits, OwnSets, oracle_kind
    from overstory.trial.item_sets import SetTrial, survey_sets
    from overstory.trial.numbers import NumberTrial, survey_numbers
    from overstory.trial.tables import TableTrial, survey_table
    from overstory.trial.values import Survey, survey

__version__ = "0.2.0.dev0"
__all__ = [
    "Difference",
    "Estimate",
    "FormatError",
    "FrequencyOracle",
    "NumberTrial",
    "OverstoryError",
    "OwnBits",
    "OwnSets",
    "ParameterError",
    "ReportBatch",
    "SetTrial",
    "SupportCounts",
    "Survey",
    "TableTrial",
    "Total",
    "__version__",
    "difference",
    "oracle",
    "oracle_kind",
    "oracles",
    "postprocess",
    "survey",
    "survey_numbers",
    "survey_sets",
    "survey_table",
    "total",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Difference": "analysis.difference",
        "Estimate": "analysis.estimate",
        "FormatError": "protocol.errors",
        "FrequencyOracle": "analysis.oracle",
        "OverstoryError": "protocol.errors",
        "OwnBits": "protocol.kinds.own_oracles",
        "OwnSets": "protocol.kinds.own_oracles",
        "ParameterError": "protocol.errors",
        "ReportBatch": "analysis.reports",
        "SetTrial": "trial.item_sets",
        "SupportCounts": "analysis.reports",
        "Survey": "trial.values",
        "NumberTrial": "trial.numbers",
        "TableTrial": "trial.tables",
        "Total": "analysis.difference",
        "difference": "analysis.difference",
        "oracle": "analysis.oracle",
        "oracle_kind": "protocol.kinds.own_oracles",
        "postprocess": "analysis.postprocess",
        "survey": "trial.values",
        "survey_sets": "trial.item_sets",
        "survey_numbers": "trial.numbers",
        "survey_table": "trial.tables",
        "total": "analysis.difference",
    },
)


def oracles() -> dict[str, str]:
    """Return what there is for `oracle`: each name, and what it is.

    Examples
    --------
    >>> oracles()["grr"]
    'Generalized randomized response: the value with e^eps / (e^eps + d - 1), else any other'
    """
    from overstory.protocol.kinds.registry import REGISTRY

    return {name: (build.__doc__ or "").partition("\n")[0].rstrip(".") for name, build in REGISTRY.items()}
