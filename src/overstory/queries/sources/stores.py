"""The stores of several shards, read as one: every report is in one of them, so sums equal one store's, bit for bit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from overstory.analysis.alarms.sums import ReportSums
    from overstory.analysis.reports import ReportBatch, SupportCounts
    from overstory.privacy.payloads.shuffle import Released
    from overstory.protocol.metrics import Metric

Key = TypeVar("Key")
Value = TypeVar("Value", bound=Any)


class SeveralStores:
    """Stores of shards of one registry, with the methods of one `Store`; each has a shard of its own."""

    def __init__(self, stores: Sequence[Any]) -> None:
        self._stores = tuple(stores)
        served = {store.url: store.served_shard() for store in stores}
        if len(served) < len(stores):
            twice = next(url for url, times in Counter(store.url for store in stores).items() if times > 1)
            raise ParameterError(f"{twice} is given twice: its reports would be counted twice")
        first = _check_shards(served)
        shards = {held.shard for held in served.values() if held is not None}
        self.missing = sorted(set(range(first.shards.most)) - shards)
        """The registry's shards of which no store is given."""

    @property
    def url(self) -> str:
        return "; ".join(store.url for store in self._stores)

    def _added(self, read: Callable[[Any], Mapping[Key, Value]]) -> dict[Key, Value]:
        return _totals(read(store) for store in self._stores)

    def counts(
        self,
        metric: Metric,
        first: int,
        last: int,
        among: Collection[int] | None = None,
        groups: Collection[str] | None = None,
    ) -> dict[int, SupportCounts]:
        return self._added(lambda store: store.counts(metric, first, last, among, groups))

    def sums(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[int, ReportSums]:
        return self._added(lambda store: store.sums(metric, first, last, groups))

    def tally(
        self, metric_id: str, first: int, last: int, groups: Collection[str] | None = None
    ) -> dict[tuple[int, bytes], int]:
        return self._added(lambda store: store.tally(metric_id, first, last, groups))

    def stored(self, metric_id: str) -> dict[int, int]:
        return self._added(lambda store: store.stored(metric_id))

    def releases(self, metric_id: str, first: int, last: int) -> Mapping[int, Released]:  # noqa: ARG002
        """Return nothing: no report that comes through a relay is divided over shards."""
        return {}

    def groups(self, metric_id: str) -> list[str]:
        return _union(store.groups(metric_id) for store in self._stores)

    def periods(self, metric_id: str) -> list[int]:
        return _union(store.periods(metric_id) for store in self._stores)

    def reports(
        self, metric: Metric, first: int, last: int, groups: Collection[str] | None = None
    ) -> Iterator[ReportBatch]:
        return chain.from_iterable(store.reports(metric, first, last, groups) for store in self._stores)

    def collectors(self) -> list[Any]:
        states = [state for store in self._stores for state in store.collectors()]
        return sorted(states, key=lambda state: (-state.last_seen, state.id))

    def notes(self, metric: str | None = None) -> list[Any]:
        """Return the notes of all stores, the oldest first; one that several stores have is returned once."""
        notes = {note.id: note for store in self._stores for note in store.notes(metric)}
        return sorted(notes.values(), key=lambda note: (note.day, note.kind, note.text, note.id))

    def tokens(self) -> list[Any]:
        """Return the tokens of all stores, the oldest first, each once; where one store has revoked it, as revoked."""
        tokens: dict[str, Any] = {}
        for token in (token for store in self._stores for token in store.tokens()):
            if token.id not in tokens or token.revoked is not None:
                tokens[token.id] = token
        return sorted(tokens.values(), key=lambda token: (token.created, token.application, token.id))

    def refusals(self) -> Any:
        each = [store.refusals() for store in self._stores]
        by_day, by_metric = (_totals(getattr(one, name) for one in each) for name in ("by_day", "by_metric"))
        return replace(each[0], by_day=by_day, by_metric=by_metric)

    def summary(self) -> Any:
        each = [store.summary() for store in self._stores]
        numbers = {
            name: sum(getattr(one, name) for one in each)
            for name in ("size", "batch_ids", "collectors", "notes", "releases")
        }
        refused = _totals(one.refused for one in each)
        return replace(each[0], url=self.url, metrics=_add_metrics(each), refused=refused, **numbers)


def _check_shards(served: Mapping[str, Any]) -> Any:
    """Return what the first store holds, or raise where the stores cannot be added up."""
    holders: dict[int, str] = {}
    first: tuple[str, Any] | None = None
    for url, held in served.items():
        if held is None:
            raise ParameterError(
                f"{url} holds no shard: only stores that were served with a setting `shard` are read together: no "
                "report is in two of them"
            )
        if held.shard in holders:
            raise ParameterError(f"{holders[held.shard]} and {url} both hold shard {held.shard}: give one of them")
        holders[held.shard] = url
        first = first or (url, held)
        _check_same_registry(*first, url, held)
    assert first is not None, "at least one store"
    return first[1]


def _check_same_registry(url: str, held: Any, other_url: str, other: Any) -> None:
    changed = sorted(name for name, digest in held.mechanisms.items() if other.mechanisms.get(name, digest) != digest)
    if held.shards != other.shards or changed:
        what = f"other parameters of {', '.join(changed)}" if changed else f"shards {held.shards} and {other.shards}"
        raise ParameterError(
            f"{url} and {other_url} were served with different registries ({what}): serve all shards with one"
        )


def _union(listed: Iterable[Iterable[Value]]) -> list[Value]:
    return sorted(set(chain.from_iterable(listed)))


def _totals(counted: Iterable[Mapping[Key, Value]]) -> dict[Key, Value]:
    from overstory.queries.counts import sum_by_key

    return sum_by_key(chain.from_iterable(one.items() for one in counted))


def _add_metrics(summaries: Sequence[Any]) -> tuple[Any, ...]:
    """Add up what each store holds of each metric and mechanism; labels of periods are compared as text."""
    by_key: dict[tuple[str, str], Any] = {}
    for one in chain.from_iterable(summary.metrics for summary in summaries):
        key = one.metric, one.digest
        before = by_key.get(key)
        if before is None:
            by_key[key] = one
            continue
        ends = {"first": min(before.first, one.first), "last": max(before.last, one.last)}
        numbers = {name: getattr(before, name) + getattr(one, name) for name in ("counted", "kept", "waiting")}
        by_key[key] = replace(before, **ends, **numbers)
    return tuple(by_key[key] for key in sorted(by_key))
