"""The person's commands: on, local, off, forget, status, view. For `python -m overstory.client` and for `overstory`.

A program that embeds the client can offer them as its own: ``main(argv, app="editor", registry=registry)``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from overstory.client.outcomes import ConsentError, StateError
from overstory.client.person.command_line import add_commands
from overstory.client.state.files import (
    NOT_LEFT,
    StatePaths,
    applications,
    introduce,
    is_state,
    left_registry,
    policy_file,
    read_application,
    refuse_foreign,
    state_folder,
    states_folder,
)
from overstory.presentation.formats import PIPE_CLOSED, close_quietly, printable, write_anything
from overstory.protocol.errors import FormatError, OverstoryError, ParameterError

if TYPE_CHECKING:
    from overstory.client.consent import EffectiveChoice
    from overstory.client.person.status import Status
    from overstory.protocol.metrics import MetricRegistry


BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


@dataclass(frozen=True)
class CommandContext:
    """The application of one command, its state and its registry."""

    name: str | None  # the application; None where neither the person nor the state names it
    paths: StatePaths  # the state
    registry: MetricRegistry  # the metrics; empty where none were given and the program stored none
    environ: Mapping[str, str]  # the environment
    no_registry: str | None = None  # why there is no registry; None where there is one

    @property
    def effective(self) -> EffectiveChoice:
        from overstory.client.consent import effective

        return effective(self.paths, self.environ, policy_file(self.environ))


def run(
    args: argparse.Namespace,
    *,
    registry: MetricRegistry | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run the command that was parsed; return the exit status."""
    where = os.environ if environ is None else environ
    given = _given_registry(args, registry)
    of_all = getattr(args, "all", False)
    for name in ("app", "registry") if of_all else ():
        if getattr(args, name, None) is not None:
            raise ParameterError(f"--all is every application: leave --{name} out")
    chosen = None if of_all else _chosen(args, where, begins=given is not None)
    if chosen is None and getattr(args, "details", False):
        raise ParameterError("--details is of one application: give --app NAME")
    if chosen is None:
        states = applications(where)
        contexts = {name: _command_context(name, paths, given, where) for name, paths in states.items()}
        if args.command == "off":
            return turn_all_off(contexts, args)
        show_all(contexts, args)
        return 0
    if args.json and getattr(args, "details", False):
        raise ParameterError("--details is of the text, and JSON has them: leave it out with --json")
    context = _command_context(*chosen, given, where)
    if args.app is None and not args.json:
        say(f"application: {context.name or context.paths.folder}")
    {"status": show_status, "view": show_view, "forget": forget}.get(args.command, choose)(context, args)
    return 0


def main(
    argv: Sequence[str] | None = None,
    *,
    app: str | None = None,
    registry: MetricRegistry | None = None,
    prog: str = "python -m overstory.client",
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run one command and return the exit status: 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(prog=prog, description="See what leaves this machine, and decide.")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    add_commands(subparsers, prog, app=app, embedded=registry is not None)
    write_anything()
    try:
        status = run(parser.parse_args(argv), registry=registry, environ=environ)
        sys.stdout.flush()
    except SystemExit as leaving:
        return int(leaving.code or 0)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        close_quietly()
        return PIPE_CLOSED
    except OverstoryError as error:
        sys.stderr.write(f"{prog}: error: {error}\n")
    except OSError as error:
        named = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        sys.stderr.write(f"{prog}: error: {named}{error.strerror or error}\n")
    else:
        return status
    return BAD_INPUT


def say(*lines: str) -> None:
    """Write lines, without terminal control characters."""
    sys.stdout.writelines(f"{printable(line)}\n" for line in lines)


def say_json(content: Any) -> None:
    """Write JSON values."""
    sys.stdout.write(f"{json.dumps(content, indent=2, allow_nan=False)}\n")


def _chosen(
    args: argparse.Namespace, environ: Mapping[str, str], *, begins: bool
) -> tuple[str | None, StatePaths] | None:
    """Return the application that is meant, and its state; None where a table of all is."""
    may_begin = begins and args.command not in {"off", "forget", "status"}
    if args.app is not None and {"/", os.sep}.intersection(args.app):
        paths = StatePaths(Path(args.app))
        if not (begins or args.command == "forget" or is_state(paths)):
            raise ParameterError(f"{paths.folder}: there is no state here{_how_to_begin(args)}")
        return args.own_app or read_application(paths).name, paths
    if args.app is not None:
        paths = StatePaths(state_folder(args.app, environ))
        name = read_application(paths).name if environ.get("OVERSTORY_STATE") else None
        if args.app != args.own_app and not (may_begin or (is_state(paths) and name in {None, args.app})):
            here = ", ".join(applications(environ))
            others = f"there are: {here}" if here else "and no other has one"
            raise ParameterError(f"no application {args.app!r} has a state here{_how_to_begin(args)}; {others}")
        return args.app, paths
    states = applications(environ)
    if len(states) == 1:
        return next(iter(states.items()))
    if args.command == "status" and not begins:
        return None
    if not states:
        folder = environ.get("OVERSTORY_STATE") or states_folder(environ)
        raise ParameterError(
            f"no application has a state here, in {folder}; where a program keeps its own elsewhere, give "
            "--app ./FOLDER"
        )
    raise ParameterError(f"Which application? Use --app NAME (here: {', '.join(states)}).")


def _how_to_begin(args: argparse.Namespace) -> str:
    return " (give --registry FILE to begin one)" if args.command in {"on", "local"} else ""


def _command_context(
    name: str | None, paths: StatePaths, given: MetricRegistry | None, environ: Mapping[str, str]
) -> CommandContext:
    """Return what a command works on: with the registry that was given, or the one that the program left."""
    from overstory.protocol.metrics import MetricRegistry

    if given is not None:
        return CommandContext(name, paths, given, environ)
    missing: str | None = None
    registry = MetricRegistry({}, "")
    try:
        registry = left_registry(paths)
    except (FormatError, StateError) as error:
        missing = str(error)
    return CommandContext(name, paths, registry, environ, missing or (None if registry else NOT_LEFT))


def _given_registry(args: argparse.Namespace, embedded: MetricRegistry | None) -> MetricRegistry | None:
    from overstory.protocol.metrics import RegistryError, load_registry

    if embedded is not None or getattr(args, "registry", None) is None:
        return embedded
    registry = load_registry(args.registry, read_candidates=False)
    if args.command == "view":
        # What a program ships may lack its candidate files: a device has no use for them.
        with contextlib.suppress(RegistryError):
            registry = load_registry(args.registry)
    return registry


def choose(context: CommandContext, args: argparse.Namespace) -> None:
    """Run `on` (which shows the metrics and asks first), `local` or `off`: store the choice, its date and metrics."""
    from overstory.client.consent import choose as store_choice
    from overstory.client.person.view import asked_of, first_screen, question, question_json

    choice: str = args.command
    server, moved = getattr(args, "server", None), getattr(args, "moved", False)
    details = getattr(args, "details", False)
    today = datetime.now(UTC).date()
    asked = None
    if choice != "off":
        _check_before_asking(choice, context, args)
        asked = asked_of(context.paths, context.registry, server, today)
    if asked and not args.json:
        from overstory.presentation.render_text import as_text

        sys.stdout.write(as_text(question(asked) if details else first_screen(asked, MORE[choice])))
        say(*[""] * details)
    if choice == "on" and not args.yes and not _agreed(context):
        say("not agreed: nothing has changed; `off` is an answer that lasts, also to what is asked for later")
        return
    shown = None if asked is None else asked.server
    consent = store_choice(context.paths, context.registry, choice, today, server=shown, moved=moved)
    if choice != "off":
        with contextlib.suppress(OSError, StateError):  # the commands after this one would need the file again
            introduce(context.paths, context.name, context.registry, None)
    effective = context.effective
    if args.json:
        about = {"choice": str(consent.choice), "date": consent.date, "registry": consent.registry}
        about |= {"effective": str(effective.choice), "cause": effective.cause}
        say_json(about | (question_json(asked) if asked else {"metrics": []}))
        return
    say(f"{choice}, from {consent.date}: {CHOSEN[choice]}")
    if not effective.asked:
        say(NOT_KEPT)
    elif str(effective.choice) != choice:
        say(f"all the same it is {effective.choice} now: {effective.cause}")


def _check_before_asking(choice: str, context: CommandContext, args: argparse.Namespace) -> None:
    """Raise for a choice that could not be asked for or stored, before the person reads the question."""
    if not context.registry:
        raise ParameterError(f"what is asked for? {context.no_registry or 'the registry lists no metric'}")
    if choice == "on":
        if args.server is not None:
            from overstory.client.upload.http import endpoint

            endpoint(args.server)  # says so where it is no address
        from overstory.client.state.state import State

        if args.json and not args.yes:
            raise ParameterError("to agree without being asked, as with --json, give --yes")
        refuse_foreign(context.paths)
        if not args.moved:
            State(context.paths).check_machine()


CHOSEN: Final = {
    "on": "what was asked for is recorded and sent; `off` ends that, `view` shows it.",
    "local": "what was asked for is recorded on this machine, and none of that is ever sent.",
    "off": "nothing is recorded, and what waited is not sent.",
}

MORE: Final = {"on": "--details", "local": "`view`"}

NOT_KEPT: Final = "this could not be written down, so it stands as if nobody had been asked: the program may ask again."


def _agreed(context: CommandContext) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ParameterError("nobody can be asked here: nothing was recorded; to agree without being asked, give --yes")
    metrics = len(context.registry)
    sys.stdout.write(f"Agree to {'this metric' if metrics == 1 else f'these {metrics} metrics'}? [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def turn_all_off(contexts: Mapping[str, CommandContext], args: argparse.Namespace) -> int:
    """Run `off --all`; return 2 where one of the applications could not be turned off."""
    from overstory.client.consent import choose as store_choice

    today, results, failed = datetime.now(UTC).date(), [], False
    for name, context in contexts.items():
        try:
            store_choice(context.paths, context.registry, "off", today)
        except (ConsentError, StateError) as error:
            failed = True
            results.append({"application": name, "error": str(error)})
        else:
            effective = context.effective
            results.append({"application": name, "choice": "off", "effective": str(effective.choice)})
    if args.json:
        say_json({"applications": results})
        return 2 if failed else 0
    lines = [f"{result['application']}: {result.get('error', f'off, from {today}')}" for result in results]
    say(*lines, ALL_OFF if contexts else NO_STATE)
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


def forget(context: CommandContext, args: argparse.Namespace) -> None:
    """Run `forget`: say what it means, ask, and delete the whole state."""
    from overstory.client.state.state import erase

    there = context.paths.folder.is_dir()
    if there and not args.yes:
        say(f"state: {context.paths.folder}", FORGETTING)
        if not sys.stdin.isatty():
            raise ParameterError("to forget without being asked, give --yes")
        sys.stdout.write("Type forget to go on: ")
        sys.stdout.flush()
        if sys.stdin.readline().strip() != "forget":
            say("nothing was deleted")
            return
    erase(context.paths)
    if args.json:
        say_json({"folder": str(context.paths.folder), "forgotten": there})
    else:
        say(f"forgotten: {context.paths.folder}" if there else f"nothing to forget in {context.paths.folder}")


def show_status(context: CommandContext, args: argparse.Namespace) -> None:
    """Run `status`."""
    status = _status(context)
    if args.json:
        say_json({"application": context.name} | status.to_json())
    else:
        from overstory.presentation.document import Lines
        from overstory.presentation.render_text import UNFOLDED, as_text

        texts = [*status.words(), *status.costs()] if args.details else status.first_words()
        sys.stdout.write(as_text([Lines(*texts)], UNFOLDED if args.details else None))


def _status(context: CommandContext) -> Status:
    from overstory.client.person.status import read_status

    status = read_status(context.paths, context.registry, context.effective, now=time.time())
    if context.no_registry in {None, status.problem}:
        return status
    return replace(status, notes=(*status.notes, str(context.no_registry)))


def show_all(contexts: Mapping[str, CommandContext], args: argparse.Namespace) -> None:
    """Run `status` for all applications: a line each, and what is wrong with any of them."""
    from overstory.presentation.document import Lines, Paragraph, Table
    from overstory.presentation.render_text import UNFOLDED, as_text

    read = {name: _status(context) for name, context in contexts.items()}
    if args.json:
        say_json({"applications": [{"application": name} | status.to_json() for name, status in read.items()]})
    elif not read:
        say("no application of yours has a state here: nothing is recorded, and nothing is sent")
    else:
        headings = ("application", "now", "waiting", "sent", "because of")
        table = Table.of_cells("", headings, [(name, *status.row()) for name, status in read.items()], left=headings)
        troubles = [f"{name}: {line}" for name, status in read.items() for line in status.troubles()]
        more = "more about one: status --app NAME; all of them off: off --all"
        sys.stdout.write(as_text([table, *([Lines(*troubles)] if troubles else []), Paragraph(more)], UNFOLDED))


def show_view(context: CommandContext, args: argparse.Namespace) -> None:
    """Run `view`: in the terminal, as JSON, or as a page in a file."""
    from overstory.client.person.view import View, build, view_json, view_metrics
    from overstory.client.state.state import State
    from overstory.presentation.render_html import as_page
    from overstory.presentation.render_text import as_text

    if args.json and args.html:
        raise ParameterError("--json and --html are two ways to show it: give one")
    status = _status(context)
    try:
        with State(context.paths).snapshot() as rows:
            metrics = view_metrics(rows, context.registry)
    except StateError:  # the status says why, where there is one
        metrics = view_metrics(None, context.registry)
    view = View(context.name, status, metrics, context.registry.oblivious)
    if args.html:
        page = as_page(build(view), contents=True)
        Path(args.html).write_text(page, encoding="utf-8")
        say(f"written: {args.html}")
    elif args.json:
        say_json(view_json(view))
    else:
        sys.stdout.write(as_text(build(view)))
