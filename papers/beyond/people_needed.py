"""How many people each family of oracles needs to see a share, by theory and, at a few points, by simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.variance import frequency_variance
from overstory.planning.detection import required_sample_size
from overstory.planning.needs import design
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.registry import mechanism
from papers import figures
from papers.comparison import LEVEL, Comparison, Published, exact, proportion
from papers.study import Context, Study, Table, each

VALUES: Final = 100
ALPHA: Final = 0.05
SHARES: Final = (0.1, 0.03, 0.01, 0.003, 0.001)
EPSILONS: Final = (0.5, 1.0, 2.0, 3.0, 4.0)
ONE_TIME: Final = ("grr", "sue", "oue", "olh", "hadamard", "subset", "projective")
LONG: Final = ("l-osue", "rappor")
FAMILIES: Final = (*ONE_TIME, *LONG)
DRAWN: Final = {
    "grr": "grr",
    "sue": "sue",
    "oue": "oue, olh, l-osue",
    "rappor": "rappor",
    "hadamard": "hadamard",
    "subset": "subset",
    "projective": "projective",
}
"""Families whose lines lie apart, and what they stand for."""
CEILING: Final = 2.0
"""The permanent epsilon of the longitudinal families, in epsilons of one report."""
POINTS: Final = (
    ("grr", 4.0, 0.03),
    ("oue", 1.0, 0.1),
    ("olh", 2.0, 0.1),
    ("hadamard", 1.0, 0.1),
    ("subset", 1.0, 0.1),
    ("l-osue", 2.0, 0.1),
)
"""Where people are really asked: family, epsilon, share."""

NOTES: Final = f"""
A share counts as seen when it is detected nine times in ten, with a chance of {ALPHA:.0%} of any false detection among
{VALUES} values.

L-OSUE and RAPPOR send fresh reports, with a permanent epsilon of twice the epsilon of one report; the others keep one
answer. Fresh reports under that ceiling cost L-OSUE no more people than one answer costs OUE.
"""


@dataclass(frozen=True)
class Tried:
    """One point: how many people were asked, and in how many runs the share was detected."""

    family: str
    epsilon: float
    share: float
    people: int
    detected: int


def family(name: str, epsilon: float, domain_size: int = VALUES) -> Mechanism:
    """Return a family's member with that epsilon of one report.

    RAPPOR is the best of 128 bits, one hash and 16 cohorts; it and L-OSUE have a permanent epsilon twice as large.

    Examples
    --------
    >>> all(family(name, 1.0).epsilon_report <= 1.0 for name in FAMILIES)
    True
    """
    if name == "rappor":
        return design(epsilon, CEILING * epsilon, num_bits=128, num_hashes=1, num_cohorts=16)
    if name in LONG:
        return mechanism(name, domain_size=domain_size, epsilon_report=epsilon, epsilon_permanent=CEILING * epsilon)
    return mechanism(name, domain_size=domain_size, epsilon=epsilon)


def run(context: Context) -> Study:
    """Compute the people, and ask them at a few points."""
    runs = context.pick(quick=200, full=2_000)
    tried = context.parallel(lambda i: _tried(context, i, runs), range(len(POINTS)), "points")
    return Study(
        comparisons=[*_rates(tried, runs), *_crossings(), *_at_one_percent()],
        inputs={"values": VALUES, "alpha": ALPHA, "correction": "Bonferroni", "power": 0.9, "runs a point": runs},
        tables=[_table(), _points(tried, runs)],
        figures=[_draw()],
        notes=NOTES,
    )


def _tried(context: Context, index: int, runs: int) -> Tried:
    """Ask the people needed, `runs` times over; the others spread evenly over the other values."""
    name, epsilon, share = POINTS[index]
    built = family(name, epsilon)
    people = required_sample_size(built, share, VALUES, alpha=ALPHA)
    holders = round(share * people)
    held = np.append(np.zeros(holders, np.int32), 1 + np.arange(people - holders, dtype=np.int32) % (VALUES - 1))
    oracle, detected = FrequencyOracle(built), 0
    for i in range(runs):
        estimate = oracle.estimate(oracle.accumulate(oracle.simulate(held, context.rng(index, i))))
        detected += bool(estimate.detected(ALPHA, "bonferroni")[0])
    return Tried(name, epsilon, share, people, detected)


def _rates(tried: Sequence[Tried], runs: int) -> list[Comparison]:
    """Compare how often a share was detected with nine times in ten; all intervals together hold at LEVEL."""
    level = 1 - (1 - LEVEL) / len(tried)
    nine_in_ten = Published(0.9, "theory: docs/how-to/collect.md")
    because = "an estimate from few holders is only nearly normal"
    return [
        proportion(
            f"{point.people:,} people see a share of {point.share:.0%} by {point.family} at epsilon {point.epsilon:g}",
            point.detected,
            runs,
            nine_in_ten,
            level=level,
            unit="of the runs",
            because=because,
        )
        for point in tried
    ]


def _crossings() -> list[Comparison]:
    """Compare where direct answers stop being better than optimized unary encoding."""
    where = "Wang et al. 2017, section 5: d < 3 exp(epsilon) + 2"
    return [
        exact(
            f"largest domain in which grr is at least as good as oue at epsilon {epsilon:g}",
            _largest_direct(epsilon),
            Published(float(math.floor(3 * math.exp(epsilon) + 2)), where),
            unit="values",
        )
        for epsilon in EPSILONS
    ]


def _largest_direct(epsilon: float) -> int:
    domain = 2
    while _rare(family("grr", epsilon, domain + 1)) <= _rare(family("oue", epsilon, domain + 1)):
        domain += 1
    return domain


def _rare(built: Mechanism) -> float:
    return frequency_variance(built, 1.0, 0.0)


def _people(name: str, epsilon: float, share: float = 0.01) -> int:
    return required_sample_size(family(name, epsilon), share, VALUES)


def _at_one_percent() -> list[Comparison]:
    return [exact(f"people that {name} needs for a share of 1% at epsilon 1", _people(name, 1.0)) for name in FAMILIES]


def _table() -> Table:
    cases = [(epsilon, share) for epsilon in EPSILONS for share in (0.1, 0.01, 0.001)]
    columns: dict[str, list[Any]] = {
        "epsilon": [epsilon for epsilon, _ in cases],
        "share": [f"{share:.1%}" for _, share in cases],
    }
    return Table.of("People needed", columns | {name: [_people(name, *case) for case in cases] for name in FAMILIES})


def _points(tried: Sequence[Tried], runs: int) -> Table:
    columns: dict[str, list[Any]] = {
        "family": each(tried, "family"),
        "epsilon": each(tried, "epsilon"),
        "share": [f"{point.share:.0%}" for point in tried],
        "people": each(tried, "people"),
        "detected": [f"{point.detected:,} of {runs:,}" for point in tried],
    }
    return Table.of("Points that were simulated", columns)


def _draw() -> figures.Picture:
    figure, (left, right) = figures.panels(width=9.6, height=4.4, columns=2)
    left.set(yscale="log")
    right.set(xscale="log", yscale="log")
    epsilons = np.linspace(EPSILONS[0], EPSILONS[-1], 15).tolist()
    fewest = [min(_people(name, epsilon) for name in FAMILIES) for epsilon in epsilons]
    ends = []
    for colour, (name, label) in zip(figures.SERIES, DRAWN.items(), strict=True):
        people = [_people(name, epsilon) for epsilon in epsilons]
        times = [number / least for number, least in zip(people, fewest, strict=True)]
        left.plot(epsilons, times, color=colour)
        ends.append((times[-1], label, colour))
    left.set(xlabel="epsilon of one report, for a share of 1%", ylabel="people, over those of the best", ylim=(0.6, 40))
    left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    figures.labels(left, EPSILONS[-1], ends)
    ends = []
    for colour, epsilon in zip(figures.SERIES, EPSILONS, strict=False):
        needed = [min(_people(name, epsilon, share) for name in FAMILIES) for share in SHARES]
        right.plot([100 * share for share in SHARES], needed, color=colour)
        ends.append((float(needed[-1]), f"epsilon {epsilon:g}", colour))
    right.set(xlabel="share (%), by the best family", ylabel="people needed", xlim=(10, 0.1))
    right.set_xticks([10, 3, 1, 0.3, 0.1], ["10", "3", "1", "0.3", "0.1"])
    figures.labels(right, 100 * SHARES[-1], ends)
    for axes in (left, right):
        axes.minorticks_off()
    return figures.picture(
        figure,
        "beyond-people-needed",
        f"People needed to detect a share nine times in ten among {VALUES} values, with a chance of 5% of any false "
        "detection; by theory. Left: each family against the best of all, OUE standing for OLH and L-OSUE as well; "
        "right: the best.",
        "Direct answers need fifteen times the people at small epsilons and the fewest at 4, Hadamard's the other way "
        "round; a tenth of the share takes a hundred times the people.",
    )
