"""Linkability: what stays the same in every report of a device, in bits, and how many devices share it.

Epsilon says what reports tell of a value. This says whether reports can be recognized as one device's: a cohort or a
seed is sent in the clear with every report, and where there is one round of noise an unchanged value is the same
payload every time. Both are numbers that a device carries, drawn from a known distribution, so their entropy is exact.

If X is what stays the same, c the chance that two devices have one X (the sum of p(x)^2) and n the number of devices:

    bits                 -log2 c, the collision entropy; for a uniform X of N outcomes log2 N
    crowd                1 + (n - 1) c devices have a device's own X, itself included, on average
    alone                the sum of p(x) (1 - p(x))^(n - 1): the share of devices whose X nobody else has

Shannon's entropy and the min-entropy are stated, too: log2 of the outcomes bounds all three.

Where reports are drawn afresh from a permanent response nothing more may be equal, and yet they are alike: what two of
them share, and what 30 share with 30 others, is their mutual information (see `overstory.privacy.attacks.likeness`).

All devices are taken to hold one value. Different values have different payloads, which can only make crowds smaller;
by how much depends on the values that people really hold, and is no property of a mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.privacy.attacks.likeness import Likeness, likeness_of
from overstory.protocol.encodings.bits import Bloom, OneHot, SampledBits
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.payloads import BitMechanism, SymbolMechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.numeric.means import Duchi, Hybrid, Piecewise
from overstory.protocol.numeric.randomizer import NumericRandomizer
from overstory.protocol.numeric.ranges import RangeRandomizer
from overstory.protocol.numeric.registry import NumericMechanism
from overstory.protocol.numeric.square_wave import SquareWave
from overstory.protocol.probability import ONE

Group = tuple[float, float]
"""Outcomes of equal probability: the logarithm of their number, and of each one's probability."""

MILLION: Final = 1_000_000
FEW_BITS: Final = 10.0
"""Up to 1,024 outcomes: of a million devices about a thousand share each."""

NO_LIKENESS: Final = Likeness()

MONTH: Final = 30
"""Reports of each side, where many are set against many: a month of days."""


@dataclass(frozen=True)
class Constant:
    """What is the same in every report of one device, as a distribution over devices.

    Parameters
    ----------
    groups
        Outcomes of equal probability; none are needed where there is one outcome.

    Examples
    --------
    >>> seed = Constant.uniform(1024)
    >>> seed.bits, round(seed.crowd(1_000_000)), round(seed.alone(1_000_000), 3)
    (10.0, 978, 0.0)
    """

    groups: tuple[Group, ...] = ((0.0, 0.0),)

    @classmethod
    def uniform(cls, outcomes: int) -> Constant:
        """Return one of so many outcomes, all equally likely."""
        return cls(((math.log(outcomes), -math.log(outcomes)),))

    @property
    def bits(self) -> float:
        """Collision entropy, -log2 sum p(x)^2."""
        return _tidy(-_log_sum(count + 2 * each for count, each in self.groups) / math.log(2))

    @property
    def shannon_bits(self) -> float:
        """Entropy, -sum p(x) log2 p(x)."""
        return _tidy(-math.fsum(math.exp(count + each) * each for count, each in self.groups) / math.log(2))

    @property
    def min_bits(self) -> float:
        """Min-entropy, -log2 max p(x)."""
        return _tidy(-max(each for _, each in self.groups) / math.log(2))

    def crowd(self, devices: int) -> float:
        """Return how many of `devices` have a device's own outcome on average, itself included."""
        return 1.0 + (check_devices(devices) - 1) * math.exp2(-self.bits)

    def alone(self, devices: int) -> float:
        """Return the share of `devices` whose outcome no other of them has."""
        others = check_devices(devices) - 1
        if others == 0:
            return 1.0
        return math.fsum(
            math.exp(count + each + others * math.log1p(-math.exp(each))) for count, each in self.groups if each < 0
        )

    def times(self, outcomes: int) -> Constant:
        """Return this with an independent, uniform draw from so many outcomes added to it."""
        more = math.log(outcomes)
        return Constant(tuple((count + more, each - more) for count, each in self.groups))

    def words(self) -> str:
        """Return bits and crowd in words."""
        return f"{bits_text(self.bits)}; of a million devices {math.floor(self.crowd(MILLION)):,} {_share(self)} it"

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "bits": self.bits,
            "shannon_bits": self.shannon_bits,
            "min_bits": self.min_bits,
            "crowd_of_a_million": self.crowd(MILLION),
            "alone_of_a_million": self.alone(MILLION),
        }


def check_devices(devices: int) -> int:
    """Return the number, or raise ParameterError unless it is a whole number above 0."""
    if not isinstance(devices, int) or isinstance(devices, bool) or devices < 1:
        raise ParameterError(f"devices = {devices!r}: give a whole number above 0")
    return devices


def bits_text(bits: float) -> str:
    """Return bits as they are printed, with one digit, rounded up.

    Examples
    --------
    >>> bits_text(31.0), bits_text(7.72), bits_text(1.0)
    ('31 bits', '7.8 bits', '1 bit')
    """
    number = f"{math.ceil(bits * 10 - 1e-6) / 10:g}"
    return f"{number} bit{'s' * (number != '1')}"


def _share(constant: Constant) -> str:
    return "shares" if math.floor(constant.crowd(MILLION)) == 1 else "share"


@dataclass(frozen=True)
class Linkability:
    """What makes a device's reports known for one device's.

    Attributes
    ----------
    unchanged
        What is the same while the value does not change: the same, and the payload where its noise is drawn once.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> linkability(mechanism("rappor")).words().split(": ")[2]
    'two share 4.3 bits, 30 and 30 share 59.1 bits; to tell one device of a million takes 20'
    >>> linkability(mechanism("l-osue", domain_size=9, epsilon_permanent=2.0, epsilon_report=1.0)).words()[:77]
    'nothing is equal in every report, but reports of an unchanged value are alike'
    >>> linkability(mechanism("wb", domain_size=9, epsilon=1.0, window=10)).words()
    'nothing stays the same from report to report'
    """

    always: Constant  # what is the same in every report, whatever the value: cohort, seed, level
    unchanged: Constant
    likeness: Likeness = NO_LIKENESS  # what reports share that are drawn afresh from one permanent response

    @property
    def bits(self) -> float:
        """The most that stays the same: that of an unchanged value."""
        return self.unchanged.bits

    def shared(self, reports: int = 1) -> float:
        """Return the bits that so many reports share with as many others, while the value does not change.

        What is equal in them is counted by Shannon's entropy. An upper bound where `likeness.is_exact` says so.
        """
        return self.unchanged.shannon_bits + self.likeness.beyond(reports)

    @property
    def are_alike(self) -> bool:
        """Whether reports share more than what is equal in them."""
        return self.likeness.beyond(MONTH) > 0

    @property
    def has_payload(self) -> bool:
        """Whether the payload of an unchanged value stays the same."""
        return self.unchanged != self.always

    def crowd(self, devices: int) -> float:
        """Return how many of `devices` an unchanged device's reports fit on average, itself included."""
        return self.unchanged.crowd(devices)

    def alone(self, devices: int) -> float:
        """Return the share of `devices` that nobody else's reports fit, while their values do not change."""
        return self.unchanged.alone(devices)

    @property
    def is_pseudonym(self) -> bool:
        """Whether two reports share more than ten bits, equal or alike: enough to tell a device from most others."""
        return max(self.bits, self.likeness.beyond(1)) > FEW_BITS

    def carried(self) -> str:
        """Say to a person what could put her reports together, though they carry no name."""
        if self.is_pseudonym:
            return f"Reports carry no name, but they can be put together without one: {self.words()}."
        kept = "Reports carry no name, and the collector keeps no address"
        return f"{kept}; {self.words()}."

    def words(self) -> str:
        """Say it in one sentence."""
        if not self.bits and not self.are_alike:
            return "nothing stays the same from report to report"
        said = []
        if self.always.bits:
            said.append(f"the same in every report: {self.always.words()}")
        if self.has_payload:
            also = "with the payload, " if said else ""
            said.append(f"{also}the same in every report while the value does not change: {self.unchanged.words()}")
        if self.are_alike:
            said.append(self._alike_words())
        return "; ".join(said)

    def _alike_words(self) -> str:
        two, many = bits_text(self.shared(1)), bits_text(self.shared(MONTH))
        most = "" if self.likeness.is_exact(MONTH) else "at most "
        first = "with it, reports" if self.bits else "nothing is equal in every report, but reports"
        return (
            f"{first} of an unchanged value are alike: two share {two}, {MONTH} and {MONTH} share {most}{many}; "
            "to tell one device of a million takes 20"
        )

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "always": self.always.to_json(),
            "unchanged": self.unchanged.to_json(),
            "shared": {
                "two_reports": self.shared(1),
                "thirty_and_thirty": self.shared(MONTH),
                "thirty_is_exact": self.likeness.is_exact(MONTH),
            },
            "words": self.words(),
        }


def linkability(mechanism: Mechanism | NumericMechanism) -> Linkability:
    """Return what stays the same in the reports of one device."""
    if isinstance(mechanism, RangeRandomizer):
        levels = mechanism.num_cohorts
        each = [linkability(level) for level in mechanism.mechanisms]
        unchanged = _mixed((1 / levels, one.unchanged) for one in each)
        return Linkability(Constant.uniform(levels), unchanged, Likeness(levels=tuple(one.likeness for one in each)))
    always = Constant.uniform(mechanism.num_cohorts) if mechanism.num_cohorts > 1 else Constant()
    if isinstance(mechanism, BitMechanism | SymbolMechanism) and _fresh(mechanism):
        return Linkability(always, always, likeness_of(mechanism))
    if isinstance(mechanism, BitMechanism) and isinstance(mechanism.encoding, SampledBits):
        return Linkability(always, _sampled(mechanism))
    return Linkability(always, _payload(mechanism).times(mechanism.num_cohorts))


def _fresh(mechanism: BitMechanism | SymbolMechanism) -> bool:
    """Whether a report's payload is drawn afresh, given all that came before."""
    second = mechanism.rounds.instantaneous
    return second.alpha < 1 if isinstance(mechanism, SymbolMechanism) else not second.is_identity  # type: ignore[union-attr]


def _payload(mechanism: Mechanism | NumericMechanism) -> Constant:
    """Return the permanent payload of a value, given its cohort."""
    if isinstance(mechanism, SymbolMechanism):
        kept, symbols = mechanism.rounds.permanent, mechanism.encoding.num_symbols
        return _weighted(((float(kept.keep), 1), (float(kept.other * (symbols - 1)), symbols - 1)))
    if isinstance(mechanism, SetMechanism):
        outputs, own, _ = mechanism.encoding.sizes
        inside = float(mechanism.inside)
        return _weighted(((inside, own), (1 - inside, outputs - own)))
    if isinstance(mechanism, BitMechanism):
        return _bits(mechanism)
    if isinstance(mechanism, NumericRandomizer):
        return _number(mechanism)
    raise ParameterError(f"what stays the same in reports of a {type(mechanism).__name__} is not known")


def _weighted(parts: Iterable[tuple[float, int]]) -> Constant:
    """Return a draw of one of several sets, each with its probability and its number of equally likely outcomes."""
    return Constant(
        tuple((math.log(size), math.log(chance) - math.log(size)) for chance, size in parts if size and chance > 0)
    )


def _mixed(parts: Iterable[tuple[float, Constant]]) -> Constant:
    """Return a draw from one of several distributions over different outcomes."""
    return Constant(
        tuple((count, each + math.log(share)) for share, one in parts if share for count, each in one.groups)
    )


def _bits(mechanism: BitMechanism) -> Constant:
    """Return the permanent bits of a value: independent, all ones alike and all zeros alike."""
    encoding, channel = mechanism.encoding, mechanism.rounds.permanent
    rates = float(channel.keep_one), float(channel.raise_zero)
    if isinstance(encoding, OneHot):
        return _unary(1, encoding.num_bits - 1, *rates)
    if isinstance(encoding, Bloom):  # hashes that fall together leave fewer ones: state whichever tells most
        least = encoding.num_hashes if encoding.hashes.distinct else 1
        counts = range(least, encoding.num_hashes + 1)
        return max((_unary(n, encoding.num_bits - n, *rates) for n in counts), key=lambda one: one.bits)
    raise ParameterError(f"what stays the same in reports of {mechanism.name} is not known")


def _sampled(mechanism: BitMechanism) -> Constant:
    """Return cohort and permanent bits: in a share of the cohorts one of the bits is the value's own."""
    encoding, channel = mechanism.encoding, mechanism.rounds.permanent
    asked, cohorts = encoding.num_bits, encoding.num_cohorts
    kinds = ((1, asked), (0, cohorts - asked))  # the value's bits in a cohort, and in how many cohorts
    each = (
        (many, _unary(ones, asked - ones, float(channel.keep_one), float(channel.raise_zero))) for ones, many in kinds
    )
    # A cohort is uniform: each of its outcomes has 1 / cohorts of its probability, in `many` cohorts alike.
    groups = ((one.groups, many) for many, one in each if many)
    return Constant(tuple((c + math.log(many), p - math.log(cohorts)) for group, many in groups for c, p in group))


def _unary(ones: int, zeros: int, kept: float, raised: float) -> Constant:
    """Return `ones` bits that are 1 with probability `kept`, and `zeros` that are with `raised`."""
    own, others = list(_binomial(ones, kept)), list(_binomial(zeros, raised))
    return Constant(tuple((a + c, b + d) for a, b in own for c, d in others))


def _binomial(bits: int, chance: float) -> Iterator[Group]:
    """Yield, for each number of ones among `bits`, how many patterns have it and how likely each is, as logarithms."""
    for ones in range(bits + 1):
        if (chance == 0 and ones) or (chance == 1 and ones < bits):
            continue
        # ln C(bits, ones), and ones ln p + (bits - ones) ln(1 - p) for each of these patterns.
        patterns = math.lgamma(bits + 1) - math.lgamma(ones + 1) - math.lgamma(bits - ones + 1)
        each = (ones * math.log(chance) if ones else 0.0) + (
            (bits - ones) * math.log1p(-chance) if ones < bits else 0.0
        )
        yield patterns, each


def _number(mechanism: NumericRandomizer) -> Constant:
    """Return the permanent report of a position; of Duchi's two ends the middle's, which tells most."""
    if isinstance(mechanism, Duchi):
        return Constant.uniform(2)
    if isinstance(mechanism, Hybrid):
        share = mechanism.piecewise_threshold / ONE
        return _mixed(((share, _number(mechanism.piecewise)), (1 - share, _number(mechanism.duchi))))
    if isinstance(mechanism, Piecewise | SquareWave):
        channel = mechanism.channel
        window, cells = channel.window, channel.num_cells
        inside = float(channel.inside * window)
        return _weighted(((inside, window), (1 - inside, cells - window)))
    raise ParameterError(f"what stays the same in reports of {mechanism.name} is not known")


def _log_sum(logarithms: Iterable[float]) -> float:
    terms = list(logarithms)
    # log-sum-exp with the largest term taken out.
    most = max(terms)
    return most + math.log(math.fsum(math.exp(term - most) for term in terms))


def _tidy(bits: float) -> float:
    """Return the bits without what floats add: 10 rather than 9.999999999999998, and never below 0."""
    return max(0.0, round(bits, 9))
