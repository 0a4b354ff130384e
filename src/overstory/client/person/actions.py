"""The commands that change something: on, local, off, off --all, forget.

The commands that show something, and change nothing: status, view.
"""

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

from overstory.client.errors import ConsentError, StateError
from overstory.client.person.context import Setting
from overstory.client.state.applications import introduce
from overstory.presentation.streams import printable
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.consent.consent import Consent
    from overstory.client.person.document import View
    from overstory.client.person.status import Status


def choose(choice: str, setting: Setting, args: argparse.Namespace) -> int:
    """Run `on`, `local` or `off`: show what is asked for, and record the choice, its date and what it is about.

    `on` asks first: nobody agrees to what is not read.
    """
    from overstory.client.consent import consent as choices
    from overstory.client.person.question import asked_of, question, question_json

    server, moved = getattr(args, "server", None), getattr(args, "moved", False)
    if choice != "off":
        _check_before_asking(choice, setting, args)
    today = datetime.now(UTC).date()
    asked = None if choice == "off" else asked_of(setting, server, today)
    if asked and not args.json:
        from overstory.client.person.render import as_text

        setting.out.write(as_text(question(asked)))
        setting.say("")
    if choice == "on" and not args.yes and not _agreed(setting):
        setting.say("not agreed: nothing has changed; `off` is an answer that lasts, also to what is asked for later")
        return 0
    consent = choices.choose(setting.paths, setting.registry, choice, today, server=server, moved=moved)
    if choice != "off":
        with contextlib.suppress(OSError, StateError):  # the commands after this one would need the file again
            introduce(setting.paths, setting.name, setting.registry)
    if args.json:
        setting.say_json(_chosen(setting, consent) | (question_json(asked) if asked else {"metrics": []}))
        return 0
    setting.say(f"{choice}, from {consent.date}: {CHOSEN[choice]}")
    effective = setting.effective
    if not effective.asked:
        setting.say(NOT_KEPT)
    elif str(effective.choice) != choice:
        setting.say(f"all the same it is {effective.choice} now: {effective.cause}")
    return 0


def _check_before_asking(choice: str, setting: Setting, args: argparse.Namespace) -> None:
    """Refuse what could not be asked, or not be kept, before a person has read it."""
    if not setting.registry:
        raise ParameterError(f"what is asked for? {setting.no_registry or 'the registry lists no metric'}")
    if args.server is not None:
        from overstory.client.upload.http import endpoint

        endpoint(args.server)  # says so where it is no address
    if choice == "on":
        from overstory.client.state.files import refuse_foreign
        from overstory.client.state.state import State

        if args.json and not args.yes:
            raise ParameterError("to agree without being asked, as with --json, give --yes")
        refuse_foreign(setting.paths)
        if not args.moved:
            State(setting.paths).check_machine()


CHOSEN: Final = {
    "on": "the metrics above are recorded and sent; `off` ends that, `view` shows it.",
    "local": "the metrics above are recorded on this machine, and none of that is ever sent.",
    "off": "nothing is recorded, and what waited is not sent.",
}

NOT_KEPT: Final = "this could not be written down, so it stands as if nobody had been asked: the program may ask again."


def _chosen(setting: Setting, consent: Consent) -> dict[str, Any]:
    effective = setting.effective
    about = {"choice": str(consent.choice), "date": consent.date, "registry": consent.registry}
    return about | {"effective": str(effective.choice), "cause": effective.cause}


def _agreed(setting: Setting) -> bool:
    """Ask; return whether the person agreed."""
    if not (sys.stdin.isatty() and setting.out.isatty()):
        raise ParameterError("nobody can be asked here: nothing was recorded; to agree without being asked, give --yes")
    metrics = len(setting.registry)
    setting.out.write(f"Agree to {'this metric' if metrics == 1 else f'these {metrics} metrics'}? [y/N] ")
    setting.out.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def turn_all_off(found: Mapping[str, Setting], args: argparse.Namespace, out: TextIO) -> int:
    """Run `off --all`; return 2 where one of the applications could not be turned off."""
    from overstory.client.consent import consent as choices

    today, told, failed = datetime.now(UTC).date(), [], False
    for name, setting in found.items():
        try:
            choices.choose(setting.paths, setting.registry, "off", today)
        except (ConsentError, StateError) as error:
            failed = True
            told.append({"application": name, "error": str(error)})
        else:
            effective = setting.effective
            told.append({"application": name, "choice": "off", "effective": str(effective.choice)})
    if args.json:
        out.write(f"{json.dumps({'applications': told}, indent=2)}\n")
        return 2 if failed else 0
    lines = [f"{one['application']}: {one.get('error', f'off, from {today}')}" for one in told]
    out.writelines(f"{printable(line)}\n" for line in (*lines, ALL_OFF if found else NO_STATE))
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


def forget(setting: Setting, args: argparse.Namespace) -> int:
    """Run `forget`: say what it means, ask, and delete the whole state."""
    from overstory.client.state.lifecycle import erase

    there = setting.paths.folder.is_dir()
    if there and not args.yes:
        setting.say(f"state: {setting.paths.folder}", FORGETTING)
        if not sys.stdin.isatty():
            raise ParameterError("to forget without being asked, give --yes")
        setting.out.write("Type forget to go on: ")
        setting.out.flush()
        if sys.stdin.readline().strip() != "forget":
            setting.say("nothing was deleted")
            return 0
    erase(setting.paths)
    if args.json:
        setting.say_json({"folder": str(setting.paths.folder), "forgotten": there})
    else:
        setting.say(f"forgotten: {setting.paths.folder}" if there else f"nothing to forget in {setting.paths.folder}")
    return 0


def show_status(setting: Setting, args: argparse.Namespace) -> int:
    """Run `status`."""
    from overstory.client.person.status import read_status

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
    from overstory.client.person.status import read_status
    from overstory.presentation.streams import printable

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
    """Run `view`: in the terminal, as JSON, into a file, or as a page until Ctrl-C."""
    from overstory.client.person.document import tell
    from overstory.client.person.render import as_page, as_text

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
        from overstory.client.person.view_json import view_json

        setting.say_json(view_json(view))
    else:
        setting.out.write(as_text(tell(view, reports=args.reports)))
    return 0


def _look(setting: Setting, explain: Sequence[str]) -> View:
    """Read everything there is to see."""
    from overstory.client.errors import StateError
    from overstory.client.person.document import View
    from overstory.client.person.explanation import explain as explained
    from overstory.client.person.explanation import read_value
    from overstory.client.person.status import read_status
    from overstory.client.person.view import shown_metrics, shown_without_state
    from overstory.client.state.state import State

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
    from overstory.client.person.document import tell
    from overstory.client.person.render import as_page
    from overstory.client.person.server import LocalPage

    with LocalPage(lambda: as_page(tell(_look(setting, args.explain), reports=args.reports))) as server:
        setting.say(f"{server.url} (for this machine alone, until Ctrl-C)")
        setting.out.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
