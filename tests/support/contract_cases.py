"""What the contract suite runs over: for each registry name, parameters small enough to enumerate, and typical ones.

A new mechanism adds its name to both tables; `test_law8_parameters` fails until it does.
"""

from dataclasses import dataclass
from typing import Any

from overstory.protocol.kinds.base import Kind, Mechanism
from overstory.protocol.kinds.bits import Bloom
from overstory.protocol.kinds.hashes import BalancedHash, SeededHash
from overstory.protocol.kinds.registry import any_mechanism
from overstory.protocol.kinds.symbols import SymbolMechanism
from overstory.protocol.sampling import GooglePermanence

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

TWO = {"epsilon_permanent": 2.0, "epsilon_report": 1.0}

SMALL: dict[str, tuple[dict[str, Any], ...]] = {
    "rappor": (
        *(bloom | noise for bloom, noise in zip(SMALL_BLOOMS, NOISE * 2, strict=False)),
        _bloom(5, 2) | {"f": 0.0, "p": 0.25, "q": 0.75},
    ),
    "rappor-one-time": tuple(bloom | noise for bloom, noise in zip(SMALL_BLOOMS, ONE_ROUND * 2, strict=False)),
    "basic-rappor": tuple({"domain_size": d} | noise for d, noise in zip((2, 3, 4, 5), NOISE, strict=True)),
    "basic-rappor-one-time": tuple({"domain_size": d} | n for d, n in zip((2, 3, 4, 5), ONE_ROUND, strict=True)),
    "grr": ({"domain_size": 2, "epsilon": 0.5}, {"domain_size": 5, "epsilon": 2.0}),
    "sue": ({"domain_size": 4, "epsilon": 1.0},),
    "oue": ({"domain_size": 4, "epsilon": 1.0}, {"domain_size": 3, "epsilon": 3.0}),
    "blh": ({"domain_size": 4, "epsilon": 1.0}, {"epsilon": 2.0}),
    "olh": (
        {"domain_size": 9, "epsilon": 1.0},
        {"domain_size": 9, "epsilon": 1.0, "num_seeds": 100},
        {"epsilon": 1.5, "hash_key": "a metric"},
        {"epsilon": 1, "hash_range": 2},
    ),
    "linear-hash": (
        {"domain_size": 2, "epsilon": 1.0},
        {"domain_size": 9, "epsilon": 2.0},
        {"domain_size": 8, "epsilon": 0.5, "hash_bits": 3},
    ),
    "hadamard": ({"domain_size": 2, "epsilon": 1.0}, {"domain_size": 5, "epsilon": 2.0}),
    "subset": (
        {"domain_size": 2, "epsilon": 1.0},
        {"domain_size": 6, "epsilon": 1.0},
        {"domain_size": 5, "epsilon": 0.1, "subset_size": 4},
        {"domain_size": 5, "epsilon": 4.0},
    ),
    "projective": (
        {"domain_size": 4, "epsilon": 1.0},
        {"domain_size": 13, "epsilon": 1.0, "field_size": 3},
        {"domain_size": 9, "epsilon": 0.2, "field_size": 2},
        {"domain_size": 16, "epsilon": 1.0},
        {"domain_size": 12, "epsilon": 2.0, "field_size": 9},
        {"domain_size": 3, "epsilon": 3.0},
    ),
    "random-matrix": ({"epsilon": 1.0}, {"epsilon": 0.4}, {"domain_size": 5, "epsilon": 2.0}),
    "wb": ({"domain_size": 4, "epsilon": 1.0, "window": 3},),
    "opt-wb": ({"domain_size": 3, "epsilon": 2.0, "window": 2},),
    "opt-dr": ({"domain_size": 4, "epsilon_permanent": 2.0},),
    "l-grr": ({"domain_size": 4} | TWO, {"domain_size": 2} | TWO),
    "l-sue": ({"domain_size": 4} | TWO,),
    "l-osue": ({"domain_size": 4} | TWO,),
    "l-soue": ({"domain_size": 4} | TWO,),
    "dbitflip": (
        {"domain_size": 4, "epsilon": 1.0, "sampled_bits": 1},
        {"domain_size": 5, "epsilon": 1.0, "sampled_bits": 2},
        {"domain_size": 3, "epsilon": 2.0},
    ),
    "loloha": (TWO, {"domain_size": 7} | TWO, {"hash_range": 2} | TWO),
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
    "grr": ({"domain_size": 9, "epsilon": 1.0},),
    "sue": ({"domain_size": 9, "epsilon": 1.0},),
    "oue": ({"domain_size": 9, "epsilon": 1.0},),
    "blh": ({"domain_size": 8, "epsilon": 2.0},),
    "olh": (
        {"domain_size": 9, "epsilon": 1.0},
        {"domain_size": 9, "epsilon": 1.0, "num_seeds": 100},
        {"epsilon": 2.0, "hash_key": "a metric"},
    ),
    "linear-hash": ({"domain_size": 9, "epsilon": 2.0}, {"domain_size": 9, "epsilon": 2.0, "hash_bits": 2}),
    "hadamard": ({"domain_size": 9, "epsilon": 2.0},),
    "subset": ({"domain_size": 7, "epsilon": 1.0},),
    "projective": ({"domain_size": 9, "epsilon": 1.0}, {"domain_size": 9, "epsilon": 1.0, "field_size": 4}),
    "random-matrix": ({"domain_size": 9, "epsilon": 2.0}, {"epsilon": 1.4}),
    "wb": ({"domain_size": 9, "epsilon": 3.0, "window": 2},),
    "opt-wb": ({"domain_size": 9, "epsilon": 3.0, "window": 2},),
    "opt-dr": ({"domain_size": 9, "epsilon_permanent": 3.0},),
    "l-grr": ({"domain_size": 9} | TWO,),
    "l-sue": ({"domain_size": 9} | TWO,),
    "l-osue": ({"domain_size": 9} | TWO,),
    "l-soue": ({"domain_size": 9} | TWO,),
    "dbitflip": ({"domain_size": 9, "epsilon": 2.0, "sampled_bits": 4},),
    "loloha": ({"domain_size": 9} | TWO,),
}

_BUILT: dict[str, Kind] = {}


@dataclass(frozen=True)
class Case:  # a registry name with parameters
    name: str
    parameters: dict[str, Any]

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{key}={value}" for key, value in self.parameters.items())])

    def build(self) -> Any:
        """Return the one mechanism that all tests of the case share, as none can change it: calibrating costs most."""
        key = repr(self)
        if key not in _BUILT:
            _BUILT[key] = any_mechanism(self.name, **self.parameters)
        return _BUILT[key]


SMALL_CASES = [Case(name, parameters) for name, sets in SMALL.items() for parameters in sets]
TYPICAL_CASES = [Case(name, parameters) for name, sets in TYPICAL.items() for parameters in sets]
DEBIASED_CASES = [case for case in TYPICAL_CASES if not isinstance(case.build().encoding, Bloom)]
"""Those that are estimated in closed form; Bloom filters are decoded: tests/analysis."""


def domain_of(mechanism: Mechanism) -> int | None:
    """The number of symbols; None where values are strings."""
    return getattr(mechanism.encoding, "domain_size", None)


def is_counted_by_seed(mechanism: Mechanism) -> bool:
    """Whether counts are by (seed, symbol), and what is estimated is named later."""
    return isinstance(mechanism.encoding, BalancedHash | SeededHash)


def some_values(mechanism: Mechanism, most: int) -> list[Any]:
    """Values of the mechanism's domain: all its symbols, or strings."""
    size = domain_of(mechanism)
    return [f"value-{i}" for i in range(most)] if size is None else list(range(min(most, size)))


def candidates_of(mechanism: Mechanism, most: int) -> list[Any] | None:
    """What must be named, before or after counting: strings, where there is no domain."""
    return None if domain_of(mechanism) else some_values(mechanism, most)


def answers_filters(mechanism: Mechanism) -> bool:
    """Whether two values with one filter have one response: Google's permanent round."""
    return isinstance(getattr(mechanism, "permanence", None), GooglePermanence)


def shares_responses(mechanism: Mechanism) -> bool:
    """Whether two values that are encoded alike on a device have one permanent response there."""
    return answers_filters(mechanism) or isinstance(mechanism, SymbolMechanism)
