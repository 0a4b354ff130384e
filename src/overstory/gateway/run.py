"""The two ways to run a gateway: through a file as fast as it can be read, or along a stream as time passes."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from overstory.gateway.gateway import Gateway
from overstory.gateway.readings import LONGEST, BadLine, Reading

MOST_SHOWN: Final = 20
QUEUED: Final = 1000
LONGEST_SLEEP: Final = 30.0


def bounded_lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield lines; of one that is too long, as much as shows that it is.

    Parameters
    ----------
    stream
        A binary stream, such as an open file.

    Examples
    --------
    >>> from io import BytesIO
    >>> [len(line) for line in bounded_lines(BytesIO(b"1,2" + b" " * 1_000_000 + bytes([10]) + b"3,4"))]
    [65538, 3]
    """
    while line := stream.readline(LONGEST + 2):
        yield line
        rest = line
        while len(rest) == LONGEST + 2 and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST + 2)


@dataclass
class Lines:
    """What lines were, counted.

    Attributes
    ----------
    source
        What errors call the lines: the file's name.
    strict
        Whether the first bad line raises its error.
    read, bad
        How many lines were read, and how many of them were bad.
    shown
        The first bad lines, at most 20, to be shown.
    """

    source: str
    strict: bool = False
    read: int = 0
    bad: int = 0
    shown: list[BadLine] = field(default_factory=list)

    def good(self, item: Reading | BadLine) -> Reading | None:
        """Count an item; return it if it is a reading."""
        self.read += 1
        if isinstance(item, Reading):
            return item
        self.bad += 1
        if self.strict:
            raise item.error(self.source)
        if len(self.shown) < MOST_SHOWN:
            self.shown.append(item)
        return None

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        shown = [{"line": bad.line, "field": bad.field, "detail": bad.detail} for bad in self.shown]
        return {"read": self.read, "bad": self.bad, "bad_lines": shown}


def replay(gateway: Gateway, items: Iterable[Reading | BadLine], lines: Lines) -> None:
    """Report a file's readings by their own time; the last period is taken for complete.

    Parameters
    ----------
    gateway
        The gateway that aligns and reports the readings.
    items
        What `read_lines` yields, in the order of time.
    lines
        Where lines are counted; it decides whether a bad line raises.

    Examples
    --------
    >>> import tempfile
    >>> from overstory.gateway import Settings
    >>> from overstory.protocol.metrics import parse_registry
    >>> from overstory.protocol.metrics.registry import EXAMPLE
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     settings, lines = Settings("colour", folder, agree="local"), Lines("-")
    ...     gateway = Gateway(parse_registry(EXAMPLE), settings, environ={})
    ...     replay(gateway, [Reading(1, 1795219200.0, "red")], lines)
    ...     lines.read, gateway.outcomes["recorded"]
    (1, 1)
    """
    try:
        for item in items:
            reading = lines.good(item)
            if reading is not None:
                gateway.take(reading)
    except BaseException:
        gateway.flush()  # what was read before the bad line is reported all the same
        raise
    gateway.finish()


def follow(gateway: Gateway, items: Iterator[Reading | BadLine], lines: Lines, *, wait: float = 60.0) -> None:
    """Report a stream's readings as time passes; a period that is not over when the stream ends is not reported.

    Parameters
    ----------
    wait
        Seconds after its end for which a period's readings are waited for, while the stream lasts.
    """
    incoming: queue.Queue[Reading | BadLine | BaseException | None] = queue.Queue(QUEUED)
    threading.Thread(target=_read, args=(items, incoming), name="overstory-readings", daemon=True).start()
    while True:
        try:
            item = incoming.get(timeout=_patience(gateway, wait))
        except queue.Empty:
            gateway.pass_time(time.time() - wait)
            continue
        if item is None:
            break
        if isinstance(item, BaseException):
            raise item
        reading = lines.good(_plausible(item, gateway))
        if reading is not None:
            gateway.take(reading)
    gateway.pass_time(time.time())


def _read(items: Iterator[Reading | BadLine], incoming: queue.Queue[Any]) -> None:
    try:
        for item in items:
            incoming.put(item)
        incoming.put(None)
    except BaseException as error:  # noqa: BLE001 - it is raised where the reading is done
        incoming.put(error)


def _patience(gateway: Gateway, wait: float) -> float:
    """Return for how many seconds nothing has to be done unless a reading comes."""
    ends = gateway.alignment.ends
    until = LONGEST_SLEEP if ends is None else ends + wait - time.time()
    return min(max(until, 0.01), LONGEST_SLEEP)


def _plausible(item: Reading | BadLine, gateway: Gateway) -> Reading | BadLine:
    """Refuse a reading from the future: it would close every period before it."""
    if isinstance(item, Reading) and item.time > time.time() + gateway.metric.period.seconds:
        return BadLine(item.line, "time", "it lies in the future: is the time zone right, and the clock?")
    return item
