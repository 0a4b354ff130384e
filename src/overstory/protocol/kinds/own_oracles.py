"""An oracle of a user's own: a function in her file, registered by `oracle_kind`, gives its noise; all else follows.

Nothing here reads a file: `overstory.cli.own_files` does, for commands of analysis alone, from a path that the user
gave. A device and a collector load none.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, wraps
from itertools import combinations
from typing import Any, ClassVar, Final, TypeVar

from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.errors import OverstoryError, ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS, Mechanism, check_count, check_symbol
from overstory.protocol.kinds.bits import BitMechanism, OneHot
from overstory.protocol.kinds.registry import add_own
from overstory.protocol.kinds.sets import SetMechanism, SetSystem
from overstory.protocol.sampling import Entropy, uniform_below

MOST_LISTED: Final = 1 << 11  # values: each two of their sets are compared
Probability = float | Fraction
Build = TypeVar("Build", bound=Callable[..., Any])


def oracle_kind(name: str) -> Callable[[Build], Build]:
    """Register a function that makes an oracle of your own from its parameters; `overstory.oracle` then knows it.

    Parameters
    ----------
    name
        What it is called; no oracle of the library has this name. The function's keyword arguments are the oracle's
        parameters (``domain_size``, ``epsilon`` and so on), its first line says what it is, and it returns `OwnBits`
        or `OwnSets` (or any mechanism, as those of the library do).

    Raises
    ------
    overstory.ParameterError
        When the name is that of an oracle of the library, and when the function returns anything else.

    Examples
    --------
    >>> import math, overstory
    >>> @overstory.oracle_kind("three-quarters")
    ... def three_quarters(*, domain_size: int, epsilon: float) -> overstory.OwnBits:
    ...     "A bit for each value, of which a 1 is kept with probability 3/4."
    ...     return overstory.OwnBits(domain_size, keep=0.75, raised=3 / (3 + math.exp(epsilon)))
    >>> round(overstory.oracle("three-quarters", domain_size=9, epsilon=2).epsilon_report, 6)
    2.0
    """

    def register(build: Build) -> Build:
        @wraps(build)
        def make(**parameters: Any) -> Mechanism:
            try:
                made = build(**parameters)
                built = made.mechanism(name, parameters) if isinstance(made, OwnBits | OwnSets) else made
            except OverstoryError:
                raise
            except Exception as error:
                code = build.__code__
                hers = [
                    at.lineno for at in traceback.extract_tb(error.__traceback__) if at.filename == code.co_filename
                ]
                where = f"{code.co_filename}, line {hers[-1] if hers else code.co_firstlineno}"
                raise ParameterError(f"{where}: {type(error).__name__} in {name}: {error}") from error
            if not isinstance(built, Mechanism):
                kind = type(built).__name__
                raise ParameterError(f"{name}: its function returns {kind}: return overstory.OwnBits or OwnSets")
            return built

        add_own(name, make)
        return build

    return register


@dataclass(frozen=True, kw_only=True)
class _Own:
    p_star: Probability | None = None
    q_star: Probability | None = None


@dataclass(frozen=True)
class OwnBits(_Own):
    """A bit for each value, one of which is the device's; each bit is sent with noise of its own.

    Parameters
    ----------
    domain_size
        How many values there are: the symbols ``0 .. domain_size - 1``.
    keep, raised
        P(the bit is sent as 1 | it is the value's), P(it is sent as 1 | it is another's), rounded to the grid of
        2**-32 towards privacy. The response is memoized.
    again
        The same two numbers of a second round, which is drawn afresh for every report.
    p_star, q_star
        The estimator's two numbers, as your paper has them; unless given, they are read off the channel.

    Examples
    --------
    >>> bits = OwnBits(4, keep=0.5, raised=0.25).mechanism("halves", {})
    >>> round(bits.epsilon_report, 4), bits.q_star
    (1.0986, Fraction(1, 4))
    """

    domain_size: int
    keep: Probability
    raised: Probability
    again: tuple[Probability, Probability] | None = None

    def mechanism(self, name: str, parameters: Mapping[str, Any]) -> Mechanism:
        """Return the mechanism that has these bits and channels."""
        second = BinaryChannel.identity() if self.again is None else BinaryChannel.of(*self.again)
        rounds = Rounds(BinaryChannel.of(self.keep, self.raised), second)
        return _StatedBits(name, parameters, OneHot(self.domain_size), rounds, stated=(self.p_star, self.q_star))


@dataclass(frozen=True)
class OwnSets(_Own):
    """One of several outputs: each value owns a set of them, of one size, and any two sets meet in one number.

    Parameters
    ----------
    owned
        For each value, the outputs that it owns, numbers from 0; one each is a symbol.
    outputs
        How many outputs there are: the numbers ``0 .. outputs - 1``.
    inside
        P(the output is one of the value's own), rounded to the grid of 2**-32 towards privacy; it is drawn uniformly
        from them, else uniformly from all others. The response is memoized.
    p_star, q_star
        The estimator's two numbers, as your paper has them; unless given, they are read off the sets.

    Examples
    --------
    >>> pairs = OwnSets([{0, 1}, {1, 2}, {2, 0}], outputs=3, inside=0.75).mechanism("pairs", {})
    >>> round(pairs.epsilon_report, 4), pairs.encoding.sizes
    (0.4055, (3, 2, 1))
    """

    owned: Sequence[Collection[int]]
    outputs: int
    inside: Probability

    def mechanism(self, name: str, parameters: Mapping[str, Any]) -> Mechanism:
        """Return the mechanism that has these sets and this chance."""
        sets = ListedSets(tuple(tuple(sorted(set(own))) for own in self.owned), self.outputs)
        even = Fraction(len(sets.owned[0]), self.outputs)  # towards the output that says nothing
        inside = BinaryChannel.of(self.inside, even).keep_one
        return _StatedSets(name, parameters, sets, inside, stated=(self.p_star, self.q_star))


@dataclass(frozen=True)
class _Stated:
    """The estimator's two numbers as they are stated: `overstory check-oracle` holds them against the channel."""

    stated: tuple[Probability | None, Probability | None] = (None, None)

    def __post_init__(self) -> None:
        if self.stated != (None, None) and self.p_star == self.q_star:
            raise ParameterError(
                f"p_star = q_star = {float(self.p_star):g}: an estimator divides by their difference; give "
                "P(a report supports its own value) and P(it supports another)"
            )
        super().__post_init__()  # type: ignore[misc] # a mixin

    @property
    def p_star(self) -> Fraction:
        return super().p_star if self.stated[0] is None else Fraction(self.stated[0])  # type: ignore[misc] # a mixin

    @property
    def q_star(self) -> Fraction:
        return super().q_star if self.stated[1] is None else Fraction(self.stated[1])  # type: ignore[misc] # a mixin


@dataclass(frozen=True)
class _StatedBits(_Stated, BitMechanism): ...


@dataclass(frozen=True)
class _StatedSets(_Stated, SetMechanism): ...


@dataclass(frozen=True)
class ListedSets(SetSystem):
    """Sets that are written down: value v owns the outputs ``owned[v]``."""

    owned: tuple[tuple[int, ...], ...]
    outputs: int

    form: ClassVar[tuple[str, str]] = ("sets", "listed")
    subset_size: ClassVar[None] = None
    server: ClassVar[str] = "analysis.kinds.symbols:ListedSupport"

    def __post_init__(self) -> None:
        check_count("values", len(self.owned), 2, MOST_LISTED)
        check_count("outputs", self.outputs, 2, MAX_COHORTS)
        for value, own in enumerate(self.owned):
            if not own or own[0] < 0 or own[-1] >= self.outputs or len(own) != len(self.owned[0]):
                raise ParameterError(
                    f"value {value} owns {len(own)} outputs: give each value as many as value 0, {len(self.owned[0])}, "
                    f"each a number below {self.outputs}"
                )
        check_count("outputs that a value owns", len(self.owned[0]), 1, self.outputs - 1)
        for (v, one), (w, other) in combinations(enumerate(self.masks), 2):
            if (one & other).bit_count() != self.sizes[2]:
                raise ParameterError(
                    f"values {v} and {w} share {(one & other).bit_count()} outputs, 0 and 1 share {self.sizes[2]}: "
                    "where pairs differ, no one q* is right"
                )

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """The sets as bits."""
        return tuple(sum(1 << output for output in own) for own in self.owned)

    @property
    def domain_size(self) -> int:
        return len(self.owned)

    @cached_property
    def sizes(self) -> tuple[int, int, int]:
        return self.outputs, len(self.owned[0]), (self.masks[0] & self.masks[1]).bit_count()

    @cached_property
    def holders(self) -> tuple[int, Fraction]:
        """The mean number of values that own an output, over the outputs that two values share."""
        held = [sum(mask >> output & 1 for mask in self.masks) for output in range(self.outputs)]
        pairs = [owners * (owners - 1) for owners in held]
        return self.domain_size, Fraction(
            sum(n * pair for n, pair in zip(held, pairs, strict=True)), max(sum(pairs), 1)
        )

    def inside(self, value: Any, entropy: Entropy) -> int:
        own: tuple[int, ...] = self.owned[value]
        return own[uniform_below(len(own), entropy)]

    def outside(self, value: Any, entropy: Entropy) -> int:
        others = [output for output in range(self.outputs) if not self.masks[value] >> output & 1]
        return others[uniform_below(len(others), entropy)]

    def anywhere(self, entropy: Entropy) -> int:
        return uniform_below(self.outputs, entropy)

    def contains(self, output: int, value: Any) -> bool:
        return bool(self.masks[check_symbol(value, self.domain_size)] >> output & 1)
