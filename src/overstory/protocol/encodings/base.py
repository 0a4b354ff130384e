"""Encodings: from a value to the bits that the channels randomize."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from numbers import Real
from operator import index
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from overstory.protocol.channels import Differences
from overstory.protocol.errors import ParameterError

MAX_COHORTS = 1 << 16  # that are counted apart; they travel as 16 bits
DEFAULT_SEEDS = 256  # of a hashing oracle's small public set: of a million devices about 3,900 share each
SEEDS = 1 << 31  # of linear-hash, and numbers of devices in a search, which are not; they travel as 32 bits
MAX_SYMBOLS = 1 << 31
MAX_BITS = (1 << 16) - 1  # so does the number of bits


class Meeting(NamedTuple):
    """A set system in numbers: every value owns so many outputs, and shares so many with any other value."""

    outputs: int
    owned: int
    shared: int
    values: int  # of the system: all that could be values
    holders: int  # the values that own an output


class AnyEncoding:
    """What every encoding answers, whether into bits or to one of several outputs."""

    pure: ClassVar[bool] = True  # whether every report speaks of every value, in the same way
    uneven: ClassVar[bool] = False  # whether some pairs of values meet in more cohorts than others
    by_seed: ClassVar[bool] = False  # whether reports are counted by (seed, symbol), for candidates named later
    decoded: ClassVar[bool] = False  # whether values share bits, and a fit to all counts tells them apart
    direct: ClassVar[bool] = False  # whether a report is one symbol, and that is a value
    linear: ClassVar[bool] = False  # whether all values are counted by one transform
    server: ClassVar[str] = ""  # where what counts the reports is: a module below `overstory`, and a class in it
    pairable: ClassVar[bool] = False  # whether the pairs of supports in linked reports can be counted

    if TYPE_CHECKING:  # at run time a property would be taken for the default of a dataclass's field

        @property
        def domain_size(self) -> int | None:
            """How many values there are; None for strings."""

        @property
        def num_cohorts(self) -> int:
            """How many ways of encoding a value there are; a device always has the same one."""

        def canonical(self) -> dict[str, Any]:
            """Return the parameters that a report's meaning depends on, as JSON values."""

    @property
    def meeting(self) -> Meeting | None:
        """How the sets of two values meet, where an output is drawn from a set; None where supports are independent."""
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

        >>> from overstory.protocol.encodings.bits import Bloom
        >>> Bloom(128, 2, 16).shapes(equal_bits=True)
        (Shape(both=0, lowered=2, raised=2, neither=124), Shape(both=2, lowered=0, raised=0, neither=126))
        """
        raise NotImplementedError

    @property
    def differences(self) -> Differences:
        """Worst pairs (ones lowered, zeros raised) between two values' vectors: what privacy depends on."""
        return ((1, 1),)

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
        """Return the symbol of `value` in `cohort`."""
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
    """Return an integer of any library, such as NumPy's, as Python's own; anything else, and a boolean, as it is.

    >>> whole_number(3), whole_number(3.0), whole_number(True)
    (3, 3.0, True)
    """
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
