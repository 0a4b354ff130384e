"""How much one address may send: in memory alone, of a bounded number of addresses, and forgotten after the hour."""

from __future__ import annotations

import ipaddress
import secrets
import time
from array import array
from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

MINUTE: Final = 60.0  # seconds
MINUTES: Final = 60
MOST_ADDRESSES: Final = 100_000


def network_of(address: str) -> str:
    """Return what is counted as one sender: an IPv4 address, or the /64 of an IPv6 address.

    >>> network_of("192.0.2.7"), network_of("::ffff:192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6%eth0")
    ('192.0.2.7', '192.0.2.7', '2001:db8:1:2::')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket, or no address: all of these are counted together
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)).network_address)
    return str(parsed)


def forwarded_address(header: str, peer: str) -> str:
    """Return the address that the nearest proxy has added to X-Forwarded-For; the peer's where there is none.

    >>> forwarded_address("198.51.100.9, 192.0.2.7", "127.0.0.1"), forwarded_address("unknown", "127.0.0.1")
    ('192.0.2.7', '127.0.0.1')
    """
    last = header.rpartition(",")[2].strip()
    return last if network_of(last) else peer


class HourlyLimit:
    """Takes at most `per_hour` messages of each address in any hour: all at once, or apart.

    What is in memory is a keyed hash of each address, with a key that ends with the process, and how many messages it
    sent in which minute. A message counts until the 60 minutes after its own are over; an address of which none counts
    any more is removed.
    """

    def __init__(self, per_hour: int, most: int = MOST_ADDRESSES, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_hour, self._most, self._clock = per_hour, most, clock
        self._key = secrets.token_bytes(32)
        # Of each address: minute, messages, minute, messages, ...; the address that sent last is the last entry.
        self._sent: OrderedDict[bytes, array[int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sent)

    def name(self, address: str) -> bytes:
        """Return the keyed hash under which an address is counted."""
        return blake2b(network_of(address).encode(), digest_size=16, key=self._key).digest()

    def take(self, address: str) -> float:
        """Count a message, and return 0; if it would be one too many, return the seconds until one more is taken."""
        self.forget()
        now, name = self._clock(), self.name(address)
        minute = int(now // MINUTE)
        sent = self._sent.get(name, array("I"))
        while sent and sent[0] + MINUTES < minute:
            del sent[:2]
        if sum(sent[1::2]) >= self._per_hour:
            return (sent[0] + MINUTES + 1) * MINUTE - now
        if sent and sent[-2] == minute:
            sent[-1] += 1
        else:
            sent.extend((minute, 1))
        self._sent[name] = sent
        self._sent.move_to_end(name)
        while len(self._sent) > self._most:
            self._sent.popitem(last=False)
        return 0.0

    def forget(self) -> None:
        """Remove every address of which no message counts any more."""
        minute = int(self._clock() // MINUTE)
        while self._sent:
            name, sent = next(iter(self._sent.items()))
            if sent[-2] + MINUTES >= minute:
                return
            del self._sent[name]


class OpenConnections:
    """How many connections each sender has open, and all together.

    >>> open_now = OpenConnections(most=3, most_each=2)
    >>> [open_now.enter(b"a"), open_now.enter(b"a"), open_now.enter(b"a"), open_now.enter(b"b"), open_now.enter(b"c")]
    [True, True, False, True, False]
    >>> open_now.leave(b"a")
    >>> open_now.enter(b"c"), open_now.total
    (True, 3)
    """

    def __init__(self, most: int, most_each: int) -> None:
        self._most, self._most_each = most, most_each
        self._open: Counter[bytes] = Counter()
        self.total = 0

    def enter(self, name: bytes) -> bool:
        """Count a connection; False when there are too many."""
        if self.total >= self._most or self._open[name] >= self._most_each:
            self._open += Counter()  # no entry of 0
            return False
        self._open[name] += 1
        self.total += 1
        return True

    def leave(self, name: bytes) -> None:
        self.total -= 1
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
