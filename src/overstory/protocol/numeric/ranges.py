"""Levels of a tree over an ordered domain: each person reports at one of them, so that any range can be asked for.

Cormode, Kulkarni, Srivastava, "Answering range queries under local differential privacy", VLDB 2019: a complete B-ary
tree over the domain, the users split over its levels, a frequency oracle at each level, all of epsilon in one report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from overstory.protocol.kinds.base import Mechanism, check_count, check_symbol
from overstory.protocol.kinds.bits import oue
from overstory.protocol.kinds.split import Split

MAX_DOMAIN = 1 << 20


@dataclass(frozen=True)
class RangeRandomizer(Split):
    """The device's half of a collection that answers range queries.

    The leaves of the tree are the domain's symbols, every other node has up to `branching` children. Level 1 lies under
    the root, the leaves are level `num_levels`. A level that its domain does not fill is shorter: no node is empty. The
    root is everybody, which needs no report. The public part of a report, its cohort, is its level: 0 for level 1.

    Raises
    ------
    ParameterError
        When a parameter is out of range.

    Examples
    --------
    >>> from overstory.protocol.sampling import SeededEntropy
    >>> ranges = RangeRandomizer(64, 1.0)
    >>> ranges.randomize(63, SeededEntropy(1), cohort=0).bits < 2 ** 4
    True
    """

    domain_size: int  # how many symbols there are: the leaves of the tree
    epsilon: float  # of one report, whichever its level
    # B, the most children of a node. Four is near the best for consistent estimates (section 4.4), as the bench shows
    branching: int = 4

    name = "ranges"
    payload: ClassVar[str] = "levels"
    reading: ClassVar[str] = "ranges"
    server: ClassVar[str] = "analysis.kinds.split:LevelSupport"

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_DOMAIN)
        check_count("branching", self.branching, 2, MAX_DOMAIN)
        _ = self.parts  # says so when epsilon is none

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What `registry.numeric` builds it from."""
        return {"domain_size": self.domain_size, "epsilon": self.epsilon, "branching": self.branching}

    @cached_property
    def num_levels(self) -> int:
        """Levels below the root; the last one has a node for each symbol."""
        levels, width = 1, self.branching
        while width < self.domain_size:
            levels, width = levels + 1, width * self.branching
        return levels

    @cached_property
    def level_sizes(self) -> tuple[int, ...]:
        """Nodes of levels 1 .. num_levels."""
        return tuple(-(-self.domain_size // self.leaves_under(level)) for level in range(1, self.num_levels + 1))

    def leaves_under(self, level: int) -> int:
        """Return how many symbols a full node of that level stands for."""
        return int(self.branching ** (self.num_levels - level))

    @cached_property
    def parts(self) -> tuple[Mechanism, ...]:
        """OUE of each level's nodes, level 1 first."""
        return tuple(oue(domain_size=size, epsilon=self.epsilon) for size in self.level_sizes)

    def project(self, value: Any, place: int) -> int:
        return check_symbol(value, self.domain_size) // self.leaves_under(place + 1)

    def canonical(self) -> dict[str, Any]:
        levels = [mechanism.canonical() for mechanism in self.parts]
        return {"name": self.name, "domain_size": self.domain_size, "branching": self.branching, "levels": levels}


def ranges(*, domain_size: int, epsilon: float, branching: int = 4) -> RangeRandomizer:
    """Range queries over a tree (Cormode et al. 2019): OUE at one level of it."""
    return RangeRandomizer(domain_size, epsilon, branching)
