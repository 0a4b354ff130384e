"""The commands that change something: on, local, off, forget."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from overstory.client.setting import Setting
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.client.consent import Consent


def choose(choice: str, setting: Setting, args: argparse.Namespace) -> int:
    """Run `on`, `local` or `off`: show what is asked for, and record the choice, its date and what it is about.

    Raises
    ------
    ParameterError
        When no registry says what is asked for.
    ConsentError, StateError
        When the choice cannot be written.
    """
    from overstory.client import consent as choices
    from overstory.client.asking import asked_of, question, question_json

    if choice != "off" and not setting.registry:
        raise ParameterError("what is asked for? give --registry FILE, the metrics that the application was built with")
    server = getattr(args, "server", None)
    if server is not None:
        from overstory.client.upload import endpoint

        endpoint(server)  # says so where it is no address
    today = datetime.now(UTC).date()
    asked = None if choice == "off" else asked_of(setting, server, today)
    moved = getattr(args, "moved", False)
    consent = choices.choose(setting.paths, setting.registry, choice, today, server=server, moved=moved)
    if args.json:
        setting.say_json(_chosen(setting, consent) | (question_json(asked) if asked else {"metrics": []}))
        return 0
    if asked:
        from overstory.client.terminal import as_text

        setting.out.write(as_text(question(asked)))
        setting.say("")
    setting.say(f"{choice}, from {consent.date}: {CHOSEN[choice]}")
    effective = setting.effective
    if not effective.asked:
        setting.say(NOT_KEPT)
    elif str(effective.choice) != choice:
        setting.say(f"all the same it is {effective.choice} now: {effective.cause}")
    return 0


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


FORGETTING: Final = (
    "This deletes the secret of this device, every permanent response, what waits, the ledger and your choice. "
    "What was sent stays known, and is not made any weaker: the next report comes as from another device, with fresh "
    "permanent responses, so the privacy loss starts again beside the earlier one."
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
