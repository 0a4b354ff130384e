"""A network that misbehaves: between devices and collectors, requests and answers get lost, late and doubled.

It speaks just enough HTTP to know where a request ends; what it forwards it forwards byte for byte.
"""

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

Address = tuple[str, int]
LIMIT: Final = 64 << 20


@dataclass(frozen=True)
class Faults:  # how often each misfortune strikes a request, as fractions; one request may meet several
    lose_request: float = 0.1
    lose_answer: float = 0.15
    double: float = 0.15
    delay: float = 0.2
    longest_delay: float = 0.05


USUAL: Final = Faults()


@dataclass
class FaultyNetwork:  # forward requests to whichever collectors are up; a doubled one goes to two at once
    collectors: Callable[[], list[Address]]  # asked anew for every request
    faults: Faults = USUAL
    seed: int = 0
    met: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Address]:
        """Listen on a port of this machine; gives its address."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LIMIT)
        async with server:
            host, port = server.sockets[0].getsockname()[:2]
            yield host, port

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request a connection: a device's report comes alone."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with closing(writer):
                await self._carry(await whole_message(reader), writer)

    async def _carry(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        if self._strikes("lose_request"):
            return
        await self._late()
        answer = await self._answered(request)
        await self._late()
        if answer is not None and not self._strikes("lose_answer"):
            writer.write(answer)
            await writer.drain()

    async def _answered(self, request: bytes) -> bytes | None:
        """Forward once, or twice at the same moment; the first answer wins, as it would on a network."""
        known = self.collectors()
        if not known:
            self.met["nobody there"] += 1
            return None
        times = 2 if self._strikes("double") else 1
        chosen = self._random.sample(known, times) if len(known) >= times else [known[0]] * times
        answers = await asyncio.gather(*(forwarded(request, to) for to in chosen))
        return next((answer for answer in answers if answer is not None), None)

    async def _late(self) -> None:
        if self._strikes("delay"):
            await asyncio.sleep(self._random.uniform(0, self.faults.longest_delay))

    def _strikes(self, misfortune: str) -> bool:
        struck = self._random.random() < getattr(self.faults, misfortune)
        self.met[misfortune] += struck
        return struck


@contextlib.asynccontextmanager
async def closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def whole_message(reader: asyncio.StreamReader) -> bytes:
    """Read one HTTP message that says its length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return head + await reader.readexactly(length)


async def forwarded(request: bytes, to: Address) -> bytes | None:
    """Send a request on, and return the answer, or nothing when the collector died over it."""
    try:
        async with asyncio.timeout(20):
            reader, writer = await asyncio.open_connection(*to, limit=LIMIT)
            async with closing(writer):
                writer.write(request)
                await writer.drain()
                return await whole_message(reader)
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return None
