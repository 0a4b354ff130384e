"""Every registered oracle within the same budget: RAPPOR's of section 5.2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from overstory.analysis.comparison import WIDER
from overstory.planning.design import design
from overstory.planning.sample_size import variance_per_person
from overstory.protocol.mechanisms.base import Mechanism
from overstory.protocol.mechanisms.rappor import rappor
from overstory.protocol.mechanisms.registry import mechanism

PAPER: Final = rappor()
"""k = 128, h = 2, m = 16, f = 1/2, p = 1/2, q = 3/4."""
REPORT, PERMANENT = PAPER.epsilon_report, PAPER.epsilon_permanent

ONE: Final = "one answer, kept"
FRESH: Final = "fresh reports under a ceiling"
WINDOW: Final = "fresh reports, no ceiling"

_KEPT: Final = ("grr", "sue", "oue", "blh", "olh", "hadamard", "subset", "projective", "random-matrix", "dbitflip")
_CHAINS: Final = ("l-grr", "l-sue", "l-osue", "l-soue", "loloha")


@dataclass(frozen=True)
class Contender:
    """An oracle within the budget."""

    name: str  # what it is called here
    kind: str  # what its second report is
    mechanism: Mechanism  # what devices randomize with

    def error(self, shares: list[float], num_reports: int) -> float:
        """Return the root mean square error that theory states, of shares."""
        each = [variance_per_person(self.mechanism, share, len(shares)) for share in shares]
        return math.sqrt(math.fsum(each) / len(each) / num_reports)


def contenders(domain_size: int) -> list[Contender]:
    """Return every registered oracle, one report of which has the epsilon of the paper's, or as much of it as it can.

    Except `linear-hash`, which is OLH with a hash function that a large domain is counted by faster.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import REGISTRY
    >>> found = contenders(26)
    >>> {one.mechanism.name for one in found} == set(REGISTRY) - {"linear-hash"}
    True
    >>> all(one.mechanism.epsilon_report <= REPORT + 1e-6 for one in found)
    True
    """
    return [*_one_answer(domain_size), *_fresh(domain_size), *_window(domain_size)]


def _one_answer(d: int) -> Iterator[Contender]:
    for name in _KEPT:
        given: dict[str, Any] = {"domain_size": d, "epsilon": REPORT}
        yield Contender(name, ONE, mechanism(name, **given, **(WIDER if name == "projective" else {})))
    noise = math.ceil(2e9 / (1 + math.exp(REPORT / 2))) / 1e9
    yield Contender("basic-rappor-one-time", ONE, mechanism("basic-rappor-one-time", domain_size=d, f=noise))
    yield Contender("rappor-one-time", ONE, mechanism("rappor-one-time", num_hashes=1, f=noise))


def _fresh(d: int) -> Iterator[Contender]:
    for name in _CHAINS:
        given = {"domain_size": d, "epsilon_permanent": PERMANENT, "epsilon_report": REPORT}
        yield Contender(name, FRESH, mechanism(name, **given))
    best = design(REPORT, PERMANENT, num_bits=128, num_hashes=1, num_cohorts=16)
    letters = {letter: best.parameters[letter] for letter in "fpq"}
    yield Contender("basic-rappor", FRESH, mechanism("basic-rappor", domain_size=d, **letters))
    yield Contender("rappor, redesigned", FRESH, best)
    yield Contender("rappor, as published", FRESH, PAPER)
    yield Contender("opt-dr", FRESH, _opt_dr(d))


def _opt_dr(d: int) -> Mechanism:
    """Return OPT-DR with the largest permanent epsilon that keeps both."""
    low, high = 0.01, PERMANENT
    for _ in range(50):
        middle = (low + high) / 2
        kept = mechanism("opt-dr", domain_size=d, epsilon_permanent=middle).epsilon_report <= REPORT
        low, high = (middle, high) if kept else (low, middle)
    return mechanism("opt-dr", domain_size=d, epsilon_permanent=low)


def _window(d: int) -> Iterator[Contender]:
    for name in ("wb", "opt-wb"):
        yield Contender(name, WINDOW, mechanism(name, domain_size=d, epsilon=REPORT, window=1))
