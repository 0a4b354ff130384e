"""``overstory metrics``: the registry begun, checked, shown to the public, compared with the last one, planned."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from overstory.cli.arguments import add_command
from overstory.cli.registry.lint import lint
from overstory.cli.registry.metrics_init import add_parser as add_init
from overstory.cli.registry.metrics_init import run as _init

if TYPE_CHECKING:
    from overstory.presentation.document import Block
    from overstory.privacy.registry.changes import Change
    from overstory.protocol.metrics import MetricRegistry

MORE = """\
A registry (metrics.toml) says of every metric what is collected, why, how privately, how often and for how long.
The client is built with it, the collector refuses what it does not list, the public can read it:
docs/reference/metrics.md."""

EXAMPLE = """\
overstory metrics init
  overstory metrics lint metrics.toml
  overstory metrics show metrics.toml search-engine
  overstory metrics diff released.toml metrics.toml
  overstory metrics plan metrics.toml"""

FOUND: Final = 1
MOST_REPORTS: Final = 1_000_000


def add_parser(subparsers: Any) -> None:
    """Add the command and its five actions."""
    parser = add_command(
        subparsers, "metrics", "begin, check, show, compare and plan the metric registry", more=MORE, example=EXAMPLE
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
    add_init(actions)
    _add_lint(actions)
    _add_show(actions)
    _add_diff(actions)
    _add_plan(actions)


def _add_lint(actions: Any) -> None:
    lint = add_command(
        actions,
        "lint",
        "every fault of a registry at once, each with its line",
        more="Exit status: 0 without faults, 2 with; --strict: 1 on a warning, such as an expiry in the past.",
        example="overstory metrics lint metrics.toml --strict",
    )
    lint.add_argument("file", metavar="FILE", help="the registry")
    lint.add_argument("--strict", action="store_true", help="exit status 1 where there is a warning")
    lint.add_argument("--json", action="store_true", help="print faults and warnings as JSON")


def _add_show(actions: Any) -> None:
    show = add_command(
        actions,
        "show",
        "a metric's public page: what is collected, why, and what it can reveal",
        more="Without METRIC, the pages of all.",
        example="overstory metrics show metrics.toml --markdown > privacy.md",
    )
    show.add_argument("file", metavar="FILE", help="the registry")
    show.add_argument("metric", metavar="METRIC", nargs="?", help="a metric's id")
    show.add_argument("--reports", type=int, metavar="N", help="state it for N reports (default: the window, or 30)")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown")
    form.add_argument("--json", action="store_true", help="print JSON")


def _add_diff(actions: Any) -> None:
    diff = add_command(
        actions,
        "diff",
        "what a change weakens, and which stored counts it breaks",
        more="Exit status: 1 where a metric's privacy is weakened under the same id (it needs a new one), 0 otherwise.",
        example="overstory metrics diff released.toml metrics.toml",
    )
    diff.add_argument("old", metavar="OLD", help="the registry that people agreed to")
    diff.add_argument("new", metavar="NEW", help="the one that is to replace it")
    diff.add_argument("--json", action="store_true", help="print the changes as JSON")


def _add_plan(actions: Any) -> None:
    plan = add_command(
        actions,
        "plan",
        "derive oracle and parameters from each metric's needs, and write them into the file",
        more="The rest of the file stays as it is, and the needs stay as a comment.",
        example="overstory metrics plan metrics.toml",
    )
    plan.add_argument("file", metavar="FILE", help="the registry")
    plan.add_argument("-o", "--output", metavar="OUT", help="write there, and leave FILE as it is")
    plan.add_argument("--json", action="store_true", help="print what was planned as JSON")


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    actions: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "init": _init,
        "lint": _lint,
        "show": _show,
        "diff": _diff,
        "plan": _plan,
    }
    return actions[args.action](args)


def _lint(args: argparse.Namespace) -> int:
    return lint(args.file, strict=args.strict, as_json=args.json)


def _show(args: argparse.Namespace) -> int:
    from overstory.privacy.histories.pairs import check_reports
    from overstory.privacy.registry.page import metric_page, together_blocks
    from overstory.privacy.registry.totals import budget_words, total_costs
    from overstory.protocol.metrics import load_registry

    registry = load_registry(args.file)
    names = list(registry) if args.metric is None else [args.metric]
    reports = None if args.reports is None else check_reports(args.reports, 1, MOST_REPORTS)
    pages = [metric_page(registry[name], reports=reports) for name in names]
    totals = total_costs([page.cost for page in pages]) if len(pages) > 1 else ()
    words = () if registry.budget is None else tuple(budget_words(registry.budget, registry.values()))
    if args.json:
        held = None if registry.budget is None else registry.budget.to_json()
        whole: dict[str, Any] = {"registry": registry.version, "digest": registry.digest.hex(), "budget": held}
        whole |= {"budget_words": list(words), "totals": [total.to_json() for total in totals]}
        print(json.dumps(whole | {"metrics": [page.to_json() for page in pages]}, indent=2, allow_nan=False))
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
    from overstory.presentation.document import Heading, Paragraph

    yield Heading(1, "What is collected, and how privately")
    yield Paragraph(
        f"Registry {registry.version}. An epsilon is a privacy loss (smaller is more private), exact and rounded up. "
        "The odds say what it means: how far a report can move them between two values of one device."
    )


def _diff(args: argparse.Namespace) -> int:
    from overstory.privacy.registry.changes import Kind, compare_registries
    from overstory.privacy.registry.warnings import seed_notes
    from overstory.protocol.metrics import load_registry, registry_text

    old, new = load_registry(args.old), load_registry(args.new)
    changes, notes = compare_registries(old, new), list(seed_notes(old, registry_text(args.old), new))
    weaker = list(dict.fromkeys(change.metric for change in changes if change.kind == Kind.WEAKENS))
    larger = "" in weaker
    broken = list(dict.fromkeys(change.metric for change in changes if change.kind == Kind.BREAKS))
    if args.json:
        said = {
            "needs_new_id": [name for name in weaker if name],
            "larger_budget": larger,
            "breaks_counts": broken,
            "changes": [change.to_json() for change in changes],
            "notes": notes,
        }
        print(json.dumps({"old": args.old, "new": args.new} | said, indent=2))
    else:
        _show_changes(changes)
        for name in filter(None, weaker):
            print(f"{name} needs a new metric id: people agreed to less than this")
        if larger:
            print("the budget allows more than people agreed to: devices record nothing until they are asked again")
        for name in broken:
            print(f"{name}: counts stored so far cannot go on under this id")
        if not weaker and not broken:
            print("no promise is weakened, no stored count is broken" if changes else "nothing changed")
        for note in notes:
            print(f"{args.old}: note: {note}")
    return FOUND if weaker else 0


def _show_changes(changes: list[Change]) -> None:
    width = max((len(change.kind) for change in changes), default=0)
    metric = None
    for change in changes:
        if change.metric != metric:
            metric = change.metric
            print(metric or "the registry")
        print(f"  {change.kind:<{width}}  {change.what}: {change.detail}")


def _plan(args: argparse.Namespace) -> int:
    from pathlib import Path

    from overstory.files.io import replacing
    from overstory.planning.registry import plan_registry
    from overstory.privacy.text import plural
    from overstory.protocol.errors import ParameterError
    from overstory.protocol.metrics import registry_folder, registry_text

    if args.file.startswith("package:") and not args.output:
        raise ParameterError(f"{args.file} is inside a package: give -o OUT, where to write the registry")
    text, planned = plan_registry(registry_text(args.file), registry_folder(args.file), source=args.file)
    target = args.output or args.file
    if planned or args.output:
        with replacing(target) as name:
            Path(name).write_bytes(text.encode())
    if args.json:
        print(json.dumps({"file": target, "planned": [one.to_json() for one in planned]}, indent=2, allow_nan=False))
    else:
        for one in planned:
            print(one.plain_words())
        print(f"{plural(len(planned), 'metric')} planned in {target}" if planned else "every metric has its parameters")
    return 0
