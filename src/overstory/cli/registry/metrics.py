"""``overstory metrics``: write, check, show, compare and plan the metric registry."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import Option, add_command, add_option, print_outcome
from overstory.cli.registry.lint import lint
from overstory.cli.registry.metrics_init import add_parser as add_init
from overstory.cli.registry.metrics_init import run as run_init
from overstory.presentation.document import Heading, KeyValues, Lines, Paragraph
from overstory.privacy.text import plural
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.presentation.document import Block
    from overstory.privacy.registry.changes import Change
    from overstory.protocol.metrics import MetricRegistry

MORE = """\
A registry (metrics.toml) lists every metric: what is collected, why, how privately, how often and for how long.
The client is built with it, the collector refuses everything else, and the public can read it. See
docs/reference/metrics.md."""

EXAMPLE = """\
overstory metrics init
  overstory metrics lint metrics.toml
  overstory metrics show metrics.toml search-engine
  overstory metrics diff released.toml metrics.toml
  overstory metrics plan metrics.toml"""

WEAKENED: Final = 1
MOST_REPORTS: Final = 1_000_000


REGISTRY: Final = Option("file", metavar="FILE", help="the registry")


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers, "metrics", "write, check, show, compare and plan the metric registry", more=MORE, example=EXAMPLE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    add_init(actions)
    add_command(
        actions,
        "lint",
        "list every fault of a registry, each with its line",
        more="Exit status: 2 for a fault, 1 for a warning (such as an expiry in the past) with --strict, otherwise 0.",
        example="overstory metrics lint metrics.toml --strict",
        options=(
            REGISTRY,
            Option("--strict", action="store_true", help="exit with status 1 if there is a warning"),
            Option("--server", metavar="URL", help="address of the collector, to compare with that of the relay"),
            Option("--json", help="print faults and warnings as JSON"),
        ),
    )
    _add_show(actions)
    add_command(
        actions,
        "diff",
        "list the promises that a change weakens, and the stored counts that it breaks",
        more="Give every registry that was released, so that what devices reported under each of them counts.\n\n"
        "Exit status: 1 if a metric's privacy is weakened under the same id (give it a new id), 0 otherwise.",
        example="overstory metrics diff released.toml metrics.toml",
        options=(
            Option("old", metavar="OLD", nargs="+", help="the registries that people agreed to, oldest first"),
            Option("new", metavar="NEW", help="the registry that replaces the last of them"),
            Option("--json", help="print the changes as JSON"),
        ),
    )
    add_command(
        actions,
        "plan",
        "derive oracle and parameters from each metric's needs, and write them into the file",
        more="The rest of the file does not change, and the needs stay as a comment.",
        example="overstory metrics plan metrics.toml",
        options=(
            REGISTRY,
            Option("--output", metavar="OUT", help="write to OUT instead of FILE"),
            Option("--json", help="print the planned parameters as JSON"),
        ),
    )


def _add_show(actions: Any) -> None:
    show = add_command(
        actions,
        "show",
        "print a metric's public page: what is collected, why, and what it can reveal",
        more="Without METRIC, print the pages of all metrics.",
        example="overstory metrics show metrics.toml --markdown > privacy.md",
        options=(
            REGISTRY,
            Option("metric", metavar="METRIC", nargs="?", help="a metric's id"),
            Option("--reports", type=int, metavar="N", help="state epsilon for N reports (default: the window, or 30)"),
        ),
    )
    form = show.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    add_option(form, "--json", help="print JSON")


def run(args: argparse.Namespace) -> int:
    actions = {
        "init": run_init,
        "lint": lambda args: lint(args.file, strict=args.strict, as_json=args.json, server=args.server),
        "show": _show,
        "diff": _diff,
        "plan": _plan,
    }
    return actions[args.action](args)


def _show(args: argparse.Namespace) -> int:
    from overstory.privacy.histories.pairs import check_reports
    from overstory.privacy.registry.cost import budget_words, total_costs
    from overstory.privacy.registry.page import metric_page, together_blocks
    from overstory.protocol.metrics import load_registry

    registry = load_registry(args.file)
    names = list(registry) if args.metric is None else [args.metric]
    reports = None if args.reports is None else check_reports(args.reports, 1, MOST_REPORTS)
    pages = [metric_page(registry[name], reports=reports, route=registry.oblivious) for name in names]
    totals = total_costs([page.cost for page in pages]) if len(pages) > 1 else ()
    words = () if registry.budget is None else tuple(budget_words(registry.budget, registry.values()))
    if args.json:
        budget = None if registry.budget is None else registry.budget.to_json()
        about: dict[str, Any] = {"registry": registry.version, "digest": registry.digest.hex(), "budget": budget}
        about |= {} if registry.oblivious is None else {"oblivious": registry.oblivious.to_json()}
        about |= {"budget_words": list(words), "totals": [total.to_json() for total in totals]}
        print(json.dumps(about | {"metrics": [page.to_json() for page in pages]}, indent=2, allow_nan=False))
    else:
        from overstory.presentation.render_markdown import as_markdown
        from overstory.presentation.render_text import print_document

        blocks = [block for page in pages for block in page.blocks()] + [*together_blocks(totals, words)]
        if args.markdown:
            print(as_markdown([*_introduction(registry), *blocks]), end="")
        else:
            print_document(blocks)
    return 0


def _introduction(registry: MetricRegistry) -> Iterator[Block]:
    yield Heading(1, "What is collected, and how privately")
    yield Paragraph(
        f"Registry {registry.version}. An epsilon is a privacy loss (smaller is more private), exact and rounded up. "
        "The odds say what it means: how far a report can move them between two values of one device."
    )


def _diff(args: argparse.Namespace) -> int:
    from overstory.privacy.registry.changes import Harm, compare_registries
    from overstory.protocol.metrics import load_registry

    earlier, new = [load_registry(file) for file in args.old], load_registry(args.new)
    changes = compare_registries(*earlier, new)
    weaker = list(dict.fromkeys(change.metric for change in changes if change.kind == Harm.WEAKENS))
    larger = "" in weaker
    broken = list(dict.fromkeys(change.metric for change in changes if change.kind == Harm.BREAKS))
    outcome = {
        "old": args.old,
        "new": args.new,
        "needs_new_id": [name for name in weaker if name],
        "larger_budget": larger,
        "breaks_counts": [name for name in broken if name],
        "breaks_shards": "" in broken,
        "changes": [change.to_json() for change in changes],
    }
    lines = [f"{name} needs a new metric id: people agreed to less" for name in weaker if name]
    if larger:
        lines.append("the budget allows more than people agreed to: devices record nothing until people agree again")
    lines += [f"{name}: its stored counts cannot be continued under this id" for name in broken if name]
    if "" in broken:
        lines.append("[shards] changes for periods that have begun: collectors that have reports of them refuse it")
    if not weaker and not broken:
        lines.append("no promise is weakened, no stored count is broken" if changes else "nothing changed")
    print_outcome(args, outcome, *_changes(changes), Lines(*lines))
    return WEAKENED if weaker else 0


def _changes(changes: list[Change]) -> Iterator[Block]:
    for metric, these in groupby(changes, key=attrgetter("metric")):
        yield Heading(3, metric or "the registry")
        yield KeyValues(tuple((str(change.kind), f"{change.what}: {change.detail}") for change in these), "lines")


def _plan(args: argparse.Namespace) -> int:
    from pathlib import Path

    from overstory.files.io import replacing
    from overstory.planning.registry import plan_registry
    from overstory.protocol.metrics import registry_folder, registry_text

    if args.file.startswith("package:") and not args.output:
        raise ParameterError(f"{args.file} is inside a package: give -o OUT to write the registry elsewhere")
    text, planned = plan_registry(registry_text(args.file), registry_folder(args.file), source=args.file)
    target = args.output or args.file
    if planned or args.output:
        with replacing(target) as name:
            Path(name).write_bytes(text.encode())
    if args.json:
        print(
            json.dumps({"file": target, "planned": [one.metric_json() for one in planned]}, indent=2, allow_nan=False)
        )
    else:
        for one in planned:
            print(one.metric_words())
        print(f"{plural(len(planned), 'metric')} planned in {target}" if planned else "every metric has its parameters")
    return 0
