"""The demonstration: respondents drawn from the real figures of an epidemic, whose states are collected over HTTP.

Devices and collector share one registry file, as everywhere; the folder then has every file that an analyst needs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from overstory.analysis.decoding import Decoded
from overstory.experiments.data.covid import ATTRIBUTION, CONFIRMED
from overstory.files.candidates import hash_candidates, write_map
from overstory.files.io import writing_text
from overstory.files.rappor import RapporParameters, metrics, write_params, write_results
from overstory.planning import plan_from_parameters
from overstory.protocol.encodings.bits import Bloom
from overstory.protocol.errors import ParameterError
from overstory.trial.population import Devices, Population
from overstory.trial.run import Advance, TrialBudget, collect
from overstory.trial.service import OverHttp, Paths
from overstory.trial.summary import Subject, Summary

FOREST: Final = (
    "See the forest, never the trees: every answer was randomized on its own device; nobody, the collector included, "
    "saw a true one."
)
SENT: Final = "over HTTP to a collector on SQLite, each batch committed before it was acknowledged"


def choose_states(choice: str) -> tuple[tuple[str, ...], str]:
    """Return the states that `choice` names, and how to say so.

    Parameters
    ----------
    choice
        ``all``, a number of states with the most cases, or names separated by commas.

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
    """Draw respondents with replacement from the true distribution over the chosen states; each is a device."""
    states, description = choose_states(choice)
    cases = np.array([CONFIRMED[state] for state in states], dtype=np.float64)
    if num_reports < 1:
        raise ParameterError(f"--reports {num_reports}: give at least 1")
    if cases.sum() == 0:
        raise ParameterError(f"--states {choice}: none of them has a case; name others")
    symbols = rng.choice(len(states), size=num_reports, p=cases / cases.sum()).astype(np.int32)
    note = f"respondents are drawn from {description} ({ATTRIBUTION})"
    counts, devices = np.bincount(symbols, minlength=len(states)), Devices(symbols, np.array([num_reports]))
    return Population(
        states,
        counts.astype(np.int64),
        devices=devices,
        notes=(note,),
    )


def demonstrate(
    population: Population, parameters: RapporParameters, seed: int, folder: Path, advance: Advance
) -> Summary:
    """Randomize every respondent's state, send it to a collector, count and decode; leave every file in `folder`."""
    paths, mechanism = Paths.below(folder), parameters.mechanism()
    folder.mkdir(parents=True, exist_ok=True)
    write_params(paths.params, parameters)
    with writing_text(paths.candidates) as text:
        text.writelines(f"{state}\n" for state in population.labels)
    assert isinstance(mechanism.encoding, Bloom)
    write_map(paths.map, hash_candidates(population.labels, mechanism.encoding))
    budget = TrialBudget(mechanism.epsilon_report, mechanism.epsilon_permanent)
    result = collect(population, budget, mechanism, seed, advance, OverHttp(parameters, folder))
    assert isinstance(result.estimate, Decoded)
    write_results(folder, result.estimate, metrics(result.estimate, parameters, mechanism))
    who = f"{len(population):,} simulated respondents"
    plan = plan_from_parameters(mechanism, len(population), len(population.labels))
    facts = {
        "population": population.notes[0],
        "standard_error": plan.standard_error,
        "detectable_frequency": plan.detectable_frequency,
        "folder": str(folder),
    }
    return Summary(Subject("Confirmed cases by state", "state", who, FOREST, SENT, facts), result)
