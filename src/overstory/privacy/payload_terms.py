"""The terms of each kind of mechanism: bits, symbols, sets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from overstory.privacy.histories.bits import worst_of_bits
from overstory.privacy.histories.changes import bits_change, symbol_change
from overstory.privacy.histories.pairs import Worst, check_reports
from overstory.privacy.histories.symbols import worst_of_symbols
from overstory.privacy.terms import Terms
from overstory.protocol.channels import BinaryChannel, Rounds, SymbolChannel
from overstory.protocol.encodings.base import Shape
from overstory.protocol.errors import FormatError, ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.sets import SetMechanism, set_epsilon
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.ranges import RangeRandomizer
from overstory.protocol.numeric.registry import NumericMechanism
from overstory.protocol.probability import ONE, log_ratio, round_up
from overstory.protocol.sampling import SymbolRounds

Pair = tuple[int, int]


@dataclass(frozen=True)
class BitTerms(Terms):
    """Two binary channels, and how far two encodings can be apart.

    Attributes
    ----------
    permanent, instantaneous
        (P(1|1), P(1|0)) over 2**32.
    shapes
        How two values' bits can lie to each other; see `Encoding.shapes`. How nothing's do follows: `with_nothing`.
    """

    kind: ClassVar[str] = "bits"
    permanent: Pair
    instantaneous: Pair
    differences: tuple[Pair, ...]  # worst pairs (ones lowered, zeros raised)
    shapes: tuple[Shape, ...]
    most_values: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", tuple(Shape(*shape) for shape in self.shapes))

    @property
    def rounds(self) -> Rounds:
        """The channels."""
        return Rounds(*(BinaryChannel(Fraction(a, ONE), Fraction(b, ONE)) for a, b in self._channels))

    @property
    def _channels(self) -> tuple[Pair, Pair]:
        return self.permanent, self.instantaneous

    @property
    def fresh(self) -> bool:
        """Whether the permanent round changes nothing."""
        return self.permanent == (ONE, 0)

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of seeing the permanent response itself."""
        return self.rounds.epsilon_permanent(self.differences)

    def _few(self, reports: int) -> float:
        return self.rounds.epsilon(self.differences, reports=reports)

    def change_leak(self, reports: int) -> float:
        """Exact epsilon of one change within `reports` reports: all bits speak."""
        return bits_change(self.rounds, self.shapes, reports)

    def _worst(self, reports: int) -> Worst:
        if self.rounds.instantaneous.is_identity:
            return super()._worst(reports)
        return worst_of_bits(self.rounds, self.shapes, self.most_values, reports)

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        lists = {"differences": list(map(list, self.differences)), "shapes": list(map(list, self.shapes))}
        channels = {"permanent": list(self.permanent), "instantaneous": list(self.instantaneous)}
        return {"kind": self.kind, **channels, **lists, "most_values": self.most_values}


@dataclass(frozen=True)
class SymbolTerms(Terms):
    """Two k-ary channels: the probability of keeping, over 2**32, apart from the uniform draw."""

    kind: ClassVar[str] = "symbols"
    num_symbols: int
    permanent: int
    instantaneous: int
    most_values: int | None

    @property
    def rounds(self) -> SymbolRounds:
        """The channels."""
        alphas = Fraction(self.permanent, ONE), Fraction(self.instantaneous, ONE)
        return SymbolRounds(*(SymbolChannel(self.num_symbols, alpha) for alpha in alphas))

    @property
    def fresh(self) -> bool:
        """Whether the permanent round changes nothing."""
        return self.permanent == ONE

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of seeing the permanent symbol itself."""
        return self.rounds.epsilon_permanent

    def _few(self, reports: int) -> float:
        return self.rounds.epsilon(reports=reports)

    def change_leak(self, reports: int) -> float:
        """Exact epsilon of one change of symbol, or to nothing or from it, within `reports` reports."""
        return symbol_change(self.rounds, reports)

    def _worst(self, reports: int) -> Worst:
        if self.instantaneous == ONE:
            return super()._worst(reports)
        return worst_of_symbols(self.rounds, self.most_values or self.num_symbols, reports)

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class SetTerms(Terms):
    """One memoized output per value: (K, c_set) of the set system, and P(in the value's set) over 2**32."""

    kind: ClassVar[str] = "sets"
    outputs: int
    own: int
    inside: int
    most_values: int | None

    @property
    def fresh(self) -> bool:
        """Never: the output is memoized."""
        return False

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of one report: all others are the same."""
        return set_epsilon(self.outputs, self.own, Fraction(self.inside, ONE))

    def _few(self, reports: int) -> float:  # noqa: ARG002 - one memoized output, however often it is sent
        return self.epsilon_permanent

    def change_leak(self, reports: int) -> float:
        """Infinite: one value always sends one output."""
        check_reports(reports, 2)
        return float("inf")

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class NumberTerms(Terms):
    """One memoized report per position of a number: the largest ratio of its probabilities, exp(epsilon), exact."""

    kind: ClassVar[str] = "numbers"
    odds: Pair
    most_values: int

    def __post_init__(self) -> None:
        over, under = self.odds
        if not over >= under > 0:
            raise ParameterError(f"odds = {over}/{under}: give the larger probability over the smaller")

    @property
    def fresh(self) -> bool:
        """Never: the report of a position is memoized."""
        return False

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of one report: all others are the same."""
        return round_up(log_ratio(Fraction(*self.odds), Fraction(1)))

    def _few(self, reports: int) -> float:  # noqa: ARG002 - one memoized report, however often it is sent
        return self.epsilon_permanent

    def change_leak(self, reports: int) -> float:
        """Infinite: one position always sends one report."""
        check_reports(reports, 2)
        return float("inf")

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        return {"kind": self.kind, "odds": list(self.odds), "most_values": self.most_values}


KINDS: Final[dict[str, type[BitTerms | SymbolTerms | SetTerms | NumberTerms]]] = {
    kind.kind: kind for kind in (BitTerms, SymbolTerms, SetTerms, NumberTerms)
}


def terms_of(mechanism: Mechanism | NumericMechanism) -> Terms:
    """Return the terms of a mechanism, or of what takes numbers (of a range tree: its worst level's).

    Parameters
    ----------
    mechanism
        A frequency oracle's mechanism, or a numeric randomizer.

    Raises
    ------
    ParameterError
        When its kind is not known here.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.symbols import grr
    >>> terms_of(grr(domain_size=4, epsilon=1.0))
    SymbolTerms(num_symbols=4, permanent=1290591209, instantaneous=4294967296, most_values=4)
    """
    if isinstance(mechanism, RangeRandomizer):  # a node of the last level is a symbol: no level has more values
        return terms_of(max(reversed(mechanism.mechanisms), key=lambda level: level.epsilon_report))
    if isinstance(mechanism, NumericRandomizer):
        return NumberTerms(mechanism.odds.as_integer_ratio(), mechanism.num_positions)
    if isinstance(mechanism, BitMechanism):
        return _bits(mechanism)
    if isinstance(mechanism, SymbolMechanism):
        rounds, symbols = mechanism.rounds, mechanism.encoding.num_symbols
        permanent, instantaneous = int(rounds.permanent.alpha * ONE), int(rounds.instantaneous.alpha * ONE)
        return SymbolTerms(symbols, permanent, instantaneous, min(symbols, domain_size(mechanism) or symbols))
    if isinstance(mechanism, SetMechanism):
        outputs, own, _ = mechanism.encoding.sizes
        return SetTerms(outputs, own, int(mechanism.inside * ONE), domain_size(mechanism))
    raise ParameterError(f"nothing is known of the privacy of a {type(mechanism).__name__}")


def change_leak(mechanism: Mechanism, reports: int = 2) -> float:
    """Exact epsilon between `reports` reports of a and reports of a that become b on the way, rounded up.

    The worst over the time of the change and over the values, one of which may be nothing to report. It is infinite
    when every report is the permanent response itself (the one-time modes): two different reports then prove a change.

    Parameters
    ----------
    mechanism
        The mechanism whose reports an attacker links to one device.
    reports
        How many reports the device sends in all; at least 2.

    Raises
    ------
    ParameterError
        When there are fewer than two reports, or too many to look at every time of a change.

    Examples
    --------
    RAPPOR's own parameters, whose epsilon_permanent is 4.39:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> [round(change_leak(rappor, n), 2) for n in (2, 3, 4)]
    [8.61, 15.83, 25.18]
    """
    return terms_of(mechanism).change_leak(reports)


def domain_size(mechanism: Mechanism | NumericMechanism) -> int | None:
    """Return how many values there are, where that is known; of numbers, the positions that can be told apart."""
    if isinstance(mechanism, NumericRandomizer):
        return mechanism.num_positions
    held = mechanism if isinstance(mechanism, RangeRandomizer) else mechanism.encoding
    size: int | None = getattr(held, "domain_size", None)
    return size


def _bits(mechanism: BitMechanism) -> BitTerms:
    encoding, rounds = mechanism.encoding, mechanism.rounds
    return BitTerms(
        rounds.permanent.thresholds,
        rounds.instantaneous.thresholds,
        tuple((lowered, raised) for lowered, raised in encoding.differences),
        encoding.shapes(equal_bits=not mechanism.permanence.by_bits),
        encoding.most_values,
    )


def terms_from_json(read: Mapping[str, Any]) -> Terms:
    """Return the terms that `canonical` wrote."""
    if not isinstance(read, Mapping) or read.get("kind") not in KINDS:
        raise FormatError(f"expected terms of a kind {', '.join(KINDS)}, found {read!r}", field="terms")
    kind = KINDS[read["kind"]]
    try:
        found = kind(**{name: _tuples(value) for name, value in read.items() if name != "kind"})
        usable = found.most_values is None or found.most_values >= 1
        usable = usable and found.epsilon_n(1) <= found.epsilon_permanent and found.change_leak(2) >= 0
    except (TypeError, ValueError, ArithmeticError) as error:
        raise FormatError(f"these are no terms of {kind.kind}: {error}", field="terms") from error
    if not usable:
        raise FormatError(f"these are no terms of {kind.kind}: they promise nothing", field="terms")
    return found


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
