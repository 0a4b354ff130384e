r"""The server's half of an oracle: which values a report supports, and how the errors of its estimates go together.

A report supports the values that speak for it (Wang et al. 2017): those whose bit it sets, whose hash it names, whose
set holds it. Counting the support of every value is all that differs between oracles on the server; what follows,
debiasing by p* and q*, is the same for all. Each kind's half is a class, and the encoding or the mechanism names it.

With v and w different, one report's support indicators :math:`S_v, S_w` have a covariance :math:`c_1` if its device
holds one of the two and :math:`c_0` if it holds another, so over N reports of which :math:`n_v` and :math:`n_w` hold
them the debiased counts have

.. math:: (p^* - q^*)^2 \operatorname{Cov} = (n_v + n_w) c_1 + (N - n_v - n_w) c_0 .

Two reports of one device add what they share, as in `overstory.analysis.variance`, with the covariances of the
permanent responses. Over all devices like these a report holds one value, a multinomial: :math:`- R N f_v f_w` more.

- Bits: each is flipped by itself: 0.
- Symbols: a report supports one value: :math:`- p^* q^*` and :math:`- q^{*2}`.
- Sets: two sets meet in ``c_int`` outputs; a third value's set holds those in the mean over the values.
- Hashes and signs: 0, two values' symbols being independent over the seeds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from overstory.analysis.kinds.work import Work
from overstory.analysis.reports import ReportBatch, SupportCounts
from overstory.analysis.selection import people_covariance
from overstory.analysis.variance import clustering
from overstory.kernels.devices import StreamKey
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS, Kind, Mechanism
from overstory.protocol.kinds.bits import SampledBits
from overstory.protocol.kinds.hashes import SeededHash
from overstory.protocol.kinds.hashing import GoogleRapporPython, OverstoryV1

if TYPE_CHECKING:
    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind


def symbols_of(values: ArrayLike | range, domain_size: int) -> NDArray[np.int64]:
    """Return symbols as an array, each checked to be in the domain."""
    held = np.arange(values.start, values.stop, values.step) if isinstance(values, range) else np.asarray(values)
    domain = f"the domain 0 .. {domain_size - 1}"
    if held.ndim != 1 or (held.size and held.dtype.kind not in "iu"):
        raise ParameterError(f"{held.dtype} of shape {held.shape} is outside {domain}: give a column of whole numbers")
    if held.size and not 0 <= held.min() <= held.max() < domain_size:
        wrong = held[(held < 0) | (held >= domain_size)][0]
        raise ParameterError(f"symbol {wrong} is outside {domain}")
    return held.astype(np.int64)


def positions_of(encoding: Any, values: Sequence[Any]) -> NDArray[np.integer[Any]]:
    """Return the positions each string sets in each cohort of a Bloom filter, shape (num_cohorts, M, num_hashes)."""
    shape = encoding.num_cohorts, len(values), encoding.num_hashes
    if encoding.family != OverstoryV1.name:
        octets, family, texts = np.empty(shape, np.uint16), GoogleRapporPython, _texts(values)
        for cohort, row in enumerate(octets):
            joined = b"".join([family.digest(text, cohort) for text in texts])
            row[:] = np.frombuffer(joined, np.uint8).reshape(-1, family.max_hashes)[:, : encoding.num_hashes]
        return octets % np.uint16(encoding.num_bits)
    from overstory.kernels.small_hashes import positions_v1

    digests = _digests(OverstoryV1(encoding.hash_key.encode()), values)
    return positions_v1(digests, encoding.num_bits, encoding.num_hashes, encoding.num_cohorts)


def words_of(encoding: SeededHash, values: Sequence[Any]) -> NDArray[np.uint64]:
    """Return the 64-bit word that each value is hashed from: `value_word` of many."""
    if encoding.domain_size is None:
        return _digests(OverstoryV1(encoding.key.encode()), values)
    from overstory.kernels.small_hashes import value_words

    return value_words(symbols_of(values, encoding.domain_size))


def _digests(family: OverstoryV1, values: Sequence[Any]) -> NDArray[np.uint64]:
    return np.fromiter(map(family.digest, _texts(values)), np.uint64, len(values))


def _texts(values: Any) -> list[bytes]:
    """Return strings as UTF-8; an Arrow array's are no objects until here."""
    if hasattr(values, "buffers"):
        texts: list[bytes] = values.cast("large_binary").to_pylist()
        return texts
    return [value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass") for value in values]


F64 = NDArray[np.float64]
Indices = NDArray[np.intp]
Words = NDArray[np.uint64]
Cohorts = NDArray[np.uint16] | NDArray[np.uint32]
M_co = TypeVar("M_co", bound=Kind, covariant=True)
O_co = TypeVar("O_co", bound=Mechanism, covariant=True)


@dataclass(frozen=True)
class ServerHalf(ABC, Generic[M_co]):
    """What a server does with the reports of a mechanism: it counts them; and what simulated devices send to it."""

    mechanism: M_co

    work: ClassVar[Work] = Work("")  # what counting all values takes, in words and in seconds
    is_oracle: ClassVar[bool] = False  # whether counts are of the supports of values, debiased by p* and q*

    @abstractmethod
    def count(self, batch: ReportBatch, values: Sequence[Any] | None) -> SupportCounts:
        """Return the counts of a batch, of `values` where each is counted; counts of two batches add up."""

    @abstractmethod
    def shape(self, labels: Sequence[str]) -> tuple[int, int]:
        """Return how many rows of counts a period has, and how many counts a row, where the metric has these labels."""

    @abstractmethod
    def table(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return what a value is encoded from, a row (of the last but one axis, or the only one) for each."""

    @abstractmethod
    def respond(self, table: NDArray[Any], symbols: NDArray[np.int32], cohorts: Cohorts, stream: StreamKey) -> Words:
        """Return the packed reports of devices that hold ``table[symbols]``."""

    def assign_cohorts(self, key: bytes, num_devices: int) -> Cohorts:
        from overstory.kernels.devices import StreamKey, assign_cohorts

        return assign_cohorts(StreamKey(key), self.mechanism.num_cohorts, num_devices)

    def outputs(self, batch: ReportBatch) -> NDArray[np.int64]:
        """Return the numbers that reports of one number each are; ParameterError where one is too large."""
        drawn, limit = batch.bits[:, 0], self.mechanism.payload_limit
        if drawn.size and int(drawn.max()) >= limit:
            raise ParameterError(f"a report of {self.mechanism.name} is a number below {limit}, not {int(drawn.max())}")
        return drawn.astype(np.int64)

    def refuse_values(self, values: Sequence[Any] | None, counted: str) -> None:
        """Raise ParameterError where values are named, and what is counted are not values."""
        if values is not None:
            raise ParameterError(f"{self.mechanism.name} counts {counted}")


@dataclass(frozen=True)
class Support(ServerHalf[O_co]):
    """The server's half of the oracles with one kind of encoding."""

    is_oracle: ClassVar[bool] = True
    # What is watched of reports for crafted ones (`overstory.analysis.alarms`): how many values a report votes for,
    # which pairs of values, and its seed.
    watched: ClassVar[frozenset[str]] = frozenset()
    independent_seeds: ClassVar[bool] = False  # two values' estimates err together as the seeds of the reports have it

    def core_seconds(self, num_reports: int, num_values: int) -> float:
        """Return about how many seconds one core counts that many reports and estimates that many values."""
        bits, seeds = self.mechanism.payload_bits, self.mechanism.num_cohorts
        return self.work.core_seconds(num_reports, bits, num_values, seeds)

    @property
    def encoding(self) -> Any:
        return self.mechanism.encoding

    @property
    def domain_size(self) -> int | None:
        return self.mechanism.domain_size

    @property
    def num_outputs(self) -> int:
        """Payloads that a device can send are below this number."""
        return self.mechanism.payload_limit

    @property
    def own_bits(self) -> int | None:
        """How many bits of a report are its value's, whatever the value; None where that depends on it."""
        if "ones" not in self.watched:
            return None
        fewest, most = self.encoding.ones
        return int(most) if fewest == most else None

    @property
    def rates(self) -> tuple[float, float]:
        """P(a report supports its own value), P(it supports another)."""
        return float(self.mechanism.p_star), float(self.mechanism.q_star)

    def shape(self, labels: Sequence[str]) -> tuple[int, int]:
        mechanism = self.mechanism
        if self.encoding.decoded or not self.encoding.pure:
            return mechanism.num_cohorts, mechanism.payload_bits
        return 1, int(mechanism.domain_size or len(labels) or mechanism.payload_bits)

    def estimate(
        self, counts: SupportCounts, names: Sequence[str] | None, *, reports_per_device: float = 1.0, **choices: Any
    ) -> Estimate:
        """Debias the counts: (supports - n q*) / (p* - q*)."""
        from overstory.analysis.estimate import debias

        values = [str(symbol) for symbol in range(counts.num_bits)] if names is None else names
        shared = clustering(self.mechanism, reports_per_device)
        return debias(counts, *self.rates, values, shared, SupportErrors.of(self.mechanism), **choices)

    def votes(self, batch: ReportBatch, num_values: int) -> Words:
        """Return for which of the first values each report votes, packed as bits; bits past them may be anything."""
        return batch.bits[:, : -(-num_values // 64)]


@cache
def _class_at(place: str) -> type[Any]:
    module, _, name = place.partition(":")
    found: type[Any] = getattr(import_module(f"overstory.{module}"), name)
    return found


def server_half(mechanism: Kind) -> ServerHalf[Any]:
    """Return what counts a mechanism's reports, whichever its kind: the mechanism says where it is."""
    if not mechanism.server:
        raise ParameterError(f"reports of {mechanism.name} are not counted: there is no server's half for them")
    half: ServerHalf[Any] = _class_at(mechanism.server)(mechanism)
    return half


def support_of(mechanism: Mechanism) -> Support[Any]:
    """Return the server's half of an oracle."""
    half: Support[Any] = server_half(mechanism)  # type: ignore[assignment] # an oracle names one
    return half


def count_reports(mechanism: Kind, batch: ReportBatch, values: Sequence[Any] | None = None) -> SupportCounts:
    """Return the counts of a batch of a mechanism's reports."""
    shape = mechanism.payload_bits, mechanism.num_cohorts
    if (batch.num_bits, batch.num_cohorts) != shape:
        raise ParameterError(
            f"{mechanism.name} reports have {shape[0]} bits and {shape[1]} cohorts, "
            f"not {batch.num_bits} and {batch.num_cohorts}"
        )
    return server_half(mechanism).count(batch, values)


def pooled(ones: NDArray[np.integer[Any]], num_reports: int) -> SupportCounts:
    """Return counts in which every report could have supported every value."""
    return SupportCounts([num_reports], ones.reshape(1, -1))


def chosen(counts: SupportCounts, values: Sequence[Any] | None) -> SupportCounts:
    """Return the counts of some symbols, in their order; of all without `values`."""
    if values is None:
        return counts
    return SupportCounts(counts.totals, counts.ones[:, symbols_of(values, counts.num_bits)])


def pair_covariance(mechanism: Mechanism, own: float, other: float, span: float = 1.0) -> tuple[float, float]:
    """Return c_1 and c_0 of a response that supports its device's value and another with these probabilities."""
    if mechanism.encoding.holders is None:
        return 0.0, 0.0
    (outputs, owned, shared), (values, holders) = mechanism.encoding.sizes, mechanism.encoding.holders
    # Of the outputs that two values share, a third value owns `inside` of `others`, in the mean over third values.
    # Quotients of whole numbers: of 10,000 values, the numbers themselves are too large for a float.
    inside, others = (holders - 2, values - 2) if values > 2 else (0, 1)
    owned_too, owned_not = shared * inside, shared * (others - inside)
    both = own * (owned_too / (others * owned)) + (1 - own) * (owned_not / (others * (outputs - owned)))
    return (own * (shared / owned) - own * other) * span**2, (both - other**2) * span**2


@dataclass(frozen=True)
class SupportErrors:
    """How debiased supports vary together: see the module."""

    span: float
    once: tuple[float, float]  # c_1 and c_0 in one report
    shared: tuple[float, float]  # in two reports of one device

    @classmethod
    def of(cls, mechanism: Mechanism) -> SupportErrors:
        p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
        return cls(
            p_star - q_star,
            pair_covariance(mechanism, p_star, q_star),
            pair_covariance(mechanism, *mechanism.permanent_support),
        )

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: Indices) -> F64:
        reports, each = estimate.num_reports, estimate.reports_per_device
        counts = estimate.raw_counts[places]
        holders = np.clip(counts, 0, reports)
        pairs = np.minimum(holders[:, None] + holders, reports)
        noise = pairs * self.once[0] + (reports - pairs) * self.once[1]
        noise += (each - 1.0) * (pairs * self.shared[0] + (reports - pairs) * self.shared[1])
        drawn = people_covariance(counts, reports, each) if kind == "population" else 0.0
        return np.asarray(noise / self.span**2 + drawn)


@dataclass(frozen=True, eq=False)
class SampledErrors:
    """How the shares of sampled bits vary together: two values meet in the devices that were asked for both."""

    sample: SampledBits
    totals: NDArray[np.int64]

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: Indices) -> F64:
        size, reports = self.sample.domain_size, max(estimate.num_reports, 1)
        asked = np.zeros((len(self.totals), size))
        for offset in self.sample.offsets:
            asked[np.arange(len(self.totals)), (np.arange(len(self.totals)) + offset) % size] = 1.0
        both = (asked[:, places].T * self.totals) @ asked[:, places]
        each = np.maximum(np.diag(both), 1.0)
        # - x_v x_w s_vw / (s_v s_w) of all devices like these; the sampling of people is - x_v x_w / N of it.
        spread = both / np.outer(each, each) - (kind == "reports") / reports
        drawn = people_covariance(estimate.raw_counts[places], reports, estimate.reports_per_device)
        return np.asarray(drawn * spread * reports)


__all__ = ["Rng", "SimulatedDevices", "count_reports", "generator", "server_half", "support_of"]
Rng: TypeAlias = "int | np.integer[Any] | np.random.Generator | None"  # a text: numpy.random is not loaded for it
"""Randomness for simulations, as NumPy takes it: a seed, a generator, or None for a fresh one."""


def generator(rng: Rng) -> np.random.Generator:
    """Return a generator for a simulation. Real devices never take one: their bits come from the operating system."""
    try:
        if not isinstance(rng, bool | np.bool):
            return np.random.default_rng(rng)
    except (TypeError, ValueError):
        pass
    raise ParameterError(f"rng = {rng!r}: give a whole number of at least 0, a numpy.random.Generator, or None")


@dataclass(frozen=True, eq=False, repr=False)
class SimulatedDevices:
    """A population of devices, each holding one value: all the randomness follows from the 32 bytes of `key`."""

    mechanism: Kind
    table: NDArray[Any]  # what each value is encoded from: see `Support.table`
    symbols: NDArray[np.int32]  # shape (n,): each device's value, as an index into `table`
    cohorts: Cohorts  # shape (n,)
    key: bytes

    @classmethod
    def holding(
        cls, mechanism: Kind, values: Sequence[Any], symbols: NDArray[Any], rng: np.random.Generator
    ) -> SimulatedDevices:
        """Make devices of which number i holds ``values[symbols[i]]``, in cohorts drawn uniformly."""
        held = symbols_of(symbols, len(values))
        if isinstance(values, range) and len(values) > MAX_COHORTS:  # of a large domain, only what somebody holds
            distinct, held = np.unique(held, return_inverse=True)
            values = distinct.tolist()
        key, support = rng.bytes(32), server_half(mechanism)
        cohorts = support.assign_cohorts(key, len(held))
        return cls(mechanism, support.table(values), held.astype(np.int32), cohorts, key)

    def __len__(self) -> int:
        return len(self.symbols)

    def __repr__(self) -> str:
        return f"SimulatedDevices({len(self):,} devices, {self.mechanism.name})"

    def report(self, index: int = 0, *, start: int = 0, stop: int | None = None) -> ReportBatch:
        """Return report number `index` of the devices ``start .. stop - 1``; the same call gives the same bits."""
        rows = slice(start, len(self) if stop is None else stop)
        stream = StreamKey(self.key, first_device=start, report_index=index)
        cohorts, built = self.cohorts[rows], self.mechanism
        bits = server_half(built).respond(self.table, self.symbols[rows], cohorts, stream)
        return ReportBatch(cohorts, bits, built.payload_bits, built.num_cohorts)

    def batches(self, index: int = 0, *, size: int = 1 << 17) -> Iterator[ReportBatch]:
        """Yield report number `index` of all devices in batches of `size`, so that memory stays flat."""
        for start in range(0, len(self), size):
            yield self.report(index, start=start, stop=min(start + size, len(self)))
