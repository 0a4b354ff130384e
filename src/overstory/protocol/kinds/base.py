"""A kind of data on a device: from a value to a permanent response, and from that to a report.

An encoding says what of a value is sent; channels say how much of it is noise. `Kind` is what every kind writes, and
what follows from that; a `Mechanism` is the kind of a frequency oracle.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from numbers import Real
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from overstory.protocol.channels import BinaryChannel, Differences, Influence, SymbolChannel, log_ratio, round_up
from overstory.protocol.errors import ParameterError
from overstory.protocol.sampling import Draw, Entropy, KeyedEntropy, check_secret, context, uniform_below

MAX_COHORTS = 1 << 16  # that are counted apart; they travel as 16 bits
DEFAULT_SEEDS = 256  # of a hashing oracle's small public set: of a million devices about 3,900 share each
SEEDS = 1 << 31  # of linear-hash, and numbers of devices in a search, which are not; they travel as 32 bits
MAX_SYMBOLS = 1 << 31
MAX_BITS = (1 << 16) - 1  # so does the number of bits


_SHORT = {"family": "hash_family", "key": "hash_key"}
"""Fields of encodings that canonical forms have under another name."""


class AnyEncoding:
    """What every encoding answers, whether into bits or to one of several outputs."""

    pure: ClassVar[bool] = True  # whether every report speaks of every value, in the same way
    uneven: ClassVar[bool] = False  # whether some pairs of values meet in more cohorts than others
    by_seed: ClassVar[bool] = False  # whether reports are counted by (seed, symbol), for candidates named later
    decoded: ClassVar[bool] = False  # whether values share bits, and a fit to all counts tells them apart
    direct: ClassVar[bool] = False  # whether a report is one symbol, and that is a value
    server: ClassVar[str] = ""  # where what counts the reports is: a module below `overstory`, and a class in it
    form: ClassVar[tuple[str, str]]  # how its canonical form begins

    if TYPE_CHECKING:  # at run time a property would be taken for the default of a dataclass's field

        @property
        def domain_size(self) -> int | None:
            """How many values there are; None for strings."""

        @property
        def num_cohorts(self) -> int:
            """How many ways of encoding a value there are; a device always has the same one."""

    def canonical(self) -> dict[str, Any]:
        """Return the parameters that a report's meaning depends on, as JSON values: its fields, unless it says more."""
        names = [part.name for part in fields(self)]  # type: ignore[arg-type] # a dataclass
        return dict([self.form]) | {_SHORT.get(name, name): getattr(self, name) for name in names}

    @property
    def holders(self) -> tuple[int, int | Fraction] | None:
        """How many values could be, and how many of them own an output that two share; None where sets are hashed."""
        return None

    @property
    def asked(self) -> float:
        """The share of cohorts in which a report speaks of a value at all."""
        return 1.0

    def supporting(self, frequency: float) -> float:
        """Return the share of devices whose encoding supports a value of this frequency, others' included."""
        return frequency

    def information(self, num_candidates: int | None) -> float:  # noqa: ARG002 - of any number
        """Return the information of a report about each of so many candidates, over that of a pure oracle's."""
        return 1.0


class Shape(NamedTuple):
    """Of the bits of two encodings, how many are 1 in both, in the first alone, in the second alone, in neither."""

    both: int
    lowered: int
    raised: int
    neither: int


class Encoding(AnyEncoding):
    """A deterministic map from (value, cohort) to a vector of bits."""

    if TYPE_CHECKING:

        @property
        def num_bits(self) -> int:
            """Length of the vector."""

        @property
        def most_values(self) -> int | None:
            """After how many distinct values on one device a further one costs nothing; None where there is no end."""

    @property
    def ones(self) -> tuple[int, int]:
        """The fewest and the most ones of a value's vector, in a cohort that speaks of it."""
        return 1, 1

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:
        """Return shapes among which every loss that adds up over bits has its maximum.

        For given numbers of ones such a loss is linear in the overlap, so the smallest and the largest overlap suffice.
        Two different values whose bits are all equal count only where `equal_bits` says so.

        >>> from overstory.protocol.kinds.bits import Bloom
        >>> Bloom(128, 2, 16).shapes(equal_bits=True)
        (Shape(both=0, lowered=2, raised=2, neither=124), Shape(both=2, lowered=0, raised=0, neither=126))
        """
        raise NotImplementedError

    @cached_property
    def differences(self) -> Differences:
        """Worst pairs (ones lowered, zeros raised) between two values' vectors: what privacy depends on.

        Of the shapes, those than which none lowers and raises more. A known candidate map may be kinder: never worse.
        """
        pairs = sorted({(shape.lowered, shape.raised) for shape in self.shapes(equal_bits=False)})
        return tuple(
            (lowered, raised)
            for lowered, raised in pairs
            if not any(lowered <= more and raised <= most and (lowered, raised) != (more, most) for more, most in pairs)
        )

    @property
    def nothing(self) -> int:
        """The bits of no value, none unless said otherwise: no further from any value's than `differences` says."""
        return 0

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        """Return the positions that `value` sets, possibly with repetitions."""
        raise NotImplementedError


class OutputEncoding(AnyEncoding):
    """Sets of outputs: a value owns c_set of the K that there are, and shares some of them with another value."""

    guessed_exactly: ClassVar[bool] = False  # whether each output is some value's own, so that the best guess is known

    @property
    def sizes(self) -> tuple[int, int, int]:
        """(K, c_set, c_int), exact: c_int of a value's own outputs are another value's, in a cohort that parts them."""
        raise NotImplementedError

    @property
    def collision(self) -> Fraction:
        """The share of a value's outputs, over cohorts, that are another value's too."""
        return Fraction(self.sizes[2], self.sizes[1])


class SymbolEncoding(OutputEncoding):
    """A map from (value, cohort) to a symbol of ``0 .. num_symbols - 1``: a value owns the one output."""

    if TYPE_CHECKING:

        @property
        def num_symbols(self) -> int:
            """Size of the alphabet that the channel works on."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.num_symbols, 1, 0

    @property
    def collision(self) -> Fraction:
        """The share of cohorts in which two different values have one symbol: 1 in `num_symbols`."""
        return Fraction(1, self.num_symbols)

    def symbol(self, value: Any, cohort: int) -> int:
        raise NotImplementedError


def encode(encoding: Encoding, value: Any, cohort: int) -> int:
    """Return the bits of `value` as an integer, bit i of the vector being bit i of the integer."""
    check_cohort(cohort, encoding.num_cohorts)
    return bits_at(encoding.positions(value, cohort))


def bits_at(positions: Iterable[int]) -> int:
    """Return the integer whose bits at `positions` are 1."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits


def whole_number(value: Any) -> Any:
    """Return an integer of any library, such as NumPy's, as Python's own; anything else, and a boolean, as it is."""
    if isinstance(value, bool):
        return value
    try:
        return index(value)
    except TypeError:
        return value


def check_cohort(cohort: int, num_cohorts: int) -> None:
    """Raise ParameterError unless `cohort` is in ``0 .. num_cohorts - 1``."""
    if not isinstance(cohort, int) or isinstance(cohort, bool) or not 0 <= cohort < num_cohorts:
        raise ParameterError(f"cohort {cohort!r} does not exist: cohorts are 0 .. {num_cohorts - 1}")


def check_count(name: str, value: Any, low: int, high: int) -> None:
    """Raise ParameterError unless `value` is an integer in ``low .. high``."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        whole = isinstance(value, float) and value.is_integer()
        advice = f", {int(value)} instead of {value!r}" if whole and low <= value <= high else ""
        raise ParameterError(f"{name} = {value!r}: give a whole number from {low} to {high}{advice}")


def check_symbol(value: Any, domain_size: int) -> int:
    """Return `value` as an int, or raise ParameterError unless it is a symbol of ``0 .. domain_size - 1``."""
    given = value if type(value) is int else whole_number(value)
    if type(given) is not int or not 0 <= given < domain_size:
        raise ParameterError(f"symbol {value!r} is outside the domain 0 .. {domain_size - 1}")
    return given


def check_epsilon(name: str, epsilon: float) -> float:
    """Return `epsilon`, or raise ParameterError unless it is a finite number above 0."""
    given: Any = epsilon
    if isinstance(given, bool) or not isinstance(given, Real) or not 0 < float(given) < math.inf:
        raise ParameterError(f"{name} = {epsilon!r}: give a number above 0")
    return float(epsilon)


def canonical(parameters: Mapping[str, Any]) -> str:
    """Write `parameters` in their one canonical form: JSON, keys sorted, no spaces."""
    return json.dumps(parameters, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def digest(parameters: Mapping[str, Any]) -> bytes:
    """Return the 16-byte digest of the canonical form; equal digests mean equal parameters."""
    return hashlib.blake2b(canonical(parameters).encode(), digest_size=16, person=b"parameters").digest()


class Report(NamedTuple):
    """What leaves the device: its cohort (public) and the randomized payload, an integer of `payload_bits` bits."""

    cohort: int
    bits: int


def outward(place: int, size: int, steps: int) -> Iterator[int]:
    """Yield the places around one in ``0 .. size - 1``, nearest first; of two as near, the lower one."""
    for step in range(1, min(steps, size) + 1):
        yield from (near for near in (place - step, place + step) if 0 <= near < size)


class Kind(ABC):
    """The device's half of a collection: from a value to a permanent response, and from that to a report.

    A subclass is a frozen dataclass. It writes what its values, noise and reports are: `num_cohorts`, `domain_size`,
    `payload_limit`, `held`, `draw`, `draw_nothing`, `likelihood`, `canonical`, and `odds` or its epsilons; of two
    rounds also `instantaneous`. All else follows. There are two families: a `Mechanism` has a finite domain of
    candidates, or strings, each of which a report may support; others have numbers, tables, or a search.
    """

    payload: ClassVar[str]  # the kind of report
    terms_place: ClassVar[str]  # the class of its terms: a module below `overstory`, a colon, the class
    reading: ClassVar[str] = "shares"  # how estimates are read, where the domain does not say
    reads_reports: ClassVar[bool] = False  # whether an estimate needs the reports themselves, and counts are not enough
    counts_values: ClassVar[bool] = False  # whether it is a frequency oracle: what is estimated are single values
    once: ClassVar[bool] = False  # whether a device sends one report by these parameters, and then no other

    @property
    def server(self) -> str:
        """Where what counts the reports is: a module below `overstory`, and a class in it. A device loads neither."""
        return ""

    if TYPE_CHECKING:  # at run time a property would be taken for the default of a dataclass's field

        @property
        def name(self) -> str:
            """The registry's name."""

        @property
        def parameters(self) -> Mapping[str, Any]:
            """What the registry builds it from."""

        @property
        def domain_size(self) -> int | None:
            """How many values there are, of numbers those that differ; None for strings."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process by its fields: what it has computed, and a read-only mapping, cannot."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}  # type: ignore[arg-type] # a dataclass
        return type(self), tuple(dict(part) if isinstance(part, MappingProxyType) else part for part in parts.values())

    @property
    def payload_bits(self) -> int:
        """Width of a report's payload."""
        return (self.payload_limit - 1).bit_length()

    @property
    @abstractmethod
    def payload_limit(self) -> int:
        """Every payload is a number below this."""

    @property
    def payload_weight(self) -> int | None:
        """How many bits of every payload are 1, where that is fixed."""
        return None

    def valid(self, payload: int) -> bool:
        """Whether a report can have this payload."""
        fits = 0 <= payload < self.payload_limit
        return fits and (self.payload_weight is None or payload.bit_count() == self.payload_weight)

    @property
    def zones(self) -> tuple[tuple[int, int], ...]:
        """Ranges of cohorts: the number after each range's last cohort, and its payloads' limit."""
        return ((self.num_cohorts, self.payload_limit),)

    def encode(self, value: Any, cohort: int) -> int | None:
        """Return a value's payload without noise, which never leaves the device; None where there is no single one."""
        self.held(value, cohort)  # says so when it is no value
        return None

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - none names a value
        """Return a payload in words; `labels` are the names of the values, one of which the payload may be."""
        return f"output {payload}"

    @property
    @abstractmethod
    def num_cohorts(self) -> int:
        """How many values the public part of a report can take."""

    @property
    def counted_by_value(self) -> bool:
        """Whether the server counts the support of each value, for there are too many cohorts to count them apart."""
        return self.num_cohorts > MAX_COHORTS

    @property
    def fresh(self) -> bool:
        """Whether all of a report's noise is drawn afresh (the window mechanisms, f = 0): no response is permanent."""
        return False

    @property
    def repeats(self) -> bool:
        """Whether all reports of an unchanged value have one payload: nothing is drawn afresh."""
        return True

    @property
    def odds(self) -> Fraction:
        """The largest ratio of a report's probabilities under two values: exp(epsilon), exact, of one round."""
        raise NotImplementedError

    def epsilon_n(self, reports: int) -> float:  # noqa: ARG002 - one permanent response, however often it is sent
        """Exact epsilon of `reports` reports of one value, rounded up."""
        return round_up(log_ratio(self.odds, Fraction(1)))

    @cached_property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up (RAPPOR's eps_1)."""
        return self.epsilon_n(1)

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, rounded up (RAPPOR's eps_infinity)."""
        return self.epsilon_report

    @abstractmethod
    def held(self, value: Any, cohort: int) -> Any:
        """Return what of a value the permanent response is drawn from; ParameterError outside the domain."""

    @abstractmethod
    def draw(self, held: Any, cohort: int, entropy: Entropy) -> int:
        """Return a permanent response to what is held, drawn from `entropy`."""

    def draw_nothing(self, cohort: int, entropy: Entropy) -> int:
        """Return a response to *no value*, drawn from `entropy`; not needed where `nothing` is written."""
        raise NotImplementedError

    @abstractmethod
    def likelihood(self, report: Report, value: Any) -> Fraction:
        """P(this payload | value) of one report in the report's cohort, exact."""

    def draw_permanent(self, value: Any, cohort: int, entropy: Entropy) -> int:
        """Return a permanent response drawn from `entropy`: that of a device that nobody has seen before."""
        check_cohort(cohort, self.num_cohorts)
        return self.draw(self.held(value, cohort), cohort, entropy)

    def response_key(self, value: Any, cohort: int) -> Hashable:
        """Return what the permanent response to a value depends on, in a cohort: equal for values that share one."""
        return self.key_of(self.held(value, cohort))

    def key_of(self, held: Any) -> Hashable:
        """Return a number, a text or bytes, other ones for everything that can be held."""
        key: Hashable = held
        return key

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the function from a value to the permanent response that `secret` gives to it, always the same."""
        entropy, hold, key_of, draw = self._keyed(secret, metric, cohort), self.held, self.key_of, self.draw

        def respond(value: Any) -> int:
            held = hold(value, cohort)
            return draw(held, cohort, entropy(key_of(held)))

        return respond

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return the permanent response that `secret` gives to *no value*, independent of that to any value."""
        return self.draw_nothing(cohort, self._keyed(secret, metric, cohort)(b"nothing"))  # no value is bytes there

    def _keyed(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], Entropy]:
        check_cohort(cohort, self.num_cohorts)
        key, about = check_secret(secret), (metric, self.digest, cohort)
        return lambda held: KeyedEntropy(key, context(*about, held), purpose=b"permanent")

    @property
    def instantaneous(self) -> Draw:
        """The function (permanent response, random_bits) -> the payload of a fresh report; one round sends it as is."""
        return lambda permanent, random_bits: permanent  # noqa: ARG005 - one round draws nothing afresh

    def randomize(self, value: Any, entropy: Entropy, *, cohort: int | None = None) -> Report:
        """Return one report of a new device; one that reports again needs `overstory.client.Randomizer`."""
        chosen = uniform_below(self.num_cohorts, entropy) if cohort is None else whole_number(cohort)
        permanent = self.draw_permanent(whole_number(value), chosen, entropy)
        return Report(chosen, self.instantaneous(permanent, entropy.bits))

    def neighbours(self, value: Any, steps: int) -> Iterator[Any]:
        """Yield other values of an ordered domain, nearest first, up to `steps` steps away."""
        yield from outward(value, self.domain_size or 0, steps)

    @property
    def influence(self) -> Influence | None:
        """The votes of one crafted report; None where no single values are counted."""
        return None

    @abstractmethod
    def canonical(self) -> dict[str, Any]:
        """Return all that a report's meaning and privacy depend on, as JSON values."""

    @cached_property
    def digest(self) -> bytes:
        """The 16-byte digest of the canonical form: what reports on the wire are labelled with."""
        return digest(self.canonical())


@dataclass(frozen=True)
class Mechanism(Kind):
    """The device's half of a frequency oracle; a subclass says what its payload is and how likely it is."""

    counts_values: ClassVar[bool] = True

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        if self.p_star == self.q_star:
            raise ParameterError(
                f"{self.name}: the report would not depend on the value (p = q, or f = 1): nothing can be learned"
            )
        if self.epsilon_report == float("inf"):
            raise ParameterError(
                f"{self.name}: a report would give the value away (a bit that is never changed): "
                "raise f or p, or lower q"
            )

    @property
    def server(self) -> str:
        place: str = self.encoding.server
        return place

    @cached_property
    def num_cohorts(self) -> int:
        cohorts: int = self.encoding.num_cohorts
        return cohorts

    @property
    def domain_size(self) -> int | None:
        size: int | None = self.encoding.domain_size
        return size

    @property
    def channel(self) -> BinaryChannel | SymbolChannel:
        """P(report | truth) over all rounds: of a bit, of a symbol, or of lying in the set of a value."""
        return BinaryChannel(self.p_star, self.q_star)

    @property
    @abstractmethod
    def p_star(self) -> Fraction:
        """Probability that a report supports its own value."""

    @property
    @abstractmethod
    def q_star(self) -> Fraction:
        """Probability that a report supports any other value (over cohorts, where they matter)."""

    @property
    def rare_variance(self) -> float:
        """n times the variance of a rare value's share."""
        return float(self.q_star * (1 - self.q_star) / (self.p_star - self.q_star) ** 2)

    @property
    def drawn(self) -> tuple[Mechanism, int] | None:
        """The mechanism that reports one item of a set, and from how many it is drawn; None where nothing is drawn."""
        return None

    @property
    def influence(self) -> Influence:
        """The votes of one crafted report, before any post-processing.

        The count of a value rises by (1 - q*) / (p* - q*) with a report that supports it, and falls by
        q* / (p* - q*) with one that does not (Cao, Jia, Gong, USENIX Security 2021). Where values share bits and a fit
        tells them apart, a report that clears or sets all other bits as well counts for up to 1 / (p* - q*). Where a
        report speaks of a few values alone, it stands for those that do not speak of them, and counts for more.
        """
        p, q = self.p_star, self.q_star
        if self.encoding.decoded:
            return Influence(float(1 / abs(p - q)), float(1 / abs(p - q)))
        moves = float((1 - q) / (p - q)), float(-q / (p - q))
        return Influence(max(moves) / self.encoding.asked, -min(moves) / self.encoding.asked)

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        """P(the permanent response supports its value), P(it supports another), and the second round's span."""
        return float(self.p_star), float(self.q_star), 1.0

    @abstractmethod
    def supports(self, report: Report, value: Any) -> bool:
        """Whether the report speaks for `value`: the support function of a pure protocol (Wang et al. 2017)."""
