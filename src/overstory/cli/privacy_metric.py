"""Which metric ``overstory privacy`` is asked about, where it is one."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric

REGISTRY_FILE: Final = "metrics.toml"


def find_metric(args: argparse.Namespace) -> Metric | None:
    """Return the metric that is meant; None where it is an oracle, or RAPPOR's file of parameters.

    With ``--registry`` a name is a metric's. Without, it is an oracle's, if there is one of that name; then a metric's
    of the registry in this folder, if there is one.
    """
    from overstory.protocol.errors import ParameterError
    from overstory.protocol.metrics import load_registry

    others = args.oracle is None or args.params or args.param
    if args.registry is not None:
        if others:
            raise ParameterError("--registry FILE takes the id of one metric, and neither --param nor --params")
        return load_registry(args.registry, read_candidates=False)[args.oracle]
    if others or not Path(REGISTRY_FILE).exists():
        return None
    oracles = _oracles()
    if args.oracle in oracles:
        _tell_of_namesake(args.oracle)
        return None
    registry = load_registry(REGISTRY_FILE, read_candidates=False)
    if args.oracle not in registry:
        known = f"a metric of {REGISTRY_FILE} ({', '.join(registry)}) nor an oracle ({', '.join(oracles)})"
        raise ParameterError(f"{args.oracle!r} is neither {known}")
    return registry[args.oracle]


def _oracles() -> list[str]:
    from overstory.protocol.mechanisms.registry import REGISTRY
    from overstory.protocol.numeric.registry import NUMERIC

    return sorted({*REGISTRY, *NUMERIC})


def _tell_of_namesake(name: str) -> None:
    """Say so when a metric of the registry at hand has the oracle's name."""
    from overstory.protocol.errors import OverstoryError
    from overstory.protocol.metrics import load_registry

    with contextlib.suppress(OverstoryError, OSError):
        if name in load_registry(REGISTRY_FILE, read_candidates=False):
            both = f"{name} is an oracle, and a metric of {REGISTRY_FILE}: this is the oracle"
            print(f"overstory: note: {both}; --registry {REGISTRY_FILE} gives the metric", file=sys.stderr)


def headline(metric: Metric) -> str:
    """Return the metric in a line, above what its oracle reveals."""
    from overstory.client.output import printable

    capped = "" if metric.max_values is None else f", of at most {metric.max_values} values"
    often = f"one report every {metric.period}{capped}, until {metric.expires}"
    return f"{metric.id}: {printable(metric.title)}, {often}"
