"""``overstory plan``: what given parameters would learn and reveal, or the best parameters for given needs."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import TYPE_CHECKING

from overstory.cli.arguments import print_answer
from overstory.cli.output import is_table
from overstory.presentation.document import Lines, Paragraph

if TYPE_CHECKING:
    from overstory.planning import RapporPlan


def run(args: argparse.Namespace) -> int:
    if args.form in CHOICES:
        return CHOICES[args.form](args)
    plan = _from_params(args) if args.params else _from_needs(args)
    args.writes_tables = is_table(args.output) and not args.output.endswith(".csv")
    if args.output and not args.writes_tables:
        _write(args.output, plan)
    print_answer(args, plan.to_json(), [plan.as_table(), Paragraph(plan.plain_words())])
    return 0


def _choose(args: argparse.Namespace) -> int:
    """Recommend an oracle for a domain."""
    from overstory.analysis.comparison import recommend
    from overstory.cli.analysis.compare import ranking_blocks
    from overstory.planning.kinds import plan_for_domain

    needs = {"epsilon_permanent": args.epsilon_permanent, "share": args.share}
    plan = plan_for_domain(args.domain_size, args.epsilon, args.reports, alpha=args.alpha, **needs)
    best = recommend(plan.ranking)
    recommended = ranking_blocks((best,), None, best, plan.instead)
    print_answer(args, plan.to_json(), chain(recommended, [Lines(*plan.detection())]))
    return 0


def _choose_for_sets(args: argparse.Namespace) -> int:
    """Recommend a mechanism for sets of a domain's items."""
    from overstory.planning.kinds import item_table, other_mechanism, rank_item_mechanisms, sizes_about
    from overstory.planning.plan import oracle_toml
    from overstory.protocol.kinds.item_sets import ItemBits

    ItemBits(args.domain_size, args.most)  # says so when one is out of range
    sizes = sizes_about(args.typical, args.most)
    ranking = rank_item_mechanisms(args.domain_size, args.most, args.epsilon, args.reports, sizes)
    best = ranking[0]
    written = oracle_toml(best.mechanism.name, best.parameters).replace("\n", "; ")
    values = {**best.to_json(), "ranking": [each.to_json() for each in ranking]}
    lines = Lines(f"Best: {written}", f"Instead: {other_mechanism(ranking)}")
    print_answer(args, values, [item_table(ranking), lines])
    return 0


def _choose_for_a_year(args: argparse.Namespace) -> int:
    """Compare the ways to keep within a bound on any year."""
    from overstory.planning.yearly import SHARE, YearPlan

    plan = YearPlan(args.reports, args.domain_size, args.yearly, args.metrics, args.period, args.share or SHARE)
    print_answer(args, plan.to_json(), plan.blocks())
    return 0


def _from_params(args: argparse.Namespace) -> RapporPlan:
    from overstory.files.rappor import read_params
    from overstory.planning import plan_from_parameters

    mechanism = read_params(args.params).mechanism()
    return plan_from_parameters(mechanism, args.reports, args.candidates, alpha=args.alpha, share=args.share)


def _from_needs(args: argparse.Namespace) -> RapporPlan:
    from overstory.planning import plan_from_needs

    return plan_from_needs(
        args.epsilon,
        args.epsilon_permanent,
        args.reports,
        args.candidates,
        alpha=args.alpha,
        share=args.share,
        num_bits=args.num_bits,
        num_hashes=args.num_hashes,
        num_cohorts=args.num_cohorts,
    )


def _write(path: str, plan: RapporPlan) -> None:
    from overstory.files.rappor import RapporParameters, write_params

    given = plan.parameters
    k, h, m = (int(given[letter]) for letter in "khm")
    write_params(path, RapporParameters(k, h, m, given["p"], given["q"], given["f"]))


CHOICES = {
    "for a bound on any year": _choose_for_a_year,
    "for sets of items": _choose_for_sets,
    "for a known domain": _choose,
}
"""What recommends an oracle, by the form of the command."""
