"""``overstory metrics``: check, show and compare the metric registry."""

from __future__ import annotations

import argparse
import datetime as dt
import json
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

from overstory.cli.arguments import print_answer
from overstory.presentation.document import Block, Heading, KeyValues, Lines, Paragraph
from overstory.presentation.formats import plural
from overstory.presentation.render_markup import as_markdown
from overstory.presentation.render_text import print_document
from overstory.privacy.registry.changes import Change, Harm, compare_registries
from overstory.privacy.registry.cost import budget_words, total_costs
from overstory.privacy.registry.page import metric_page, together_blocks
from overstory.privacy.registry.warnings import registry_notes, registry_warnings
from overstory.privacy.registry.yearly import headline
from overstory.privacy.terms import check_reports
from overstory.protocol.metrics import RegistryError, load_registry, parse_registry
from overstory.protocol.metrics.registry import registry_folder, registry_text

WEAKENED: Final = 1
MOST_REPORTS: Final = 1_000_000


def show(args: argparse.Namespace) -> int:
    registry = load_registry(args.file)
    names = list(registry) if args.metric is None else [args.metric]
    reports = None if args.reports is None else check_reports(args.reports, 1, MOST_REPORTS)
    pages = [
        metric_page(registry[name], reports=reports, route=registry.oblivious, budget=registry.budget) for name in names
    ]
    totals = total_costs([page.cost for page in pages], registry, reports) if len(pages) > 1 else ()
    words = () if registry.budget is None else tuple(budget_words(registry.budget, registry.values()))
    if args.json:
        budget = None if registry.budget is None else registry.budget.to_json()
        about: dict[str, Any] = {"registry": registry.version, "digest": registry.digest.hex(), "budget": budget}
        about |= {} if registry.oblivious is None else {"oblivious": registry.oblivious.to_json()}
        about |= {"headline": headline(registry).to_json()} if len(pages) > 1 else {}
        about |= {"budget_words": list(words), "totals": [total.to_json() for total in totals]}
        print(json.dumps(about | {"metrics": [page.to_json() for page in pages]}, indent=2, allow_nan=False))
    else:
        blocks = [block for page in pages for block in page.blocks()] + [*together_blocks(totals, words)]
        if len(pages) > 1:
            blocks = [Paragraph(headline(registry).sentence), *blocks]
        if args.markdown:
            introduction = (
                f"Registry {registry.version}. An epsilon is a privacy loss (smaller is more private), exact and "
                "rounded up. The odds say what it means: how far a report can move them between two values of one "
                "device."
            )
            heading = Heading(1, "What is collected, and how privately")
            print(as_markdown([heading, Paragraph(introduction), *blocks]), end="")
        else:
            print_document(blocks)
    return 0


def diff(args: argparse.Namespace) -> int:
    earlier, new = [load_registry(file) for file in args.old], load_registry(args.new)
    changes = compare_registries(*earlier, new)
    weaker = list(dict.fromkeys(change.metric for change in changes if change.kind == Harm.WEAKENS))
    larger = any(change.what == "budget" and change.kind == Harm.WEAKENS for change in changes)
    broken = list(dict.fromkeys(change.metric for change in changes if change.kind == Harm.BREAKS))
    outcome = {
        "old": args.old,
        "new": args.new,
        "needs_new_id": [name for name in weaker if name],
        "larger_budget": larger,
        "breaks_counts": broken,
        "changes": [change.to_json() for change in changes],
    }
    lines = [f"{name} needs a new metric id: people agreed to less" for name in weaker if name]
    if larger:
        lines.append("the budget allows more than people agreed to: devices record nothing until people agree again")
    if any(change.what == "any year" for change in changes):
        lines.append("a year tells more than people agreed to: let metrics share a panel, or have smaller epsilons")
    lines += [f"{name}: its stored counts cannot be continued under this id" for name in broken]
    if not weaker and not broken:
        lines.append("no promise is weakened, no stored count is broken" if changes else "nothing changed")
    print_answer(args, outcome, [*_changes(changes), Lines(*lines)])
    return WEAKENED if weaker else 0


def _changes(changes: list[Change]) -> Iterator[Block]:
    for metric, these in groupby(changes, key=attrgetter("metric")):
        yield Heading(3, metric or "the registry")
        yield KeyValues(tuple((str(change.kind), f"{change.what}: {change.detail}") for change in these), "lines")


BAD_INPUT: Final = 2
WARNED: Final = 1


def check(args: argparse.Namespace) -> int:
    return lint(args.file, strict=args.strict, as_json=args.json, server=args.server)


def lint(file: str, *, strict: bool = False, as_json: bool = False, server: str | None = None) -> int:
    text = registry_text(file)
    try:
        registry = parse_registry(text, registry_folder(file), source=file)
    except RegistryError as error:
        faults, warnings, notes, count = error.faults, [], [], 0
    else:
        faults, count = (), len(registry)
        warnings = registry_warnings(registry, text, dt.datetime.now(dt.UTC).date(), server=server)
        notes = list(registry_notes(registry))
    if as_json:
        listed = {"faults": [vars(fault) for fault in faults], "warnings": [vars(fault) for fault in warnings]}
        print(json.dumps({"file": file, "metrics": count} | listed | {"notes": notes}, indent=2))
    else:
        lines = [
            f"{file}:{fault.line}: {kind}{fault.field}{': ' if fault.field else ''}{fault.message}"
            for kind, listed_faults in (("", faults), ("warning: ", warnings))
            for fault in listed_faults
        ]
        lines += [f"{file}: note: {note}" for note in notes]
        fine = f"{file}: {plural(count, 'metric')}, no fault"
        fine += f", {plural(len(warnings), 'warning')}" if warnings else ""
        lines.append(f"{file}: {plural(len(faults), 'fault')}" if faults else fine)
        print_document([Lines(*lines)])
    return BAD_INPUT if faults else WARNED if warnings and strict else 0
