"""Runs the person's commands: on, local, off, off --all and forget change the state; status and view only read it."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from overstory.client.outcomes import ConsentError, StateError
from overstory.client.person.question import CommandContext
from overstory.client.state.paths import introduce
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.consent.consent import Consent
    from overstory.client.person.document import View
    from overstory.client.person.status import Status


def choose(choice: str, context: CommandContext, args: argparse.Namespace) -> int:
    """Run `on`, `local` or `off`: show what the program asks for, and store the choice with its date and metrics.

    `on` shows the metrics and asks before it stores anything.
    """
    from overstory.client.consent import choice as choices
    from overstory.client.person.question import asked_of, question, question_json

    server, moved = getattr(args, "server", None), getattr(args, "moved", False)
    if choice != "off":
        _check_before_asking(choice, context, args)
    today = datetime.now(UTC).date()
    asked = None if choice == "off" else asked_of(context, server, today)
    if asked and not args.json:
        from overstory.presentation.render_text import as_text

        context.out.write(as_text(question(asked)))
        context.say("")
    if choice == "on" and not args.yes and not _agreed(context):
        context.say("not agreed: nothing has changed; `off` is an answer that lasts, also to what is asked for later")
        return 0
    consent = choices.choose(context.paths, context.registry, choice, today, server=server, moved=moved)
    if choice != "off":
        with contextlib.suppress(OSError, StateError):  # the commands after this one would need the file again
            introduce(context.paths, context.name, context.registry)
    if args.json:
        context.say_json(_chosen(context, consent) | (question_json(asked) if asked else {"metrics": []}))
        return 0
    context.say(f"{choice}, from {consent.date}: {CHOSEN[choice]}")
    effective = context.effective
    if not effective.asked:
        context.say(NOT_KEPT)
    elif str(effective.choice) != choice:
        context.say(f"all the same it is {effective.choice} now: {effective.cause}")
    return 0


def _check_before_asking(choice: str, context: CommandContext, args: argparse.Namespace) -> None:
    """Raise for a choice that could not be asked for or stored, before the person reads the question."""
    if not context.registry:
        raise ParameterError(f"what is asked for? {context.no_registry or 'the registry lists no metric'}")
    if args.server is not None:
        from overstory.client.upload.http import endpoint

        endpoint(args.server)  # says so where it is no address
    if choice == "on":
        from overstory.client.state.files import refuse_foreign
        from overstory.client.state.state import State

        if args.json and not args.yes:
            raise ParameterError("to agree without being asked, as with --json, give --yes")
        refuse_foreign(context.paths)
        if not args.moved:
            State(context.paths).check_machine()


CHOSEN: Final = {
    "on": "the metrics above are recorded and sent; `off` ends that, `view` shows it.",
    "local": "the metrics above are recorded on this machine, and none of that is ever sent.",
    "off": "nothing is recorded, and what waited is not sent.",
}

NOT_KEPT: Final = "this could not be written down, so it stands as if nobody had been asked: the program may ask again."


def _chosen(context: CommandContext, consent: Consent) -> dict[str, Any]:
    effective = context.effective
    about = {"choice": str(consent.choice), "date": consent.date, "registry": consent.registry}
    return about | {"effective": str(effective.choice), "cause": effective.cause}


def _agreed(context: CommandContext) -> bool:
    """Ask; return whether the person agreed."""
    if not (sys.stdin.isatty() and context.out.isatty()):
        raise ParameterError("nobody can be asked here: nothing was recorded; to agree without being asked, give --yes")
    metrics = len(context.registry)
    context.out.write(f"Agree to {'this metric' if metrics == 1 else f'these {metrics} metrics'}? [y/N] ")
    context.out.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def turn_all_off(contexts: Mapping[str, CommandContext], args: argparse.Namespace, out: TextIO) -> int:
    """Run `off --all`; return 2 where one of the applications could not be turned off."""
    from overstory.client.consent import choice as choices

    today, results, failed = datetime.now(UTC).date(), [], False
    for name, context in contexts.items():
        try:
            choices.choose(context.paths, context.registry, "off", today)
        except (ConsentError, StateError) as error:
            failed = True
            results.append({"application": name, "error": str(error)})
        else:
            effective = context.effective
            results.append({"application": name, "choice": "off", "effective": str(effective.choice)})
    if args.json:
        out.write(f"{json.dumps({'applications': results}, indent=2)}\n")
        return 2 if failed else 0
    lines = [f"{result['application']}: {result.get('error', f'off, from {today}')}" for result in results]
    out.writelines(f"{printable(line)}\n" for line in (*lines, ALL_OFF if contexts else NO_STATE))
    return 2 if failed else 0


ALL_OFF: Final = (
    "They record nothing, and what waited is not sent. A program that starts here later has to ask first, and is off "
    "until then."
)
NO_STATE: Final = "no application of yours has a state here; one that starts here later is off until you agree"

FORGETTING: Final = (
    "This deletes the secret of this device, every permanent response, what waits, the ledger and your choice. "
    "What was sent cannot be taken back. Your next report will look like a new device's, with fresh permanent "
    "responses, so its privacy loss comes on top of the earlier one."
)


def forget(context: CommandContext, args: argparse.Namespace) -> int:
    """Run `forget`: say what it means, ask, and delete the whole state."""
    from overstory.client.state.lifecycle import erase

    there = context.paths.folder.is_dir()
    if there and not args.yes:
        context.say(f"state: {context.paths.folder}", FORGETTING)
        if not sys.stdin.isatty():
            raise ParameterError("to forget without being asked, give --yes")
        context.out.write("Type forget to go on: ")
        context.out.flush()
        if sys.stdin.readline().strip() != "forget":
            context.say("nothing was deleted")
            return 0
    erase(context.paths)
    if args.json:
        context.say_json({"folder": str(context.paths.folder), "forgotten": there})
    else:
        context.say(f"forgotten: {context.paths.folder}" if there else f"nothing to forget in {context.paths.folder}")
    return 0


def show_status(context: CommandContext, args: argparse.Namespace) -> int:
    """Run `status`."""
    from overstory.client.person.status import read_status

    status = _with_note(context, read_status(context.paths, context.registry, context.effective, now=time.time()))
    if args.json:
        context.say_json({"application": context.name} | status.to_json())
        return 0
    context.say(*status.words())
    context.say(*status.costs())
    return 0


def _with_note(context: CommandContext, status: Status) -> Status:
    if context.no_registry in {None, status.problem}:
        return status
    return replace(status, notes=(*status.notes, str(context.no_registry)))


def show_all(contexts: Mapping[str, CommandContext], args: argparse.Namespace, out: TextIO) -> int:
    """Run `status` for all applications: a line each, and what is wrong with any of them."""
    from overstory.client.person.status import read_status
    from overstory.presentation.document import Lines, Paragraph, Table
    from overstory.presentation.render_text import UNFOLDED, as_text

    read = {
        name: _with_note(context, read_status(context.paths, context.registry, context.effective, now=time.time()))
        for name, context in contexts.items()
    }
    if args.json:
        listed = [{"application": name} | status.to_json() for name, status in read.items()]
        out.write(f"{json.dumps({'applications': listed}, indent=2, allow_nan=False)}\n")
        return 0
    if not read:
        out.write("no application of yours has a state here: nothing is recorded, and nothing is sent\n")
        return 0
    headings = ("application", "now", "waiting", "sent", "because of")
    table = Table.of_cells("", headings, [(name, *status.row()) for name, status in read.items()], left=headings)
    troubles = [f"{name}: {line}" for name, status in read.items() for line in status.troubles()]
    more = "more about one: status --app NAME; all of them off: off --all"
    out.write(as_text([table, *([Lines(*troubles)] if troubles else []), Paragraph(more)], UNFOLDED))
    return 0


def show_view(context: CommandContext, args: argparse.Namespace) -> int:
    """Run `view`: in the terminal, as JSON, into a file, or as a page until Ctrl-C."""
    from overstory.client.person.document import build
    from overstory.presentation.render_html import as_page
    from overstory.presentation.render_text import as_text

    if sum(map(bool, (args.json, args.html, args.web))) > 1:
        raise ParameterError("--json, --html and --web are three ways to show it: give one")
    if args.reports < 0:
        raise ParameterError(f"--reports {args.reports}: give a whole number from 0")
    view = _read_view(context, args.explain)
    if args.web:
        return _serve(context, args)
    if args.html:
        Path(args.html).write_text(as_page(build(view, reports=args.reports), contents=True), encoding="utf-8")
        context.say(f"written: {args.html}")
    elif args.json:
        from overstory.client.person.document import view_json

        context.say_json(view_json(view))
    else:
        context.out.write(as_text(build(view, reports=args.reports)))
    return 0


def _read_view(context: CommandContext, explain: Sequence[str]) -> View:
    """Read everything that the view shows."""
    from overstory.client.outcomes import StateError
    from overstory.client.person.document import View
    from overstory.client.person.explanation import explain as explained
    from overstory.client.person.explanation import read_value
    from overstory.client.person.status import read_status
    from overstory.client.person.view import view_metrics, view_without_state
    from overstory.client.state.state import State

    state = State(context.paths)
    wanted = [_named(context, text) for text in explain]
    status = _with_note(context, read_status(context.paths, context.registry, context.effective, now=time.time()))
    try:
        with state.snapshot() as rows:
            metrics = view_metrics(rows, context.registry)
    except StateError:  # the status says why, where there is one
        metrics = view_without_state(context.registry)
    values = tuple(explained(state, metric, read_value(metric, text)) for metric, text in wanted)
    return View(context.name, status, metrics, values, context.registry.oblivious)


def _named(context: CommandContext, text: str) -> tuple[Any, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"--explain {text}: give METRIC=VALUE")
    if not context.registry:
        raise ParameterError(f"--explain {text}: {context.no_registry or 'the registry lists no metric'}")
    return context.registry[name], value


def _serve(context: CommandContext, args: argparse.Namespace) -> int:
    from overstory.client.person.document import build
    from overstory.client.person.server import LocalPage
    from overstory.presentation.render_html import as_page

    def page() -> str:
        return as_page(build(_read_view(context, args.explain), reports=args.reports), contents=True)

    with LocalPage(page) as server:
        context.say(f"{server.url} (for this machine alone, until Ctrl-C)")
        context.out.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
