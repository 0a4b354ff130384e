"""The commands that change something: on, local, off, off --all, forget."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

from overstory.client.applications import introduce
from overstory.client.errors import ConsentError, StateError
from overstory.client.output import printable
from overstory.client.setting import Setting
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.consent import Consent


def choose(choice: str, setting: Setting, args: argparse.Namespace) -> int:
    """Run `on`, `local` or `off`: show what is asked for, and record the choice, its date and what it is about.

    `on` asks first: nobody agrees to what is not read.

    Raises
    ------
    ParameterError
        When no registry says what is asked for, or nobody can be asked and ``--yes`` was not given.
    ConsentError, StateError
        When the choice cannot be written.
    """
    from overstory.client import consent as choices
    from overstory.client.asking import asked_of, question, question_json

    server, moved = getattr(args, "server", None), getattr(args, "moved", False)
    if choice != "off":
        _check_before_asking(choice, setting, args)
    today = datetime.now(UTC).date()
    asked = None if choice == "off" else asked_of(setting, server, today)
    if asked and not args.json:
        from overstory.client.terminal import as_text

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
        from overstory.client.upload import endpoint

        endpoint(args.server)  # says so where it is no address
    if choice == "on":
        from overstory.client.ownership import refuse_foreign
        from overstory.client.state import State

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
    """Ask; return whether the person agreed.

    Raises
    ------
    ParameterError
        When there is nobody to ask.
    """
    if not (sys.stdin.isatty() and setting.out.isatty()):
        raise ParameterError("nobody can be asked here: nothing was recorded; to agree without being asked, give --yes")
    metrics = len(setting.registry)
    setting.out.write(f"Agree to {'this metric' if metrics == 1 else f'these {metrics} metrics'}? [y/N] ")
    setting.out.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def turn_all_off(found: Mapping[str, Setting], args: argparse.Namespace, out: TextIO) -> int:
    """Run `off --all`; return 2 where one of the applications could not be turned off."""
    from overstory.client import consent as choices

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
    """Run `forget`: say what it means, ask, and delete the whole state.

    Raises
    ------
    ParameterError
        When nobody can be asked, and ``--yes`` was not given.
    StateError
        When something cannot be deleted.
    """
    from overstory.client.beginning import erase

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
