"""``overstory decode``: the options become one request, which the module of its form answers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

from overstory.cli.arguments import check_pipes
from overstory.cli.output import Printing
from overstory.cli.rappor.engine_runs import Counting
from overstory.protocol.errors import ParameterError
from overstory.queries.readings import EstimateOptions

FORMS: Final = {
    "on exported folders": "analysis.decode_store",
    "with --store": "analysis.decode_store",
    "with --pair": "analysis.decode_pairs",
    "on files of reports": "analysis.decode_counts",
    "on counts with a label": "analysis.decode_counts",
    "without INPUT or --store": "analysis.decode_map",
}
"""The module that answers the requests of each form; each has `run(request)`."""


AS_SAID: Final = (
    *("params", "counts", "boolean", "registry", "metric", "engine", "group", "by_group", "smooth", "per_period"),
    *("cumulative", "overlap", "delta", "honest", "candidates", "plot", "candidates_out"),
)
"""Options that are taken into the request as they are."""


@dataclass(frozen=True)
class DecodeRequest:
    """What is to be estimated, of which source, and where it goes: all that the options say."""

    inputs: tuple[str, ...]
    params: str | None
    counts: str | None
    maps: tuple[str, ...]
    pair: tuple[str, str] | None
    boolean: str | None
    store: tuple[str, ...]
    registry: str | None
    metric: str | None
    engine: str | None
    periods: tuple[str | None, str | None]
    group: str | None
    by_group: bool
    smooth: bool
    per_period: bool
    cumulative: bool
    compare: tuple[str, str] | None
    compare_groups: tuple[str, str] | None
    overlap: float | None
    delta: float | None
    honest: float | None
    candidates: str | None
    options: EstimateOptions  # without the candidates, which are still in their file
    plot: str | None
    candidates_out: str | None
    printing: Printing

    @property
    def repeats(self) -> float:
        """The reports of one device in files."""
        return 1.0 if self.options.reports_per_device is None else self.options.reports_per_device

    def read_options(self) -> EstimateOptions:
        """Return the options of an estimate, with the candidates that a file has."""
        if not self.candidates:
            return self.options
        from overstory.files.rappor import read_candidates

        return replace(self.options, candidates=tuple(read_candidates(self.candidates)))

    @property
    def counting(self) -> Counting:
        """What an engine is to count, where the source is files or folders."""
        output = self.printing.output
        return Counting(
            engine=self.engine,
            params=self.params,
            registry=self.registry,
            metric=self.metric,
            candidates=self.candidates,
            output=output,
            quiet=self.printing.quiet,
            files={"-o": output, "--plot": self.plot, "--candidates-out": self.candidates_out},
            inputs=self.inputs,
        )


def run(args: argparse.Namespace) -> int:
    args.map = args.map or []
    check_pipes(args, "params", "counts", "map")
    request = _request(args)
    if request.options.method == "likelihood" and not request.pair:
        raise ParameterError("--method likelihood is for --pair: of one variable, gls is as accurate")
    if len(request.maps) > 1 and not request.pair:
        raise ParameterError("--map: give one map: several are for --pair, one for each variable")
    answer: Callable[[DecodeRequest], int] = import_module(f"overstory.cli.{FORMS[args.form]}").run
    return answer(request)


def _request(args: argparse.Namespace) -> DecodeRequest:
    """Return the request that the options make."""
    said: dict[str, Any] = {name: getattr(args, name) for name in AS_SAID}
    said |= {name: tuple(getattr(args, name) or ()) for name in ("inputs", "store")}
    for name in ("pair", "compare", "compare_groups"):
        two = getattr(args, name)
        said[name] = None if two is None else (two[0], two[1])
    return DecodeRequest(
        **said,
        maps=tuple(args.map),
        periods=(args.first, args.last),
        options=EstimateOptions(
            reports_per_device=args.reports_per_device,
            alpha=args.alpha,
            correction=args.correction,
            method=args.method,
            complete=args.complete,
            steps=tuple(name.strip() for name in (args.steps or "").split(",") if name.strip()),
            interval_kind=args.interval,
            adjustment=args.adjustment,
            ranges=tuple(args.range or ()),
        ),
        printing=Printing.of(args),
    )
