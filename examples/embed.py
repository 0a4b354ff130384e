"""A notes program that embeds the client: it asks the person, records the theme, and says what happened.

Run `python examples/embed.py`, and answer the question. With `--server https://...` (and `--token`) the report is sent
to that collector; without a server it waits on this machine. Once a year the registry asks a device, in a week of its
own: in all other weeks `record` returns `unasked`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from overstory.client import Client

REGISTRY = Path(__file__).with_name("notes.toml")
QUESTION = """\
This program would like to report which theme you use, with noise that is added on this machine.
`overstory view` shows every byte. Your choice (on: report; local: only record; off): """


def main() -> None:
    """Ask once, record once, and print the state of the outbox."""
    args = arguments()
    with Client("example-notes", registry=REGISTRY, server=args.server, token=args.token, state=args.state) as client:
        if not client.effective.asked:
            client.consent(answer())
        print("record:", client.record("theme", args.theme))
        client.flush()
        print("outbox:", dict(client.status().outbox))


def answer() -> str:
    """Ask; whatever is no clear answer, or nobody there to give one, is a no."""
    try:
        said = input(QUESTION).strip().lower()
    except EOFError:
        said = ""
    return said if said in {"on", "local"} else "off"


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--theme", default="dark", help="the value to record")
    parser.add_argument("--server", help="the collector's address")
    parser.add_argument("--token", default="", help="the application's write token")
    parser.add_argument("--state", help="the folder of the state (default: the platform's)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
