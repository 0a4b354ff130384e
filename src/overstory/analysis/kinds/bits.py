r"""Support of reports that are bits (unary encodings, Bloom filters, sampled bits), and of reports of sets.

*One item drawn of L.* What the oracle reports is one symbol of each device, so its own estimate is of the shares g of
drawn symbols, and a share of devices is :math:`f = L g`. Over devices like these, a device's drawn symbol is one draw
from g, and the variance is :math:`L^2` times the oracle's over all devices like these. It has three parts: noise, which
item was drawn, and which devices there are. Without the last, :math:`f (1 - f)` a device, it is the variance of these
reports: noise and the draw of items.

The mean size is :math:`L (1 - \text{share of dummies})`, by the same rule. Its variance of these reports is at most
that over all devices like these.

*A bit for every item.* Each count is debiased by itself. The mean size is the sum of the shares; given the sets, bits
are independent. What the sampling of people adds is unknown, as the spread of the sizes is: with mean m it is at most
:math:`m (M - m)`.

A set of s > L (or M) items counts L / s for each: sums are of ``min(s, L)`` items a device.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.estimate import MOST_TOGETHER, Estimate, converted, null_support, unbiased
from overstory.analysis.kinds.base import (
    Cohorts,
    SampledErrors,
    Support,
    Words,
    chosen,
    positions_of,
    support_of,
    symbols_of,
)
from overstory.analysis.kinds.work import PER_BIT, REGRESSION, Work
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.selection import normal_reach, people_variance
from overstory.analysis.variance import clustering, support_noise
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.bits import BitMechanism, SampledBits
from overstory.protocol.kinds.item_sets import ItemBitMechanism, ItemBits, PaddedItems, PaddedSampling, check_items

if TYPE_CHECKING:
    from overstory.analysis.decoding.candidates import CandidateMap
    from overstory.analysis.selection import IntervalKind
    from overstory.kernels.devices import StreamKey


class OneHotSupport(Support[BitMechanism]):
    """A bit per symbol: a report supports the symbols whose bits it sets."""

    work = Work("n d bits added", cell=PER_BIT)
    watched: ClassVar[frozenset[str]] = frozenset({"ones", "pairs"})

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return symbols_of(values, self.encoding.domain_size).astype(np.int32).reshape(1, -1, 1)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        return self.simulate(table, symbols, cohorts, stream, self.encoding.num_bits)

    def simulate(
        self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey, num_bits: int
    ) -> Words:
        """Return the noisy bits of devices by the positions that ``table`` gives to their cohort and symbol."""
        from overstory.kernels.devices import simulate_bits

        rounds = self.mechanism.rounds.permanent, self.mechanism.rounds.instantaneous
        permanent, instantaneous = (None if channel.is_identity else channel.thresholds for channel in rounds)
        own = cohorts.astype(np.uint16, copy=False)
        return simulate_bits(table, symbols, own, permanent, instantaneous, stream, num_bits=num_bits)

    def simulate_held(
        self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey, num_bits: int
    ) -> Words:
        """Return the bits of devices, some of which hold what has none: a position past the last; it is dropped."""
        bits = self.simulate(table, symbols, cohorts, stream, num_bits + 1)
        bits[:, num_bits // 64] &= np.uint64((1 << num_bits % 64) - 1)
        return bits[:, : -(-num_bits // 64)]

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Count bits by cohort; which values those of filters and of sampled bits are of, an estimate says."""
        if not self.encoding.pure:
            self.refuse_values(values, "bits, not values: give candidates to `estimate`")
        return chosen(batch.accumulate(), values)


class BloomSupport(OneHotSupport):
    """Filters of strings: what is counted are the bits of each cohort, and candidates are tried on the counts."""

    work = REGRESSION
    watched: ClassVar[frozenset[str]] = frozenset({"ones"})

    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        return positions_of(self.encoding, values)

    def estimate(
        self,
        counts: SupportCounts,
        names: Sequence[str] | CandidateMap | None,
        *,
        reports_per_device: float = 1.0,
        **choices: Any,
    ) -> Estimate:
        if names is None:
            raise ParameterError(
                f"{self.mechanism.name} needs candidates: a Bloom filter can only be asked for given strings"
            )
        from overstory.analysis.decoding import decode
        from overstory.analysis.decoding.candidates import CandidateMap

        if isinstance(names, CandidateMap):
            candidates = names
        else:
            candidates = CandidateMap(names, self.table(names), self.encoding.num_bits)
        p_star, q_star = self.rates
        return decode(
            counts,
            candidates,
            p_star=p_star,
            q_star=q_star,
            permanent=self.mechanism.rounds.permanent,
            reports_per_device=reports_per_device,
            **choices,
        )


class SampledSupport(OneHotSupport):
    """Bits of a sample of the symbols: a report speaks for those that its cohort was asked for, and for no other."""

    encoding: SampledBits
    work = Work("n d' bits added", cell=7e-9)
    watched: ClassVar[frozenset[str]] = frozenset({"ones"})

    def table(self, values: Sequence[Any]) -> NDArray[Any]:  # noqa: ARG002 - all that a device can hold
        """Return the bit at each distance from the cohort; one past the last where there is none."""
        none, distances = self.encoding.num_bits, range(self.encoding.domain_size)
        return np.array([self.encoding.places.get(distance, none) for distance in distances], np.int32).reshape(
            1, -1, 1
        )

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Encode distances from the cohort."""
        distances = ((symbols.astype(np.int64) - cohorts) % self.encoding.domain_size).astype(np.int32)
        return self.simulate_held(table, distances, np.zeros(len(symbols), np.uint16), stream, self.encoding.num_bits)

    def asked(self, counts: SupportCounts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for each symbol how many reports were asked for it, and in how many its bit was set."""
        size = self.encoding.domain_size
        asked, ones = np.zeros(size, np.int64), np.zeros(size, np.int64)
        for bit, offset in enumerate(self.encoding.offsets):
            asked += np.roll(counts.totals, offset)
            ones += np.roll(counts.ones[:, bit], offset)
        return asked, ones

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Debias bits among the s of n reports asked for them, which adds ``x (1 - x) (1 - s/n) / s`` of variance."""
        asked, ones = self.asked(counts)
        (p_star, q_star), reports = self.rates, counts.num_reports
        reached = np.maximum(asked, 1)
        shares = np.where(asked, (ones / reached - q_star) / (p_star - q_star), 0.0)
        held = np.clip(shares, 0, 1)
        shared = clustering(self.mechanism, reports_per_device)
        noise = support_noise(held, 1 - held, p_star, q_star) + shared.excess(held, 1 - held)
        sampling = reports_per_device * held * (1 - held) * (1 - reached / max(reports, 1))  # devices were sampled
        spread = (noise / (p_star - q_star) ** 2 + sampling) / reached
        errors = np.where(asked, np.sqrt(spread) * reports, np.inf)
        values = [str(symbol) for symbol in range(len(asked))] if names is None else names
        return unbiased(
            values,
            shares * reports,
            errors,
            reports,
            reports_per_device=reports_per_device,
            notes=shared.note,
            joint_errors=SampledErrors(self.encoding, counts.totals),
            null_support=null_support(ones, asked, self.rates, shared),
            **choices,
        )


NEAR: Final = 0.8  # from this share of the most items that count on, the mean size suggests that many sets are larger


@dataclass(frozen=True)
class MeanSize:
    """How many items a device has, on average; of a set of more than `most`, `most` count."""

    mean: float
    standard_error: float  # of these reports, at most
    population_error: float  # of all devices like these, at most
    most: int

    def interval(self, level: float = 0.95, kind: IntervalKind = "reports") -> tuple[float, float]:
        error = self.population_error if kind == "population" else self.standard_error
        reach = normal_reach(level) * error
        return self.mean - reach, self.mean + reach

    def to_json(self, kind: IntervalKind = "reports") -> dict[str, Any]:
        """Return it as JSON values, with its interval at 95%; unknown numbers are None."""
        low, high = self.interval(kind=kind)
        named = {"mean": self.mean, "low": low, "high": high}
        return {key: x if math.isfinite(x) else None for key, x in named.items()} | {"most": self.most}


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ItemEstimate(Estimate):
    """How many devices have each item, and how many items a device has."""

    adds_up: ClassVar[bool] = False
    mean_size: MeanSize

    def summary(self) -> dict[str, Any]:
        return {**super().summary(), "mean_size": self.mean_size.to_json(self.interval_kind)}


def with_size(estimate: Estimate, size: MeanSize, **changed: Any) -> ItemEstimate:
    """Return an estimate of items from one of symbols, with what is known of large sets in its notes."""
    most = f"{size.most} item{'s' * (size.most != 1)}"
    rule = f"a set of more than {most} counts as {most}: each of its s items as {size.most}/s of a device"
    near = f"the mean size, {size.mean:.2f}, is near {size.most}: many sets may be larger, and counts too low"
    notes = (*estimate.notes, rule, *([near] if size.mean > NEAR * size.most else ()))
    return converted(ItemEstimate, estimate, **changed, notes=notes, mean_size=size, joint_errors=None)


class ItemSupport(Support[Any]):
    """Reports of sets."""

    @property
    def size(self) -> int:
        return int(self.encoding.domain_size)

    def table(self, values: Sequence[Any]) -> NDArray[np.int32]:
        """Return each set's items in a row after their number; what is left of a row is past the last item."""
        sets = [check_items(value, self.size) for value in values]
        rows = np.full((len(sets), 1 + max(map(len, sets), default=0)), self.size, np.int32)
        for row, items in zip(rows, sets, strict=True):
            row[0], row[1 : 1 + len(items)] = len(items), items
        return rows

    def drawn(self, stream: StreamKey, number: int, rows: int) -> NDArray[np.int64]:
        """Return a number below 2**31 for each device, always the same: independent for each `number`."""
        from overstory.kernels.devices import assign_cohorts

        key = hashlib.blake2b(stream.key, salt=number.to_bytes(16, "little"), digest_size=32).digest()
        return assign_cohorts(replace(stream, key=key), 1 << 31, rows).astype(np.int64)


class PaddedSupport(ItemSupport):
    """One item of a padded set, reported by an oracle: counts are the oracle's, of items and dummies."""

    mechanism: PaddedSampling
    encoding: PaddedItems
    work = Work("that of the oracle")

    def core_seconds(self, num_reports: int, num_values: int) -> float:
        return self.inner.core_seconds(num_reports, num_values + self.encoding.num_dummies)

    @cached_property
    def inner(self) -> Support[Any]:
        return support_of(self.mechanism.inner)

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:
        return self.inner.shape([*labels, *(["padding"] * self.encoding.num_dummies)])

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        self.refuse_values(values, "all items: name none")
        return self.inner.count(batch, None)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Draw one item of each padded set, or a dummy, and let the oracle report it."""
        sizes, length = table[symbols, 0].astype(np.int64), self.encoding.length
        places = self.drawn(stream, 0, len(symbols)) * np.maximum(sizes, length) >> 31
        dummies = self.size + (places - sizes if self.encoding.num_dummies > 1 else np.zeros_like(places))
        among = np.minimum(1 + places, table.shape[1] - 1)
        held = np.where(places < sizes, table[symbols, among], dummies).astype(np.int32)
        inner = self.inner
        return inner.respond(inner.table(range(self.encoding.num_symbols)), held, cohorts, stream)

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> ItemEstimate:
        oracle = self.inner.estimate(counts, None, reports_per_device=reports_per_device)
        length, items, reports = self.encoding.length, slice(0, self.size), counts.num_reports
        raw = length * oracle.raw_counts[items]
        spread, noise = (length * oracle.errors(kind)[items] for kind in ("population", "reports"))
        people = people_variance(raw, reports, oracle.reports_per_device)
        errors = np.sqrt(np.maximum(spread**2 - people, noise**2)) if reports else noise
        values = [str(symbol) for symbol in range(self.size)] if names is None else names
        null = None if oracle.null_support is None else oracle.null_support.at(items)
        changed = {"counts": raw, "raw_counts": raw, "standard_errors": errors, "null_support": null}
        new = {"values": values, **changed, **choices}
        return with_size(oracle, self._mean_size(oracle), **new)

    def _mean_size(self, oracle: Estimate) -> MeanSize:
        dummies, length = range(self.size, self.encoding.num_symbols), self.encoding.length
        share = float(oracle.raw_counts[self.size :].sum()) / max(oracle.num_reports, 1)
        if len(dummies) > MOST_TOGETHER or not oracle.num_reports:
            error = math.inf
        elif len(dummies) == 1:
            error = float(oracle.errors("population")[self.size]) / oracle.num_reports
        else:
            error = math.sqrt(float(oracle.covariance("population", dummies).sum())) / oracle.num_reports
        return MeanSize(length * (1 - share), length * error, length * error, length)


class ItemBitSupport(ItemSupport):
    """A bit for every item."""

    mechanism: ItemBitMechanism
    encoding: ItemBits
    work = OneHotSupport.work

    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        return OneHotSupport(self.mechanism).count(batch, values)

    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Pass the bits of each set, or of the part of it that counts, through the channels."""
        if table.shape[1] == 1:  # nobody has any item
            table = np.full((len(table), 2), [[0, self.size]], np.int32)
        positions, rows = table[:, 1:], symbols
        large = np.flatnonzero(table[symbols, 0] > self.encoding.most)
        if large.size:
            positions, rows = positions[symbols], np.arange(len(symbols), dtype=np.int32)
            positions[large] = self._part(positions[large], large, stream, len(symbols))
        return OneHotSupport(self.mechanism).simulate_held(positions[None], rows, cohorts, stream, self.size)

    def _part(
        self, held: NDArray[np.int32], large: NDArray[np.intp], stream: StreamKey, devices: int
    ) -> NDArray[np.int32]:
        """Return, for the devices with too many items, `most` of them, drawn without replacement."""
        width, part = held.shape[1], np.full_like(held, self.size)
        order = np.stack([self.drawn(stream, 1 + place, devices)[large] for place in range(width)], axis=1)
        order[held == self.size] = 1 << 31
        first = np.argsort(order, axis=1)[:, : self.encoding.most]
        part[:, : first.shape[1]] = np.take_along_axis(held, first, axis=1)
        return part

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> ItemEstimate:
        debiased = super().estimate(counts, names, reports_per_device=reports_per_device)
        return with_size(debiased, self._mean_size(debiased), **choices)

    def _mean_size(self, debiased: Estimate) -> MeanSize:
        reports, most = debiased.num_reports, self.encoding.most
        if not reports:
            return MeanSize(0.0, math.inf, math.inf, most)
        mean = float(debiased.raw_counts.sum()) / reports
        error = math.sqrt(float((debiased.standard_errors**2).sum())) / reports
        possible = min(max(mean, 0.0), float(most))
        spread = debiased.reports_per_device * possible * (most - possible) / reports
        return MeanSize(mean, error, math.sqrt(error**2 + spread), most)
