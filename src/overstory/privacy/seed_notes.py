"""Metrics whose parameters an earlier version read otherwise: hashing oracles that name no number of seeds."""

from __future__ import annotations

from collections.abc import Iterator

from overstory.protocol.encodings import SEEDS
from overstory.protocol.metrics import MetricRegistry
from overstory.protocol.metrics.places import places


def seed_notes(registry: MetricRegistry, text: str, going_on: MetricRegistry | None = None) -> Iterator[str]:
    """Return what a collection of version 0.1 should know: hashing oracles had a seed of each device's own then.

    A metric that names its number of seeds means the same to every version, and is not noted.

    Parameters
    ----------
    registry
        What was read.
    text
        What it was read from.
    going_on
        The registry that is to replace it: only metrics that keep their oracle there are noted.

    Examples
    --------
    >>> from overstory.protocol.metrics.registry import EXAMPLE, parse_registry
    >>> hashed = EXAMPLE.replace('"grr"', '"olh"')
    >>> print(*seed_notes(parse_registry(hashed), hashed))  # doctest: +ELLIPSIS
    metrics.colour: olh without num_seeds takes 64 public seeds; version 0.1 took 2147483648. ...
    """
    where = places(text)
    for name, metric in registry.items():
        mechanism = metric.mechanism
        taken = mechanism.parameters.get("num_seeds", SEEDS)
        if taken == SEEDS or ("metrics", name, "parameters", "num_seeds") in where:
            continue
        if going_on is not None and (name not in going_on or going_on[name].mechanism.name != mechanism.name):
            continue
        yield (
            f"metrics.{name}: {mechanism.name} without num_seeds takes {taken} public seeds; version 0.1 took {SEEDS}. "
            "Devices that reported with it draw new permanent responses, which cost their epsilon again, and stored "
            f"counts do not go on: num_seeds = {SEEDS} keeps such a collection as it was, and num_seeds = {taken} says "
            "that this is a new one"
        )
