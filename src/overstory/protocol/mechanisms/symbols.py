"""Oracles that report a symbol: the value itself, or its sign in a row; `hashes` has those that report its hash.

Wang et al. (USENIX Security 2017): GRR (direct encoding). Acharya et al. (2019): Hadamard response. Arcolezi et al.
(2022): L-GRR.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from overstory.protocol.channels import MAX_EPSILON, ONE, SymbolChannel, SymbolRounds
from overstory.protocol.encodings.base import (
    SymbolEncoding,
    check_epsilon,
)
from overstory.protocol.encodings.symbols import Direct, HadamardRow
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.calibration import check_two
from overstory.protocol.mechanisms.payloads import SymbolMechanism


def grr(*, domain_size: int, epsilon: float) -> SymbolMechanism:
    """Generalized randomized response: the value with e^eps / (e^eps + d - 1), else any other.

    References
    ----------
    Wang, Blocki, Li, Jha, "Locally differentially private protocols for frequency estimation", USENIX Security 2017.
    """
    return build_once("grr", dict(locals()), Direct(domain_size), epsilon)


def hadamard(*, domain_size: int, epsilon: float) -> SymbolMechanism:
    """One randomized sign of the value's Hadamard row.

    References
    ----------
    Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately, efficiently, and with little
    communication", AISTATS 2019.
    """
    return build_once("hadamard", dict(locals()), HadamardRow(domain_size), epsilon)


def l_grr(
    *, domain_size: int, epsilon_permanent: float, epsilon_report: float, published: bool = False
) -> SymbolMechanism:
    """Longitudinal GRR: GRR memoized, then GRR afresh; `published` takes the second round of the literature.

    References
    ----------
    Arcolezi, Couchot, Al Bouna, Xiao, "Improving the utility of locally differentially private protocols for
    longitudinal and multidimensional frequency estimates", Digital Communications and Networks 2022.
    """
    return build_twice("l-grr", dict(locals()), Direct(domain_size))


def build_once(name: str, parameters: dict[str, Any], encoding: SymbolEncoding, epsilon: float) -> SymbolMechanism:
    """Return one memoized round on the symbols of an encoding."""
    channel = SymbolChannel.of(encoding.num_symbols, epsilon=check_epsilon("epsilon", epsilon))
    unchanged = SymbolChannel(encoding.num_symbols, Fraction(1))
    return SymbolMechanism(name, parameters, encoding, SymbolRounds(channel, unchanged))


def check_rounds(epsilon_permanent: float, epsilon_report: float) -> tuple[float, float]:
    """Return the epsilons of two rounds, which a symbol's channels can have; or raise ParameterError."""
    permanent, report = check_two(epsilon_permanent, epsilon_report)
    if permanent >= MAX_EPSILON:
        raise ParameterError(f"epsilon_permanent = {permanent}: give a number below {MAX_EPSILON}")
    return permanent, report


def build_twice(name: str, parameters: dict[str, Any], encoding: SymbolEncoding) -> SymbolMechanism:
    """Return a memoized round and a fresh one, by `epsilon_permanent` and `epsilon_report` of the parameters."""
    permanent, report = check_rounds(parameters["epsilon_permanent"], parameters["epsilon_report"])
    size = encoding.num_symbols
    memoized = SymbolChannel.of(size, epsilon=permanent)
    second = published_alpha(size, permanent, report) if parameters["published"] else _exact_alpha(memoized, report)
    return SymbolMechanism(name, parameters, encoding, SymbolRounds(memoized, SymbolChannel(size, second)))


def _exact_alpha(memoized: SymbolChannel, epsilon_report: float) -> Fraction:
    """alpha(epsilon_report) / alpha(epsilon_permanent), rounded down to the grid."""
    if not memoized.alpha:
        raise ParameterError("no channel on the 2**-32 grid reaches epsilon_permanent: it is too small")
    wished = SymbolChannel.of(memoized.domain_size, epsilon=epsilon_report).alpha
    return Fraction(math.floor(ONE * wished / memoized.alpha), ONE)


def published_alpha(size: int, epsilon_permanent: float, epsilon_report: float) -> Fraction:
    """Return the second round of the L-GRR and LOLOHA papers, which drops the way over a third symbol.

    They solve p1 p2 + q1 q2 = e^eps1 (p1 q2 + q1 p2) for p2 = 1 - (k - 1) q2, p1 and q1 being the first round's.
    """
    first, odds = math.exp(epsilon_permanent), math.exp(epsilon_report)
    kept, other = first / (first + size - 1), 1 / (first + size - 1)
    # With ratio r = p2 / q2: kept r + other = odds (kept + other r).
    ratio = (odds * kept - other) / (kept - odds * other)
    alpha = (ratio - 1) / (ratio - 1 + size)
    return Fraction(math.floor(ONE * alpha), ONE)
