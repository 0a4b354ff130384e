"""Choosing an oracle, by numbers or by trial: error, size of a report, cost of decoding, at equal privacy.

The criterion is exact. Averaged over a domain of d values, whose frequencies sum to 1, the variance of the raw
estimates is their variance at frequency 1/d: variance is linear in the frequency. So one number ranks the oracles for
every population.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.kinds.base import support_of
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.oracle import oracle as build_oracle
from overstory.analysis.reports import ReportBatch
from overstory.analysis.variance import frequency_variance
from overstory.presentation.formats import seconds_text
from overstory.privacy.attacks import Linkability, linkability
from overstory.privacy.shared import MILLION, bits_text
from overstory.protocol.channels import Influence
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism, check_count, whole_number
from overstory.protocol.kinds.registry import oracles_for

TWICE: Final = 2.0  # an oracle with at most twice the least variance is mentioned if its reports are smaller
SLACK: Final = 1.01
"""An oracle whose variance is within 1% of the best may be preferred for what it does not carry, and for its size."""
QUICK: Final = 10.0  # Core-seconds of counting that are never a reason to prefer another oracle
TIMES: Final = 10.0
"""An oracle that takes more than QUICK is not preferred if another as accurate counts this many times faster."""
OWN_SEED: Final = 31.0
"""Bits of a seed of a device's own: they name the device, so such an oracle is no alternative to another."""


@dataclass(frozen=True)
class Choice:
    """An oracle at given needs: ``overstory.oracle(name, **parameters)``."""

    name: str
    parameters: dict[str, Any]
    variance: float
    report_bits: int
    decoding: str
    core_seconds: float  # what counting and estimating takes of one core; `decoding` says it in words
    epsilon_report: float
    epsilon_permanent: float
    linkable: Linkability  # what the reports of a device have in common, in bits
    influence: Influence  # how many votes a crafted report is worth

    @property
    def standard_error(self) -> float:
        return math.sqrt(self.variance)

    def to_json(self) -> dict[str, Any]:
        ever = self.epsilon_permanent
        return {
            "oracle": self.name,
            "parameters": self.parameters,
            "standard_error": self.standard_error,
            "variance": self.variance,
            "report_bits": self.report_bits,
            "decoding": self.decoding,
            "core_seconds": self.core_seconds,
            "epsilon_report": self.epsilon_report,
            "epsilon_permanent": ever if math.isfinite(ever) else None,
            "linkable": self.linkable.to_json(),
            "influence": self.influence.to_json(),
        }


def rank(
    domain_size: int, epsilon: float, num_reports: int, *, epsilon_permanent: float | None = None
) -> tuple[Choice, ...]:
    """Rank the registered oracles, most accurate first: with `epsilon_permanent` the longitudinal ones."""
    domain_size, num_reports = whole_number(domain_size), whole_number(num_reports)
    check_count("domain_size", domain_size, 2, 1 << 31)
    check_count("num_reports", num_reports, 1, 1 << 62)
    built = oracles_for(domain_size, epsilon, epsilon_permanent)
    choices = [_choice(mechanism, domain_size, num_reports) for mechanism in built]
    if not choices:
        raise ParameterError(f"no oracle for {domain_size} values reaches epsilon {epsilon}")
    return tuple(sorted(choices, key=lambda choice: (choice.variance, choice.report_bits)))


def recommend(ranking: tuple[Choice, ...]) -> Choice:
    """Return the choice to make: of those within 1% of the least variance, what links a device's reports least."""
    return _preferred(ranking)[0]


def _preferred(ranking: tuple[Choice, ...]) -> tuple[Choice, Choice]:
    """Return the choice to make, and the one that would be made if counting cost nothing."""
    near = [choice for choice in ranking if choice.variance <= SLACK * ranking[0].variance]
    # Rounded: two oracles that share the same bits differ by floating point alone.
    near.sort(key=lambda choice: (round(choice.linkable.shared(1), 6), choice.report_bits, choice.variance))
    quickest = min((choice.core_seconds for choice in near if not _names_device(choice)), default=math.inf)
    return next(choice for choice in near if choice.core_seconds <= max(QUICK, TIMES * quickest)), near[0]


def _names_device(choice: Choice) -> bool:
    return choice.linkable.always.bits >= OWN_SEED


def trade(ranking: tuple[Choice, ...], best: Choice) -> str | None:
    """Say what `best` gives up, or what it costs, in how far a device's reports can be linked; None where nothing."""
    preferred, slow = _preferred(ranking)
    given_up = _given_up(ranking, best)
    if best is not preferred or best is slow:
        return given_up
    too_slow = (
        f"{slow.name} would link a device's reports less, but counting takes {seconds_text(slow.core_seconds)} "
        f"core-seconds instead of {seconds_text(best.core_seconds)} with {best.name}"
    )
    return too_slow if given_up is None else f"{too_slow}; {given_up}"


def _given_up(ranking: tuple[Choice, ...], best: Choice) -> str | None:
    if best.linkable.always.bits:
        free = next((choice for choice in ranking if not choice.linkable.always.bits), None)
        if free is None:
            return None
        more = math.sqrt(free.variance / best.variance) - 1
        return (
            f"{free.name} would carry nothing that is the same whatever the value, for an error {max(more, 0):.1%} "
            f"larger and {bits_text(free.report_bits)} a report; {_alike(best, free)}"
        )
    limit = TWICE * best.variance
    near = [c for c in ranking if c.variance <= limit and c.linkable.always.bits and not _names_device(c)]
    smaller = [c for c in near if c.report_bits < best.report_bits]
    small = min(smaller, key=lambda choice: choice.variance, default=None)
    if small is None:
        return None
    same, more = small.linkable.always, math.sqrt(small.variance / best.variance) - 1
    error = "the same error" if small.variance <= SLACK * best.variance else f"an error {more:.0%} larger"
    return (
        f"{small.name} would send {bits_text(small.report_bits)} instead of {best.report_bits} at {error}, but "
        f"{bits_text(same.bits)} of them are the same in every report; of a million devices "
        f"{math.floor(same.crowd(MILLION)):,} share them; {_alike(best, small)}"
    )


def _alike(first: Choice, second: Choice) -> str:
    """Say what two reports of each share, where the value does not change."""
    shared = [bits_text(choice.linkable.shared(1)) for choice in (first, second)]
    return f"two reports of an unchanged value share {shared[0]} with {first.name}, {shared[1]} with {second.name}"


def _choice(built: Mechanism, domain_size: int, num_reports: int) -> Choice:
    return Choice(
        name=built.name,
        parameters={key: value for key, value in built.parameters.items() if value not in (None, "", False)},
        variance=frequency_variance(built, num_reports, 1 / domain_size),
        report_bits=report_bits(built),
        decoding=support_of(built).work.words,
        core_seconds=support_of(built).core_seconds(num_reports, domain_size),
        epsilon_report=built.epsilon_report,
        epsilon_permanent=built.epsilon_permanent,
        linkable=linkability(built),
        influence=built.influence,
    )


def report_bits(built: Mechanism) -> int:
    """Return the bits of a report: its payload and its public part."""
    return built.payload_bits + (built.num_cohorts - 1).bit_length()


ERRORS: Final = 200  # independent errors that give the mean square to 10%, and its root to 5%
TOGETHER: Final = 1 << 12
"""Devices that are simulated in one go: for fewer, NumPy's calls cost more than what they work out."""


@dataclass(frozen=True)
class Measured:
    """What an oracle's error came out as in simulated collections."""

    error: float  # root mean square error of all frequencies, over all collections
    standard_error: float | None  # of `error`, from how much the collections differ; None for one collection
    rounds: int  # collections


def rounds_to_order(domain_size: int) -> int:
    """Return how many collections distinguish the oracles: each error is then measured to about 5%, or better.

    >>> [rounds_to_order(size) for size in (2, 21, 50, 1000)]
    [20, 10, 5, 4]
    """
    return min(max(math.ceil(ERRORS / max(domain_size - 1, 1)), 4), 20)


def root_mean_square(squares: NDArray[np.float64]) -> Measured:
    """Return the root of a mean of squares, one of each collection."""
    error, rounds = math.sqrt(np.mean(squares)), len(squares)
    # The square root's slope is 1 / (2 sqrt).
    spread = float(np.std(squares, ddof=1)) / math.sqrt(rounds) / (2 * error) if rounds > 1 and error else None
    return Measured(error, spread, rounds)


def _collections(
    oracle: FrequencyOracle, symbols: NDArray[np.integer], rounds: int, rng: np.random.Generator
) -> Iterator[ReportBatch]:
    """Yield the reports of each collection; small ones are drawn together, as different devices of one population."""
    size, together = len(symbols), max(1, TOGETHER // len(symbols))
    for first in range(0, rounds, together):
        drawn = oracle.simulate(np.tile(symbols, min(together, rounds - first)), rng)
        for start in range(0, len(drawn), size):
            rows = slice(start, start + size)
            yield ReportBatch(drawn.cohorts[rows], drawn.bits[rows], drawn.num_bits, drawn.num_cohorts)


def measured_errors(
    ranking: Sequence[Choice],
    symbols: NDArray[np.integer],
    domain_size: int,
    seed: int,
    *,
    rounds: int = 1,
    advance: Callable[[int], object] = lambda _: None,
) -> Iterator[Measured]:
    """Yield the root mean square error of all frequencies by each choice, over `rounds` simulated collections."""
    truth = np.bincount(symbols, minlength=domain_size) / len(symbols)
    for number, choice in enumerate(ranking):  # each has randomness of its own
        oracle, squares = build_oracle(choice.name, **choice.parameters), []
        for reports in _collections(oracle, symbols, rounds, np.random.default_rng([seed, number])):
            estimate = oracle.estimate(oracle.accumulate(reports))
            squares.append(np.mean((estimate.raw_frequencies - truth) ** 2))
            advance(1)
        yield root_mean_square(np.array(squares))


def zipf(num_reports: int, domain_size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return what each of n devices holds when value v has a share proportional to 1 / (v + 1)."""
    shares = 1 / np.arange(1, domain_size + 1)
    return rng.choice(domain_size, size=num_reports, p=shares / shares.sum())
