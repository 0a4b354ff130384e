"""Fast path for small posts of reports: no task, no event and no ASGI scope per request, and a head is parsed once.

An `_Exchange` takes the place of uvicorn's request-response cycle; all other requests go to the ASGI application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Final

from overstory.collector.http.endpoint import URL, Entrance, Head, ReportEndpoint, read_head
from overstory.protocol.wire.upload import MEDIA_TYPE
from overstory.supervision.answers import ALWAYS, STATUS, Response
from overstory.supervision.connection import BoundedConnection

PLAIN: Final = frozenset(
    (b"host", b"content-type", b"content-length", b"authorization", b"connection", b"accept", b"accept-encoding")
)
"""A head with any other name is not remembered: nothing that identifies a sender (an address that a proxy has added, a
user agent) stays here, and nothing that changes how a request is read."""

LONGEST: Final = 1024
MOST: Final = 1024  # the longest head that is remembered, in bytes, and the most heads

_END: Final = b"\r\n\r\n"


class HeaderCache:
    """The heads seen so far, of posts that were admitted and kept their connection."""

    def __init__(self) -> None:
        self._heads: dict[bytes, Head] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def split(self, data: bytes) -> tuple[Head, bytes] | None:
        """Return head and body of `data` when it is one complete request with a remembered head; else None."""
        end = data.find(_END) + len(_END)
        head = self._heads.get(data[:end])
        if head is None or len(data) - end != head.length:
            return None
        return head, data[end:]

    def learn(self, data: bytes, head: Head, names: Sequence[bytes]) -> None:
        assert head.length is not None
        end = len(data) - head.length
        # A parser may end a head at other bytes, too. `split` could not find such a head.
        if end > LONGEST or data.find(_END) + len(_END) != end or not PLAIN.issuperset(names):
            return
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[data[:end]] = head


SMALL: Final = 16 * 1024  # bytes; a request with a body up to this length is answered without a task

_TAKEN: Final = STATUS[200] + b"".join(b"%b: %b\r\n" % line for line in ALWAYS) + b"content-length: %d\r\n%b\r\n%b"
"""The answer that nearly every post gets: its length, the server's own headers, its body."""


class _Exchange:
    """A post between its head and its answer: the attributes of uvicorn's cycles that uvicorn reads, and the body."""

    __slots__ = ("body", "disconnected", "head", "keep_alive", "message_event", "refused", "response_complete")
    response_started = False

    def __init__(self, head: Head, refused: Response | None, *, keep_alive: bool) -> None:
        self.head, self.refused, self.keep_alive = head, refused, keep_alive
        self.body: list[bytes] = []
        self.disconnected = self.response_complete = False
        self.message_event = _NO_EVENT


_NO_EVENT: Final = asyncio.Event()  # an event without waiters: a post has no task


class Connection(BoundedConnection):
    """One connection of a collector; see the module. `for_entrance` makes the class that uvicorn is given."""

    entrance: ClassVar[Entrance]
    endpoint: ClassVar[ReportEndpoint]
    header_cache: ClassVar[HeaderCache]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._receiving: _Exchange | None = None
        self._at_boundary = True

    @classmethod
    def for_entrance(cls, entrance: Entrance) -> type[Connection]:
        endpoint = entrance.endpoint
        own = {"header_cache": HeaderCache(), "entrance": entrance}
        return type("Connection", (cls,), {"endpoint": endpoint, "limits": endpoint.limits, **own})

    def data_received(self, data: bytes) -> None:
        between, begun = self._at_boundary and not self._parsing_ended and self._unparsed is None, self._num_begun
        if between and self._take_repeated(data):
            return
        super().data_received(data)
        if (
            between
            and self._at_boundary
            and self._num_begun == begun + 1
            and self._unparsed is None
            and not self._parsing_ended
        ):
            self._learn(data)

    def on_message_begin(self) -> None:
        self._at_boundary = False
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        if self._receiving is None:
            super().on_body(body)
        else:
            self._framing_bytes = 0
            self._body_left -= len(body)
            self._receiving.body.append(body)

    def on_message_complete(self) -> None:
        if not self._parsing_ended and not self._upgrade_offered:
            # After a request that asks to close the connection, the parser decides what may follow.
            self._at_boundary = self.parser.should_keep_alive()
        exchange, self._receiving = self._receiving, None
        if exchange is None:
            super().on_message_complete()
            return
        self._end_request()
        self._decide(exchange, exchange.body[0] if len(exchange.body) == 1 else b"".join(exchange.body))

    def _begin_cycle(self) -> None:
        exchange = self._small_post()
        if exchange is None:
            super()._begin_cycle()
        else:
            self._receiving = self.cycle = exchange  # type: ignore[assignment]

    def _fault(self, error: BaseException) -> Response:
        return self.endpoint.fault(error, close=True)

    def _note_untaken(self) -> None:
        self.endpoint.telemetry.untaken += 1

    def _abandon(self) -> bool:
        self._receiving = None
        return super()._abandon()

    def _take_repeated(self, data: bytes) -> bool:
        parts = None if self._answering else self.header_cache.split(data)
        if parts is None:
            return False
        head, body = parts
        self._unset_keepalive_if_required()
        self._cancel_deadline()
        self._unanswered += 1
        self.cycle = exchange = _Exchange(head, self.entrance.refuse(head), keep_alive=True)  # type: ignore[assignment]
        self._decide(exchange, body)
        return True

    def _learn(self, data: bytes) -> None:
        """Remember the head of a post that was all of `data`, unless it was refused by its head."""
        cycle: Any = self.cycle
        if isinstance(cycle, _Exchange) and cycle.refused is None and cycle.keep_alive:
            self.header_cache.learn(data, cycle.head, [name for name, _ in self.headers])

    def _decide(self, exchange: _Exchange, body: bytes) -> None:
        answered = partial(self._answer, exchange)
        if exchange.refused is not None:
            answered(exchange.refused)
            return
        try:
            decision = self.endpoint.decide(exchange.head, body)
        except Exception as error:  # noqa: BLE001 - any error is the collector's, and the report may come again
            answered(self.endpoint.fault(error))
        else:
            self.endpoint.take(decision, answered)

    @property
    def _answering(self) -> bool:
        """Whether another post must wait: for an answer before it, or for a sender that does not read its answers."""
        return self.flow.write_paused or (self.cycle is not None and not self.cycle.response_complete)

    def _small_post(self) -> _Exchange | None:
        if self.url != URL or self.parser.get_method() != b"POST" or self.expect_100_continue:
            return None
        if self._answering or self.parser.get_http_version() != "1.1":
            return None
        head = read_head(self.headers)
        if head.length is None or head.length > SMALL or head.content_type != MEDIA_TYPE:
            return None
        return _Exchange(head, self.entrance.refuse(head), keep_alive=self.parser.should_keep_alive())

    def _answer(self, exchange: _Exchange, answer: Response) -> None:
        if exchange.disconnected or self._closing or self.transport.is_closing():
            return
        close = answer.close or not exchange.keep_alive
        self._write(answer._replace(close=True) if close else answer)
        exchange.response_complete = True
        if close:
            self._close()
        self.on_response_complete()

    def _write(self, answer: Response) -> None:
        if answer.status == 200 and not answer.close:
            own = b"".join([b"%b: %b\r\n" % line for line in self.server_state.default_headers])
            self.transport.write(_TAKEN % (len(answer.body), own, answer.body))
        else:
            super()._write(answer)
