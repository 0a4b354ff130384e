"""The averaging attack (sections 1.3 and 2): many reports of one device, with and without the permanent round.

Both devices send reports of the very same law: the second draws afresh, for every report, what the first's two rounds
together would give once. One report of either says equally much; a thousand do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.client import Randomizer
from overstory.experiments.comparison import Comparison, Published, at_most, exact, simulated, stated
from overstory.experiments.rappor.collections import collected
from overstory.experiments.registry import Context
from overstory.experiments.result import Result, Table
from overstory.presentation import figures
from overstory.presentation.svg import Picture
from overstory.privacy.attacks.posterior import evidence_of, posterior
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.entropy import SeededEntropy
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.payloads import BitMechanism

CANDIDATES: Final = tuple(f"value {i}" for i in range(100))
SEEN: Final = (1, 3, 10, 30, 100, 300, 1000)
CERTAIN: Final = 0.95

_NOTE: Final = (
    "Before any report each of the 100 candidates has 1%. An attacker with all reports knows the permanent response, "
    "and learns nothing further from more of them."
)

F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Attacked:
    """What the attacker believes of each device's true value, after each number of reports.

    Attributes
    ----------
    believed : ndarray, shape (devices, len(SEEN))
        P(the true value | the reports).
    moved : float
        The furthest that all the reports moved the odds of any two candidates, as a logarithm.
    """

    believed: F64
    moved: float


def run(context: Context) -> Result:
    """Attack simulated devices of either kind."""
    devices = context.pick(quick=24, full=400)
    kept = collected(0.5)
    afresh = replace(kept, rounds=Rounds(BinaryChannel.identity(), kept.channel))
    with_round = _attack(context, kept, devices, 0)
    without = _attack(context, on_grid(afresh), devices, 1)
    return context.result(
        _compare(kept, with_round, without),
        inputs={"candidates": len(CANDIDATES), "devices": devices, "f": 0.5, "p": 0.5, "q": 0.75, "k": 128, "h": 2},
        random=True,
        tables=[_table(with_round, without)],
        figures=[_draw(with_round, without)],
        notes=[_NOTE],
    )


def on_grid(mechanism: BitMechanism) -> BitMechanism:
    """Return the mechanism with its fresh round on the grid that devices draw from."""
    channel = mechanism.rounds.instantaneous
    return replace(
        mechanism,
        rounds=Rounds(mechanism.rounds.permanent, BinaryChannel.of(channel.keep_one, channel.raise_zero)),
    )


def _attack(context: Context, mechanism: BitMechanism, devices: int, which: int) -> Attacked:
    numbers = range(devices)
    found = [
        _one_device(mechanism, context.seed + 10_000 * which + number)
        for number in context.steps(numbers, "devices with a permanent round" if which == 0 else "devices without")
    ]
    return Attacked(np.array([believed for believed, _ in found]), max(moved for _, moved in found))


def _one_device(mechanism: BitMechanism, seed: int) -> tuple[list[float], float]:
    secret = seed.to_bytes(32, "big")
    device = Randomizer(mechanism, secret=secret, metric="averaging", entropy=SeededEntropy(seed))
    truth, even = CANDIDATES[seed % len(CANDIDATES)], dict.fromkeys(CANDIDATES, 1.0)
    reports: list[Report] = [device.report(truth) for _ in range(SEEN[-1])]
    posteriors = [posterior(mechanism, reports[:n], even) for n in SEEN]
    evidence = evidence_of(mechanism, reports)
    weights = [evidence(candidate) for candidate in CANDIDATES]
    return [found[truth] for found in posteriors], float(max(weights) - min(weights))


def _compare(kept: BitMechanism, with_round: Attacked, without: Attacked) -> list[Comparison]:
    ceiling = at_most(kept.epsilon_permanent, "theorem 1: e^epsilon_infinity, however many reports")
    identified = [float(np.mean(attacked.believed[:, -1] > CERTAIN)) for attacked in (with_round, without)]
    devices = len(with_round.believed)
    where = "sections 1.3 and 2"
    return [
        stated("the attack when noisy answers are memoized", _outcome(identified[0]), Published("fails", where)),
        stated("the attack when noise is drawn afresh", _outcome(identified[1]), Published("succeeds", where)),
        exact("largest move of the odds, permanent round (log)", with_round.moved, ceiling),
        exact("largest move of the odds, noise drawn afresh (log)", without.moved),
        exact(f"share of devices identified (above {CERTAIN:.0%}), permanent round", identified[0]),
        exact(f"share of devices identified (above {CERTAIN:.0%}), noise drawn afresh", identified[1]),
        simulated(
            "mean P(true value) after 1,000 reports, permanent round",
            with_round.believed[:, -1].tolist(),
            averaged=devices,
        ),
    ]


def _outcome(identified: float) -> str:
    """Say whether an attack that identifies this share of the devices succeeds."""
    if identified <= 1 - CERTAIN:
        return "fails"
    return "succeeds" if identified >= CERTAIN else "succeeds against some"


def _table(with_round: Attacked, without: Attacked) -> Table:
    rows = tuple(
        (n, float(with_round.believed[:, i].mean()), float(without.believed[:, i].mean())) for i, n in enumerate(SEEN)
    )
    return Table("Mean P(true value | n reports)", ("reports n", "permanent round", "noise drawn afresh"), rows)


def _draw(with_round: Attacked, without: Attacked) -> Picture:
    figure, axes = figures.panels(width=7.2, height=4.2)
    for colour, attacked, name in (
        (figures.OURS, with_round, "with the\npermanent round"),
        (figures.VERMILION, without, "noise drawn afresh"),
    ):
        low, middle, high = np.quantile(attacked.believed, [0.1, 0.5, 0.9], axis=0)
        figures.band(axes, SEEN, low.tolist(), high.tolist(), colour)
        axes.semilogx(SEEN, middle, "o-", color=colour, linewidth=1.9, markersize=4)
        at = {figures.OURS: (5, 6), figures.VERMILION: (5, 0)}[colour]
        figures.label(axes, SEEN[-1], float(middle[-1]), name, colour, xytext=at)
    axes.axhline(1 / len(CANDIDATES), color=figures.MUTED, linewidth=1, linestyle=(0, (4, 3)))
    figures.label(axes, SEEN[0], 1 / len(CANDIDATES), "before: 1%", figures.MUTED, xytext=(2, -9))
    axes.set(xlabel="reports of one device seen", ylabel="P(true value | reports)", xlim=(1, 1000), ylim=(-0.05, 1.03))
    return figures.picture(
        figure,
        "rappor-averaging",
        "What an attacker believes of the true value among 100 candidates: median of the simulated devices, and the "
        "band that holds 80% of them. Both kinds of report have the same epsilon, 1.0743.",
        "Without a permanent round the true value is certain from about a thousand reports; with it the belief levels "
        "off far below.",
    )
