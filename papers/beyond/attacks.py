"""The attacks of Cao, Jia and Gong on frequency oracles, against the reports that this library's devices send.

Liars want the shares of some target values to rise. They know the protocol, and send one report each [1]_:

- *random reports* (RPA): any report that the protocol allows;
- *random values* (RIA): an honest report of a target, which no check can tell from a device that holds it;
- *crafted reports* (MGA): a report that votes for as many targets as one report can.

References
----------
.. [1] Cao, Jia, Gong, "Data poisoning attacks to local differential privacy protocols", USENIX Security 2021.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from overstory.analysis.reports import ReportBatch
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import MAX_COHORTS
from overstory.protocol.kinds.bits import OneHot
from overstory.protocol.kinds.hashes import BalancedHash, LinearHash, SeededHash
from overstory.protocol.kinds.symbols import Direct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.oracle import FrequencyOracle

Attack = Literal["random reports", "random values", "crafted reports"]
ATTACKS: Final[tuple[Attack, ...]] = ("random reports", "random values", "crafted reports")
SEEDS_TRIED: Final = 4_000
"""Public seeds that a liar looks through for the one that votes for most targets."""


def lie(
    oracle: FrequencyOracle,
    attack: Attack,
    liars: int,
    targets: Sequence[int],
    rng: np.random.Generator,
    *,
    shared_seed: bool = True,
) -> ReportBatch:
    """Return the reports of liars.

    Parameters
    ----------
    targets
        The values whose shares are to rise.
    shared_seed
        Of a hashing oracle's crafted reports: whether all liars use the best seed that one of them tried; otherwise
        each looks for an own one, among as many.

    Examples
    --------
    >>> import overstory
    >>> oue = overstory.oracle("oue", domain_size=100, epsilon=1.0)
    >>> reports = lie(oue, "crafted reports", 5, [3, 4], np.random.default_rng(1))
    >>> reports.accumulate().ones[0, 3:5].tolist()  # and others, to look like an honest report
    [5, 5]
    """
    if attack == "random values":
        return oracle.simulate(rng.choice(np.asarray(targets), liars), rng)
    encoding: Any = oracle.mechanism.encoding
    wanted, crafted = np.asarray(targets), attack == "crafted reports"
    if isinstance(encoding, Direct):
        symbols = rng.choice(wanted, liars) if crafted else rng.integers(0, encoding.domain_size, liars)
        return _batch(oracle, np.zeros(liars), symbols.astype(np.uint64).reshape(-1, 1))
    if isinstance(encoding, OneHot):
        bits = _padded(oracle, liars, wanted, rng) if crafted else rng.random((liars, encoding.num_bits)) < 0.5
        return _batch(oracle, np.zeros(liars), _packed(bits))
    if isinstance(encoding, BalancedHash | SeededHash | LinearHash):
        if crafted:
            seeds, symbols = _searched(oracle, liars, wanted, rng, shared=shared_seed)
        else:
            seeds = rng.integers(0, encoding.num_cohorts, liars)
            symbols = rng.integers(0, encoding.num_symbols, liars)
        return _batch(oracle, seeds, symbols.astype(np.uint64).reshape(-1, 1))
    raise ParameterError(f"no attack on {oracle.name} is written down: its reports are of another kind")


def _batch(oracle: FrequencyOracle, cohorts: NDArray[Any], bits: NDArray[np.uint64]) -> ReportBatch:
    built = oracle.mechanism
    narrow = built.num_cohorts <= MAX_COHORTS
    sent = cohorts.astype(np.uint16) if narrow else cohorts.astype(np.uint32)
    return ReportBatch(sent, bits, built.payload_bits, built.num_cohorts)


def _packed(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    octets = np.packbits(bits, axis=1, bitorder="little")
    padded = np.zeros((len(bits), 8 * -(-bits.shape[1] // 64)), np.uint8)
    padded[:, : octets.shape[1]] = octets
    return padded.view("<u8").astype(np.uint64)


def _padded(oracle: FrequencyOracle, liars: int, targets: NDArray[Any], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return reports with the targets' bits, and as many others as make the usual number of ones."""
    built, size = oracle.mechanism, oracle.mechanism.payload_bits
    usual = int(float(built.p_star) + (size - 1) * float(built.q_star))
    others = np.setdiff1d(np.arange(size), targets)
    scores = rng.random((liars, len(others)))
    chosen = scores.argsort(axis=1)[:, : max(usual - len(targets), 0)]
    bits = np.zeros((liars, size), bool)
    bits[:, targets] = True
    bits[np.arange(liars)[:, None], others[chosen]] = True
    return bits


def _searched(
    oracle: FrequencyOracle, liars: int, targets: NDArray[Any], rng: np.random.Generator, *, shared: bool
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the seeds and symbols that vote for most targets, among `SEEDS_TRIED` seeds of each liar."""
    searches = 1 if shared else liars
    found = [_best(oracle, targets, rng) for _ in range(searches)]
    seeds, symbols = (np.array(column) for column in zip(*found, strict=True))
    return (np.resize(seeds, liars), np.resize(symbols, liars))


def _best(oracle: FrequencyOracle, targets: NDArray[Any], rng: np.random.Generator) -> tuple[int, int]:
    support: Any = oracle.support
    seeds = rng.integers(0, oracle.mechanism.num_cohorts, SEEDS_TRIED).astype(np.uint32)
    symbols, table = oracle.mechanism.encoding.num_symbols, support.table(targets)
    votes = np.zeros((SEEDS_TRIED, symbols), np.int64)
    for place in range(len(targets)):
        hashed = support.encode(table, np.full(SEEDS_TRIED, place, np.int32), seeds)
        votes[np.arange(SEEDS_TRIED), hashed] += 1
    seed, symbol = np.unravel_index(votes.argmax(), votes.shape)
    return int(seeds[seed]), int(symbol)
