"""Oracles that report bits: a bit per symbol, or a few of them, and one or two binary channels on each.

Unary encodings: Wang et al. (USENIX Security 2017): SUE, OUE. Arcolezi et al. (2022): L-SUE, L-OSUE, L-SOUE. Vidal's
thesis (ProTECting): WB, OPT-WB, OPT-DR. d-bit flipping, whose reports stay a few bits long: Ding, Kulkarni, Yekhanin,
"Collecting telemetry data privately" (NeurIPS 2017).

RAPPOR in its four modes (section 2), of Bloom filters or of one bit per symbol. Its letters: f is the share of
permanent bits that are noise; q and p are P(1|1) and P(1|0) of the instantaneous round.

Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving ordinal response", CCS 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, ClassVar, Final, cast

from overstory.protocol.channels import BinaryChannel, Rounds, check_probability
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import (
    MAX_BITS,
    MAX_COHORTS,
    Encoding,
    Kind,
    Mechanism,
    Report,
    Shape,
    bits_at,
    check_cohort,
    check_count,
    check_epsilon,
    check_symbol,
    encode,
    whole_number,
)
from overstory.protocol.kinds.calibration import (
    Family,
    calibrated,
    check_two,
    optimized,
    symmetric,
)
from overstory.protocol.kinds.hashing import GoogleRapporPython, HashFamily, OverstoryV1, hash_family
from overstory.protocol.sampling import (
    Draw,
    Entropy,
    GoogleClientPermanence,
    GooglePermanence,
    Permanence,
    bit_sampler,
    context,
)


@dataclass(frozen=True)
class OneHot(Encoding):
    """Symbol s of ``0 .. domain_size - 1`` sets bit s alone ("Basic RAPPOR", unary encoding)."""

    domain_size: int

    form: ClassVar[tuple[str, str]] = ("encoding", "one-hot")
    server: ClassVar[str] = "analysis.kinds.bits:OneHotSupport"
    num_cohorts: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_BITS)

    @property
    def num_bits(self) -> int:
        return self.domain_size

    @property
    def most_values(self) -> int:
        return self.domain_size

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:  # noqa: ARG002 - no two values have equal bits
        return (Shape(0, 1, 1, self.num_bits - 2),)

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:  # noqa: ARG002 - one cohort encodes as any
        return (check_symbol(value, self.domain_size),)


@dataclass(frozen=True)
class SampledBits(Encoding):
    """The bits of `sampled_bits` values out of the one-hot vector: those at fixed offsets from the device's cohort."""

    domain_size: int
    sampled_bits: int

    form: ClassVar[tuple[str, str]] = ("encoding", "sampled-bits")
    server: ClassVar[str] = "analysis.kinds.bits:SampledSupport"
    pure: ClassVar[bool] = False

    def __post_init__(self) -> None:
        OneHot(self.domain_size)
        check_count("sampled_bits", self.sampled_bits, 1, self.domain_size)

    @property
    def num_bits(self) -> int:
        return self.sampled_bits

    @property
    def num_cohorts(self) -> int:
        return self.domain_size

    @property
    def asked(self) -> float:
        return self.sampled_bits / self.domain_size

    @property
    def most_values(self) -> int:
        """The sampled bits d', at least two of them.

        With d' >= 2 sampled bits a pair of values that differs in one bit costs no more than half of one that differs
        in two, and of all pairs of one history together at most d' ones are lowered and d' zeros raised: d' epsilons.
        With d' = 1 every pair differs in one bit, and two pairs can do so.
        """
        return min(max(self.sampled_bits, 2), self.domain_size)

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:  # noqa: ARG002 - those that are not sampled have none
        asked, others = self.num_bits, self.domain_size - self.num_bits
        both_asked = (Shape(0, 1, 1, asked - 2),) if asked > 1 else ()
        one_asked = (Shape(0, 1, 0, asked - 1), Shape(0, 0, 1, asked - 1)) if others else ()
        return both_asked + one_asked + ((Shape(0, 0, 0, asked),) if others > 1 else ())

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Return the distance from the cohort to the value that each bit stands for."""
        if self.sampled_bits == self.domain_size:
            return tuple(range(self.domain_size))
        family = OverstoryV1(b"d-bit flip")
        return tuple(sorted(family.positions(b"offsets", 0, self.domain_size, self.sampled_bits)))

    @cached_property
    def places(self) -> dict[int, int]:
        return {offset: bit for bit, offset in enumerate(self.offsets)}

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        distance = (check_symbol(value, self.domain_size) - cohort) % self.domain_size
        return (self.places[distance],) if distance in self.places else ()


@dataclass(frozen=True)
class Bloom(Encoding):
    """A string sets `num_hashes` of `num_bits` bits, other ones in every cohort (RAPPOR, section 2)."""

    num_bits: int
    num_hashes: int
    num_cohorts: int
    family: str = "overstory-v1"
    hash_key: str = ""

    form: ClassVar[tuple[str, str]] = ("encoding", "bloom")
    domain_size: ClassVar[None] = None
    most_values: ClassVar[None] = None
    pure: ClassVar[bool] = False
    server: ClassVar[str] = "analysis.kinds.bits:BloomSupport"
    decoded: ClassVar[bool] = True

    def __post_init__(self) -> None:
        family = hash_family(self.family, self.hash_key)
        check_count("num_bits (k)", self.num_bits, 2, family.max_bits)
        check_count("num_cohorts (m)", self.num_cohorts, 1, MAX_COHORTS)
        check_count("num_hashes (h)", self.num_hashes, 1, family.max_hashes)
        if self.num_hashes >= self.num_bits:
            raise ParameterError(
                f"num_hashes (h) = {self.num_hashes} does not fit num_bits (k) = {self.num_bits}: "
                "with as many hashes as bits every value would set the same bits; give fewer hashes"
            )
        object.__setattr__(self, "_family", family)

    @property
    def hashes(self) -> HashFamily:
        family: HashFamily = self.__dict__["_family"]
        return family

    @property
    def ones(self) -> tuple[int, int]:
        """Positions that fall together leave fewer than h."""
        return (self.num_hashes if self.hashes.distinct else 1), self.num_hashes

    def shapes(self, *, equal_bits: bool) -> tuple[Shape, ...]:
        fewest, most = self.ones
        weights = range(fewest, most + 1)
        pairs = (_overlaps(self.num_bits, *pair, equal_bits=equal_bits) for pair in product(weights, repeat=2))
        return tuple(dict.fromkeys(shape for shapes in pairs for shape in shapes))

    def supporting(self, frequency: float) -> float:
        """Return the holders' share, and of the others those whose filters have the bit, too: h / k of them."""
        return frequency + (1 - frequency) * self.num_hashes / self.num_bits

    def information(self, num_candidates: int | None) -> float:
        """Return h (1 - h/k), and ``1 - M / (k m)`` of it where M candidates are fitted to the k m counts."""
        information = self.num_hashes * (1 - self.num_hashes / self.num_bits)
        rows = self.num_bits * self.num_cohorts
        if num_candidates is None or num_candidates >= rows:
            return information
        return information * (1 - num_candidates / rows)

    @property
    def nothing(self) -> int:
        """No bit, which differs from a filter in at most h ones.

        Where that is more than two filters of h distinct positions differ in (h > k/2): the first h bits, as a filter.
        """
        crowded = self.hashes.distinct and 2 * self.num_hashes > self.num_bits
        return (1 << self.num_hashes) - 1 if crowded else 0

    def positions(self, value: Any, cohort: int) -> tuple[int, ...]:
        raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        if not isinstance(raw, bytes):
            raise ParameterError(f"a Bloom filter takes a string or bytes, not {type(value).__name__}")
        return self.hashes.positions(raw, cohort, self.num_bits, self.num_hashes)


def _overlaps(num_bits: int, first: int, second: int, *, equal_bits: bool) -> Iterator[Shape]:
    """Yield the shapes of the smallest and the largest overlap of so many ones and so many others."""
    fewest, most = max(0, first + second - num_bits), min(first, second)
    if first == second and not equal_bits:
        most -= 1
    for both in sorted({fewest, most}) if fewest <= most else ():
        yield Shape(both, first - both, second - both, num_bits - first - second + both)


_NOTHING: Final = b"nothing"  # after a digest's 16 bytes: no mechanism has this digest


@dataclass(frozen=True)
class BitMechanism(Mechanism):
    """Encode a value as bits, randomize them permanently, randomize that afresh for every report."""

    encoding: Encoding
    rounds: Rounds  # either channel may be the identity
    permanence: Permanence = field(default_factory=Permanence, compare=False, repr=False)

    payload: ClassVar[str] = "bits"
    terms_place: ClassVar[str] = "privacy.payloads.bits:BitTerms"

    @property
    def payload_limit(self) -> int:
        return 1 << self.encoding.num_bits

    @property
    def p_star(self) -> Fraction:
        """P(a report's bit is 1 | the value sets it)."""
        return self.channel.keep_one

    @property
    def q_star(self) -> Fraction:
        """P(a report's bit is 1 | the value does not)."""
        return self.channel.raise_zero

    @property
    def channel(self) -> BinaryChannel:
        """P(report bit | true bit): RAPPOR's q* is its `keep_one`, RAPPOR's p* its `raise_zero`."""
        return self.rounds.combined

    @property
    def fresh(self) -> bool:
        return self.rounds.permanent.is_identity

    @property
    def repeats(self) -> bool:
        return self.rounds.instantaneous.is_identity

    @cached_property
    def epsilon_permanent(self) -> float:
        return self.rounds.epsilon_permanent(self.encoding.differences)

    def epsilon_n(self, reports: int) -> float:
        return self.rounds.epsilon(self.encoding.differences, reports=whole_number(reports))

    @property
    def odds(self) -> Fraction:
        keep, low = self.channel.keep_one, self.channel.raise_zero
        one, zero = keep / low, (1 - low) / (1 - keep)
        return max(one**lowered * zero**raised for lowered, raised in self.encoding.differences)

    @property
    def permanent_support(self) -> tuple[float, float, float]:
        first = self.rounds.permanent
        return float(first.keep_one), float(first.raise_zero), float(self.rounds.instantaneous.span)

    def encode(self, value: Any, cohort: int) -> int:
        return encode(self.encoding, value, cohort)

    held = encode

    def likelihood(self, report: Report, value: Any) -> Fraction:
        true, every = self.encode(value, report.cohort), self.payload_limit - 1
        likelihood = Fraction(1)
        for rate, bits in ((self.channel.keep_one, true), (self.channel.raise_zero, every ^ true)):
            ones = (bits & report.bits).bit_count()
            likelihood *= rate**ones * (1 - rate) ** (bits.bit_count() - ones)
        return likelihood

    def supports(self, report: Report, value: Any) -> bool:
        bits = self.encode(value, report.cohort)
        return bits != 0 and report.bits & bits == bits

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        check_cohort(cohort, self.encoding.num_cohorts)
        permanent, positions = self.rounds.permanent, self.encoding.positions
        if permanent.is_identity:
            return lambda value: bits_at(positions(value, cohort))
        about = context(metric, self.digest, cohort)
        respond = self.permanence.responder(permanent, self.encoding.num_bits, secret, about)
        return lambda value: respond(_as_bytes(value), bits_at(positions(value, cohort)))

    def response_key(self, value: Any, cohort: int) -> Hashable:
        """Return the value, or its true bits, where the derivation takes nothing but these (`Permanence.by_bits`)."""
        key: Hashable = self.encode(value, cohort) if self.permanence.by_bits else value
        return key

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        check_cohort(cohort, self.num_cohorts)
        permanent, bits = self.rounds.permanent, self.encoding.nothing
        if permanent.is_identity:
            return bits
        about = context(metric, self.digest + _NOTHING, cohort)
        return self.permanence.responder(permanent, self.encoding.num_bits, secret, about)(_NOTHING, bits)

    def draw(self, held: int, cohort: int, entropy: Entropy) -> int:  # noqa: ARG002 - bits are alike in all
        if self.rounds.permanent.is_identity:
            return held
        return bit_sampler(self.rounds.permanent, self.encoding.num_bits)(held, entropy.bits)

    @cached_property
    def instantaneous(self) -> Draw:
        if self.rounds.instantaneous.is_identity:
            return lambda permanent, random_bits: permanent  # noqa: ARG005 - one round draws nothing afresh
        return bit_sampler(self.rounds.instantaneous, self.encoding.num_bits)

    def payload_words(self, payload: int, labels: Sequence[str] = ()) -> str:  # noqa: ARG002 - several bits may be 1
        ones, size = payload.bit_count(), self.payload_bits
        return f"{ones} of {size:,} bit{'s' * (size != 1)} {'is' if ones == 1 else 'are'} 1"

    def canonical(self) -> dict[str, Any]:
        thresholds = [list(c.thresholds) for c in (self.rounds.permanent, self.rounds.instantaneous)]
        return {"name": self.name, "thresholds": thresholds, **self.encoding.canonical()}


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    # An enumeration's member is its number: its own text changes with its class's name.
    return value if isinstance(value, bytes) else str(int(value) if isinstance(value, int) else value).encode()


def sue(*, domain_size: int, epsilon: float) -> BitMechanism:
    """Symmetric unary encoding (basic RAPPOR's round): P(1|1) = e^(eps/2) / (e^(eps/2) + 1), P(1|0) = 1 - P(1|1).

    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _once("sue", dict(locals()), symmetric)


def oue(*, domain_size: int, epsilon: float) -> BitMechanism:
    """Optimized unary encoding: P(1|1) = 1/2, P(1|0) = 1 / (e^eps + 1); the least variance of all unary encodings.

    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _once("oue", dict(locals()), optimized)


def wb(*, domain_size: int, epsilon: float, window: int) -> BitMechanism:
    """Window based (thesis, section 4.2): fresh symmetric noise at epsilon / window for every report.

    Vidal et al., "ProTECting: differential privacy for smart homes", SBBD 2019; Vidal, thesis, UFC 2020.
    """
    return _window("wb", dict(locals()), symmetric)


def opt_wb(*, domain_size: int, epsilon: float, window: int) -> BitMechanism:
    """Optimized window based (thesis, section 4.2): fresh OUE noise at epsilon / window for every report.

    Vidal et al., "ProTECting: differential privacy for smart homes", SBBD 2019; Vidal, thesis, UFC 2020.
    """
    return _window("opt-wb", dict(locals()), optimized)


def opt_dr(*, domain_size: int, epsilon_permanent: float) -> BitMechanism:
    """Optimized double randomization (thesis, section 4.3): the same OUE channel twice, the first memoized.

    Vidal et al., "ProTECting: differential privacy for smart homes", SBBD 2019; Vidal, thesis, UFC 2020.
    """
    parameters = dict(locals())
    channel = calibrated(optimized, check_epsilon("epsilon_permanent", epsilon_permanent))
    return BitMechanism("opt-dr", parameters, OneHot(domain_size), Rounds(channel, channel))


def l_sue(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> BitMechanism:
    """Longitudinal SUE: symmetric noise in both rounds.

    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-sue", dict(locals()), symmetric, symmetric)


def l_osue(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> BitMechanism:
    """Longitudinal OUE then SUE: one report is exactly OUE(epsilon_report); the second round costs no accuracy.

    p1 = 1/2, q1 = 1/(e^eps_inf + 1), p2 = 1 - q2 give p* = 1/2 whatever p2 is: a half is a fixed point of symmetric
    noise. So at epsilon_report the chain is OUE's own channel.

    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-osue", dict(locals()), optimized, symmetric)


def l_soue(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> BitMechanism:
    """Longitudinal SUE then OUE.

    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-soue", dict(locals()), symmetric, optimized)


def _once(name: str, parameters: dict[str, Any], family: Family) -> BitMechanism:
    channel = calibrated(family, check_epsilon("epsilon", parameters["epsilon"]))
    return BitMechanism(name, parameters, OneHot(parameters["domain_size"]), Rounds(channel, BinaryChannel.identity()))


def _window(name: str, parameters: dict[str, Any], family: Family) -> BitMechanism:
    check_count("window", parameters["window"], 1, 1 << 20)
    channel = calibrated(family, check_epsilon("epsilon", parameters["epsilon"]), reports=parameters["window"])
    rounds = Rounds(BinaryChannel.identity(), channel)
    return BitMechanism(name, parameters, OneHot(parameters["domain_size"]), rounds)


def _twice(name: str, parameters: dict[str, Any], first: Family, second: Family) -> BitMechanism:
    permanent, report = check_two(parameters["epsilon_permanent"], parameters["epsilon_report"])
    memoized = calibrated(first, permanent)
    if memoized.epsilon < report:
        raise ParameterError(
            f"epsilon_report = {report} is above what the permanent round leaves ({memoized.epsilon:.6f}): "
            "give an epsilon_report below epsilon_permanent"
        )
    rounds = Rounds(memoized, calibrated(second, report, permanent=memoized))
    return BitMechanism(name, parameters, OneHot(parameters["domain_size"]), rounds)


def dbitflip(*, domain_size: int, epsilon: float, sampled_bits: int | None = None) -> BitMechanism:
    """d-bit flipping: symmetric noise, memoized, on the bits of a public sample of the values (16 unless given).

    Ding, Kulkarni, Yekhanin, "Collecting telemetry data privately", NeurIPS 2017.
    """
    parameters = dict(locals())
    usual = min(OneHot(domain_size).num_bits, 16)
    encoding = SampledBits(domain_size, usual if sampled_bits is None else sampled_bits)
    channel = calibrated(symmetric, check_epsilon("epsilon", epsilon), tuple(encoding.differences))
    return BitMechanism("dbitflip", parameters, encoding, Rounds(channel, BinaryChannel.identity()))


def as_googles_client(mechanism: Kind) -> Kind:
    """Return the mechanism with the very permanent round of Google's client, where it has one like it."""
    if not isinstance(getattr(mechanism, "permanence", None), GooglePermanence):
        return mechanism
    return replace(cast("BitMechanism", mechanism), permanence=GoogleClientPermanence())


def rappor(
    *,
    num_bits: int = 128,
    num_hashes: int = 2,
    num_cohorts: int = 16,
    f: float = 0.5,
    p: float = 0.5,
    q: float = 0.75,
    hash_family: str = "overstory-v1",
    hash_key: str = "",
) -> BitMechanism:
    """Full RAPPOR: strings in a Bloom filter, a permanent and an instantaneous round."""
    parameters = dict(locals())
    encoding = Bloom(num_bits, num_hashes, num_cohorts, hash_family, hash_key)
    permanence = _permanence(encoding)
    return _two_rounds("rappor", parameters, encoding, permanence, f, p, q)


def rappor_one_time(
    *,
    num_bits: int = 128,
    num_hashes: int = 2,
    num_cohorts: int = 16,
    f: float | None = None,
    p: float | None = None,
    q: float | None = None,
    hash_family: str = "overstory-v1",
    hash_key: str = "",
) -> BitMechanism:
    """One-time RAPPOR: strings in a Bloom filter, one round, memoized: every report of a value is the same."""
    parameters = dict(locals())
    encoding = Bloom(num_bits, num_hashes, num_cohorts, hash_family, hash_key)
    return _one_round("rappor-one-time", parameters, encoding, f, p, q)


def basic_rappor(*, domain_size: int, f: float = 0.5, p: float = 0.5, q: float = 0.75) -> BitMechanism:
    """Basic RAPPOR: every symbol of a small domain has its own bit (h = 1), two rounds."""
    parameters = dict(locals())
    return _two_rounds("basic-rappor", parameters, OneHot(domain_size), Permanence(), f, p, q)


def basic_rappor_one_time(
    *, domain_size: int, f: float | None = None, p: float | None = None, q: float | None = None
) -> BitMechanism:
    """Basic One-time RAPPOR: a bit per symbol, one memoized round."""
    parameters = dict(locals())
    return _one_round("basic-rappor-one-time", parameters, OneHot(domain_size), f, p, q)


def _two_rounds(
    name: str, parameters: dict[str, Any], encoding: Encoding, permanence: Permanence, f: float, p: float, q: float
) -> BitMechanism:
    for letter, value in (("f", f), ("p", p), ("q", q)):
        check_probability(letter, value)
    return BitMechanism(name, parameters, encoding, _rounds(permanence.channel, f, p, q), permanence)


@lru_cache(maxsize=64, typed=True)
def _rounds(channel: Callable[[Fraction], BinaryChannel], f: float, p: float, q: float) -> Rounds:
    share, instantaneous = Fraction(f), _instantaneous(p, q)
    if share == 1:
        raise ParameterError("f = 1 replaces every permanent bit by noise: nothing can be learned; give f below 1")
    return Rounds(channel(share) if share else BinaryChannel.identity(), instantaneous)


def _one_round(
    name: str, parameters: dict[str, Any], encoding: Encoding, f: float | None, p: float | None, q: float | None
) -> BitMechanism:
    share = None if f is None else check_probability("f", f)
    if p is not None and q is not None and not share:
        channel = _instantaneous(p, q)
    elif p is None and q is None and share is not None:
        if share in (0, 1):
            raise ParameterError(f"f = {f}: one round needs f above 0 (to protect) and below 1 (to learn)")
        channel = Permanence.channel(share)
    else:
        raise ParameterError(f"{name} has one round: give either f, or both p and q")
    return BitMechanism(name, parameters, encoding, Rounds(channel, BinaryChannel.identity()))


def _instantaneous(p: float, q: float) -> BinaryChannel:
    for letter, value in (("p", p), ("q", q)):
        check_probability(letter, value)
    if p == q:
        raise ParameterError(f"p = q = {p}: the report would not depend on the value; give different p and q")
    return BinaryChannel.of(q, p)


def _permanence(encoding: Bloom) -> Permanence:
    """Google's family brings Google's permanent round, where its 32 bytes suffice."""
    if encoding.family != GoogleRapporPython.name:
        return Permanence()
    if encoding.num_bits > GooglePermanence.max_bits:
        raise ParameterError(
            f"{encoding.family}: its permanent round has one byte per bit of a 32-byte digest, so num_bits (k) is "
            f"at most {GooglePermanence.max_bits}, not {encoding.num_bits}; use overstory-v1 for larger filters"
        )
    return GooglePermanence()
