"""Estimates by what they were computed from, as far as they fit into memory."""

from __future__ import annotations

import hashlib
import pickle
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from overstory.protocol.sampling import context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.reports import SupportCounts
    from overstory.protocol.metrics import Metric
    from overstory.queries.estimates import EstimateOptions

MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, eq=False)
class Task:
    """What an estimate is computed from; `key` is equal where all of it is.

    A closed period's counts never change, so its key does not either; one more report makes another key.
    """

    metric: Metric
    counts: SupportCounts
    per_device: float
    options: EstimateOptions
    names: Sequence[str]
    key: bytes

    @property
    def shared(self) -> tuple[Metric, EstimateOptions, Sequence[str]]:
        """What a series of tasks has in common: sent to the process once."""
        return self.metric, self.options, self.names

    @property
    def work(self) -> EstimateWork:
        """What the process does, given what is shared."""
        return EstimateWork(self.counts, self.per_device)

    def finished(self, result: Estimate) -> Estimate:
        """Return the process's answer as it is kept: every estimate of a list shares one list of its values."""
        return replace(result, values=self.names)


@dataclass(frozen=True, eq=False)
class EstimateWork:
    """What is of one estimate alone."""

    counts: SupportCounts
    per_device: float

    def __call__(self, metric: Metric, options: EstimateOptions, names: Sequence[str]) -> Estimate:
        """Return the estimate."""
        from overstory.queries.estimates import estimate_counts

        return estimate_counts(metric, self.counts, self.per_device, options, names)


class Tasks:
    """Makes the tasks of one reading: what they share is hashed once."""

    def __init__(self) -> None:
        self._shared: tuple[object, object, bytes] | None = None

    def task(
        self,
        metric: Metric,
        counts: SupportCounts,
        per_device: float,
        options: EstimateOptions,
        names: Sequence[str],
    ) -> Task:
        """Return the task of these arguments, which are those of `estimate_counts`."""
        # The list of candidates is in `names`; it may have 100,000 strings, and is hashed and sent once.
        if self._shared is None or self._shared[:2] != (options, names):
            rest = repr(replace(options, candidates=None))
            shared = context(metric.digest.hex(), rest, *map(str, names))
            self._shared = options, names, hashlib.blake2b(shared, digest_size=16).digest()
        own = hashlib.blake2b(self._shared[2], digest_size=16)
        own.update(f"{per_device!r} {counts.ones.shape}".encode())
        own.update(counts.totals.tobytes())
        own.update(counts.ones.tobytes())
        return Task(metric, counts, per_device, options, names, own.digest())


class EstimateCache:
    """Estimates and readings by key; past a number of bytes the least recently used ones are dropped.

    Parameters
    ----------
    most_bytes
        The bound; an estimate counts as much as its pickled form has bytes.

    Examples
    --------
    >>> cache = EstimateCache(most_bytes=100)
    >>> for name in (b"a", b"b", b"c"):
    ...     cache.put(name, None, 40)
    >>> b"a" in cache, b"c" in cache, cache.size
    (False, True, 80)
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self.size = most_bytes, 0
        self._entries: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, key: bytes) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: bytes) -> Any:
        """Return an estimate, and note that it was used; None where there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: bytes, estimate: Any, num_bytes: int | None = None) -> None:
        """Add an estimate; one that is larger than the cache is not added.

        Parameters
        ----------
        num_bytes
            What it counts as, where that is known.
        """
        size = len(pickle.dumps(estimate)) if num_bytes is None else num_bytes
        with self._lock:
            if key in self._entries or size > self._most:
                return
            self._entries[key] = estimate, size
            self.size += size
            while self.size > self._most:
                _, (_, dropped) = self._entries.popitem(last=False)
                self.size -= dropped
