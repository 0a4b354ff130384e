"""Simulated devices, one per client, each with a secret of its own."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import islice

from overstory.client.randomizer import Randomizer
from overstory.files.rappor import Holding
from overstory.files.reports_csv import ReportRow
from overstory.protocol.canonical import context
from overstory.protocol.entropy import Entropy, KeyedEntropy, SystemEntropy
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.payloads import BitMechanism, as_googles_client
from overstory.protocol.wire.batch import encode_reports

BATCH = 1 << 16
METRIC = "encode"


class Fleet:
    """Devices that are made when their client is first met, and made again, the same, when they were forgotten.

    Parameters
    ----------
    seed
        Makes everything repeatable; without it all secrets and fresh bits are the operating system's.
    kept
        How many devices stay in memory. What is forgotten is derived again: it does not change a bit.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> fleet, forgetful = Fleet(mechanism("rappor"), "7"), Fleet(mechanism("rappor"), "7", kept=1)
    >>> holdings = [Holding("ann", 0, "x"), Holding("bob", 1, "x"), Holding("ann", 0, "x")]
    >>> [fleet.row(one) for one in holdings] == [forgetful.row(one) for one in holdings]
    True
    """

    def __init__(self, mechanism: BitMechanism, seed: str | None = None, *, kept: int = 1 << 14) -> None:
        self.mechanism, self.sent = mechanism, 0
        self._reporting = as_googles_client(mechanism)
        self._kept, self._devices = kept, OrderedDict[tuple[str, int], Randomizer]()
        seeded = None if seed is None else KeyedEntropy(b"overstory encode", seed.encode(), purpose=b"seed")
        self._master = os.urandom(32) if seeded is None else seeded.bits(256).to_bytes(32, "little")
        self._entropy: Entropy = SystemEntropy() if seeded is None else seeded

    def row(self, holding: Holding) -> ReportRow:
        """Return a report with all that its device knows of it."""
        device = self._device(holding)
        bloom = self.mechanism.encode(holding.value, holding.cohort)
        permanent = device.permanent(holding.value)
        self.sent += 1
        return ReportRow(holding.client, holding.cohort, bloom, permanent, device.report(holding.value).bits)

    def report(self, holding: Holding) -> Report:
        """Return a report as it leaves its device."""
        self.sent += 1
        return self._device(holding).report(holding.value)

    def batches(self, holdings: Iterable[Holding]) -> Iterator[bytes]:
        """Yield packed batches; one without reports when there are none at all."""
        reports = map(self.report, holdings)
        chunk = list(islice(reports, BATCH))
        yield encode_reports(self.mechanism, chunk)
        while chunk := list(islice(reports, BATCH)):
            yield encode_reports(self.mechanism, chunk)

    def _device(self, holding: Holding) -> Randomizer:
        name = (holding.client, holding.cohort)
        device = self._devices.get(name)
        if device is None:
            device = self._devices[name] = self._make(*name)
            if len(self._devices) > self._kept:
                self._devices.popitem(last=False)
        return device

    def _make(self, client: str, cohort: int) -> Randomizer:
        secret = KeyedEntropy(self._master, context(client), purpose=b"client").bits(256).to_bytes(32, "little")
        return Randomizer(
            self._reporting,
            secret=secret,
            metric=METRIC,
            cohort=cohort,
            entropy=self._entropy,
            memo_size=64,
        )
