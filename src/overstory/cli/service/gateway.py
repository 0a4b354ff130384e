"""``overstory gateway``: reports a meter's readings, one randomized report per period."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final

from overstory.cli.command import Outcome as Done
from overstory.cli.command import token_of_environment
from overstory.client.client import WEEK, seconds
from overstory.client.outcomes import MADE, Outcome
from overstory.client.upload.delivery import Collector
from overstory.client.upload.http import http_transport
from overstory.gateway.gateway import AT_ONCE, LOG, Gateway, Lines, Settings, bounded_lines, follow, replay
from overstory.gateway.readings import Format, Layout, read_lines, zone_named
from overstory.presentation.formats import epsilon_text, plural
from overstory.protocol.metrics import load_registry
from overstory.protocol.wire.reasons import check_token
from overstory.supervision.log import begin_log

FORMATS: Final[Mapping[str, Format]] = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""The formats that a name tells; of other names, and of standard input, the first line does."""

SAID = frozenset({Outcome.RECORDED, Outcome.UNASKED})  # what has words of its own in the line about reports


def run(args: argparse.Namespace) -> Done:
    wait = seconds("--wait", args.wait, 0.0, WEEK)
    streamed = args.readings == "-"
    settings = Settings(
        metric=args.metric,
        state=args.state,
        pick=args.pick,
        clock="real" if streamed else "readings",
        spread=args.spread,
        agree=args.agree,
        group=args.group,
    )
    registry, form = (
        load_registry(args.registry, read_candidates=False),
        FORMATS.get(Path(args.readings).suffix.lower()),
    )
    layout = Layout(form, args.time_column, args.value_column, zone_named(args.timezone))
    lines = Lines("standard input" if streamed else args.readings)
    with ExitStack() as opened:
        stream: BinaryIO = sys.stdin.buffer if streamed else opened.enter_context(Path(args.readings).open("rb"))
        gateway = Gateway(registry, settings, _collector(args.server))
        opened.callback(gateway.close)
        items = read_lines(bounded_lines(stream), layout, gateway.metric, lines.source)
        if settings.clock == "real":
            begin_log(LOG)
            follow(gateway, items, lines, wait=wait)
        else:
            replay(gateway, items, lines)
        outcome = {"lines": lines.to_json(), **gateway.summary()}
    for bad in lines.shown[:5]:
        print(f"overstory: {bad.error(lines.source)}", file=sys.stderr)
    return Done(outcome, *outcome_lines(outcome))


def _collector(server: str | None) -> Collector | None:
    if not server:
        return None
    return Collector(server, http_transport(), check_token(token_of_environment("WRITE")), most_uploads=AT_ONCE)


def outcome_lines(outcome: dict[str, Any]) -> list[str]:
    lines, seen, spent = outcome["lines"], outcome["readings"], outcome["privacy"]
    dropped = sum(outcome["dropped"].values())
    made = sum(n for word, n in outcome["reports"].items() if word in MADE)
    refused = ", ".join(f"{n:,} {word}" for word, n in outcome["reports"].items() if word not in SAID)
    unasked = outcome["reports"].get(Outcome.UNASKED, 0)
    readings = (
        f"{plural(lines['read'], 'line')}, {lines['bad']:,} bad; readings: {seen['used']:,} used, "
        f"{seen['late']:,} late, {seen['duplicate']:,} duplicate, {seen['already']:,} reported before"
    )
    reports = (
        f"{plural(made, 'period')} reported{f' ({refused})' if refused else ''}, "
        + (f"{unasked:,} in which this device was not asked, " if unasked else "")
        + f"{seen['missing']:,} missing; {outcome['handed_over']:,} handed over, {dropped:,} refused, "
        f"{outcome['waiting']:,} waiting" + (f" ({outcome['trouble']})" if outcome["trouble"] else "")
    )
    said, window = partial(epsilon_text, unbounded="without bound"), ""
    if spent["window"] is not None:
        window = f", {said(spent['epsilon_window'])} for any {spent['window']} reports in a row"
    total = f"{said(spent['epsilon_any'])} for all {spent['reports']:,} so far, for any values"
    if spent["epsilon_at_delta"] != spent["epsilon_any"]:
        total += f" ({said(spent['epsilon_at_delta'])} at delta {spent['delta']:g})"
    return [
        readings,
        reports,
        spent["headline"],
        f"privacy: epsilon {said(spent['epsilon_report'])} for one report{window}, {total}",
    ]
