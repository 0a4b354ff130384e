r"""Sets of items as bits, and as one item drawn from the set after it was padded.

An item is a symbol of ``0 .. domain_size - 1``; a set is a tuple of items, ascending, each once.

**Padding and sampling** [1]_. A set is padded with dummies to L symbols, one of them is drawn, and an oracle reports
it; counts are multiplied by L. With an oracle that reports one symbol by GRR, :math:`P(y | v) = q + (p - q) w_v(y)`
with :math:`w_v(y) \le 1 / L` the chance that y is drawn from v, and 0 for the sets that y is not in. So the exact odds
are :math:`1 + (p / q - 1) / L`, and GRR may be run at the epsilon that these odds belong to: the published
:math:`\ln(L (e^\epsilon - 1) + 1)`. It takes L different dummies: one alone would be drawn from the empty set for sure.
No other oracle gains. A vector of bits, or a hash, can support all symbols of one set and none of another, and then the
likelihoods of all symbols that may be drawn are alike: the odds are the oracle's own.

A set of s > L items is not padded: each is drawn with chance 1 / s < 1 / L. No epsilon changes, and its items count
L / s each.

**A bit for every item.** Two sets of at most M items differ in M lowered and M raised bits at worst: each bit has the
noise of epsilon / M. Of larger sets, M items are drawn.

The permanent response to a set is a function of (secret, metric, parameters, set): the item that is drawn, and its
noise. Another set, however alike, has an independent one.

References
----------
.. [1] Wang, Li, Jha, "Locally differentially private frequent itemset mining", IEEE Symposium on Security and Privacy
   2018 (padding-and-sampling-based frequency oracles, section IV).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final

from overstory.protocol.channels import BinaryChannel, Differences, Rounds
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import (
    MAX_BITS,
    MAX_SYMBOLS,
    AnyEncoding,
    Encoding,
    Mechanism,
    Report,
    Shape,
    bits_at,
    check_cohort,
    check_count,
    check_epsilon,
    check_symbol,
)
from overstory.protocol.kinds.bits import BitMechanism, OneHot
from overstory.protocol.kinds.calibration import calibrated, optimized, symmetric
from overstory.protocol.kinds.registry import mechanism
from overstory.protocol.kinds.symbols import grr
from overstory.protocol.sampling import Entropy, KeyedEntropy, check_secret, context, uniform_below

Items = tuple[int, ...]


def check_items(value: Any, domain_size: int) -> Items:
    """Return a set of items in its one form, or raise ParameterError."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise ParameterError(f"{value!r:.100} is no set of items: give an iterable of whole numbers")
    return tuple(sorted({check_symbol(item, domain_size) for item in value}))


def items_key(items: Items) -> bytes:
    """Return bytes that no other set has."""
    return ",".join(map(str, items)).encode()


@dataclass(frozen=True)
class ItemBits(Encoding):
    """A bit for each item; a set of more than `most` items sets the bits of `most` of them, drawn at random."""

    domain_size: int
    most: int

    form: ClassVar[tuple[str, str]] = ("encoding", "item-bits")
    num_cohorts: ClassVar[int] = 1
    most_values: ClassVar[None] = None  # there are more sets than anybody can count
    server: ClassVar[str] = "analysis.kinds.bits:ItemBitSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_BITS)
        check_count("most", self.most, 1, self.domain_size)

    @property
    def num_bits(self) -> int:
        return self.domain_size

    @property
    def ones(self) -> tuple[int, int]:
        return 0, self.most

    @property
    def differences(self) -> Differences:
        """Two sets that share no item; where they would need more items than there are, they use all of them."""
        size, most = self.domain_size, self.most
        if 2 * most <= size:
            return ((most, most),)
        return tuple((lowered, size - lowered) for lowered in range(size - most, most + 1))

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:
        """Return the corners of all that two sets can be: see `Encoding.shapes`.

        With l bits lowered, r raised and b in both: ``b + l`` and ``b + r`` are at most `most`, and ``b + l + r`` at
        most all. The corners of that, with ``l + r >= 1``, have b at one of its ends, and l and r among a few.
        Two sets of more than `most` items may set equal bits: then b is `most`.
        """
        size, most = self.domain_size, self.most
        rest = min(most, size - most)
        far = {(most, rest), (rest, most), (rest, rest), (most, 0), (0, most)}
        shapes = [Shape(most, 0, 0, size - most)] if equal_bits and most < size else []
        for lowered, raised in sorted({(0, 1), (1, 0), (1, 1), *far} - {(0, 0)}):
            room = min(most - max(lowered, raised), size - lowered - raised)
            shapes += [Shape(b, lowered, raised, size - lowered - raised - b) for b in sorted({0, room}) if room >= 0]
        return tuple(shapes)

    def positions(self, value: Any, cohort: int) -> Items:  # noqa: ARG002 - one cohort encodes as any
        items = check_items(value, self.domain_size)
        if len(items) > self.most:
            raise ParameterError(f"a set of {len(items)} items sets the bits of a random part of {self.most}")
        return items

    def counted(self, items: Items, entropy: Entropy) -> Items:
        """Return the items whose bits are set: all, or `most` of them, drawn without replacement (Fisher and Yates)."""
        if len(items) <= self.most:
            return items
        left = list(items)
        for place in range(self.most):
            drawn = place + uniform_below(len(left) - place, entropy)
            left[place], left[drawn] = left[drawn], left[place]
        return tuple(sorted(left[: self.most]))


@dataclass(frozen=True)
class PaddedItems(AnyEncoding):
    """One item of a set that was padded with `num_dummies` dummies, the symbols from `domain_size` on, to `length`."""

    domain_size: int
    length: int
    num_dummies: int

    server: ClassVar[str] = "analysis.kinds.bits:PaddedSupport"
    num_cohorts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        OneHot(self.domain_size)
        check_count("length", self.length, 1, self.domain_size)
        check_count("num_dummies", self.num_dummies, 1, MAX_SYMBOLS)
        if self.num_dummies not in {1, self.length}:
            raise ParameterError(f"num_dummies = {self.num_dummies}: give 1, or as many as length = {self.length}")

    @property
    def num_symbols(self) -> int:
        return self.domain_size + self.num_dummies

    def padded(self, items: Items) -> Items:
        """Return the symbols of which one is drawn, all equally likely."""
        missing = self.length - len(items)
        dummies = range(missing) if self.num_dummies > 1 else (0,) * missing
        return (*items, *(self.domain_size + dummy for dummy in dummies))

    def draw(self, items: Items, entropy: Entropy) -> int:
        padded = self.padded(items)
        return padded[uniform_below(len(padded), entropy)]

    def canonical(self) -> dict[str, Any]:
        return {"domain_size": self.domain_size, "length": self.length, "num_dummies": self.num_dummies}


@dataclass(frozen=True)
class PaddedSampling(Mechanism):
    """Report one symbol of a padded set through an oracle of one round, over items and dummies."""

    encoding: PaddedItems
    inner: Mechanism

    payload: ClassVar[str] = "items"
    terms_place: ClassVar[str] = "privacy.payloads.symbols:ItemTerms"
    reading: ClassVar[str] = "items"

    @cached_property
    def num_cohorts(self) -> int:
        return self.inner.num_cohorts

    @property
    def length(self) -> int:
        """L: what the shares of drawn items are multiplied by."""
        return self.encoding.length

    @property
    def drawn(self) -> tuple[Mechanism, int]:
        return self.inner, self.length

    @property
    def payload_limit(self) -> int:
        return self.inner.payload_limit

    @cached_property
    def p_star(self) -> Fraction:
        """P(a report supports an item of its set), at most L items: q* + (p* - q*) / L of the oracle's."""
        return self.q_star + (self.inner.p_star - self.inner.q_star) / self.length

    @property
    def q_star(self) -> Fraction:
        return self.inner.q_star

    @cached_property
    def odds(self) -> Fraction:
        own = self.inner.odds
        if self.encoding.num_dummies < self.length or not self.inner.encoding.direct:
            return own
        return 1 + (own - 1) / self.length

    def likelihood(self, report: Report, value: Any) -> Fraction:
        drawn = self.encoding.padded(check_items(value, self.encoding.domain_size))
        return sum((self.inner.likelihood(report, symbol) for symbol in drawn), Fraction(0)) / len(drawn)

    def supports(self, report: Report, value: Any) -> bool:
        return self.inner.supports(report, value)

    def held(self, value: Any, cohort: int) -> Items:  # noqa: ARG002 - in any
        return check_items(value, self.encoding.domain_size)

    def key_of(self, held: Items) -> bytes:
        return items_key(held)

    def draw(self, held: Items, cohort: int, entropy: Entropy) -> int:
        return self.inner.draw_permanent(self.encoding.draw(held, entropy), cohort, entropy)

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:
        """Return a response as to the empty set, and independent of the empty set's own."""
        return self.draw((), cohort, entropy)

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:
        padding = ["no item (padding)"] * self.encoding.num_dummies
        return self.inner.payload_words(payload, [*labels, *padding] if labels else ())

    def canonical(self) -> dict[str, Any]:
        return {"name": self.name, **self.encoding.canonical(), "inner": self.inner.canonical()}


@dataclass(frozen=True)
class ItemBitMechanism(BitMechanism):
    """A bit for every item, each with its own noise; a set of more than `most` items shows a random part of them."""

    encoding: ItemBits

    payload: ClassVar[str] = "item-bits"
    terms_place: ClassVar[str] = "privacy.payloads.bits:ItemBitTerms"
    reading: ClassVar[str] = "items"

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_cohort(cohort, 1)
        about = context(metric, self.digest, cohort)
        respond = self.permanence.responder(self.rounds.permanent, self.encoding.num_bits, secret, about)
        part = KeyedEntropy(check_secret(secret), about, purpose=b"part of a set")

        def respond_to(value: Any) -> int:
            items = check_items(value, self.encoding.domain_size)
            key = items_key(items)
            return respond(key, bits_at(self.encoding.counted(items, part.about(key))))

        return respond_to

    def held(self, value: Any, cohort: int) -> Any:  # noqa: ARG002 - one cohort
        return check_items(value, self.encoding.domain_size)

    def response_key(self, value: Any, cohort: int) -> bytes:
        return items_key(self.held(value, cohort))

    def draw(self, held: Any, cohort: int, entropy: Entropy) -> int:
        return super().draw(bits_at(self.encoding.counted(held, entropy)), cohort, entropy)


INNER: Final = ("grr", "oue", "olh")  # the oracles that padding and sampling may report an item by


def padding_and_sampling(
    *, domain_size: int, most: int, epsilon: float, length: int | None = None, inner: str | None = None
) -> PaddedSampling:
    """Padding and sampling: one item of the padded set, by GRR, OUE or OLH, counted L times.

    `length` is L, `most` unless given; without `inner`, the oracle of least variance for a rare item. Wang, Li, Jha,
    "Locally differentially private frequent itemset mining", IEEE S&P 2018.
    """
    parameters = dict(locals())
    check_epsilon("epsilon", epsilon)
    checked = ItemBits(domain_size, most)
    if length is not None and not (type(length) is int and 1 <= length <= checked.most):
        raise ParameterError(f"length = {length!r}: give a whole number from 1 to most = {most}")
    if inner is not None and inner not in INNER:
        raise ParameterError(f"inner = {inner!r}: choose one of {', '.join(INNER)}")
    names = INNER if inner is None else (inner,)
    built = [_padded(parameters, domain_size, length or most, epsilon, name) for name in names]
    return min(built, key=lambda mechanism: mechanism.rare_variance)


def _padded(parameters: dict[str, Any], size: int, length: int, epsilon: float, inner: str) -> PaddedSampling:
    encoding = PaddedItems(size, length, length if inner == "grr" else 1)
    symbols, name = encoding.num_symbols, "padding-and-sampling"
    if inner != "grr":
        oracle = mechanism(inner, domain_size=symbols, epsilon=epsilon)
        return PaddedSampling(name, parameters, encoding, oracle)
    # GRR's odds p / q at which 1 + (p / q - 1) / L is e^epsilon; floats may round up, so step back until it holds.
    wished = math.log1p(length * math.expm1(epsilon)) if epsilon < 50 else epsilon + math.log(length)
    while True:
        built = PaddedSampling(name, parameters, encoding, grr(domain_size=symbols, epsilon=wished))
        if built.epsilon_report <= epsilon:
            return built
        wished *= 1 - 1e-12


def item_bits(*, domain_size: int, most: int, epsilon: float) -> ItemBitMechanism:
    """A bit for every item: unary encoding of a set, each bit at epsilon / `most`, with OUE's noise or SUE's."""
    parameters = dict(locals())
    check_epsilon("epsilon", epsilon)
    encoding = ItemBits(domain_size, most)
    channels = (calibrated(noise, epsilon, tuple(encoding.differences)) for noise in (optimized, symmetric))
    rounds = (Rounds(channel, BinaryChannel.identity()) for channel in channels)
    built = (ItemBitMechanism("item-bits", parameters, encoding, each) for each in rounds)
    return min(built, key=lambda mechanism: mechanism.rare_variance)
