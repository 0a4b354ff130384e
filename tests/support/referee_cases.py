"""Every oracle of the registry on small domains, and the values and cohorts that a referee looks at."""

from itertools import count
from typing import Any

from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.registry import REGISTRY, make, mechanism
from support.privacy_cases import some_parameters
from support.referee_device import Device, Truth, device

BLOOM = {"num_bits": 4, "num_hashes": 2, "num_cohorts": 2}
OWN: dict[str, dict[str, Any]] = {"dbitflip": {"sampled_bits": 2}, "opt-dr": {"epsilon_permanent": 1.0}}
STRINGS = {"rappor": BLOOM | {"f": 0.5, "p": 0.5, "q": 0.75}, "rappor-one-time": BLOOM | {"f": 0.5}}
SEEDS = 6


def cases(sizes: range = range(2, 5)) -> list[tuple[str, dict[str, Any]]]:
    """Return each oracle of symbols at these sizes, or at its own where it has one, and those of strings."""
    sized = []
    for name in REGISTRY:
        if name not in STRINGS:
            given = some_parameters(name) | OWN.get(name, {})
            every = [given | {"domain_size": size} for size in sizes]
            sized += [(name, one) for one in every if make(name, **one)] or [(name, given)]
    return [*sized, *STRINGS.items()]


SIZED = {name: given for name, given in cases(range(3, 4)) if name not in STRINGS}
"""Of three values, or of as many as an oracle has."""


def of_case(name: str, given: dict[str, Any]) -> Mechanism:
    return mechanism(name, **given)


def values_of(one: Mechanism, most: int) -> list[Any]:
    """Return the symbols, or strings: one for every encoding in cohort 0, and two with the same bits."""
    size = getattr(one.encoding, "domain_size", None)
    if size is not None:
        return list(range(min(size, most)))
    found: dict[Any, str] = {}
    twin = None
    for number in count():
        value = f"v{number}"
        bits = one.encode(value, 0)  # type: ignore[attr-defined]
        if bits in found and twin is None:
            twin = value
        found.setdefault(bits, value)
        if number >= 300:
            break
    far = max(((a, b) for a in found for b in found), key=lambda pair: (pair[0] ^ pair[1]).bit_count())
    return [found[far[0]], found[far[1]], twin, *(v for bits, v in found.items() if bits not in far)][:most]


def cohorts_of(one: Mechanism) -> list[int]:
    """Return all cohorts where they are few, else as many seeds as tell all values apart and some that do not."""
    if one.num_cohorts <= 8:
        return list(range(one.num_cohorts))
    return [apart_cohort(one), *range(1, SEEDS)]


def apart_cohort(one: Mechanism) -> int:
    """Return a cohort in which as many values as possible are encoded differently."""
    if one.num_cohorts == 1 or one.encoding.domain_size is None:
        return 0
    values = values_of(one, 5)
    return max(range(min(one.num_cohorts, 50)), key=lambda cohort: len({one.encode(v, cohort) for v in values}))


def truth_of(one: Mechanism, *, most: int = 4, extra: tuple[Any, ...] = (), make=device) -> Truth:
    devices: list[Device] = [make(one, cohort) for cohort in cohorts_of(one)]
    return Truth(devices, [*values_of(one, most), *extra])
