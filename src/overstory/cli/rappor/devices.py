"""Simulated devices, one per client, each with a secret of its own."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Final, cast

from overstory.files.rappor import Holding
from overstory.files.reports import ReportRow
from overstory.protocol.kinds.base import Report
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.kinds.rappor import as_googles_client
from overstory.protocol.permanent_response import Responder
from overstory.protocol.sampling import KeyedEntropy, SystemEntropy, context
from overstory.protocol.wire.upload import encode_reports

BATCH: Final = 1 << 16
METRIC: Final = "encode"
ENCODINGS: Final = 1 << 14
"""How many true encodings stay in memory; clients that hold one value in one cohort share it."""


class Fleet:
    """Devices that are made when their client is first met, and made again, the same, when they were forgotten.

    `most` of them stay in memory. A `seed` makes everything repeatable; without it all secrets and fresh bits are the
    operating system's.

    >>> from overstory.protocol.kinds.registry import mechanism
    >>> fleet, forgetful = Fleet(mechanism("rappor"), "7"), Fleet(mechanism("rappor"), "7", most=1)
    >>> holdings = [Holding("ann", 0, "x"), Holding("bob", 1, "x"), Holding("ann", 0, "x")]
    >>> [fleet.row(holding) for holding in holdings] == [forgetful.row(holding) for holding in holdings]
    True
    """

    def __init__(self, mechanism: BitMechanism, seed: str | None = None, *, most: int = 1 << 14) -> None:
        self.mechanism, self.sent = mechanism, 0
        self._reporting = cast("BitMechanism", as_googles_client(mechanism))
        self._encode = lru_cache(maxsize=ENCODINGS)(mechanism.encode)
        self._devices = lru_cache(maxsize=most)(self._make)
        seeded = None if seed is None else KeyedEntropy(b"overstory encode", seed.encode(), purpose=b"seed")
        self._master = os.urandom(32) if seeded is None else seeded.bits(256).to_bytes(32, "little")
        self._random_bits = (SystemEntropy() if seeded is None else seeded).bits

    def row(self, holding: Holding) -> ReportRow:
        """Return a report with all that its device knows of it."""
        client, cohort, value = holding
        bloom = self._encode(value, cohort)
        permanent = self._devices(client, cohort)(value.encode("utf-8", "surrogatepass"), bloom)
        self.sent += 1
        return ReportRow(client, cohort, bloom, permanent, self.mechanism.instantaneous(permanent, self._random_bits))

    def report(self, holding: Holding) -> Report:
        """Return a report as it leaves its device."""
        return Report(holding.cohort, self.row(holding).irr)

    def batches(self, holdings: Iterable[Holding]) -> Iterator[bytes]:
        """Yield packed batches; one without reports when there are none at all."""
        reports = map(self.report, holdings)
        chunk = list(islice(reports, BATCH))
        yield encode_reports(self.mechanism, chunk)
        while chunk := list(islice(reports, BATCH)):
            yield encode_reports(self.mechanism, chunk)

    def _make(self, client: str, cohort: int) -> Responder:
        """Return a device: the function from a value and its true bits to its permanent response."""
        secret = KeyedEntropy(self._master, context(client), purpose=b"client").bits(256).to_bytes(32, "little")
        reporting, permanent = self._reporting, self._reporting.rounds.permanent
        if permanent.is_identity:
            return lambda value, bits: bits  # noqa: ARG005 - no permanent noise
        about = context(METRIC, reporting.digest, cohort)
        return reporting.permanence.responder(permanent, reporting.encoding.num_bits, secret, about)
