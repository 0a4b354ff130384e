"""What every mechanism is: a name, parameters, epsilons, and a device's two steps."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from overstory.protocol.channels import BinaryChannel, SymbolChannel, log_ratio, round_up
from overstory.protocol.encodings.base import MAX_COHORTS, check_cohort, whole_number
from overstory.protocol.errors import ParameterError
from overstory.protocol.sampling import Draw, Entropy, KeyedEntropy, check_secret, context, uniform_below


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


class Influence(NamedTuple):
    """How many votes one crafted report is worth: by how much it raises or lowers the count of a value it aims at.

    An honest report moves its own value's count by one on average.
    """

    up: float
    down: float

    @property
    def one_percent(self) -> float:
        """By how much 1% of the reports, all of them crafted, raise a value's share."""
        return 0.01 * self.up

    def to_json(self) -> dict[str, float]:
        return {"up": self.up, "down": self.down, "one_percent": self.one_percent}


REBUILD: dict[str, Callable[[str, dict[str, Any], bytes], Mechanism]] = {}
"""What makes a pickled mechanism of that name again, from its parameters and digest; the registry fills it."""


def outward(place: int, size: int, steps: int) -> Iterator[int]:
    """Yield the places around one in ``0 .. size - 1``, nearest first; of two as near, the lower one.

    >>> list(outward(1, 4, 2))
    [0, 2, 3]
    """
    for step in range(1, min(steps, size) + 1):
        yield from (near for near in (place - step, place + step) if 0 <= near < size)


class LocalRandomizer(ABC):
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
        """Travel to another process by name and parameters: a hash's running state and a read-only mapping cannot.

        One that no registry of mechanisms knows travels by its parts.
        """
        if self.name in REBUILD:
            return REBUILD[self.name], (self.name, dict(self.parameters), self.digest)
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
        """Ranges of cohorts: the number after each range's last cohort, and its payloads' limit; 0: none reports."""
        return ((self.num_cohorts, self.payload_limit),)

    def asks(self, cohort: int) -> bool:  # noqa: ARG002 - most ask every device
        """Whether a device of this cohort reports at all."""
        return True

    def question_text(self, cohort: int) -> str:  # noqa: ARG002 - most ask all devices the same
        """Return what a device of this cohort is asked, in words; empty where all are asked the same."""
        return ""

    def encode(self, value: Any, cohort: int) -> int | None:
        """Return a value's payload without noise, which never leaves the device; None where there is no single one."""
        self.held(value, cohort)  # says so when it is no value
        return None

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - none names a value
        """Return a payload in words; `labels` are the names of the values, one of which the payload may be."""
        return f"output {payload}"

    def compared_words(self, before: int, after: int) -> str:
        """Return how a payload differs from an earlier one, in words that the earlier one's name completes."""
        return "the same as" if before == after else "another than"

    @property
    @abstractmethod
    def num_cohorts(self) -> int:
        """How many values the public part of a report can take."""

    @property
    def num_asked(self) -> int:
        """How many of the cohorts report."""
        return self.num_cohorts

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
        """Return what of a value the permanent response is drawn from: its symbol, its position, its set of items.

        ParameterError where the value is outside the domain.
        """

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
        """Return what the permanent response to a value depends on, in a cohort: equal for values that share one.

        >>> from overstory.protocol.mechanisms.hashes import loloha
        >>> hashed = loloha(epsilon_permanent=2, epsilon_report=1, hash_range=2, domain_size=100)
        >>> len({hashed.response_key(value, cohort=7) for value in range(100)})
        2
        """
        return self.key_of(self.held(value, cohort))

    def key_of(self, held: Any) -> Hashable:
        """Return a number, a text or bytes, other ones for everything that can be held."""
        key: Hashable = held
        return key

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the function from a value to the permanent response that `secret` gives to it, always the same.

        ParameterError is raised here where the secret is not usable or there is no such cohort; by the function where
        the value is outside the domain. It is a keyed function of (secret, metric, parameters, cohort, what is held).
        """
        entropy, hold, key_of, draw = self._keyed(secret, metric, cohort), self.held, self.key_of, self.draw

        def respond(value: Any) -> int:
            held = hold(value, cohort)
            return draw(held, cohort, entropy(key_of(held)))

        return respond

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return the permanent response that `secret` gives to *no value*, independent of that to any value.

        A device that has no value to report sends it, so that whether there is a report never depends on the value.
        Epsilon between it and any value is at most that between two values, in any number of reports.
        """
        return self.draw_nothing(cohort, self._keyed(secret, metric, cohort)(b"nothing"))  # no value is bytes there

    def _keyed(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], Entropy]:
        """Return the function from the key of what is held to the stream that its response is drawn from."""
        check_cohort(cohort, self.num_cohorts)
        key, about = check_secret(secret), (metric, self.digest, cohort)
        return lambda held: KeyedEntropy(key, context(*about, held), purpose=b"permanent")

    @property
    def instantaneous(self) -> Draw:
        """The function (permanent response, random_bits) -> the payload of a fresh report; one round sends it as is."""
        return lambda permanent, random_bits: permanent  # noqa: ARG005 - one round draws nothing afresh

    def randomize(self, value: Any, entropy: Entropy, *, cohort: int | None = None) -> Report:
        """Return one report of a device that nobody has seen before (both rounds drawn from `entropy`).

        A device that reports more than once must keep its permanent response: use `overstory.client.Randomizer`.
        """
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


class Mechanism(LocalRandomizer):
    """The device's half of a frequency oracle; a subclass says what its payload is and how likely it is."""

    counts_values: ClassVar[bool] = True

    name: str
    parameters: Mapping[str, Any]
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
        """How many values there are; None for strings."""
        size: int | None = self.encoding.domain_size
        return size

    @property
    @abstractmethod
    def channel(self) -> BinaryChannel | SymbolChannel:
        """P(report | truth) over all rounds: of a bit, of a symbol, or of lying in a value's set."""

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
        """P(the permanent response supports its value), P(it supports another), and how much the second round leaves.

        What the second round leaves is its span: P(supports | the permanent response does) - P(supports | it does not).
        One round sends the response as it is.
        """
        return float(self.p_star), float(self.q_star), 1.0

    @abstractmethod
    def supports(self, report: Report, value: Any) -> bool:
        """Whether the report speaks for `value`: the support function of a pure protocol (Wang et al. 2017)."""
