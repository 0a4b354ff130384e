"""The averaging attack (sections 1.3 and 2): many reports of one device, with and without the permanent round.

Both devices send reports of the very same law: the second draws afresh, for every report, what the first's two rounds
together would give once. One report of either reveals equally much; a thousand do not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from overstory.client import Randomizer
from overstory.privacy.attacks import posterior
from overstory.privacy.terms import terms_class
from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.kinds.bits import BitMechanism
from overstory.protocol.sampling import SeededEntropy
from papers import figures
from papers.comparison import Comparison, Published, at_most, exact, simulated, stated
from papers.rappor.collections import collected
from papers.study import Context, Study, Table, letters

CANDIDATES: Final = tuple(f"value {i}" for i in range(100))
SEEN: Final = (1, 3, 10, 30, 100, 300, 1000)
CERTAIN: Final = 0.95
NOTE: Final = (
    "Before any report each of the 100 candidates has 1%. An attacker with all reports knows the permanent response, "
    "and learns nothing further from more of them."
)


@dataclass(frozen=True, eq=False)
class Attacked:
    """What the attacker believes of each device's true value, after each number of reports."""

    believed: NDArray[np.float64]  # P(the true value | the reports), shape (devices, len(SEEN))
    moved: float  # the furthest that all the reports moved the odds of any two candidates, as a logarithm

    @property
    def identified(self) -> float:
        """The share of the devices whose value the attacker is certain of in the end."""
        return float(np.mean(self.believed[:, -1] > CERTAIN))


def run(context: Context) -> Study:
    """Attack simulated devices of either kind."""
    devices, memoized = context.pick(quick=24, full=400), collected(0.5)
    afresh = on_grid(replace(memoized, rounds=Rounds(BinaryChannel.identity(), memoized.channel)))
    attacks = (
        _attack(context, memoized, devices, 0, "devices with a permanent round"),
        _attack(context, afresh, devices, 1, "devices without"),
    )
    return Study(
        inputs={"candidates": len(CANDIDATES), "devices": devices} | letters(memoized, "fpqkh"),
        comparisons=_compare(memoized.epsilon_permanent, *attacks),
        tables=[_table(*attacks)],
        figures=[_draw(*attacks)],
        notes=NOTE,
    )


def on_grid(mechanism: BitMechanism) -> BitMechanism:
    """Return the mechanism with its fresh round on the grid that devices draw from."""
    channel = mechanism.rounds.instantaneous
    fresh = BinaryChannel.of(channel.keep_one, channel.raise_zero)
    return replace(mechanism, rounds=Rounds(mechanism.rounds.permanent, fresh))


def _attack(context: Context, mechanism: BitMechanism, devices: int, kind: int, doing: str) -> Attacked:
    seeds = [context.seed + 10_000 * kind + number for number in range(devices)]
    attacked = [_one_device(mechanism, seed) for seed in context.steps(seeds, doing)]
    return Attacked(np.array([believed for believed, _ in attacked]), max(moved for _, moved in attacked))


def _one_device(mechanism: BitMechanism, seed: int) -> tuple[list[float], float]:
    secret = seed.to_bytes(32, "big")
    device = Randomizer(mechanism, secret=secret, metric="averaging", entropy=SeededEntropy(seed))
    truth, even = CANDIDATES[seed % len(CANDIDATES)], dict.fromkeys(CANDIDATES, 1.0)
    reports = [device.report(truth) for _ in range(SEEN[-1])]
    evidence = terms_class(mechanism).evidence(mechanism, reports)
    weights = [evidence(candidate) for candidate in CANDIDATES]
    return [posterior(mechanism, reports[:n], even)[truth] for n in SEEN], float(max(weights) - min(weights))


def _compare(epsilon: float, with_round: Attacked, without: Attacked) -> list[Comparison]:
    where = "sections 1.3 and 2"
    ceiling = at_most(epsilon, "theorem 1: e^epsilon_infinity, however many reports")
    identified = f"share of devices identified (above {CERTAIN:.0%})"
    believed = with_round.believed[:, -1].tolist()
    return [
        stated(
            "the attack when noisy answers are memoized", _outcome(with_round.identified), Published("fails", where)
        ),
        stated("the attack when noise is drawn afresh", _outcome(without.identified), Published("succeeds", where)),
        exact("largest move of the odds, permanent round (log)", with_round.moved, ceiling),
        exact("largest move of the odds, noise drawn afresh (log)", without.moved),
        exact(f"{identified}, permanent round", with_round.identified),
        exact(f"{identified}, noise drawn afresh", without.identified),
        simulated("mean P(true value) after 1,000 reports, permanent round", believed, averaged=len(believed)),
    ]


def _outcome(identified: float) -> str:
    """Return whether an attack that identifies this share of the devices succeeds."""
    if identified <= 1 - CERTAIN:
        return "fails"
    return "succeeds" if identified >= CERTAIN else "succeeds against some"


def _table(with_round: Attacked, without: Attacked) -> Table:
    # The mean of each column on its own: all at once, the sums would be taken in another order.
    means = [[float(column.mean()) for column in attack.believed.T] for attack in (with_round, without)]
    columns = {"reports n": SEEN, "permanent round": means[0], "noise drawn afresh": means[1]}
    return Table.of("Mean P(true value | n reports)", columns)


def _draw(with_round: Attacked, without: Attacked) -> figures.Picture:
    figure, axes = figures.panels(width=7.2, height=4.2)
    axes.set(xscale="log")
    for colour, attacked, name, place in (
        (figures.OURS, with_round, "with the\npermanent round", (5, 6)),
        (figures.VERMILION, without, "noise drawn afresh", (5, 0)),
    ):
        low, middle, high = np.quantile(attacked.believed, [0.1, 0.5, 0.9], axis=0)
        figures.interval(axes, SEEN, low, high, colour)
        figures.line(axes, SEEN, middle, colour, name, place={"xytext": place}, marker="o", linewidth=1.9, markersize=4)
    figures.level(axes, 1 / len(CANDIDATES), figures.MUTED, "before: 1%", SEEN[0], place={"xytext": (2, -9)})
    axes.set(xlabel="reports of one device seen", ylabel="P(true value | reports)", xlim=(1, 1000), ylim=(-0.05, 1.03))
    return figures.picture(
        figure,
        "rappor-averaging",
        "What an attacker believes of the true value among 100 candidates: median of the simulated devices, and the "
        "band that holds 80% of them. Both kinds of report have the same epsilon, 1.0743.",
        "Without a permanent round the true value is certain from about a thousand reports; with it the belief levels "
        "off far below.",
    )
