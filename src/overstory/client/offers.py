"""What a device has accepted of the parameters that were offered to it: each offer adds up.

Parameters that come from a server after the program was built may each protect as much as those it was built with. But
every other set of them draws another permanent response to the same value, and fifty of these say what none of them
says alone. So without a ledger a device takes the parameters that it was built with, and no others; with one, each
accepted set is charged its permanent epsilon, and the total stays within a limit.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from overstory.client.state.database import watch
from overstory.client.state.files import locked, write_atomically
from overstory.privacy.terms import add_up
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.sampling import check_secret, context

WAIT: Final = 5.0
"""Seconds to wait for another process that has the ledger's file."""


@dataclass(frozen=True)
class Offer:
    """One thing that was charged.

    Attributes
    ----------
    answer
        The permanent responses that were sent, where they have to be repeated.
    """

    digest: bytes  # of the parameters, or the plan
    tag: bytes  # A keyed hash of the value, where values are charged one by one; else empty
    epsilon: float  # what it costs over its lifetime
    answer: tuple[int, ...] = field(default=(), repr=False)

    def to_json(self) -> list[Any]:
        """Return JSON values; an epsilon without bound is null."""
        epsilon = None if math.isinf(self.epsilon) else self.epsilon
        return [self.digest.hex(), self.tag.hex(), epsilon, list(self.answer)]


Offers = dict[str, tuple[Offer, ...]]
"""What was charged, by the name of a device's metric; it is never changed, another takes its place."""


class OfferLedger:
    """The offers that a device has accepted, of each secret and metric; threads and processes may share it.

    Parameters
    ----------
    path
        A file that keeps them, replaced as a whole at every charge; None: memory alone, which a restart forgets. It
        holds no value and no secret. Keep it as long as the secret: a ledger that is lost begins at 0.
    limit
        The most that all offers of a metric may cost together, per value; None: what the program was built with.

    Raises
    ------
    ParameterError
        When the limit is no number above 0.
    FormatError
        When the file is no ledger: it is not replaced by an empty one.

    Examples
    --------
    >>> ledger = OfferLedger(limit=2.0)
    >>> [ledger.charge(b"sixteen bytes...", "colour", bytes([n]) * 16, 0.9) for n in (1, 2, 2, 3)]
    [True, True, True, False]
    >>> ledger.spent(b"sixteen bytes...", "colour")
    1.8
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, limit: float | None = None) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ParameterError(f"limit = {limit!r}: give an epsilon above 0, or none")
        self.path, self.limit = None if path is None else Path(path), limit
        self._offers: Offers = {}
        self.after_fork()
        watch(self)
        self._read()

    def __repr__(self) -> str:
        return f"OfferLedger({None if self.path is None else os.fspath(self.path)!r}, limit={self.limit!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave the lock out: a copy has its own."""
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        vars(self).update(fields)
        self.after_fork()
        watch(self)

    def after_fork(self) -> None:
        """Go on in a child, where no thread is that could release the lock."""
        self._lock = threading.RLock()

    def offers(self, secret: bytes, metric: str) -> tuple[Offer, ...]:
        """Return what was charged for a metric on the device with this secret, in order."""
        return self._read().get(_owner(secret, metric), ())

    def spent(self, secret: bytes, metric: str) -> float:
        """Return what all of that costs together, rounded up."""
        return add_up([(1, offer.epsilon) for offer in self.offers(secret, metric)])

    def charge(
        self,
        secret: bytes,
        metric: str,
        digest: bytes,
        epsilon: float,
        *,
        most: float = math.inf,
        tag: bytes = b"",
        answer: Sequence[int] = (),
    ) -> bool:
        """Charge an offer, unless it was charged before; return False when that would pass the limit.

        Parameters
        ----------
        secret, metric
            The device's, and the metric's id.
        digest, tag
            Of the parameters, and where values are charged one by one, of the value.
        epsilon
            What it costs over its lifetime.
        most
            The limit where the ledger has none of its own.
        answer
            Permanent responses to keep.
        """
        owner = _owner(secret, metric)
        with self._held() as offers:
            mine = offers.get(owner, ())
            if any(offer.digest == digest and offer.tag == tag for offer in mine):
                return True
            total = add_up([(1, epsilon), *((1, offer.epsilon) for offer in mine)])
            if total > (most if self.limit is None else self.limit):
                return False
            after = offers | {owner: (*mine, Offer(digest, tag, epsilon, tuple(answer)))}
            if self.path is not None:
                write_atomically(self.path, json.dumps(_to_json(after), indent=1).encode())
            self._offers = after
            return True

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return _to_json(self._offers)

    @contextmanager
    def _held(self) -> Iterator[Offers]:
        """Keep other threads and processes out; what is yielded is all that they wrote."""
        with self._lock:
            if self.path is None:
                yield self._offers
                return
            with locked(self.path.with_name(f"{self.path.name}.lock"), WAIT):
                yield self._read()

    def _read(self) -> Offers:
        """Return the file's content; what was read before where there is no file."""
        with self._lock:
            if self.path is not None:
                self._offers = _offers_in(self.path, self._offers)
            return self._offers


def _offers_in(path: Path, otherwise: Offers) -> Offers:
    try:
        read = json.loads(path.read_bytes())
        return {owner: tuple(_offer(entry) for entry in mine) for owner, mine in read["offers"].items()}
    except FileNotFoundError:
        return otherwise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"this is no ledger of offers ({error}); restore it from a backup: an empty one would begin at 0",
            source=os.fspath(path),
        ) from error


def _to_json(offers: Offers) -> dict[str, Any]:
    return {"offers": {owner: [offer.to_json() for offer in mine] for owner, mine in offers.items()}}


def _offer(entry: Any) -> Offer:
    digest, tag, epsilon, answer = entry
    cost = math.inf if epsilon is None else float(epsilon)
    if not cost > 0 or not all(isinstance(response, int) for response in answer):
        raise ValueError("an epsilon is above 0, and an answer is whole numbers")
    return Offer(bytes.fromhex(digest), bytes.fromhex(tag), cost, tuple(answer))


def _owner(secret: bytes, metric: str) -> str:
    """Return the name of a device's metric in the ledger, which says neither."""
    hashed = hashlib.blake2b(context(metric), digest_size=16, key=check_secret(secret), person=b"offers")
    return hashed.hexdigest()
