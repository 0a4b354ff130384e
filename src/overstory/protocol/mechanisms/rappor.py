"""RAPPOR in its four modes (Erlingsson, Pihur, Korolova, CCS 2014, section 2): definitions over the core.

RAPPOR's letters: f is the share of permanent bits that are noise; q and p are P(1|1) and P(1|0) of the
instantaneous round.

References
----------
Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving ordinal response", CCS 2014.
"""

from __future__ import annotations

from typing import Any

from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.encodings.base import Encoding
from overstory.protocol.encodings.bits import Bloom, OneHot
from overstory.protocol.encodings.hashing import GoogleRapporPython
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism
from overstory.protocol.permanent_response import GooglePermanence, KeyedPermanence, Permanence
from overstory.protocol.probability import check_probability


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
    return _two_rounds("basic-rappor", parameters, OneHot(domain_size), KeyedPermanence(), f, p, q)


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
    share, instantaneous = check_probability("f", f), _instantaneous(p, q)
    if share == 1:
        raise ParameterError("f = 1 replaces every permanent bit by noise: nothing can be learned; give f below 1")
    permanent = permanence.channel(share) if share else BinaryChannel.identity()
    return BitMechanism(name, parameters, encoding, Rounds(permanent, instantaneous), permanence)


def _one_round(
    name: str, parameters: dict[str, Any], encoding: Encoding, f: float | None, p: float | None, q: float | None
) -> BitMechanism:
    share = None if f is None else check_probability("f", f)
    if p is not None and q is not None and not share:
        channel = _instantaneous(p, q)
    elif p is None and q is None and share is not None:
        if share in (0, 1):
            raise ParameterError(f"f = {f}: one round needs f above 0 (to protect) and below 1 (to learn)")
        channel = KeyedPermanence().channel(share)
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
        return KeyedPermanence()
    if encoding.num_bits > GooglePermanence.max_bits:
        raise ParameterError(
            f"{encoding.family}: its permanent round has one byte per bit of a 32-byte digest, so num_bits (k) is "
            f"at most {GooglePermanence.max_bits}, not {encoding.num_bits}; use overstory-v1 for larger filters"
        )
    return GooglePermanence()
