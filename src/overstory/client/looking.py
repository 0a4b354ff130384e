"""The commands that show something, and change nothing: status, view."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from overstory.client.setting import Setting
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.status import Status
    from overstory.client.story import View


def show_status(setting: Setting, args: argparse.Namespace) -> int:
    """Run `status`."""
    from overstory.client.status import read_status

    status = _with_note(setting, read_status(setting.paths, setting.registry, setting.effective, now=time.time()))
    if args.json:
        setting.say_json({"application": setting.name} | status.to_json())
        return 0
    setting.say(*status.words())
    setting.say(*status.costs())
    return 0


def _with_note(setting: Setting, status: Status) -> Status:
    if setting.no_registry in {None, status.problem}:
        return status
    return replace(status, notes=(*status.notes, str(setting.no_registry)))


def show_all(found: Mapping[str, Setting], args: argparse.Namespace, out: TextIO) -> int:
    """Run `status` for all applications: a line each, and what is wrong with any of them."""
    from overstory.client.output import printable
    from overstory.client.status import read_status

    read = {
        name: _with_note(one, read_status(one.paths, one.registry, one.effective, now=time.time()))
        for name, one in found.items()
    }
    if args.json:
        listed = [{"application": name} | status.to_json() for name, status in read.items()]
        out.write(f"{json.dumps({'applications': listed}, indent=2, allow_nan=False)}\n")
        return 0
    if not read:
        out.write("no application of yours has a state here: nothing is recorded, and nothing is sent\n")
        return 0
    rows = [("application", "now", "waiting", "sent", "because of")]
    rows += [(name, *status.row()) for name, status in read.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row, status in zip(rows, (None, *read.values()), strict=True):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        out.write(f"{printable('  '.join((*cells, row[-1])))}\n")
        out.writelines(f"  {printable(line)}\n" for line in (() if status is None else status.troubles()))
    out.write("\nmore about one: status --app NAME; all of them off: off --all\n")
    return 0


def show_view(setting: Setting, args: argparse.Namespace) -> int:
    """Run `view`: in the terminal, as JSON, into a file, or as a page until Ctrl-C.

    Raises
    ------
    ParameterError
        When an argument does not fit.
    OSError
        When the page cannot be written.
    """
    from overstory.client.page import as_page
    from overstory.client.story import tell
    from overstory.client.terminal import as_text

    if sum(map(bool, (args.json, args.html, args.web))) > 1:
        raise ParameterError("--json, --html and --web are three ways to show it: give one")
    if args.reports < 0:
        raise ParameterError(f"--reports {args.reports}: give a whole number from 0")
    view = _look(setting, args.explain)
    if args.web:
        return _serve(setting, args)
    if args.html:
        Path(args.html).write_text(as_page(tell(view, reports=args.reports)), encoding="utf-8")
        setting.say(f"written: {args.html}")
    elif args.json:
        from overstory.client.view_json import view_json

        setting.say_json(view_json(view))
    else:
        setting.out.write(as_text(tell(view, reports=args.reports)))
    return 0


def _look(setting: Setting, explain: Sequence[str]) -> View:
    """Read everything there is to see.

    Raises
    ------
    ParameterError
        When a value that is to be explained has no metric.
    """
    from overstory.client.errors import StateError
    from overstory.client.explaining import explain as explained
    from overstory.client.explaining import read_value
    from overstory.client.state import State
    from overstory.client.status import read_status
    from overstory.client.story import View
    from overstory.client.view import shown_metrics, shown_without_state

    state = State(setting.paths)
    wanted = [_named(setting, text) for text in explain]
    status = _with_note(setting, read_status(setting.paths, setting.registry, setting.effective, now=time.time()))
    try:
        with state.snapshot() as rows:
            metrics = shown_metrics(rows, setting.registry)
    except StateError:  # the status says why, where there is one
        metrics = shown_without_state(setting.registry)
    values = tuple(explained(state, metric, read_value(metric, text)) for metric, text in wanted)
    return View(setting.name, status, metrics, values)


def _named(setting: Setting, text: str) -> tuple[Any, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"--explain {text}: give METRIC=VALUE")
    if not setting.registry:
        raise ParameterError(f"--explain {text}: {setting.no_registry or 'the registry lists no metric'}")
    return setting.registry[name], value


def _serve(setting: Setting, args: argparse.Namespace) -> int:
    from overstory.client.page import as_page
    from overstory.client.story import tell
    from overstory.client.web import LocalPage

    with LocalPage(lambda: as_page(tell(_look(setting, args.explain), reports=args.reports))) as server:
        setting.say(f"{server.url} (for this machine alone, until Ctrl-C)")
        setting.out.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
