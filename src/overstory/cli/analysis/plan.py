"""``overstory plan``: what given parameters would learn and reveal, or the best parameters for given needs."""

from __future__ import annotations

import argparse
from itertools import chain
from typing import TYPE_CHECKING, Any

from overstory.cli.arguments import add_command, add_hashing, add_option, given, hashing, print_answer
from overstory.presentation.document import Lines, Paragraph
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.planning import RapporPlan

MORE = """\
Give either --params, or both --epsilon and --epsilon-permanent. With epsilons, it searches the parameters with the
smallest standard error for rare strings; -o writes them. The plan's epsilons never exceed those that you give. For
values of a known domain give --domain-size and --epsilon: it recommends an oracle (`overstory compare` shows all)."""

EXAMPLE = """\
overstory plan --params params.csv --reports 1000000 --candidates 200 --share 0.01
  overstory plan --epsilon 1.0743 --epsilon-permanent 4.3945 --reports 1000000 --candidates 200 -o params.csv
  overstory plan --domain-size 100 --epsilon 1 --reports 1000000
  overstory plan --domain-size 100 --most 8 --typical 3 --epsilon 1 --reports 1000000"""

NEEDS_ONLY = ("num_bits", "num_hashes", "num_cohorts", "thrifty", "output")
STRINGS_ONLY = ("params", "candidates", "hash_family", "hash_key", *NEEDS_ONLY)
ALPHA = 0.05


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "plan",
        "choose parameters for your needs, or state what parameters achieve",
        more=MORE,
        example=EXAMPLE,
    )
    parameters = parser.add_argument_group("for given parameters")
    add_option(parameters, "--params")
    _add_needs(parser.add_argument_group("for given needs"))
    domain = parser.add_argument_group("for a known domain")
    domain.add_argument("--domain-size", type=int, metavar="D", help="number of values; with --epsilon")
    domain.add_argument("--most", type=int, metavar="M", help="sets of items: as many of one set count")
    domain.add_argument("--typical", type=float, metavar="S", help="sets of items: how many a device has, on average")
    parser.add_argument("--reports", type=int, required=True, metavar="N", help="number of devices; each reports once")
    parser.add_argument("--candidates", type=int, metavar="M", help="number of strings to look for")
    parser.add_argument(
        "--share", type=float, metavar="S", help="also plan for a string with this share of the reports, such as 0.01"
    )
    parser.add_argument("--alpha", type=float, help=f"chance of any false detection (default: {ALPHA})")
    add_hashing(parser)
    parser.add_argument("--json", action="store_true", help="print the plan as JSON")


def _add_needs(needs: Any) -> None:
    for name in ("--epsilon", "--epsilon-permanent"):
        add_option(needs, name)
    needs.add_argument("--num-bits", type=int, metavar="K", help="bits of a report (default: chosen)")
    needs.add_argument("--num-hashes", type=int, metavar="H", help="hashes of a value (default: chosen)")
    needs.add_argument("--num-cohorts", type=int, metavar="M", help="cohorts (default: chosen)")
    needs.add_argument(
        "--thrifty",
        action="store_true",
        help="use the smallest permanent epsilon that does not make one report less accurate",
    )
    needs.add_argument("-o", "--output", metavar="FILE", help="write the parameters into this file, as params.csv")


def run(args: argparse.Namespace) -> int:
    if args.most is not None or args.typical is not None:
        return _choose_for_sets(args)
    if args.domain_size is not None:
        return _choose(args)
    if args.candidates is None:
        raise ParameterError("give --candidates M, how many strings are looked for; or --domain-size D and --epsilon E")
    args.alpha = ALPHA if args.alpha is None else args.alpha
    plan = _from_params(args) if args.params else _from_needs(args)
    if args.output:
        _write(args.output, plan)
    print_answer(args, plan.to_json(), [plan.table(), Paragraph(plan.plain_words())])
    return 0


def _choose(args: argparse.Namespace) -> int:
    """Recommend an oracle for a domain."""
    from overstory.analysis.comparison import recommend
    from overstory.cli.analysis.compare import blocks
    from overstory.planning.kinds import plan_for_domain

    idle = given(args, STRINGS_ONLY)
    if args.epsilon is None or idle:
        raise ParameterError(
            "an oracle for a domain takes --domain-size D, --epsilon E, --reports N and, if reports are repeated, "
            f"--epsilon-permanent Y{'; it takes no ' if idle else ''}{', '.join(idle)}"
        )
    needs = {"epsilon_permanent": args.epsilon_permanent, "share": args.share}
    alpha = ALPHA if args.alpha is None else args.alpha
    plan = plan_for_domain(args.domain_size, args.epsilon, args.reports, alpha=alpha, **needs)
    best = recommend(plan.ranking)
    recommended = blocks((best,), None, best, plan.instead)
    print_answer(args, plan.to_json(), chain(recommended, [Lines(*plan.detection())]))
    return 0


def _choose_for_sets(args: argparse.Namespace) -> int:
    """Recommend a mechanism for sets of a domain's items."""
    from overstory.planning.kinds import item_table, other_mechanism, rank_item_mechanisms, sizes_about
    from overstory.planning.plan import oracle_toml
    from overstory.protocol.kinds.item_sets import ItemBits

    idle = given(args, ("epsilon_permanent", "share", *STRINGS_ONLY))
    if args.domain_size is None or args.most is None or args.epsilon is None or idle:
        raise ParameterError(
            "a plan for sets of items takes --domain-size D, --most M, --epsilon E, --reports N and, if it is known, "
            f"--typical S{'; it takes no ' if idle else ''}{', '.join(idle)}"
        )
    ItemBits(args.domain_size, args.most)  # says so when one is out of range
    sizes = sizes_about(args.typical, args.most)
    ranking = rank_item_mechanisms(args.domain_size, args.most, args.epsilon, args.reports, sizes)
    best = ranking[0]
    written = oracle_toml(best.mechanism.name, best.parameters).replace("\n", "; ")
    values = {**best.to_json(), "ranking": [each.to_json() for each in ranking]}
    lines = Lines(f"Best: {written}", f"Instead: {other_mechanism(ranking)}")
    print_answer(args, values, [item_table(ranking), lines])
    return 0


def _from_params(args: argparse.Namespace) -> RapporPlan:
    from overstory.files.rappor import read_params
    from overstory.planning import plan_from_parameters

    if args.epsilon is not None or args.epsilon_permanent is not None:
        raise ParameterError("give either --params, or --epsilon and --epsilon-permanent, not both")
    idle = given(args, NEEDS_ONLY)
    if idle:
        raise ParameterError(f"{', '.join(idle)}: only where parameters are planned; leave out --params, or these")
    mechanism = read_params(args.params).mechanism(**hashing(args))
    return plan_from_parameters(mechanism, args.reports, args.candidates, alpha=args.alpha, share=args.share)


def _from_needs(args: argparse.Namespace) -> RapporPlan:
    from overstory.planning import plan_from_needs

    if args.epsilon is None or args.epsilon_permanent is None:
        raise ParameterError("give either --params FILE, or both --epsilon E and --epsilon-permanent Y")
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
        thrifty=args.thrifty,
        **hashing(args),
    )


def _write(path: str, plan: RapporPlan) -> None:
    from overstory.files.rappor import RapporParameters, write_params

    given = plan.parameters
    sizes = {letter: int(given[letter]) for letter in "khm"}
    write_params(path, RapporParameters(**sizes, p=given["p"], q=given["q"], f=given["f"]))
