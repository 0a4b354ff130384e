"""One collection from end to end: simulated devices, HTTP, a real collector on its store, and the analyst's files."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.counts import SupportCounts
from overstory.analysis.decoding import Decoded, decode
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.simulation import SimulatedDevices
from overstory.collector.store import open_store
from overstory.demo.population import Population
from overstory.demo.registry import METRIC, write_registry
from overstory.demo.service import CollectorService
from overstory.files.candidates import hash_candidates
from overstory.files.counts_csv import read_counts, write_counts
from overstory.files.map_csv import read_map, write_map
from overstory.files.opening import writing_text
from overstory.files.packed import write_packed
from overstory.files.params import RapporParameters, write_params
from overstory.files.results import metrics, write_results
from overstory.planning.precision import count_error
from overstory.protocol.encodings import Bloom
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.metrics import Metric, MetricRegistry

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 10_000  # reports of one upload


@dataclass(frozen=True)
class Paths:
    """The files a collection leaves behind, under one folder."""

    folder: Path

    @property
    def params(self) -> Path:
        """RAPPOR's parameters."""
        return self.folder / "params.csv"

    @property
    def candidates(self) -> Path:
        """The strings to look for, one a line."""
        return self.folder / "candidates.txt"

    @property
    def map(self) -> Path:
        """The bits each candidate sets."""
        return self.folder / "map.csv"

    @property
    def reports(self) -> Path:
        """What the devices sent: packed batches."""
        return self.folder / "reports.ovsb"

    @property
    def registry(self) -> Path:
        """What is collected, why and how: shared by devices and collector."""
        return self.folder / "metrics.toml"

    @property
    def store(self) -> Path:
        """The collector's database."""
        return self.folder / "store.db"

    @property
    def log(self) -> Path:
        """What the collector printed."""
        return self.folder / "collector.log"

    @property
    def counts(self) -> Path:
        """What the analyst takes from the store."""
        return self.folder / "counts.csv"


@dataclass(frozen=True, eq=False)
class Collection:
    """What happened, for the terminal, the page and JSON.

    Parameters
    ----------
    population
        Who took part; its counts are the truth.
    parameters, oracle
        What their devices randomized with.
    decoded
        What was learned.
    seed
        What all the randomness followed from.
    paths
        Where the files lie.
    """

    population: Population
    parameters: RapporParameters
    oracle: FrequencyOracle
    decoded: Decoded
    seed: int
    paths: Paths

    @property
    def mechanism(self) -> BitMechanism:
        """What each device ran."""
        return self.parameters.mechanism()

    @property
    def truth(self) -> NDArray[np.int64]:
        """Each candidate's true count, in the order of `decoded.values`."""
        return self.population.counts

    @property
    def rmse(self) -> float:
        """Root mean square of the raw estimates' errors, in reports."""
        return float(np.sqrt(np.mean((self.decoded.raw_counts - self.truth) ** 2)))

    @property
    def limit(self) -> float:
        """What theory lets the best unbiased decoder reach: the same root mean square, expected, in reports."""
        reports, mechanism = len(self.population), self.mechanism
        shares = (self.truth / reports).tolist()
        errors = [count_error(mechanism, reports, share, len(shares)) for share in shares]
        return float(np.sqrt(np.mean(np.square(errors))))


def collect(
    population: Population, parameters: RapporParameters, seed: int, folder: Path, advance: Callable[[int], None]
) -> Collection:
    """Randomize every respondent's state, send it to a collector, count and decode; leave every file in `folder`.

    Raises
    ------
    ParameterError
        When the parameters do not fit the population.
    ServiceError
        When the collector does not start or does not take the reports.
    """
    paths = Paths(folder)
    folder.mkdir(parents=True, exist_ok=True)
    oracle = FrequencyOracle(parameters.mechanism())
    write_params(paths.params, parameters)
    _write_candidates(paths, population, oracle)
    registry = write_registry(paths.registry, paths.candidates, parameters, dt.datetime.now(dt.UTC).date())
    assert registry[METRIC].mechanism.digest == oracle.mechanism.digest
    _forget(paths.store)
    with CollectorService(paths.registry, paths.store, paths.log) as service:
        devices = oracle.devices(population.symbols, np.random.default_rng([seed, 1]), candidates=population.states)
        write_packed(paths.reports, _sent(devices, registry[METRIC], service, advance))
    decoded = _decode(paths, parameters, registry)
    write_results(folder, decoded, metrics(decoded, parameters, parameters.mechanism()))
    return Collection(population, parameters, oracle, decoded, seed, paths)


def _write_candidates(paths: Paths, population: Population, oracle: FrequencyOracle) -> None:
    encoding = oracle.mechanism.encoding
    assert isinstance(encoding, Bloom)
    with writing_text(paths.candidates) as text:
        text.writelines(f"{state}\n" for state in population.states)
    write_map(paths.map, hash_candidates(population.states, encoding))


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
