"""Who takes part in the demonstration: respondents drawn from the real figures of the epidemic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from overstory.data.covid import ATTRIBUTION, CONFIRMED
from overstory.protocol.errors import ParameterError

USUAL_STATES = 26  # as many as the paper of 2022 took


@dataclass(frozen=True, eq=False)
class Population:
    """Respondents, each in one state.

    Parameters
    ----------
    states
        The candidate strings.
    symbols : ndarray of int32, shape (n,)
        Each respondent's state, as an index.
    description
        Where the states come from, in words.
    """

    states: tuple[str, ...]
    symbols: NDArray[np.int32]
    description: str

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How many respondents are in each state: the truth that no collector sees."""
        return np.bincount(self.symbols, minlength=len(self.states)).astype(np.int64)

    def __len__(self) -> int:
        return len(self.symbols)


def choose_states(choice: str) -> tuple[tuple[str, ...], str]:
    """Return the states that `choice` names, and how to say so.

    Parameters
    ----------
    choice
        ``all``, a number of states with the most cases, or names separated by commas.

    Raises
    ------
    ParameterError
        When a name is unknown or fewer than two states are left.

    Examples
    --------
    >>> choose_states("2")
    (('California', 'Texas'), 'the 2 states and territories with the most cases')
    """
    ranked = sorted(CONFIRMED, key=lambda state: -CONFIRMED[state])
    if choice == "all":
        return tuple(ranked), f"all {len(ranked)} states and territories"
    if choice.isdecimal():
        count = int(choice)
        if not 2 <= count <= len(ranked):
            raise ParameterError(f"--states {choice}: give a number from 2 to {len(ranked)}, names, or all")
        return tuple(ranked[:count]), f"the {count} states and territories with the most cases"
    names = tuple(name.strip() for name in choice.split(","))
    unknown = [name for name in names if name not in CONFIRMED]
    if unknown or len(set(names)) < 2:
        wrong = f"unknown: {', '.join(unknown)}" if unknown else "at least two different ones are needed"
        raise ParameterError(f"--states {choice!r}: {wrong}; give a number, all, or names such as Ohio,Utah")
    return tuple(dict.fromkeys(names)), f"{len(set(names))} chosen states"


def draw_population(choice: str, num_reports: int, rng: np.random.Generator) -> Population:
    """Draw respondents with replacement from the true distribution over the chosen states.

    Raises
    ------
    ParameterError
        When there is nobody to draw, or nobody to draw from.
    """
    states, words = choose_states(choice)
    cases = np.array([CONFIRMED[state] for state in states], dtype=np.float64)
    if num_reports < 1:
        raise ParameterError(f"--reports {num_reports}: give at least 1")
    if cases.sum() == 0:
        raise ParameterError(f"--states {choice}: none of them has a case; name others")
    symbols = rng.choice(len(states), size=num_reports, p=cases / cases.sum()).astype(np.int32)
    return Population(states, symbols, f"{words} ({ATTRIBUTION})")
