"""uvicorn's HTTP/1.1 connection with three things of our own.

Small posts of reports are answered without a task, an event or a scope of their own: that is most of what a request
costs; one that begins as another did, without the parser. A head, and a small body, must arrive whole within a time and
a size. What is not HTTP is answered in JSON.

Everything else, larger posts included, goes on to the ASGI application as before. An `_Exchange` takes the place of
uvicorn's request-response cycle meanwhile, so that pipelining, keep-alive and shutdown stay uvicorn's.
"""

from __future__ import annotations

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from overstory.collector.answers import ALWAYS, Answer, too_slow, trouble
from overstory.collector.intake import PATH, Head, Intake, read_head
from overstory.collector.known_heads import KnownHeads
from overstory.protocol.reasons import Reason
from overstory.protocol.upload import MEDIA_TYPE

SMALL: Final = 16 * 1024
"""A body up to here is answered without a task."""

_URL: Final = PATH.encode()
_STATUS: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_TAKEN: Final = _STATUS[200] + b"".join(b"%b: %b\r\n" % line for line in ALWAYS) + b"content-length: %d\r\n%b\r\n%b"
"""The answer that nearly every post gets: its length, the server's own headers, its body."""


class _Exchange:
    """A post on its way: what uvicorn looks at of its own cycles, and the body."""

    __slots__ = ("body", "disconnected", "head", "keep_alive", "message_event", "refused", "response_complete")

    def __init__(self, head: Head, refused: Reason | None, *, keep_alive: bool) -> None:
        self.head, self.refused, self.keep_alive = head, refused, keep_alive
        self.body: list[bytes] = []
        self.disconnected = self.response_complete = False
        self.message_event = _NOBODY


class _Nobody:
    """An event that nobody waits for."""

    def set(self) -> None:
        """Tell nobody."""


_NOBODY: Final = _Nobody()


class _OwnHeaders:
    """The server's own headers as they are written: uvicorn makes a new list of them every second."""

    def __init__(self) -> None:
        self._listed: list[tuple[bytes, bytes]] = []
        self._written = b""

    def written(self, listed: list[tuple[bytes, bytes]]) -> bytes:
        if listed is not self._listed:
            self._listed, self._written = listed, b"".join([b"%b: %b\r\n" % line for line in listed])
        return self._written


class Connection(HttpToolsProtocol):
    """One connection of a collector; see the module. `for_intake` makes the class that uvicorn is given."""

    intake: ClassVar[Intake]
    heads: ClassVar[KnownHeads]
    own: ClassVar[_OwnHeaders]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._receiving: _Exchange | None = None
        self._in_head, self._head_bytes = True, 0
        self._between, self._begun = True, 0
        self._deadline: asyncio.TimerHandle | None = None

    @classmethod
    def for_intake(cls, intake: Intake) -> type[Connection]:
        """Return the class of connections whose posts go to `intake`."""
        return type("Connection", (cls,), {"intake": intake, "heads": KnownHeads(), "own": _OwnHeaders()})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request, not for ever."""
        super().connection_made(transport)
        self._await_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, as long as the head stays small."""
        between, begun = self._between, self._begun
        if between and self._take_known(data):
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if between and self._between and self._begun == begun + 1:
            self._learn(data)
        if self._in_head and self._head_bytes > self.intake.limits.head_bytes:
            self._end(trouble(431, "head", "The request's head is too large.", close=True))
        elif self._deadline is None and (self._receiving is not None or (self._in_head and self._head_bytes)):
            self._await_more()

    def on_message_begin(self) -> None:
        """Begin a head; what uvicorn makes of it beside waits until it is known that uvicorn is to have it."""
        self._between = False
        self._begun += 1
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """Take a small post; leave everything else to uvicorn."""
        self._in_head, self._head_bytes = False, 0
        self._arrived()
        exchange = self._small_post()
        if exchange is None:
            url, headers, expecting = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expecting
            self.headers += headers
            super().on_headers_complete()
        else:
            self._receiving = self.cycle = exchange  # type: ignore[assignment]

    def on_body(self, body: bytes) -> None:
        """Gather a small post's body."""
        if self._receiving is None:
            super().on_body(body)
        else:
            self._receiving.body.append(body)

    def on_message_complete(self) -> None:
        """Judge a small post; its answer comes after the commit."""
        self._in_head = True
        # Behind an upgrade, or a connection that was to be closed, the parser has a say in what may still come.
        self._between = self.parser.should_keep_alive() and not self.parser.should_upgrade()
        exchange, self._receiving = self._receiving, None
        if exchange is None:
            super().on_message_complete()
            return
        self._judge(exchange, exchange.body[0] if len(exchange.body) == 1 else b"".join(exchange.body))

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._end(trouble(400, "http", msg, close=True))

    def _take_known(self, data: bytes) -> bool:
        """Take a request that arrived whole and begins as an earlier one did; say whether it was one."""
        known = None if self._answering else self.heads.split(data)
        if known is None:
            return False
        head, body = known
        self._unset_keepalive_if_required()
        self.cycle = exchange = _Exchange(head, self.intake.admit(head), keep_alive=True)  # type: ignore[assignment]
        self._judge(exchange, body)
        return True

    def _learn(self, data: bytes) -> None:
        """Remember how a post began that was the whole of `data`, unless it was refused by its head."""
        taken: Any = self.cycle
        if isinstance(taken, _Exchange) and taken.refused is None and taken.keep_alive:
            self.heads.learn(data, taken.head, [name for name, _ in self.headers])

    def _judge(self, exchange: _Exchange, body: bytes) -> None:
        self._arrived()
        if exchange.refused is not None:
            self._answer(exchange, self.intake.refuse(exchange.refused))
        else:
            self.intake.take(self.intake.decide(exchange.head, body), partial(self._answer, exchange))

    @property
    def _answering(self) -> bool:
        """Whether another post must wait: one answer after the other, and none to who does not read them."""
        return self.flow.write_paused or (self.cycle is not None and not self.cycle.response_complete)

    def _small_post(self) -> _Exchange | None:
        if self.url != _URL or self.parser.get_method() != b"POST" or self.expect_100_continue:
            return None
        if self._answering:
            return None
        if self.parser.get_http_version() != "1.1" or self.parser.should_upgrade():
            return None
        head = read_head(self.headers)
        if head.length is None or head.length > SMALL or head.encoding or head.content_type != MEDIA_TYPE:
            return None
        return _Exchange(head, self.intake.admit(head), keep_alive=self.parser.should_keep_alive())

    def _answer(self, exchange: _Exchange, answer: Answer) -> None:
        if exchange.disconnected or self.transport.is_closing():
            return
        self._write(answer)
        exchange.response_complete = True
        if not exchange.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _write(self, answer: Answer) -> None:
        status, body, _, close = answer
        own = self.own.written(self.server_state.default_headers)
        if status == 200 and not close:
            self.transport.write(_TAKEN % (len(body), own, body))
            return
        lines = b"".join([b"%b: %b\r\n" % line for line in answer.headers])
        self.transport.write(b"".join((_STATUS[status], own, lines, b"\r\n", body)))

    def _end(self, answer: Answer) -> None:
        """Answer what cannot be a request, and hang up."""
        self._write(answer)
        self.transport.close()

    def _await_more(self) -> None:
        self._deadline = self.loop.call_later(self.intake.limits.reading_seconds, self._too_slow)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._end(too_slow())
