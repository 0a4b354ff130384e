"""Levels of a tree over an ordered domain: each person reports at one of them, so that any range can be asked for.

Cormode, Kulkarni, Srivastava, "Answering range queries under local differential privacy", VLDB 2019: a complete B-ary
tree over the domain, the users split over its levels, a frequency oracle at each level, all of epsilon in one report.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from overstory.protocol.encodings.base import check_cohort, check_count, check_symbol
from overstory.protocol.errors import ParameterError, WireError
from overstory.protocol.mechanisms.base import LocalRandomizer, Mechanism, Report
from overstory.protocol.mechanisms.bits import oue
from overstory.protocol.sampling import Draw, Entropy, uniform_below

MAX_DOMAIN = 1 << 20


@dataclass(frozen=True)
class LevelTree:
    """A tree in which every node has up to `branching` children and the leaves are the domain's symbols.

    Level 1 lies under the root, the leaves are level `num_levels`. A level that its domain does not fill is shorter:
    no node is empty. The root is everybody, which needs no report.

    Parameters
    ----------
    domain_size
        The number of symbols: the leaves of the tree.
    branching
        The most children of a node; at least 2.

    Examples
    --------
    >>> tree = LevelTree(1000, 4)
    >>> tree.level_sizes, [tree.node(999, level) for level in (1, 2, 3, 4, 5)]
    ((4, 16, 63, 250, 1000), [3, 15, 62, 249, 999])
    """

    domain_size: int
    branching: int = 4

    def __post_init__(self) -> None:
        check_count("domain_size", self.domain_size, 2, MAX_DOMAIN)
        check_count("branching", self.branching, 2, MAX_DOMAIN)

    @cached_property
    def num_levels(self) -> int:
        """Levels under the root."""
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
        check_count("level", level, 1, self.num_levels)
        return int(self.branching ** (self.num_levels - level))

    def node(self, symbol: int, level: int) -> int:
        """Return the node of that level that the symbol lies under."""
        return check_symbol(symbol, self.domain_size) // self.leaves_under(level)


class LevelReport(NamedTuple):
    """A report and the level, public, that it is of.

    Attributes
    ----------
    level
        The level of the tree, from 1 below the root; it is public.
    report
        The report of that level's oracle: a cohort and the payload bits.
    """

    level: int
    report: Report


LevelOracle = Callable[[int, float], Mechanism]


def unary_level(domain_size: int, epsilon: float) -> Mechanism:
    """Return OUE: a level's mechanism unless another is asked for."""
    return oue(domain_size=domain_size, epsilon=epsilon)


@dataclass(frozen=True)
class RangeRandomizer(LocalRandomizer):
    """The device's half of a collection that answers range queries; a report's public part is its level.

    Parameters
    ----------
    domain_size, epsilon
        Of the symbols, and of one report.
    branching
        B. Four is near the best for consistent estimates (Cormode et al., section 4.4), as the bench shows.
    level_oracle
        From a level's size and epsilon to its mechanism.

    Raises
    ------
    ParameterError
        When a parameter is out of range.

    Examples
    --------
    >>> from overstory.protocol.sampling import SeededEntropy
    >>> ranges = RangeRandomizer(64, 1.0)
    >>> ranges.randomize(63, SeededEntropy(1), level=1).report.bits < 2 ** 4
    True
    """

    domain_size: int
    epsilon: float
    branching: int = 4
    level_oracle: LevelOracle = unary_level

    name = "ranges"
    payload: ClassVar[str] = "levels"
    reading: ClassVar[str] = "ranges"
    server: ClassVar[str] = "analysis.support.split:LevelSupport"

    def __post_init__(self) -> None:
        _ = self.mechanisms  # says so when a parameter is none

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What `registry.numeric` builds it from."""
        return {"domain_size": self.domain_size, "epsilon": self.epsilon, "branching": self.branching}

    @cached_property
    def tree(self) -> LevelTree:
        """The tree."""
        return LevelTree(self.domain_size, self.branching)

    @cached_property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Each level's mechanism, level 1 first."""
        return tuple(self.level_oracle(size, self.epsilon) for size in self.tree.level_sizes)

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The mechanisms over which devices are divided: those of the levels."""
        return self.mechanisms

    def epsilon_n(self, reports: int) -> float:
        """Largest epsilon of a level: the level is chosen without looking at the value."""
        return max(mechanism.epsilon_n(reports) for mechanism in self.mechanisms)

    @property
    def epsilon_permanent(self) -> float:
        """Largest epsilon of a level's permanent response, of a device that keeps its level."""
        return max(mechanism.epsilon_permanent for mechanism in self.mechanisms)

    @property
    def num_cohorts(self) -> int:
        """The levels: a report's public part says which it is of, from 0 for level 1."""
        return self.tree.num_levels

    @property
    def payload_bits(self) -> int:
        """Width of the widest level's payload: a batch has one width."""
        return max(mechanism.payload_bits for mechanism in self.mechanisms)

    def randomize(self, symbol: Any, entropy: Entropy, *, level: int | None = None) -> LevelReport:
        """Return one report.

        Parameters
        ----------
        symbol
            The value.
        entropy
            Where randomness comes from.
        level
            The device's level, uniform unless given. A device that reports again should keep its level.

        Raises
        ------
        ParameterError
            When the symbol or the level does not exist.
        """
        chosen = 1 + uniform_below(self.tree.num_levels, entropy) if level is None else level
        node = self.tree.node(symbol, chosen)
        return LevelReport(chosen, self.mechanisms[chosen - 1].randomize(node, entropy))

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the function from a symbol to the permanent payload of a device at level `cohort` + 1."""
        check_cohort(cohort, self.num_cohorts)
        respond = self.mechanisms[cohort].responder(secret, metric, 0)
        return lambda symbol: respond(self.tree.node(symbol, cohort + 1))

    def response_key(self, value: Any, cohort: int) -> Hashable:
        """Return what the response of the level's mechanism to the symbol's node depends on."""
        check_cohort(cohort, self.num_cohorts)
        return self.mechanisms[cohort].response_key(self.tree.node(value, cohort + 1), 0)

    def nothing(self, secret: bytes, metric: str, cohort: int) -> int:
        """Return the level's own response to no value."""
        check_cohort(cohort, self.num_cohorts)
        return self.mechanisms[cohort].nothing(secret, metric, 0)

    @property
    def instantaneous(self) -> Draw:
        """The permanent payload is sent as it is.

        Raises
        ------
        ParameterError
            When a level's mechanism has a second round, which a payload without its level cannot go through.
        """
        if self.epsilon_permanent > self.epsilon_report:
            raise ParameterError(
                "a level's second round is drawn by its own mechanism: choose a level_oracle of one round"
            )
        return super().instantaneous

    def to_wire(self, report: LevelReport) -> Report:
        """Return a report as it travels, its level in place of a cohort.

        Raises
        ------
        ParameterError
            When the level's own mechanism has cohorts: there is room for one of the two.
        """
        if self.mechanisms[report.level - 1].num_cohorts > 1:
            raise ParameterError("a level's own cohorts do not travel: choose a level_oracle without (OUE, SUE, GRR)")
        return Report(report.level - 1, report.report.bits)

    def from_wire(self, report: Report) -> LevelReport:
        """Return the report of a level that came as `to_wire` sent it.

        Raises
        ------
        WireError
            With the reason `bits`, when it has bits that its level has not.
        """
        check_cohort(report.cohort, self.num_cohorts)
        width = self.mechanisms[report.cohort].payload_bits
        if report.bits >> width:
            raise WireError("bits", f"a report of level {report.cohort + 1} has bits past its {width}")
        return LevelReport(report.cohort + 1, Report(0, report.bits))

    def canonical(self) -> dict[str, Any]:
        """Return all that a report's meaning and privacy depend on, as JSON values."""
        levels = [mechanism.canonical() for mechanism in self.mechanisms]
        return {"name": self.name, "domain_size": self.domain_size, "branching": self.branching, "levels": levels}


def ranges(*, domain_size: int, epsilon: float, branching: int = 4) -> RangeRandomizer:
    """Range queries over a tree (Cormode et al. 2019): OUE at one level of it."""
    return RangeRandomizer(domain_size, epsilon, branching)
