"""The folder of a shuffling relay: the messages that wait, those of the release that is being sent, and totals.

lock                 held by the relay that uses the folder
waiting.slots        messages that wait
release-<id>.slots   the messages of one release: the rename from waiting.slots makes its id durable before it leaves
next.slots           an empty file that becomes waiting.slots
totals.json          how many messages were released, taken, refused and dropped, since the folder was made
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final

from overstory.client.outcomes import StateError
from overstory.client.state.files import locked, make_folder, sync_folder, write_atomically
from overstory.protocol.errors import OverstoryError
from overstory.protocol.oblivious.release import ID_BYTES
from overstory.relay.slots import SlotFile

WAITING: Final = "waiting.slots"
NEXT: Final = "next.slots"
TOTALS: Final = "totals.json"
RELEASE: Final = "release-{}.slots"


class SpoolError(OverstoryError):
    """A spool that cannot be used."""


class Spool:
    """The messages of one shuffling relay; its methods may be called from several threads.

    Parameters
    ----------
    folder
        Made if need be, closed to other users.
    capacity
        Slots of each new file: most messages take one.
    clock
        Seconds since 1970.

    Attributes
    ----------
    release
        The id and the messages of the release that is being sent; None when there is none.
    """

    def __init__(self, folder: Path, capacity: int, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.capacity, self._clock = folder, capacity, clock
        self.release: tuple[bytes, SlotFile] | None = None
        self._busy = Lock()
        self._opened = ExitStack()
        with ExitStack() as opening:
            make_folder(folder)
            try:
                opening.enter_context(locked(folder / "lock", 0.0))
            except StateError:
                raise SpoolError(
                    f"{folder}: another relay uses this spool: stop it, or give this one a --spool of its own"
                ) from None
            for left in folder.glob(f"{TOTALS}.*.new"):  # of a relay that was killed
                left.unlink()
            self._waiting = self._open_waiting()
            opening.callback(self._close_files)
            self.release = self._open_release()
            self._totals = Counter(self._read_totals())
            self._opened = opening.pop_all()

    def _open_waiting(self) -> SlotFile:
        waiting, fresh = self.folder / WAITING, self.folder / NEXT
        if not waiting.exists():  # it has just become a release, or the folder is new
            SlotFile.create(fresh, self.capacity, self._now())
            fresh.rename(waiting)
            sync_folder(self.folder)
        fresh.unlink(missing_ok=True)
        file = SlotFile(waiting)
        now = self._now()  # a clock that was ahead must not keep messages back
        file.began, file.since = min(file.began, now), min(file.since, now)
        return file

    def _open_release(self) -> tuple[bytes, SlotFile] | None:
        paths = sorted(self.folder.glob(RELEASE.format("*")))
        if not paths:
            return None
        digits = paths[0].name.removeprefix("release-").removesuffix(".slots")
        if len(paths) > 1 or len(digits) != 2 * ID_BYTES:
            names = ", ".join(path.name for path in paths)
            raise SpoolError(f"{self.folder}: there is one release at a time, and here are {names}: keep one of them")
        return bytes.fromhex(digits), SlotFile(paths[0])

    def _now(self) -> int:
        return int(self._clock())

    @property
    def count(self) -> int:
        """How many messages wait for the next release."""
        return len(self._waiting.heads)

    @property
    def age(self) -> float:
        """Seconds since the last release, since messages were dropped, or since the folder was made."""
        return max(0.0, self._clock() - self._waiting.began)

    @property
    def waited(self) -> float:
        """Seconds that the messages are taken to have waited: no message that waits came earlier."""
        return max(0.0, self._clock() - self._waiting.since)

    @property
    def totals(self) -> Mapping[str, int]:
        """Counts since the folder was made; after a crash the answers to one part may be counted twice."""
        return dict(self._totals)

    def put(self, messages: Sequence[bytes], step: float = math.inf) -> list[bool]:
        """Write messages, and wait until they are on the disk; return of each whether there was room.

        Parameters
        ----------
        step
            Whole seconds. If nothing waits, `waited` becomes less than this. The time from which it counts moves on by
            multiples of it: the moment at which the first message came would be written otherwise.
        """
        with self._busy:
            if not self.count and self.waited >= step:
                self._waiting.count_from(self._waiting.since + int(self.waited // step * step))
            return self._waiting.add(messages)

    def seal(self) -> None:
        """Make a release of all messages that wait: its id is durable when this returns."""
        waiting, fresh = self.folder / WAITING, self.folder / NEXT
        SlotFile.create(fresh, self.capacity, self._now())  # this takes a while, and messages may come meanwhile
        with self._busy:
            if self.release is not None:
                raise SpoolError(f"{self.folder}: a release is being sent")
            identity = secrets.token_bytes(ID_BYTES)
            sealed = self.folder / RELEASE.format(identity.hex())
            waiting.rename(sealed)
            sync_folder(self.folder)
            fresh.rename(waiting)
            sync_folder(self.folder)
            released, self._waiting = self._waiting, SlotFile(waiting)
            released.path = sealed
            self.release = identity, released

    def done(self, heads: Sequence[int], outcome: Mapping[str, int]) -> None:
        """Count how the collector answered a part of the release, and remove what needs no sending any more."""
        with self._busy:
            assert self.release is not None
            self._count(outcome)
            self.release[1].wipe(heads)

    def finish(self) -> None:
        """Remove the release, all messages of which are done."""
        with self._busy:
            assert self.release is not None
            (_, file), self.release = self.release, None
            file.close()
            file.path.unlink()
            sync_folder(self.folder)
            self._count({"releases": 1})

    def drop(self, least: int) -> int:
        """Remove all messages that wait, unless there are `least` by now, and return how many were removed."""
        with self._busy:
            dropped = self.count
            if dropped >= least:
                return 0
            self._count({"dropped": dropped})
            self._waiting.restart(self._now())
            return dropped

    def touch(self) -> None:
        """Change the times of the waiting messages' file."""
        with self._busy:
            self._waiting.touch()

    def close(self) -> None:
        """Close the files, and let another relay use the folder."""
        with self._busy:
            self._opened.close()

    def _close_files(self) -> None:
        self._waiting.close()
        if self.release is not None:
            self.release[1].close()

    def _count(self, outcome: Mapping[str, int]) -> None:
        self._totals.update(outcome)
        with suppress(OSError):  # counts are no reason to stop
            text = json.dumps({name: n for name, n in sorted(self._totals.items()) if n}, indent=1)
            write_atomically(self.folder / TOTALS, text.encode(), durable=False)

    def _read_totals(self) -> dict[str, int]:
        try:
            content: Any = json.loads((self.folder / TOTALS).read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        usable = isinstance(content, dict) and all(isinstance(n, int) for n in content.values())
        return content if usable else {}
