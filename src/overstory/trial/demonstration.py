"""The demonstration from end to end: respondents, simulated devices, HTTP, a collector and its store, an analyst.

Respondents are drawn from the real figures of the epidemic. Devices and collector share one registry file.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from overstory.analysis.decoding import Decoded, decode
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.analysis.support.registry import SimulatedDevices
from overstory.collector.store import open_store
from overstory.experiments.data.covid import ATTRIBUTION, CONFIRMED
from overstory.files.candidates import hash_candidates, read_map, write_map
from overstory.files.io import writing_text
from overstory.files.rappor import RapporParameters, metrics, read_counts, write_counts, write_params, write_results
from overstory.files.reports import write_packed
from overstory.planning.detection import count_error
from overstory.protocol.encodings.bits import Bloom
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.payloads import BitMechanism
from overstory.protocol.metrics import Metric, MetricRegistry, load_registry
from overstory.trial.demo.service import CollectorService
from overstory.trial.population import Devices, Population
from overstory.trial.run import Learned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
    counts, devices = np.bincount(symbols, minlength=len(states)), Devices(symbols, np.array([num_reports]))
    return Population(states, counts.astype(np.int64), devices=devices, notes=(f"{description} ({ATTRIBUTION})",))


METRIC: Final = "home-state"
FILE: Final = """\
# What the demonstration collects. `overstory metrics show` says it in plain words.
registry = "{today}"

[metrics.{metric}]
title = "State of confirmed cases"
description = "The state in which a simulated respondent's case was confirmed."
owner = "the demonstration"
purpose = "https://github.com/CSSEGISandData/COVID-19"
oracle = "rappor"
parameters = {{num_bits = {k}, num_hashes = {h}, num_cohorts = {m}, f = {f}, p = {p}, q = {q}, hash_key = ""}}
domain = {{kind = "strings", candidates = {candidates}}}
period = "day"
retention_days = 30
expires = {expires}
"""


def write_registry(path: Path, candidates: Path, parameters: RapporParameters, today: dt.date) -> MetricRegistry:
    """Write the registry, and read it back as any program would."""
    numbers = {letter: getattr(parameters, letter) for letter in "khmfpq"}
    named = json.dumps(candidates.name)  # a TOML basic string is written like JSON's
    text = FILE.format(today=today, metric=METRIC, candidates=named, expires=today + dt.timedelta(days=365), **numbers)
    with writing_text(path) as file:
        file.write(text)
    return load_registry(path)


BATCH = 10_000  # reports of one upload


class Paths(NamedTuple):
    """The files a collection leaves behind, under one folder."""

    folder: Path
    params: Path  # RAPPOR's parameters
    candidates: Path  # the strings to look for, one a line
    map: Path  # the bits each candidate sets
    reports: Path  # what the devices sent: packed batches
    registry: Path  # what is collected, why and how: shared by devices and collector
    store: Path  # the collector's database
    log: Path  # what the collector printed
    counts: Path  # what the analyst takes from the store

    @classmethod
    def below(cls, folder: Path) -> Paths:
        """Return the paths in a folder."""
        names = ("params.csv", "candidates.txt", "map.csv", "reports.ovsb", "metrics.toml", "store.db", "collector.log")
        return cls(folder, *(folder / name for name in (*names, "counts.csv")))


@dataclass(frozen=True, eq=False)
class DemoResult(Learned):
    """What happened, for the terminal, the page and JSON."""

    estimate: Decoded
    parameters: RapporParameters
    paths: Paths

    @property
    def mechanism(self) -> BitMechanism:
        """What each device ran."""
        return self.parameters.mechanism()

    @property
    def rmse(self) -> float:
        """Root mean square of the raw estimates' errors, in reports."""
        return float(np.sqrt(np.mean((self.estimate.raw_counts - self.population.counts) ** 2)))

    @property
    def limit(self) -> float:
        """What theory lets the best unbiased decoder reach: the same root mean square, expected, in reports."""
        reports, shares = len(self.population), self.population.shares.tolist()
        errors = [count_error(self.mechanism, reports, share, len(shares)) for share in shares]
        return float(np.sqrt(np.mean(np.square(errors))))


def collect(
    population: Population, parameters: RapporParameters, seed: int, folder: Path, advance: Callable[[int], None]
) -> DemoResult:
    """Randomize every respondent's state, send it to a collector, count and decode; leave every file in `folder`."""
    paths = Paths.below(folder)
    folder.mkdir(parents=True, exist_ok=True)
    oracle = FrequencyOracle(parameters.mechanism())
    write_params(paths.params, parameters)
    _write_candidates(paths, population.labels, oracle)
    registry = write_registry(paths.registry, paths.candidates, parameters, dt.datetime.now(dt.UTC).date())
    assert registry[METRIC].mechanism.digest == oracle.mechanism.digest
    _forget(paths.store)
    with CollectorService(paths.registry, paths.store, paths.log) as service:
        assert population.devices is not None
        symbols, rng = population.devices.symbols, np.random.default_rng([seed, 1])
        devices = oracle.devices(symbols, rng, candidates=population.labels)
        write_packed(paths.reports, _sent(devices, registry[METRIC], service, advance))
    decoded = _decode(paths, parameters, registry)
    write_results(folder, decoded, metrics(decoded, parameters, parameters.mechanism()))
    return DemoResult(population, oracle, decoded, seed, parameters, paths)


def _write_candidates(paths: Paths, states: Sequence[str], oracle: FrequencyOracle) -> None:
    encoding = oracle.mechanism.encoding
    assert isinstance(encoding, Bloom)
    with writing_text(paths.candidates) as text:
        text.writelines(f"{state}\n" for state in states)
    write_map(paths.map, hash_candidates(states, encoding))


def _forget(store: Path) -> None:
    """Remove the store of an earlier demonstration: its reports would be counted, too."""
    for end in ("", "-wal", "-shm"):
        store.with_name(store.name + end).unlink(missing_ok=True)


def _sent(
    devices: SimulatedDevices, metric: Metric, service: CollectorService, advance: Callable[[int], None]
) -> Iterator[bytes]:
    """Post the reports as a relay of many devices would, and give each batch that was acknowledged."""
    period = metric.period.number(time.time())
    for batch in devices.batches(size=BATCH):
        packed = batch.to_wire(metric.mechanism.digest)
        advance(service.post(metric.id, period, packed))
        yield packed


def _decode(paths: Paths, parameters: RapporParameters, registry: MetricRegistry) -> Decoded:
    """Take the counts from the store, and go on as an analyst would who has the files alone."""
    with open_store(str(paths.store), registry) as store:
        periods = store.periods(METRIC)
        counted = store.counts(registry[METRIC], periods[0], periods[-1])
    write_counts(paths.counts, sum(counted.values(), SupportCounts.empty(parameters.m, parameters.k)))
    read = read_counts(paths.counts, parameters.m, parameters.k)
    candidates = read_map(paths.map, num_bits=parameters.k, num_hashes=parameters.h, num_cohorts=parameters.m)
    channel = parameters.mechanism().channel
    return decode(read, candidates, p_star=float(channel.keep_one), q_star=float(channel.raise_zero))
