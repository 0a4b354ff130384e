"""How much one address may send: in memory alone, of a bounded number of addresses, and forgotten within the hour."""

from __future__ import annotations

import ipaddress
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

HOUR: Final = 3600.0
MOST_ADDRESSES: Final = 100_000


def network_of(address: str) -> str:
    """Return what is counted as one sender: an IPv4 address, or the /64 of an IPv6 address.

    Examples
    --------
    >>> network_of("192.0.2.7"), network_of("::ffff:192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6%eth0")
    ('192.0.2.7', '192.0.2.7', '2001:db8:1:2::')
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return ""  # a Unix socket, or no address: all of these share one bucket
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)).network_address)
    return str(parsed)


def forwarded_address(header: str, peer: str) -> str:
    """Return the address that the nearest proxy has added to X-Forwarded-For; the peer's where there is none.

    Examples
    --------
    >>> forwarded_address("198.51.100.9, 192.0.2.7", "127.0.0.1"), forwarded_address("unknown", "127.0.0.1")
    ('192.0.2.7', '127.0.0.1')
    """
    last = header.rpartition(",")[2].strip()
    return last if network_of(last) else peer


class TokenBuckets:
    """One bucket of tokens for each address: `per_hour` at once, and refilled evenly.

    What is in memory is a keyed hash of each address, with a key that ends with the process, and the time at which its
    bucket is full again; the entry is removed then.

    Examples
    --------
    >>> now = 0.0
    >>> buckets = TokenBuckets(2, clock=lambda: now)
    >>> [buckets.take("192.0.2.7") for _ in range(3)]
    [0.0, 0.0, 1800.0]
    >>> now = 1800.0
    >>> buckets.take("192.0.2.7"), len(buckets)
    (0.0, 1)
    >>> now = 7200.0
    >>> buckets.take("192.0.2.8"), len(buckets)
    (0.0, 1)
    """

    def __init__(self, per_hour: int, most: int = MOST_ADDRESSES, clock: Callable[[], float] = time.monotonic) -> None:
        self._interval = HOUR / per_hour
        self._most, self._clock = most, clock
        self._key = secrets.token_bytes(32)
        self._full_at: OrderedDict[bytes, float] = OrderedDict()  # the address used last is the last entry

    def __len__(self) -> int:
        return len(self._full_at)

    def name(self, address: str) -> bytes:
        """Return the keyed hash under which an address is counted."""
        return blake2b(network_of(address).encode(), digest_size=16, key=self._key).digest()

    def take(self, address: str) -> float:
        """Take a token, and return 0; without one, return the seconds until there is one."""
        now, name = self._clock(), self.name(address)
        self._forget(now)
        full_at = max(now, self._full_at.get(name, now)) + self._interval
        missing = full_at - now - HOUR
        if missing > 1e-6:
            return missing
        self._full_at[name] = full_at
        self._full_at.move_to_end(name)
        while len(self._full_at) > self._most:
            self._full_at.popitem(last=False)
        return 0.0

    def _forget(self, now: float) -> None:
        """Remove the oldest entries whose buckets are full; an entry is behind a fuller one for an hour at most."""
        while self._full_at:
            name, full_at = next(iter(self._full_at.items()))
            if full_at > now:
                return
            del self._full_at[name]

    def forget(self) -> None:
        """Remove every entry whose bucket is full."""
        now = self._clock()
        for name in [name for name, full_at in self._full_at.items() if full_at <= now]:
            del self._full_at[name]


class OpenConnections:
    """How many connections each sender has open, and all together.

    Examples
    --------
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
        """Count a connection that has ended."""
        self.total -= 1
        self._open[name] -= 1
        if not self._open[name]:
            del self._open[name]
