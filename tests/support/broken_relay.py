"""Relays that are broken on purpose: `python broken_relay.py FAULT --gateway ...`."""

import sys


def forward_addresses():
    """Add the sender's address to what goes on, as any proxy would."""
    from overstory.client.upload.http import Request
    from overstory.relay.service import RelayService

    senders: list[str] = []
    answer, headers = RelayService.answer, Request.headers

    async def remember(self: RelayService, peer: str, *request):
        senders.append(peer)
        return await answer(self, peer, *request)

    RelayService.answer = remember  # type: ignore[method-assign]
    Request.headers = lambda self: headers(self) | {"X-Forwarded-For": senders[-1]}  # type: ignore[method-assign]


def keep_the_order():
    """Store and send messages in the order of their arrival."""
    from overstory.relay import shuffling
    from overstory.relay.spool import SlotFile

    SlotFile._draw = lambda self: self._free.pop(0)  # type: ignore[method-assign]
    shuffling.secrets.SystemRandom.shuffle = lambda *_: None  # type: ignore[assignment,misc]


FAULTS = {"addresses": forward_addresses, "order": keep_the_order}

if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    from overstory.cli.main import main

    sys.exit(main(["relay", *sys.argv[2:]]))
