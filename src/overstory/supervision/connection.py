"""uvicorn's HTTP/1.1 connection with bounds on bytes, on waiting requests, on time, and on answers that are not read.

uvicorn parses all that one read brings at once, and begins a cycle of request and answer for each request in it. Here
the parser gets small pieces, and none while many requests of the connection wait for their answers. A request must
arrive completely, trailers included, within one time; its head, its trailers and the framing between two pieces of its
body within one size. Answers have the order of their requests, the last one (400, 408, 431, 503) too. Where a request
is still arriving when its connection ends, it is read and discarded for a while: a reset would destroy the answer.

What the parser refuses is answered with 400. What fails in our own code is answered with 503: the sender tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from overstory.protocol.wire import parse_digits
from overstory.protocol.wire.reasons import Reason
from overstory.supervision.answers import WHOLE, Response, error_response, refusal, request_timeout
from overstory.supervision.listening import ConnectionLimits
from overstory.supervision.log import SparseLog

PIPELINED: Final = 16  # with more requests of one connection waiting for their answers, nothing more is parsed
PIECE: Final = 1024  # bytes that the parser gets at once where they may hold more than one request
TURN: Final = 64  # requests of one connection that are begun before other connections have their turn
LINGER_BYTES: Final = 64 << 20  # at most so much of a refused request is read and discarded,
LINGER_SECONDS: Final = 10.0  # and at most for this time


class _Flow(FlowControl):
    """uvicorn's flow control, with a hold that its own resumptions do not lift."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._held = False

    def hold(self) -> None:
        self._held = True
        self.pause_reading()

    def release(self) -> None:
        self._held = False
        self.resume_reading()

    def resume_reading(self) -> None:
        if not self._held:
            super().resume_reading()


class _CycleTransport:
    """A transport as uvicorn's cycles see it: the connection writes, and decides alone when it is closed."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, write: Callable[[bytes], None], close: Callable[[], None]) -> None:
        self.write, self.is_closing, self.close = write, transport.is_closing, close


class BoundedConnection(HttpToolsProtocol):
    """One connection; see the module."""

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()
    _faults: ClassVar[SparseLog] = SparseLog(logging.getLogger("overstory.http"))

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._num_begun = 0  # requests
        self._unanswered = 0  # requests that are being worked on
        self._in_request, self._in_head, self._upgrade_offered = False, True, False
        self._framing_bytes = 0  # since the end of the last head, piece of a body, or request
        self._body_left = 0
        self._unparsed: memoryview | None = None  # arrived, not parsed yet
        self._resuming = False
        self._parsing_ended = False  # nothing more is parsed
        self._closing = False  # nothing more is answered, either
        self._final_response: Response | None = None
        self._discarded = 0
        self._half_closed = False
        self._blocked_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
        self._cycle_transport = _CycleTransport(transport, self._write_bytes, self._close)
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        if isinstance(exc, TimeoutError):  # the system's own bound on unread answers, see `Listening.bind`
            self._note_untaken()
        self._cancel_deadline()
        self._parsing_ended = self._closing = True
        self._unparsed = None
        self.pipeline.clear()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection while an answer is due to a sender that has closed its half."""
        self._half_closed = (
            (self._unanswered > 0 or self._unparsed is not None or self._final_response is not None)
            and not self._in_request
            and not self._closing
            and self.transport.can_write_eof()
        )
        return self._half_closed

    def shutdown(self) -> None:
        if self._closing:
            self.transport.close()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        if self._parsing_ended:
            self._discarded += len(data)
            if self._discarded > LINGER_BYTES:
                self.transport.close()
        elif self._unparsed is not None:  # a paused transport may deliver a little more
            self._unparsed = memoryview(bytes(self._unparsed) + data)
        else:
            self._feed(memoryview(data))

    def on_message_begin(self) -> None:
        """Begin a head; uvicorn hears of it when the head is complete."""
        if not self._parsing_ended:
            self._in_request = self._in_head = True
            self._num_begun += 1
            self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head and not self._parsing_ended:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._parsing_ended:
            return
        if self.parser.should_upgrade():
            self._upgrade_offered = True
            return
        refused = self._refused_head()
        if refused is not None:
            self._end(refused)
            return
        self._in_head, self._framing_bytes = False, 0
        self._unanswered += 1
        url, headers, expecting = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expecting
        self.headers += headers
        super().on_headers_complete()
        self.cycle.transport = self._cycle_transport  # type: ignore[assignment]
        self.cycle.scope["extensions"] = {WHOLE: {"send": partial(self._answer, self.cycle)}}

    def on_body(self, body: bytes) -> None:
        if not self._parsing_ended:
            self._framing_bytes = 0
            self._body_left -= len(body)
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._parsing_ended and not self._upgrade_offered:
            self._in_request, self._in_head, self._framing_bytes = False, True, 0
            self._cancel_deadline()
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Continue with what waits: another answer, bytes that were not parsed yet, or the end."""
        self._unanswered -= 1
        if self._closing:
            return
        super().on_response_complete()
        if self._unparsed is not None:
            if self._unanswered <= PIPELINED // 2:
                self._resume_soon()
        elif not self._unanswered and (self._parsing_ended or self._half_closed):
            self._finish()

    def resume_writing(self) -> None:
        self._blocked_since = None
        super().resume_writing()

    def sweep(self, now: float) -> None:
        """Disconnect a sender that does not read its answers; called every few seconds."""
        if not self.transport.get_write_buffer_size():
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = now
        elif now - self._blocked_since > self.limits.taking_seconds:
            self._note_untaken()
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        self._end(error_response(400, "http", msg, close=True))

    def _feed(self, data: memoryview) -> None:
        at, begun = 0, self._num_begun
        while at < len(data) and not self._parsing_ended:
            if self._unanswered > PIPELINED or self._num_begun - begun > TURN:
                self._unparsed = data[at:]
                self._cancel_deadline()
                self.flow.hold()
                if self._unanswered <= PIPELINED:
                    self._resume_soon()
                return
            at += self._parse(data[at : at + max(PIECE, self._body_left)])
        if self._parsing_ended:
            return
        if not self._in_request and not self._framing_bytes:
            self._cancel_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def _parse(self, piece: memoryview) -> int:
        self._framing_bytes += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as offer:
            self._ignore_upgrade()
            return int(offer.args[0])
        except httptools.HttpParserCallbackError as error:
            self._end(self._fault(error.__context__ or error))
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except Exception as error:  # noqa: BLE001 - the parser may have had no memory
            self._end(self._fault(error))
        else:
            if self._framing_bytes > self.limits.head_bytes:
                self._end(error_response(431, "head", "The request's headers are too large.", close=True))
        return len(piece)

    def _ignore_upgrade(self) -> None:
        """Parse a head again without its offer to speak another protocol (RFC 9110, 7.8): its body is HTTP, too."""
        self._upgrade_offered = False
        head = without_upgrade(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        if head is None:
            self.send_400_response("Invalid HTTP request received.")
            return
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._framing_bytes = 0
        self._parse(memoryview(head))

    def _refused_head(self) -> Response | None:
        """Return the response to a head that does not say how to read its request (RFC 9112, 3.2 and 6.1), or None.

        Of a head that does, note the length of the body.
        """
        hosts, codings, self._body_left = 0, list[bytes](), 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                self._body_left = parse_digits(value) or 0
            elif name == b"transfer-encoding":
                codings.append(value.strip().lower())
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            return error_response(400, "http", "A request must have exactly one Host header.", close=True)
        if codings and codings != [b"chunked"]:
            return error_response(501, "transfer-encoding", "Transfer-Encoding must be chunked or absent.", close=True)
        if not _has_path(self.url):
            return error_response(400, "http", "The request has no path.", close=True)
        return None

    def _end(self, answer: Response) -> None:
        if self._parsing_ended:
            return
        self._parsing_ended = True
        self._cancel_deadline()
        self._unparsed = None
        self._final_response = answer if self._abandon() else None
        if self._unanswered:
            self.flow.hold()
        else:
            self._finish()

    def _abandon(self) -> bool:
        """Give up the request that is being received; return whether it must still be answered."""
        if self._in_head:
            return True
        cycle = self.cycle
        if cycle.response_complete:
            return False
        self._unanswered -= 1
        if self.pipeline and self.pipeline[0][0] is cycle:
            self.pipeline.popleft()
        cycle.disconnected = True
        cycle.message_event.set()
        return not cycle.response_started

    def _finish(self) -> None:
        if self._final_response is not None:
            self._write(self._final_response)
        self._close()

    def _fault(self, error: BaseException) -> Response:
        self._faults.error("a request could not be read because of an error of ours", error, trace=True)
        return refusal(Reason.FAULT, close=True)

    def _note_untaken(self) -> None:
        """Note that a sender did not read its answers."""

    async def _answer(self, cycle: RequestResponseCycle, answer: Response) -> None:
        """Send all of the answer to a request, in one write."""
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        cycle.keep_alive &= not answer.close
        answer = answer if cycle.keep_alive else answer._replace(close=True)
        self._write(answer, bodiless=cycle.scope["method"] == "HEAD")
        if not cycle.keep_alive:
            self._close()
        cycle.on_response()

    def _write(self, answer: Response, *, bodiless: bool = False) -> None:
        also = b"".join([b"%b: %b\r\n" % line for line in self.server_state.default_headers])
        size, body = len(answer.body), b"" if bodiless else answer.body
        self._write_bytes(b"%b%d\r\n%b\r\n%b" % (answer.head, size, also, body))

    def _write_bytes(self, data: bytes) -> None:
        """Write, unless the connection is over: uvloop would raise, and a sender that has left is no error."""
        if not self._closing and not self.transport.is_closing():
            self.transport.write(data)

    def _close(self) -> None:
        self._parsing_ended = self._closing = True
        self._cancel_deadline()
        self.pipeline.clear()
        arriving = self._in_request or self._framing_bytes or self._unparsed is not None
        if self._half_closed or self.transport.is_closing() or not arriving:
            self.transport.close()
            return
        self._unparsed = None
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)
        self.flow.release()

    def _resume_soon(self) -> None:
        if not self._resuming:
            self._resuming = True
            self.loop.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        rest, self._unparsed = self._unparsed, None
        if rest is None or self._parsing_ended:
            return
        self._feed(rest)
        if self._unparsed is None and not self._parsing_ended:
            self.flow.release()
            if self._half_closed and not self._unanswered:
                self._finish()

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.limits.reading_seconds, self._reading_timed_out)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _reading_timed_out(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._end(request_timeout())


def _has_path(url: bytes) -> bool:
    try:
        httptools.parse_url(url).path.decode("ascii")
    except (httptools.HttpParserError, UnicodeDecodeError, AttributeError):
        return False
    return True


def without_upgrade(method: bytes, url: bytes, version: str, headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the bytes of a head without its offer to speak another protocol; None where that cannot be written."""
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    for name, value in headers:
        if name == b"connection":
            options = [option.strip() for option in value.split(b",")]
            lines.append(b"connection: " + b", ".join([option for option in options if option.lower() != b"upgrade"]))
        elif name != b"upgrade":
            lines.append(b"%b: %b" % (name, value))
    if method == b"CONNECT" or any(b"\r" in line or b"\n" in line for line in lines):
        return None
    return b"\r\n".join([*lines, b"", b""])
