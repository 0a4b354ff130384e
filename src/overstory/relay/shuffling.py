"""Gathering messages on disk, and releasing many of them together, in an order drawn from the system."""

from __future__ import annotations

import asyncio
import random
import secrets
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from overstory.client.upload.http import Request, Response, Transport, parse_object
from overstory.protocol.oblivious.release import LENGTH_BYTES, RELEASE_TYPE, Release
from overstory.relay.connection import Answer, problem
from overstory.relay.service import BUSY_SECONDS, LOG
from overstory.relay.slots import SlotFile
from overstory.relay.spool import Spool

PATH: Final = "/v1/oblivious/release"
SECONDS: Final = 30.0
PART_MESSAGES: Final = 500
PART_BYTES: Final = 1 << 19
"""Messages and bytes of one part of a release, unless a single message is longer."""

TICK: Final = 1.0
TOUCH_TICKS: Final = 10
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 300.0


@dataclass(frozen=True, slots=True)
class Rules:
    """When messages are released: when `least` wait and `every` seconds have passed since the last release.

    Attributes
    ----------
    at_most
        Seconds after the last release at which messages are dropped, if fewer than `least` have come: a smaller release
        would break the promise, and the collector no longer takes reports of periods that ended long ago. While nothing
        waits, that time moves on in steps of half of this: the first message after a silence has at least half of it.
    """

    least: int = 1000
    every: float = 86400.0
    at_most: float = 30 * 86400.0


class Shuffler:
    """Stores messages, and sends releases until it is stopped.

    Parameters
    ----------
    gateway, token
        The collector's address without the path, and its token of the role `relay`.
    trouble
        Is called with a reason when something could not be stored or sent.
    """

    def __init__(
        self,
        spool: Spool,
        rules: Rules,
        gateway: str,
        token: str,
        transport: Transport,
        trouble: Callable[[str], None],
        tick: float = TICK,
    ) -> None:
        self._spool, self._rules, self._tick = spool, rules, tick
        self._url, self._token, self._transport, self._trouble = gateway + PATH, token, transport, trouble
        self._pending: list[tuple[bytes, asyncio.Future[bool]]] = []
        self._committing: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._part_messages = PART_MESSAGES

    async def deliver(self, message: bytes) -> Answer:
        """Store a message, and answer 202 once it is on the disk."""
        stored: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._pending.append((message, stored))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit())
        try:
            if await stored:
                return Answer(202)
        except OSError as error:
            self._trouble(f"the spool cannot be written: {error.strerror or error}")
            return problem(503, "the relay cannot store messages at the moment", BUSY_SECONDS)
        self._trouble("the spool is full: raise --capacity, or look why nothing is released")
        return problem(503, "the relay is full", BUSY_SECONDS)

    async def _commit(self) -> None:
        """Store what waits, again and again: each time all messages that came during the time before."""
        try:
            while self._pending:
                batch, self._pending = self._pending, []
                try:
                    messages = [message for message, _ in batch]
                    fitting = await asyncio.to_thread(self._spool.put, messages, self._rules.at_most // 2)
                except Exception as error:  # noqa: BLE001 - whatever the disk reports, each sender gets an answer
                    reason = error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}")
                    for _, stored in batch:
                        if not stored.done():
                            stored.set_exception(reason)
                else:
                    for (_, stored), fits in zip(batch, fitting, strict=True):
                        if not stored.done():
                            stored.set_result(fits)
        finally:
            self._committing = None

    def stop(self) -> None:
        """Let `run` end after the part that is being sent."""
        self._stopping.set()

    async def run(self) -> None:
        """Release, drop and touch until `stop`."""
        ticks = 0
        while not self._stopping.is_set():
            try:
                await self._look()
                if ticks % TOUCH_TICKS == 0:
                    await asyncio.to_thread(self._spool.touch)
            except OSError as error:
                self._trouble(f"the spool cannot be used: {error.strerror or error}")
            ticks += 1
            await self._pause(self._tick)

    async def _look(self) -> None:
        """Go on with a release, begin one, or drop what has waited for too long."""
        if self._spool.release is None:
            if self._spool.count >= self._rules.least and self._spool.age >= self._rules.every:
                await asyncio.to_thread(self._spool.seal)
            elif 0 < self._spool.count < self._rules.least and self._spool.waited >= self._rules.at_most:
                await self._drop()
        if self._spool.release is not None:
            await self._send_release(*self._spool.release)

    async def _drop(self) -> None:
        dropped = await asyncio.to_thread(self._spool.drop, self._rules.least)
        if dropped:
            LOG.warning(
                "dropped %s: fewer than %s have come since the last release, and a smaller release would break the "
                "promise to those who sent them",
                _messages(dropped),
                f"{self._rules.least:,}",
            )

    async def _send_release(self, identity: bytes, file: SlotFile) -> None:
        """Send all messages of a release, in a new random order after each start, until they are done."""
        left = array("I", file.heads)
        await asyncio.to_thread(secrets.SystemRandom().shuffle, left)
        LOG.info("release of %s begins", _messages(len(left)))
        outcome, failures = Counter[str](), 0
        while left and not self._stopping.is_set():
            heads, messages = await asyncio.to_thread(_take_part, file, left, self._part_messages)
            part = Release(identity, tuple(messages))
            response = await self._send(part)
            again, counts = self._judge(response, len(messages))
            waiting = set(again)
            left[0:0] = array("I", (heads[number] for number in again))  # after all others: parts are taken at the end
            finished = [head for number, head in enumerate(heads) if number not in waiting]
            failures = 0 if finished else failures + 1
            if finished:
                outcome.update(counts)
                await asyncio.to_thread(self._spool.done, finished, counts)
            if again:
                await self._pause(_pause_after(max(1, failures)))
        if not left:
            await asyncio.to_thread(self._spool.finish)
            refused = {name.removeprefix("refused: "): n for name, n in outcome.items() if name != "taken"}
            reasons = "".join(f"; refused for {name}: {n:,}" for name, n in sorted(refused.items()))
            LOG.info("release is complete: the collector took %s%s", _messages(outcome["taken"]), reasons)

    async def _send(self, part: Release) -> Response:
        if not part.messages:  # all that was left is damaged
            return Response(200, {}, b'{"taken": 0, "refused": {}, "again": []}')
        request = Request(self._url, part.encode(), RELEASE_TYPE, self._token, SECONDS)
        return await asyncio.to_thread(self._transport, request)

    def _judge(self, response: Response, sent: int) -> tuple[list[int], dict[str, int]]:
        """Return which messages of a part are to be sent again, and how the others are counted."""
        if response.status == 413 and sent > 1:
            self._part_messages = max(1, sent // 2)
        parsed = parse_object(response) if response.status == 200 else None
        read = None if parsed is None else _read_outcome(parsed, sent)
        if read is None:
            self._trouble(response.error or f"the collector answered a part of a release with {response.status}")
            return list(range(sent)), {}
        return read

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def describe(self) -> dict[str, Any]:
        """Return facts of ``/healthz``."""
        release = self._spool.release
        return {
            "mode": "shuffle",
            "waiting": self._spool.count,
            "least": self._rules.least,
            "releasing": release is not None,
            "totals": dict(self._spool.totals),
        }


def _take_part(file: SlotFile, left: array[int], most: int) -> tuple[list[int], list[bytes]]:
    """Take the next messages of a release from the end of `left`; return their slots, and the messages."""
    heads: list[int] = []
    messages: list[bytes] = []
    size = 0
    while left and len(messages) < most:
        message = file.read(left[-1])
        if message is None:  # damaged since it was acknowledged: the disk has failed
            LOG.error("a message in the spool is damaged and cannot be sent")
            left.pop()
            continue
        size += LENGTH_BYTES + len(message)
        if messages and size > PART_BYTES:
            break
        heads.append(left.pop())
        messages.append(message)
    return heads, messages


def _read_outcome(content: dict[str, Any], sent: int) -> tuple[list[int], dict[str, int]] | None:
    taken, refused, again = (content.get(name) for name in ("taken", "refused", "again"))
    if not isinstance(taken, int) or not isinstance(refused, dict) or not isinstance(again, list):
        return None
    if not all(isinstance(index, int) and 0 <= index < sent for index in again):
        return None
    counts = {f"refused: {str(reason)[:60]}": n for reason, n in refused.items() if isinstance(n, int)}
    return sorted(set(again)), {"taken": taken} | counts


def _pause_after(failures: int) -> float:
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (failures - 1))
    return longest * random.uniform(0.5, 1.0)  # noqa: S311 - against retries in step, not against guessing


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number:,} messages"
