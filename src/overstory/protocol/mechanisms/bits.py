"""Oracles that report bits: unary encodings, d-bit flipping, RAPPOR.

Unary encodings: a bit per symbol, and other numbers in the channels.
Wang et al. (USENIX Security 2017): SUE, OUE. Arcolezi et al. (2022): L-SUE, L-OSUE, L-SOUE. Vidal's thesis
(ProTECting): WB, OPT-WB, OPT-DR. Each is a channel or two over the one-hot encoding.

d-bit flipping: each device answers for a few of the domain's values, always the same ones.
Ding, Kulkarni, Yekhanin (NeurIPS 2017): the collection of telemetry where a report must stay a few bits long.

RAPPOR in its four modes (Erlingsson, Pihur, Korolova, CCS 2014, section 2): definitions over the core.

RAPPOR's letters: f is the share of permanent bits that are noise; q and p are P(1|1) and P(1|0) of the
instantaneous round.

References
----------
Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving ordinal response", CCS 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

from overstory.protocol.channels import BinaryChannel, Rounds, check_probability
from overstory.protocol.encodings.base import Encoding, check_count, check_epsilon
from overstory.protocol.encodings.bits import Bloom, OneHot, SampledBits
from overstory.protocol.encodings.hashing import GoogleRapporPython
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.calibration import (
    Family,
    check_two,
    one_round,
    optimized,
    second_round,
    symmetric,
    window_round,
)
from overstory.protocol.mechanisms.payloads import BitMechanism
from overstory.protocol.permanent_response import GooglePermanence, Permanence


def sue(*, domain_size: int, epsilon: float) -> BitMechanism:
    """Symmetric unary encoding (basic RAPPOR's round): P(1|1) = e^(eps/2) / (e^(eps/2) + 1), P(1|0) = 1 - P(1|1).

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _once("sue", dict(locals()), symmetric)


def oue(*, domain_size: int, epsilon: float) -> BitMechanism:
    """Optimized unary encoding: P(1|1) = 1/2, P(1|0) = 1 / (e^eps + 1); the least variance of all unary encodings.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _once("oue", dict(locals()), optimized)


def wb(*, domain_size: int, epsilon: float, window: int) -> BitMechanism:
    """Window based (thesis, section 4.2): fresh symmetric noise at epsilon / window for every report.

    References
    ----------
    Vidal et al., "ProTECting: differential privacy for smart homes", SBBD 2019; Vidal, thesis, UFC 2020.
    """
    return _window("wb", dict(locals()), symmetric)


def opt_wb(*, domain_size: int, epsilon: float, window: int) -> BitMechanism:
    """Optimized window based (thesis, section 4.2): fresh OUE noise at epsilon / window for every report.

    References
    ----------
    Vidal et al., "ProTECting: differential privacy for smart homes", SBBD 2019; Vidal, thesis, UFC 2020.
    """
    return _window("opt-wb", dict(locals()), optimized)


def opt_dr(*, domain_size: int, epsilon_permanent: float) -> BitMechanism:
    """Optimized double randomization (thesis, section 4.3): the same OUE channel twice, the first memoized.

    References
    ----------
    Vidal et al., "ProTECting: differential privacy for smart homes", SBBD 2019; Vidal, thesis, UFC 2020.
    """
    parameters = dict(locals())
    channel = one_round(optimized, check_epsilon("epsilon_permanent", epsilon_permanent))
    return BitMechanism("opt-dr", parameters, OneHot(domain_size), Rounds(channel, channel))


def l_sue(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> BitMechanism:
    """Longitudinal SUE: symmetric noise in both rounds.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-sue", dict(locals()), symmetric, symmetric)


def l_osue(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> BitMechanism:
    """Longitudinal OUE then SUE: one report is exactly OUE(epsilon_report); the second round costs no accuracy.

    p1 = 1/2, q1 = 1/(e^eps_inf + 1), p2 = 1 - q2 give p* = 1/2 whatever p2 is: a half is a fixed point of symmetric
    noise. So at epsilon_report the chain is OUE's own channel.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-osue", dict(locals()), optimized, symmetric)


def l_soue(*, domain_size: int, epsilon_permanent: float, epsilon_report: float) -> BitMechanism:
    """Longitudinal SUE then OUE.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-soue", dict(locals()), symmetric, optimized)


def _once(name: str, parameters: dict[str, Any], family: Family) -> BitMechanism:
    channel = one_round(family, check_epsilon("epsilon", parameters["epsilon"]))
    return BitMechanism(name, parameters, OneHot(parameters["domain_size"]), Rounds(channel, BinaryChannel.identity()))


def _window(name: str, parameters: dict[str, Any], family: Family) -> BitMechanism:
    check_count("window", parameters["window"], 1, 1 << 20)
    channel = window_round(family, check_epsilon("epsilon", parameters["epsilon"]), parameters["window"])
    rounds = Rounds(BinaryChannel.identity(), channel)
    return BitMechanism(name, parameters, OneHot(parameters["domain_size"]), rounds)


def _twice(name: str, parameters: dict[str, Any], first: Family, second: Family) -> BitMechanism:
    permanent, report = check_two(parameters["epsilon_permanent"], parameters["epsilon_report"])
    memoized = one_round(first, permanent)
    rounds = Rounds(memoized, second_round(memoized, second, report))
    return BitMechanism(name, parameters, OneHot(parameters["domain_size"]), rounds)


def dbitflip(*, domain_size: int, epsilon: float, sampled_bits: int | None = None) -> BitMechanism:
    """d-bit flipping: symmetric noise, memoized, on the bits of a public sample of the values (16 unless given).

    References
    ----------
    Ding, Kulkarni, Yekhanin, "Collecting telemetry data privately", NeurIPS 2017.
    """
    parameters = dict(locals())
    encoding = SampledBits(domain_size, _few(domain_size) if sampled_bits is None else sampled_bits)
    channel = one_round(symmetric, check_epsilon("epsilon", epsilon), tuple(encoding.differences))
    return BitMechanism("dbitflip", parameters, encoding, Rounds(channel, BinaryChannel.identity()))


def _few(domain_size: int) -> int:
    return min(OneHot(domain_size).num_bits, 16)


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
    """One-time RAPPOR: strings in a Bloom filter, one round, memoized: every report of a value is the same.

    Give either f (the round flips to f/2) or p and q, as the paper does in figures 2 to 4.
    """
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
    name: str,
    parameters: dict[str, Any],
    encoding: Encoding,
    permanence: Permanence,
    f: float,
    p: float,
    q: float,
) -> BitMechanism:
    for letter, value in (("f", f), ("p", p), ("q", q)):
        check_probability(letter, value)
    return BitMechanism(name, parameters, encoding, _rounds(permanence.channel, f, p, q), permanence)


@lru_cache(maxsize=64, typed=True)
def _rounds(channel: Callable[[Fraction], BinaryChannel], f: float, p: float, q: float) -> Rounds:
    """Return rounds that many metrics share, with what is computed of them once."""
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
