"""uvicorn's HTTP/1.1 connection with bounds: on bytes, on requests that wait, on time, on answers that nobody takes.

uvicorn parses all that one read brings at once, and begins a cycle of request and answer for each request in it. Here
the parser gets small pieces, and none while many requests of the connection wait for their answers. A request must
arrive whole, trailers included, within one time; its head, its trailers and the framing between two pieces of its body
within one size. Answers keep the order of their requests, the last one (400, 408, 431, 503) too. Where a request is
still arriving when its connection ends, it is read and thrown away for a while: a reset would destroy the answer.

What the parser refuses is answered with 400; what fails in our own code is a fault of ours: 503, to be sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from overstory.collector.http.endpoint import PATH, ReportEndpoint
from overstory.collector.http.responses import Response, error_response, request_timeout

PIPELINED: Final = 16
"""With more requests of one connection than this waiting for their answers, nothing more is parsed."""

PIECE: Final = 1024
"""Bytes that the parser gets at once where they may hold more than one request."""

TURN: Final = 64
"""Requests of one connection that are begun before others have their turn."""

LINGER_BYTES: Final = 64 << 20
LINGER_SECONDS: Final = 10.0
"""So much of a refused request is read and thrown away, for so long."""

URL: Final = PATH.encode()


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


class _Outward:
    """A transport as uvicorn's cycles see it: to close it is the connection's affair."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write, self.is_closing, self.close = transport.write, transport.is_closing, close


class BoundedConnection(HttpToolsProtocol):
    """One connection of a collector; see the module."""

    endpoint: ClassVar[ReportEndpoint]

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._deadline: asyncio.TimerHandle | None = None
        self._begun = 0  # requests, ever
        self._unanswered = 0  # of those handed on
        self._midway, self._in_head, self._offered = False, True, False
        self._loose = 0  # bytes since the last that completed a head, a piece of a body or a request
        self._body_left = 0
        self._rest: memoryview | None = None  # arrived, not parsed yet
        self._going_on = False
        self._deaf = False  # nothing more is parsed
        self._leaving = False  # nothing more is answered either
        self._last: Response | None = None
        self._thrown_away = 0
        self._half_closed = False
        self._untaken_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a first request, for a while."""
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
        self._outward = _Outward(transport, self._close)
        self._await_more()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline, and what was not parsed."""
        self._arrived()
        self._deaf = self._leaving = True
        self._rest = None
        self.pipeline.clear()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection while an answer is due to a sender that has said all it has to say."""
        self._half_closed = (
            (self._unanswered > 0 or self._rest is not None or self._last is not None)
            and not self._midway
            and not self._leaving
            and self.transport.can_write_eof()
        )
        return self._half_closed

    def shutdown(self) -> None:
        """End at once where nothing is answered any more."""
        if self._leaving:
            self.transport.close()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse what arrived, or keep it until more was answered, or throw it away."""
        self._unset_keepalive_if_required()
        if self._deaf:
            self._thrown_away += len(data)
            if self._thrown_away > LINGER_BYTES:
                self.transport.close()
        elif self._rest is not None:  # a transport may deliver a little more after it was told to pause
            self._rest = memoryview(bytes(self._rest) + data)
        else:
            self._feed(memoryview(data))

    def on_message_begin(self) -> None:
        """Begin a head; what uvicorn makes of it waits until uvicorn is to have it."""
        if not self._deaf:
            self._midway = self._in_head = True
            self._begun += 1
            self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep what stands in a head: nobody asks for trailers."""
        if self._in_head and not self._deaf:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Refuse a head that cannot be understood; hand any other on."""
        if self._deaf:
            return
        if self.parser.should_upgrade():
            self._offered = True
            return
        refused = self._refused_head()
        if refused is not None:
            self._end(refused)
            return
        self._in_head, self._loose = False, 0
        self._unanswered += 1
        self._hand_on()

    def on_body(self, body: bytes) -> None:
        """Pass a piece of a body on."""
        if not self._deaf:
            self._got(len(body))
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived whole."""
        if self._deaf or self._offered:
            return
        self._complete()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with what waits: another answer, what was not parsed yet, or the end."""
        self._unanswered -= 1
        if self._leaving:
            return
        super().on_response_complete()
        if self._rest is not None:
            if self._unanswered <= PIPELINED // 2:
                self._go_on_soon()
        elif not self._unanswered and (self._deaf or self._half_closed):
            self._finish()

    def resume_writing(self) -> None:
        """Note that answers are being taken."""
        self._untaken_since = None
        super().resume_writing()

    def sweep(self, now: float) -> None:
        """Hang up on a sender that does not take its answers; called every few seconds."""
        if not self.transport.get_write_buffer_size():
            self._untaken_since = None
        elif self._untaken_since is None:
            self._untaken_since = now
        elif now - self._untaken_since > self.endpoint.limits.taking_seconds:
            self.endpoint.telemetry.untaken += 1
            self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._end(error_response(400, "http", msg, close=True))

    def _hand_on(self) -> None:
        """Let uvicorn begin a cycle for the request whose head has arrived."""
        url, headers, expecting = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expecting
        self.headers += headers
        super().on_headers_complete()
        self.cycle.transport = self._outward  # type: ignore[assignment]

    def _got(self, size: int) -> None:
        self._loose = 0
        self._body_left -= size

    def _complete(self) -> None:
        self._midway, self._in_head, self._loose = False, True, 0
        self._arrived()

    def _feed(self, data: memoryview) -> None:
        at, begun = 0, self._begun
        while at < len(data) and not self._deaf:
            if self._unanswered > PIPELINED or self._begun - begun > TURN:
                self._rest = data[at:]
                self._arrived()
                self.flow.hold()
                if self._unanswered <= PIPELINED:
                    self._go_on_soon()
                return
            at += self._parse(data[at : at + max(PIECE, self._body_left)])
        if self._deaf:
            return
        if not self._midway and not self._loose:
            self._arrived()
        elif self._deadline is None:
            self._await_more()

    def _parse(self, piece: memoryview) -> int:
        """Give the parser a piece; return how many bytes of it are dealt with."""
        self._loose += len(piece)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as offer:
            self._ignore_offer()
            return int(offer.args[0])
        except httptools.HttpParserCallbackError as error:
            self._failed(error.__context__ or error)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        except Exception as error:  # noqa: BLE001 - the parser found no memory, perhaps
            self._failed(error)
        else:
            if self._loose > self.endpoint.limits.head_bytes:
                self._end(error_response(431, "head", "The request's head is too large.", close=True))
        return len(piece)

    def _ignore_offer(self) -> None:
        """Parse a head again without its offer to speak another protocol (RFC 9110, 7.8): its body is HTTP, too."""
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name not in {b"upgrade", b"connection"}]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                lines.append(b"connection: " + b", ".join([one for one in tokens if one.lower() != b"upgrade"]))
        self._offered = False
        if method == b"CONNECT" or any(b"\r" in line or b"\n" in line for line in lines):
            self.send_400_response("Invalid HTTP request received.")
            return
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._loose = 0
        self._parse(memoryview(b"\r\n".join([*lines, b"", b""])))

    def _refused_head(self) -> Response | None:
        """Return the answer to a head that says too little or too much to be understood; see RFC 9112, 3.2 and 6.1."""
        hosts, length, codings = 0, 0, []
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = int(value) if value.isdigit() else 0
            elif name == b"transfer-encoding":
                codings.append(value.strip().lower())
        self._body_left = length
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() == "1.1"):
            return error_response(400, "http", "A request has one Host.", close=True)
        if codings and codings != [b"chunked"]:
            return error_response(501, "transfer-encoding", "Transfer-Encoding is chunked or nothing.", close=True)
        if self.url != URL and not _has_path(self.url):
            return error_response(400, "http", "The request names no page.", close=True)
        return None

    def _failed(self, error: BaseException) -> None:
        """Answer for a fault of ours: the same bytes may be sent again."""
        self._end(self.endpoint.fault(error, close=True))

    def _end(self, answer: Response) -> None:
        """Answer once all requests before are answered, and hang up."""
        if self._deaf:
            return
        self._deaf = True
        self._arrived()
        self._rest = None
        self._last = answer if self._abandon() else None
        if self._unanswered:
            self.flow.hold()
        else:
            self._finish()

    def _abandon(self) -> bool:
        """Give up the request that is being received; say whether it still has to be answered."""
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
        if self._last is not None:
            self._write(self._last)
        self._close()

    def _write(self, answer: Response) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        """Hang up, or throw away for a while what is still arriving."""
        self._deaf = self._leaving = True
        self._arrived()
        self.pipeline.clear()
        arriving = self._midway or self._loose or self._rest is not None
        if self._half_closed or self.transport.is_closing() or not arriving:
            self.transport.close()
            return
        self._rest = None
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline = self.loop.call_later(LINGER_SECONDS, self.transport.close)
        self.flow.release()

    def _go_on_soon(self) -> None:
        if not self._going_on:
            self._going_on = True
            self.loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._going_on = False
        rest, self._rest = self._rest, None
        if rest is None or self._deaf:
            return
        self._feed(rest)
        if self._rest is None and not self._deaf:
            self.flow.release()
            if self._half_closed and not self._unanswered:
                self._finish()

    def _await_more(self) -> None:
        self._deadline = self.loop.call_later(self.endpoint.limits.reading_seconds, self._reading_timed_out)

    def _arrived(self) -> None:
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
