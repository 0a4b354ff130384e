"""``overstory plan``: what given parameters would learn and reveal, or the best ones for needs, also a registry's."""

from __future__ import annotations

import argparse
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.cli.command import Answer, is_table
from overstory.presentation.document import Lines, Paragraph, Preformatted
from overstory.presentation.formats import plural

if TYPE_CHECKING:
    from overstory.planning import RapporPlan


def run(args: argparse.Namespace) -> Answer:
    if args.registry is not None:
        return _plan_registry(args)
    if args.yearly is not None:
        from overstory.planning.yearly import SHARE, YearPlan

        year = YearPlan(args.reports, args.domain_size, args.yearly, args.metrics, args.period, args.share or SHARE)
        return Answer(year.to_json(), year.blocks())
    if args.domain_size is not None:
        return _choose(args)
    from overstory.planning import plan_from_needs, plan_from_parameters

    collection, tested = (args.reports, args.candidates), {"alpha": args.alpha, "share": args.share}
    if args.params:
        from overstory.files.rappor import read_params

        plan = plan_from_parameters(read_params(args.params).mechanism(), *collection, **tested)
    else:
        plan = plan_from_needs(args.epsilon, args.epsilon_permanent, *collection, **tested)
    args.writes_tables = is_table(args.output) and not args.output.endswith(".csv")
    if args.output and not args.writes_tables:
        _write(args.output, plan)
    return Answer(plan.to_json(), [plan.as_table(), Paragraph(plan.plain_words())])


def _choose(args: argparse.Namespace) -> Answer:
    """Recommend an oracle for a domain."""
    from overstory.analysis.comparison import recommend
    from overstory.planning.kinds import plan_for_domain
    from overstory.planning.plan import ranking_blocks

    needs = {"epsilon_permanent": args.epsilon_permanent, "share": args.share}
    plan = plan_for_domain(args.domain_size, args.epsilon, args.reports, alpha=args.alpha, **needs)
    best = recommend(plan.ranking)
    recommended = ranking_blocks((best,), None, best, plan.instead)
    return Answer(plan.to_json(), chain(recommended, [Lines(*plan.detection())]))


def _plan_registry(args: argparse.Namespace) -> Answer:
    """Write oracle and parameters into a registry, from each metric's needs."""
    from overstory.files.io import replacing
    from overstory.planning.kinds import plan_registry
    from overstory.protocol.metrics.registry import registry_folder, registry_text

    file = args.registry
    text, planned = plan_registry(registry_text(file), registry_folder(file), source=file)
    target = args.output or file
    if planned or args.output:
        with replacing(target) as name:
            Path(name).write_bytes(text.encode())
    args.writes_tables = False
    done = f"{plural(len(planned), 'metric')} planned in {target}" if planned else "every metric has its parameters"
    listed = {"file": target, "planned": [one.metric_json() for one in planned]}
    return Answer(listed, [Preformatted("\n".join([*(one.metric_words() for one in planned), done]))])


def _write(path: str, plan: RapporPlan) -> None:
    from overstory.files.rappor import RapporParameters, write_params

    given = plan.parameters
    k, h, m = (int(given[letter]) for letter in "khm")
    write_params(path, RapporParameters(k, h, m, given["p"], given["q"], given["f"]))
