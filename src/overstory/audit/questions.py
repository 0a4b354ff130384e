"""What a client is asked, phase by phase: lines of ``client,cohort,value``, with a coin for every fresh device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from overstory.presentation.render_data import quoted

if TYPE_CHECKING:
    from pathlib import Path

    from overstory.audit.declared import Declared

Column = NDArray[np.int64]

PAIR_SHARE: Final = 7 / 8
"""Of the fresh reports, how many are of the pair; the rest are of the other values."""


@dataclass(frozen=True, eq=False)
class Questions:
    """The lines that one run of the client reads.

    Attributes
    ----------
    phase
        What the run is for, in words.
    clients : ndarray of int64, shape (n,)
        The number of each line's client; names have `prefix` before it.
    cohorts : ndarray of int64, shape (n,), or None
        None where clients choose their own.
    values : ndarray of int64, shape (n,)
        Places in the declared values.
    """

    phase: str
    prefix: str
    clients: Column
    cohorts: Column | None
    values: Column

    def __len__(self) -> int:
        return len(self.clients)

    def names(self) -> list[str]:
        """Return the client's name on each line."""
        return [f"{self.prefix}{client}" for client in self.clients.tolist()]

    def write(self, path: Path, declared: Declared) -> None:
        """Write values.csv."""
        texts = [quoted(text) for text in declared.texts]
        cohorts = [""] * len(self) if self.cohorts is None else self.cohorts.tolist()
        lines = zip(self.names(), cohorts, self.values.tolist(), strict=True)
        body = "".join(f"{name},{cohort},{texts[value]}\n" for name, cohort, value in lines)
        path.write_text("client,cohort,value\n" + body, encoding="utf-8")


def draw_values(declared: Declared, many: int, rng: np.random.Generator) -> Column:
    """Return values drawn by a fair coin between the pair, and now and then one of the others."""
    pair, others = rng.integers(0, 2, many), len(declared.values) - 2
    if not others:
        return pair
    is_other = rng.random(many) >= PAIR_SHARE
    return np.where(is_other, 2 + rng.integers(0, others, many), pair)


def fresh(declared: Declared, many: int, rng: np.random.Generator, *, choose: bool, prefix: str = "c") -> Questions:
    """Return a line each for devices that nobody has seen before."""
    cohorts = None if choose else rng.integers(0, declared.num_cohorts, many)
    return Questions("fresh devices", prefix, np.arange(many), cohorts, draw_values(declared, many, rng))


def twins(declared: Declared, many: int, rng: np.random.Generator, *, choose: bool) -> tuple[Questions, ...]:
    """Return what three processes read that start at once: twice the same lines, and once those of other clients."""
    lines = fresh(declared, many, rng, choose=choose, prefix="p")
    return tuple(
        Questions("three processes at once", prefix, lines.clients, lines.cohorts, lines.values)
        for prefix in ("p", "p", "r")
    )


def repeated(declared: Declared, devices: int, repeats: int, rng: np.random.Generator, *, choose: bool) -> Questions:
    """Return lines in which every device has one value `repeats` times, devices taking turns."""
    lines = fresh(declared, devices, rng, choose=choose, prefix="d")
    cohorts = None if lines.cohorts is None else np.tile(lines.cohorts, repeats)
    return Questions("repeats", "d", np.tile(lines.clients, repeats), cohorts, np.tile(lines.values, repeats))
