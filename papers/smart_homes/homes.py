"""Homes and their half-hour readings: a population made up after smart meters, or windows of a file of real ones.

The thesis draws N homes at random from the Low Carbon London readings (UK Power Networks: kWh per half hour), each of
which reports ten times. A home here is ten consecutive readings of one meter, already in bins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from overstory.protocol.domains.numbers import Bins
from overstory.protocol.errors import FormatError
from papers.study import Context

READINGS: Final = 10
BINS: Final = 100
MOST_KWH: Final = 2.0
POOL: Final = 200_000
"""The most windows of real readings that are sampled: homes are drawn from them."""

# Half-hour consumption is close to lognormal between homes and within one; a home's readings hang together.
MEDIAN_LOG: Final = -1.9
BETWEEN_HOMES: Final = 0.65
WITHIN_HOME: Final = 0.65
PERSISTENCE: Final = 0.8

METER: Final = "LCLid"
ENERGY: Final = ("KWH/hh (per half hour) ", "KWH/hh (per half hour)", "energy(kWh/hh)", "kwh", "value")
MISSING: Final = ("", "Null", "null", "NaN")
METERS: Final = (METER, "meter", "home", "house")

Symbols = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Homes:
    """Where homes are drawn from."""

    description: str  # what they are, in words
    windows: NDArray[np.float32] | None = None  # real readings in kWh, shape (windows, READINGS); None: made up

    def draw(self, number: int, rng: np.random.Generator, *, bins: int = BINS) -> Symbols:
        """Return the bins of `number` homes' readings: shape (READINGS, number)."""
        if self.windows is None:
            return binned(made_up(number, rng), bins)
        return binned(self.windows[rng.integers(0, len(self.windows), number)].T, bins)


def homes_of(context: Context) -> Homes:
    """Return the user's readings, where a file was given, or made-up ones."""
    path = context.options.get("readings")
    if path is None:
        return Homes(
            f"made up: lognormal readings (log median {MEDIAN_LOG}, deviation {BETWEEN_HOMES} between homes and "
            f"{WITHIN_HOME} within, correlation {PERSISTENCE} from one half hour to the next)"
        )
    windows = sampled_windows(Path(path), context.rng(0))
    return Homes(f"{len(windows):,} windows of {READINGS} readings from {Path(path).name}", windows)


def made_up(number: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return readings in kWh, shape (READINGS, number)."""
    level = rng.normal(MEDIAN_LOG, BETWEEN_HOMES, number).astype(np.float32)
    now = rng.standard_normal(number, np.float32)
    out = np.empty((READINGS, number), np.float32)
    for step in range(READINGS):
        out[step] = np.exp(level + WITHIN_HOME * now)
        now = PERSISTENCE * now + np.sqrt(1 - PERSISTENCE**2, dtype=np.float32) * rng.standard_normal(
            number, np.float32
        )
    return out


def binned(readings: NDArray[np.float32], bins: int) -> Symbols:
    """Return each reading's bin, by the shipped domain's own edges; values past the range go to the last bin."""
    edges = np.array(Bins(0, MOST_KWH, bins).edges[1:-1], np.float32)
    return np.searchsorted(edges, readings, side="right").astype(np.int32)


def frequencies(symbols: Symbols, bins: int) -> NDArray[np.float64]:
    """Return the share of each bin."""
    return np.bincount(symbols.ravel(), minlength=bins) / symbols.size


def sampled_windows(path: Path, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return a uniform sample of windows of consecutive readings of one meter, the file read in a stream.

    Algorithm R over the windows: memory is that of the sample, however long the file.
    """
    sample = np.empty((POOL, READINGS), np.float32)
    seen = 0
    for window in _windows(path):
        place = seen if seen < POOL else int(rng.integers(0, seen + 1))
        if place < POOL:
            sample[place] = window
        seen += 1
    if not seen:
        raise FormatError(f"no meter has {READINGS} readings in a row", source=str(path))
    return sample[: min(seen, POOL)]


def _windows(path: Path) -> Iterator[NDArray[np.float32]]:
    """Yield windows that do not overlap, each of one meter; windows that a missing reading spoils are left out."""
    meter: Any = None
    rest = np.empty(0, np.float32)
    for meters, energy in _columns(path):
        ends = np.flatnonzero(meters[1:] != meters[:-1]) + 1
        for start, stop in zip(np.r_[0, ends], np.r_[ends, len(meters)], strict=True):
            own = energy[start:stop]
            rest = np.concatenate((rest, own)) if meters[start] == meter else own
            meter = meters[start]
            number = len(rest) // READINGS
            windows = rest[: number * READINGS].reshape(number, READINGS)
            yield from windows[np.isfinite(windows).all(axis=1)]
            rest = rest[number * READINGS :]


def _columns(path: Path) -> Iterator[tuple[NDArray[Any], NDArray[np.float32]]]:
    """Yield (meters, readings) by blocks; without a column of meters all readings are of one meter."""
    import pyarrow as pa
    from pyarrow import csv

    try:
        with csv.open_csv(path) as opened:
            names = opened.schema.names
        energy, meter = _named(names, ENERGY) or names[-1], _named(names, METERS)
        wanted = [energy] if meter is None else [meter, energy]
        # As text: by the first block alone, readings might seem whole numbers and meters numbers.
        text = csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string()))
        for block in csv.open_csv(path, convert_options=text):
            readings = _numbers(block.column(energy), energy, path)
            meters = np.zeros(len(readings), np.int8) if meter is None else block.column(meter).to_numpy(False)
            yield meters, readings
    except pa.ArrowInvalid as error:
        reason = "".join(c if c.isprintable() else "?" for c in str(error).partition("\n")[0])
        raise FormatError(f"not a CSV file of readings: {reason}", source=str(path)) from error


def _named(columns: list[str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in columns), None)


def _numbers(column: Any, name: str, path: Path) -> NDArray[np.float32]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pc.utf8_trim_whitespace(column)  # the London file writes " 0.2 "
    column = pc.if_else(pc.is_in(column, pa.array(MISSING)), pa.scalar(None, pa.string()), column)
    try:
        return np.asarray(pc.cast(column, pa.float32()).to_numpy(zero_copy_only=False), np.float32)
    except pa.ArrowInvalid as error:
        raise FormatError(f"column {name!r} does not hold numbers: {error}", source=str(path)) from error
