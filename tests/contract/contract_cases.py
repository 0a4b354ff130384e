"""What the contract suite runs over: for each registry name, parameters small enough to enumerate, and typical ones.

A new mechanism adds its name to both tables; `test_registry_cases` fails until it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overstory.protocol.encodings import OneHot
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.mechanisms.registry import mechanism
from overstory.protocol.permanence import GooglePermanence

GOOGLE = {"hash_family": "google-rappor-python"}

# f, p, q: the paper's; q < p; fractions that no binary float holds; nearly no noise in the second round.
NOISE = (
    {"f": 0.5, "p": 0.5, "q": 0.75},
    {"f": 0.25, "p": 0.75, "q": 0.25},
    {"f": 0.3, "p": 0.35, "q": 0.65},
    {"f": 0.1, "p": 0.01, "q": 0.99},
)
ONE_ROUND = ({"f": 0.5}, {"f": 0.3}, {"p": 0.5, "q": 0.75}, {"p": 0.9, "q": 0.2})


def _bloom(bits: int, hashes: int, cohorts: int = 2) -> dict[str, int]:
    return {"num_bits": bits, "num_hashes": hashes, "num_cohorts": cohorts}


# At most five bits, so that three reports have at most 2**15 outcomes. Two of these filters have k < 2h.
SMALL_BLOOMS = (_bloom(5, 2), _bloom(4, 1), _bloom(5, 3), _bloom(4, 3), _bloom(5, 3) | GOOGLE, _bloom(5, 2) | GOOGLE)

SMALL: dict[str, tuple[dict[str, Any], ...]] = {
    "rappor": (
        *(bloom | noise for bloom, noise in zip(SMALL_BLOOMS, NOISE * 2, strict=False)),
        _bloom(5, 2) | {"f": 0.0, "p": 0.25, "q": 0.75},
    ),
    "rappor-one-time": tuple(bloom | noise for bloom, noise in zip(SMALL_BLOOMS, ONE_ROUND * 2, strict=False)),
    "basic-rappor": tuple({"domain_size": d} | noise for d, noise in zip((2, 3, 4, 5), NOISE, strict=True)),
    "basic-rappor-one-time": tuple({"domain_size": d} | n for d, n in zip((2, 3, 4, 5), ONE_ROUND, strict=True)),
}

TYPICAL: dict[str, tuple[dict[str, Any], ...]] = {
    "rappor": (
        {},
        _bloom(16, 2, 5) | {"f": 0.3, "p": 0.35, "q": 0.65},
        _bloom(16, 2, 5) | {"f": 0.3, "p": 0.75, "q": 0.25} | GOOGLE,
    ),
    "rappor-one-time": (_bloom(67, 3, 4) | {"f": 0.004}, _bloom(16, 2, 3) | {"p": 0.4, "q": 0.8}),
    "basic-rappor": ({"domain_size": 9}, {"domain_size": 8, "f": 0.3, "p": 0.75, "q": 0.25}),
    "basic-rappor-one-time": ({"domain_size": 9, "f": 0.3}, {"domain_size": 6, "p": 0.25, "q": 0.75}),
}


@dataclass(frozen=True)
class Case:
    """A registry name with parameters."""

    name: str
    parameters: dict[str, Any]

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.parameters.items())])

    def build(self) -> BitMechanism:
        return mechanism(self.name, **self.parameters)


SMALL_CASES = [Case(name, parameters) for name, sets in SMALL.items() for parameters in sets]
TYPICAL_CASES = [Case(name, parameters) for name, sets in TYPICAL.items() for parameters in sets]
ONE_HOT_CASES = [case for case in TYPICAL_CASES if isinstance(case.build().encoding, OneHot)]


def some_values(mechanism: BitMechanism, most: int) -> list[Any]:
    """Values of the mechanism's domain: all its symbols, or strings."""
    if isinstance(mechanism.encoding, OneHot):
        return list(range(min(most, mechanism.encoding.domain_size)))
    return [f"value-{i}" for i in range(most)]


def is_keyed_by_filter_alone(mechanism: BitMechanism) -> bool:
    """Whether responses depend on the secret and the true bits alone: Google's derivation, kept for compatibility."""
    return isinstance(mechanism.permanence, GooglePermanence)
