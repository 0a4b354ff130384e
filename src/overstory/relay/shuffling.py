"""Gathering messages on disk, and releasing many of them together, in an order drawn from the system."""

from __future__ import annotations

import asyncio
import math
import random
import secrets
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from overstory.client.upload.http import Request, Response, Transport, parse_object
from overstory.protocol.oblivious.formats import LENGTH_BYTES, RELEASE_TYPE, Release
from overstory.relay.service import BUSY_SECONDS, LOG, problem
from overstory.relay.spool import Rules, SlotFile, Spool, Taken
from overstory.supervision import answers
from overstory.supervision.upkeep import Task, full_pool, result_of

PATH: Final = "/v1/oblivious/release"
SECONDS: Final = 30.0
PART_MESSAGES: Final = 500
PART_BYTES: Final = 1 << 19  # messages and bytes of one part of a release, unless a single message is longer

MOST_ALONE: Final = 10
"""How often a message is sent alone that the collector answers with `again` or 413, or fails on; then it goes out."""

OUTAGE: Final = frozenset({None, 200, 401, 408, 429, 502, 503, 504})
"""Answers, or none, that say nothing of the message."""

TICK: Final = 1.0
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0
HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Shuffling:
    """What a relay needs to gather messages and to release them together."""

    spool: Path
    token: str = field(repr=False)  # the collector's, of the role `relay`
    rules: Rules = field(default_factory=Rules)
    capacity: int = 100_000  # slots of the spool: most messages take one


@dataclass(slots=True)
class _Sending:
    """How far a release is; slots are those of the first piece of a message."""

    left: array[int]  # to be sent in this pass, from the end
    later: array[int] = field(default_factory=partial(array, "I"))  # to be sent in the next one
    failed: dict[int, int] = field(default_factory=dict)  # how many were judged when a message failed first; of some
    finished: list[int] = field(default_factory=list)  # answered, and not removed from the disk yet
    counts: dict[str, int] = field(default_factory=dict)  # what became of them
    outcome: Counter[str] = field(default_factory=Counter)  # of all before
    passes: int = 0  # that have ended; after the first one, each message is sent alone
    failures: int = 0  # parts in a row that got no answer of a collector
    most: int = PART_MESSAGES  # messages of the next part
    ceiling: int = PART_MESSAGES  # messages of a part that is not too large


class Shuffler:
    """Stores messages and sends releases; its token has the role `relay`, and `trouble` is called with reasons."""

    def __init__(
        self, spool: Spool, gateway: str, token: str, transport: Transport, trouble: Callable[[str], None]
    ) -> None:
        self._spool, self._rules = spool, spool.rules
        self._url, self._token, self._transport, self._trouble = gateway + PATH, token, transport, trouble
        self._pending: list[tuple[bytes, bytes, asyncio.Future[Taken]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._thread = full_pool(1, "overstory-spool")
        self._sending: _Sending | None = None
        if spool.release is not None:
            LOG.info("release goes on: %s are left", _messages(len(spool.release[1].heads)))

    async def deliver(self, message: bytes, sender: bytes) -> answers.Response:
        stored: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._pending.append((message, sender, stored))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        try:
            taken = await stored
        except OSError as error:
            self._trouble(f"the spool cannot be written: {error.strerror or error}")
            return problem(503, "the relay cannot store messages at the moment", BUSY_SECONDS)
        if taken is Taken.FULL:
            self._trouble("the spool is full: raise capacity, or look why nothing is released")
            return problem(503, "the relay is full", BUSY_SECONDS)
        if taken is Taken.ENOUGH:
            seconds = math.ceil(min(HOUR, self._rules.every))
            return problem(429, "this address has sent enough for the next release", max(1, seconds))
        return answers.Response(202, b"")

    async def _commit(self) -> None:
        """Store what waits, again and again: each time all messages that came during the time before."""
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                try:
                    messages, senders = [message for message, _, _ in batch], [sender for _, sender, _ in batch]
                    outcomes = await result_of(self._thread.submit(self._spool.put, messages, senders))
                except Exception as error:  # noqa: BLE001 - whatever the disk reports, each sender gets an answer
                    reason = error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}")
                    for *_, stored in batch:
                        if not stored.done():
                            stored.set_exception(reason)
                else:
                    for (*_, stored), taken in zip(batch, outcomes, strict=True):
                        if not stored.done():
                            stored.set_result(taken)
        finally:
            self._committing = None

    @property
    def tasks(self) -> list[Task]:
        return [
            Task("release", TICK, 300.0, needed=True, thread="release", work=self.look),
            Task("touch", 10 * TICK, 300.0, needed=True, thread="release", work=self._spool.touch),
        ]

    def look(self) -> float | None:
        """Send a part of the release, begin one, or drop what has waited for too long; return when to look again."""
        self._spool.observe()
        if self._spool.release is None:
            self._sending = None
            if self._spool.enough and self._spool.age >= self._rules.every:
                self._seal()
            elif self._spool.may_drop:
                self._drop()
        if self._spool.release is None:
            return None
        identity, file = self._spool.release
        if self._sending is None:
            left = array("I", file.heads)
            secrets.SystemRandom().shuffle(left)
            self._sending = _Sending(left)
        return self._go_on(identity, file, self._sending)

    def _seal(self) -> None:
        self._spool.seal()
        if self._spool.release is not None:
            number, of_one = len(self._spool.release[1].heads), self._spool.release[1].most_of_one
            LOG.info(
                "release of %s begins: one address sent at most %s of them (%.1f%%), k addresses at most k times that",
                _messages(number),
                f"{of_one:,}",
                math.ceil(1000 * of_one / number) / 10,
            )

    def _drop(self) -> None:
        dropped = self._spool.drop()
        if dropped:
            LOG.warning(
                "dropped %s: fewer than %s have come since the last release, or too large a share may be of one "
                "address, and to release them would break the promise to those who sent them",
                _messages(dropped),
                f"{self._rules.least:,}",
            )

    def _go_on(self, identity: bytes, file: SlotFile, sending: _Sending) -> float:
        """Send one part, or end a pass; whatever fails, no message is left out and the next call goes on."""
        if sending.finished:
            self._spool.done(sending.finished, sending.counts)
            sending.finished, sending.counts = [], {}
        if sending.left:
            return self._send_part(identity, file, sending)
        if sending.later and sending.passes < MOST_ALONE:
            sending.passes += 1
            sending.left, sending.later = sending.later, array("I")
            return _pause_after(sending.passes)
        if sending.later:
            path = self._spool.set_aside(sending.later)
            LOG.error(
                "%s moved out to %s: the collector answered 'again' or 413 to each alone, or failed on it, %s times",
                _messages(len(sending.later)),
                path.name if path else "nowhere, as too much was moved out before",
                MOST_ALONE,
            )
        self._spool.finish()
        outcome = sending.outcome
        refused = {name.removeprefix("refused: "): n for name, n in outcome.items() if name != "taken"}
        reasons = "".join(f"; refused for {name}: {n:,}" for name, n in sorted(refused.items()))
        LOG.info("release is complete: the collector took %s%s", _messages(outcome["taken"]), reasons)
        return 0.0

    def _send_part(self, identity: bytes, file: SlotFile, sending: _Sending) -> float:
        """Send the next messages; those that are to be sent again come alone, after all others."""
        looked, heads, messages = _next_part(file, sending.left, 1 if sending.passes else sending.most)
        if not messages:  # all that was left is damaged
            del sending.left[-looked:]
            return 0.0
        request = Request(self._url, Release(identity, tuple(messages)).encode(), RELEASE_TYPE, self._token, SECONDS)
        response = self._transport(request)
        if response.status == 413 and len(messages) > 1:
            sending.most = sending.ceiling = len(messages) // 2
            return 0.0
        unwanted = response.status == 413 or _fails_on(response, heads, sending)
        judged = ({0}, {}) if unwanted else _read_outcome(response, len(messages))
        if judged is None:
            for head in heads[: PART_MESSAGES - len(sending.failed)]:
                sending.failed.setdefault(head, sending.outcome.total())
            self._trouble(response.error or f"the collector answered a part of a release with {response.status}")
            sending.left[0:0] = array("I", heads)
            del sending.left[-looked:]  # last: what has no memory before it loses no message
            sending.failures += 1
            if sending.failures > 3:  # one message may be the cause: the others do not wait for it
                sending.most = max(1, len(messages) // 2)
            return _pause_after(sending.failures)
        again, sending.counts = judged
        sending.finished = [head for place, head in enumerate(heads) if place not in again]
        for head in sending.finished:
            sending.failed.pop(head, None)
        sending.later.extend([heads[place] for place in sorted(again)])
        del sending.left[-looked:]
        sending.outcome.update(sending.counts)
        sending.failures, sending.most = 0, min(sending.ceiling, 2 * sending.most)
        return _pause_after(1) if again and not sending.passes else 0.0

    def describe(self) -> dict[str, Any]:
        release = self._spool.release
        return {
            "mode": "shuffle",
            "waiting": self._spool.count,
            "least": self._rules.least,
            "of_one_address": self._spool.most_of_one,
            "releasing": release is not None,
            "totals": dict(self._spool.totals),
        }


def _next_part(file: SlotFile, left: array[int], most: int) -> tuple[int, list[int], list[bytes]]:
    """Return the next messages of a release, from the end of `left`: how many were looked at, slots, messages."""
    heads: list[int] = []
    messages: list[bytes] = []
    looked = size = 0
    for head in reversed(left):
        message = file.read(head) if len(messages) < most else b""
        size += LENGTH_BYTES + len(message or b"")
        if len(messages) == most or (messages and size > PART_BYTES):
            break
        looked += 1
        if message is None:  # damaged since it was acknowledged: the disk has failed
            LOG.error("a message in the spool is damaged and cannot be sent")
            continue
        heads.append(head)
        messages.append(message)
    return looked, heads, messages


def _fails_on(response: Response, heads: list[int], sending: _Sending) -> bool:
    """Whether a collector fails on one message and no other: since it did first, it has judged others."""
    judged = sending.outcome.total()
    return len(heads) == 1 and response.status not in OUTAGE and sending.failed.get(heads[0], judged) < judged


def _read_outcome(response: Response, sent: int) -> tuple[set[int], dict[str, int]] | None:
    """Return which messages are to be sent again, and how many others are what; None where that cannot be true."""
    content = parse_object(response) if response.status == 200 else None
    taken, refused, again = (None if content is None else content.get(name) for name in ("taken", "refused", "again"))
    if not isinstance(taken, int) or not isinstance(refused, dict) or not isinstance(again, list):
        return None
    if not all(isinstance(place, int) and 0 <= place < sent for place in again):
        return None
    counts = {f"refused: {str(reason)[:60]}": n for reason, n in refused.items() if isinstance(n, int)}
    counts["taken"] = taken
    if min(counts.values()) < 0 or sum(counts.values()) > sent:
        return None
    return set(again), counts


def _pause_after(failures: int) -> float:
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - against retries in step, not against guessing


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number:,} messages"
