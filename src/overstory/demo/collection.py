"""One collection from end to end, through the same files that the file tools read and write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from overstory.analysis.decoding import Decoded, decode
from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.simulation import SimulatedDevices
from overstory.demo.population import Population
from overstory.files.candidates import hash_candidates
from overstory.files.counts_csv import read_counts, write_counts
from overstory.files.map_csv import read_map, write_map
from overstory.files.opening import writing_text
from overstory.files.packed import write_packed
from overstory.files.params import RapporParameters, write_params
from overstory.files.reports import read_reports, sum_reports
from overstory.files.results import metrics, write_results
from overstory.planning.precision import count_error
from overstory.protocol.encodings import Bloom
from overstory.protocol.mechanisms.bits import BitMechanism

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 1 << 16


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
    def counts(self) -> Path:
        """What the collector keeps."""
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
    """Randomize every respondent's state, send, count and decode; leave every file in `folder`.

    Raises
    ------
    ParameterError
        When the parameters do not fit the population.
    """
    paths = Paths(folder)
    folder.mkdir(parents=True, exist_ok=True)
    oracle = FrequencyOracle(parameters.mechanism())
    write_params(paths.params, parameters)
    _write_candidates(paths, population, oracle)
    devices = oracle.devices(population.symbols, np.random.default_rng([seed, 1]), candidates=population.states)
    write_packed(paths.reports, _sent(devices, oracle, advance))
    decoded = _decode(paths, parameters)
    write_results(folder, decoded, metrics(decoded, parameters, parameters.mechanism()))
    return Collection(population, parameters, oracle, decoded, seed, paths)


def _write_candidates(paths: Paths, population: Population, oracle: FrequencyOracle) -> None:
    encoding = oracle.mechanism.encoding
    assert isinstance(encoding, Bloom)
    with writing_text(paths.candidates) as text:
        text.writelines(f"{state}\n" for state in population.states)
    write_map(paths.map, hash_candidates(population.states, encoding))


def _sent(devices: SimulatedDevices, oracle: FrequencyOracle, advance: Callable[[int], None]) -> Iterator[bytes]:
    for batch in devices.batches(size=BATCH):
        yield batch.to_wire(oracle.mechanism.digest)
        advance(len(batch))


def _decode(paths: Paths, parameters: RapporParameters) -> Decoded:
    """Read back what was written, as an analyst would who has the files alone."""
    counts = sum_reports(read_reports(paths.reports, parameters), parameters.m, parameters.k)
    write_counts(paths.counts, counts)
    read = read_counts(paths.counts, parameters.m, parameters.k)
    candidates = read_map(paths.map, num_bits=parameters.k, num_hashes=parameters.h, num_cohorts=parameters.m)
    channel = parameters.mechanism().channel
    return decode(read, candidates, p_star=float(channel.keep_one), q_star=float(channel.raise_zero))
