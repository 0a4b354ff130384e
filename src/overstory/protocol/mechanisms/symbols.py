"""Oracles that report a symbol: direct, hashed, or a sign.

Wang et al. (USENIX Security 2017): GRR (direct encoding), BLH, OLH. Acharya et al. (2019): Hadamard response. The
lecture (after Bassily and Smith 2015): one randomized bit of a public random matrix. Arcolezi et al. (2022, 2023):
L-GRR, LOLOHA.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from overstory.protocol.channels import MAX_EPSILON, ONE, SymbolChannel, SymbolRounds
from overstory.protocol.encodings.base import MAX_SYMBOLS, check_count, check_epsilon
from overstory.protocol.encodings.symbols import Direct, HadamardRow, LinearHash, SymbolEncoding
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.calibration import (
    Alpha,
    best_hash_bits,
    check_seeds,
    kept_by,
    least_range,
    small_set,
)
from overstory.protocol.mechanisms.payloads import SymbolMechanism


def grr(*, domain_size: int, epsilon: float) -> SymbolMechanism:
    """Generalized randomized response: the value with e^eps / (e^eps + d - 1), else any other.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _once("grr", dict(locals()), Direct(domain_size), epsilon)


def blh(
    *, epsilon: float, domain_size: int | None = None, hash_key: str = "", num_seeds: int | None = None
) -> SymbolMechanism:
    """Binary local hashing: one randomized bit of the value's hash.

    `num_seeds`, as for all hashing oracles: how many public hash functions there are, from 64 to 1,024 (chosen where it
    is not given).

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _hashed("blh", dict(locals()), 2, check_epsilon("epsilon", epsilon))


def olh(
    *,
    epsilon: float,
    domain_size: int | None = None,
    hash_range: int | None = None,
    hash_key: str = "",
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """Optimal local hashing: GRR on the value's hash into the range of least variance, near e^eps + 1.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return _hashed("olh", dict(locals()), hash_range, check_epsilon("epsilon", epsilon))


def linear_hash(*, domain_size: int, epsilon: float, hash_bits: int | None = None) -> SymbolMechanism:
    """Local hashing by a random linear map of the value's bits: all values are counted by one fast transform.

    The seed of the map is the device's own, and travels with every report. The variance is OLH's at a hash range of
    ``2**hash_bits``, a power of two.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017
    (local hashing); Bassily, Nissim, Stemmer, Thakurta, "Practical locally private heavy hitters", NeurIPS 2017
    (the Hadamard transform in place of a scan).
    """
    parameters = dict(locals())
    encoding = LinearHash(domain_size, best_hash_bits(epsilon) if hash_bits is None else hash_bits)
    return _once("linear-hash", parameters, encoding, epsilon)


def hadamard(*, domain_size: int, epsilon: float) -> SymbolMechanism:
    """One randomized sign of the value's Hadamard row.

    References
    ----------
    Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately, efficiently, and with little
    communication", AISTATS 2019.
    """
    return _once("hadamard", dict(locals()), HadamardRow(domain_size), epsilon)


def random_matrix(
    *,
    epsilon: float | None = None,
    domain_size: int | None = None,
    advantage: float | None = None,
    hash_key: str = "",
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """One randomized sign of the lecture's public pseudo-random +-1 matrix.

    `advantage` is the lecture's small epsilon: the true sign is sent with probability 1/2 + advantage. Its real
    epsilon is ln((1/2 + advantage) / (1/2 - advantage)), about four times as large, and `epsilon_report` says so.

    References
    ----------
    Bassily, Smith, "Local, private, efficient protocols for succinct histograms", STOC 2015; the lecture, after it.
    """
    parameters = dict(locals())
    if (epsilon is None) == (advantage is None):
        raise ParameterError("random-matrix: give either epsilon, or the lecture's advantage")
    encoding = _small(parameters, 2, lambda size: 1 / size)
    if advantage is None:
        assert epsilon is not None
        return _once("random-matrix", parameters, encoding, epsilon)
    if not 0 < advantage < 0.5:
        raise ParameterError(f"advantage = {advantage!r}: 1/2 + advantage must be a probability between 1/2 and 1")
    alpha = Fraction(math.floor(Fraction(advantage) * 2 * ONE), ONE)
    channel = SymbolChannel(2, alpha)
    return SymbolMechanism("random-matrix", parameters, encoding, SymbolRounds(channel, SymbolChannel(2, Fraction(1))))


def l_grr(
    *, domain_size: int, epsilon_permanent: float, epsilon_report: float, published: bool = False
) -> SymbolMechanism:
    """Longitudinal GRR: GRR memoized, then GRR afresh; `published` takes the second round of the literature.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return _twice("l-grr", dict(locals()), Direct(domain_size))


def loloha(
    *,
    epsilon_permanent: float,
    epsilon_report: float,
    domain_size: int | None = None,
    hash_range: int | None = None,
    hash_key: str = "",
    published: bool = False,
    num_seeds: int | None = None,
) -> SymbolMechanism:
    """LOLOHA: a public hash, then GRR memoized per hashed symbol, then GRR afresh.

    Without `hash_range`, the range of least variance for the chain that is really used. The exact chain is one GRR at
    epsilon_report, whatever the permanent round, so its range is that of OLH; the published one adds noise of its own.

    References
    ----------
    Arcolezi, Pinzón, Palamidessi, Gambs, "Frequency estimation of evolving data under local differential privacy",
    EDBT 2023.
    """
    parameters, two = dict(locals()), _check_two(epsilon_permanent, epsilon_report)
    alpha = _published_chain(*two) if published else kept_by(epsilon_report)
    return _twice("loloha", parameters, _small(parameters, hash_range, alpha))


def _published_chain(epsilon_permanent: float, epsilon_report: float) -> Alpha:
    first = math.expm1(min(epsilon_permanent, 700.0))

    def alpha(size: int) -> float:
        return first / (first + size) * float(_published_alpha(size, epsilon_permanent, epsilon_report))

    return alpha


def _hashed(name: str, parameters: dict[str, Any], hash_range: int | None, epsilon: float) -> SymbolMechanism:
    """Return one round on a hash, of `hash_range` symbols where that is given."""
    return _once(name, parameters, _small(parameters, hash_range, kept_by(epsilon)), epsilon)


def _small(parameters: dict[str, Any], hash_range: int | None, alpha: Alpha) -> SymbolEncoding:
    """Return a small public set of hash functions, and complete the parameters by its size."""
    from overstory.protocol.encodings.seeds import MOST_SYMBOLS

    check_seeds(parameters["num_seeds"])
    if hash_range is not None:
        check_count("hash_range", hash_range, 2, MOST_SYMBOLS)
    if parameters["domain_size"] is not None:
        check_count("domain_size", parameters["domain_size"], 2, MAX_SYMBOLS)
    usual = least_range(range(2, MOST_SYMBOLS + 1), alpha) if hash_range is None else hash_range
    encoding = small_set(
        alpha,
        usual,
        domain_size=parameters["domain_size"],
        key=parameters["hash_key"],
        hash_range=hash_range,
        num_seeds=parameters["num_seeds"],
    )
    parameters["num_seeds"] = encoding.num_seeds
    return encoding


def _once(name: str, parameters: dict[str, Any], encoding: SymbolEncoding, epsilon: float) -> SymbolMechanism:
    channel = SymbolChannel.of(encoding.num_symbols, epsilon=check_epsilon("epsilon", epsilon))
    unchanged = SymbolChannel(encoding.num_symbols, Fraction(1))
    return SymbolMechanism(name, parameters, encoding, SymbolRounds(channel, unchanged))


def _check_two(epsilon_permanent: float, epsilon_report: float) -> tuple[float, float]:
    permanent = check_epsilon("epsilon_permanent", epsilon_permanent)
    report = check_epsilon("epsilon_report", epsilon_report)
    if report >= permanent:
        raise ParameterError(
            f"epsilon_report = {report} must be below epsilon_permanent = {permanent}: otherwise one round does"
        )
    if permanent >= MAX_EPSILON:
        raise ParameterError(f"epsilon_permanent = {permanent}: give a number below {MAX_EPSILON}")
    return permanent, report


def _twice(name: str, parameters: dict[str, Any], encoding: SymbolEncoding) -> SymbolMechanism:
    permanent, report = _check_two(parameters["epsilon_permanent"], parameters["epsilon_report"])
    size = encoding.num_symbols
    memoized = SymbolChannel.of(size, epsilon=permanent)
    second = _published_alpha(size, permanent, report) if parameters["published"] else _exact_alpha(memoized, report)
    return SymbolMechanism(name, parameters, encoding, SymbolRounds(memoized, SymbolChannel(size, second)))


def _exact_alpha(memoized: SymbolChannel, epsilon_report: float) -> Fraction:
    """alpha(epsilon_report) / alpha(epsilon_permanent), rounded down to the grid."""
    if not memoized.alpha:
        raise ParameterError("no channel on the 2**-32 grid reaches epsilon_permanent: it is too small")
    wished = SymbolChannel.of(memoized.domain_size, epsilon=epsilon_report).alpha
    return Fraction(math.floor(ONE * wished / memoized.alpha), ONE)


def _published_alpha(size: int, epsilon_permanent: float, epsilon_report: float) -> Fraction:
    """Return the second round of the L-GRR and LOLOHA papers, which drops the way over a third symbol.

    They solve p1 p2 + q1 q2 = e^eps1 (p1 q2 + q1 p2) for p2 = 1 - (k - 1) q2, p1 and q1 being the first round's.
    """
    first, odds = math.exp(epsilon_permanent), math.exp(epsilon_report)
    kept, other = first / (first + size - 1), 1 / (first + size - 1)
    # With ratio r = p2 / q2: kept r + other = odds (kept + other r).
    ratio = (odds * kept - other) / (kept - odds * other)
    alpha = (ratio - 1) / (ratio - 1 + size)
    return Fraction(math.floor(ONE * alpha), ONE)
