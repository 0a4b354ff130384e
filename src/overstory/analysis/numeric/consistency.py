"""A tree of noisy shares made consistent: the best linear unbiased estimate of all nodes from all nodes.

Hay et al. (VLDB 2010), for unequal variances and short last nodes. With s the variance of a node's own estimate and V
the sum of its children's:

    up      z = (own / s + (sum of children) / V) / (1 / s + 1 / V),  of variance 1 / (1 / s + 1 / V)
    down    child = z of the child + (child's variance / V) (parent - sum of the children's z)

The root is everybody: exactly 1. With equal variances and full nodes of B children, a node l levels above the leaves
takes its own estimate with weight ``(B**(l+1) - B**l) / (B**(l+1) - 1)`` (Cormode et al., VLDB 2019, section 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from overstory.protocol.numeric.levels import LevelTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    F64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ConsistentTree:
    """The linear map from every node's own estimate to consistent ones, and back to what each node contributes.

    Parameters
    ----------
    tree
        Its shape.
    level_variances
        Variance of a node's own estimate, by level, level 1 first.

    Examples
    --------
    >>> tree = ConsistentTree(LevelTree(4, 2), (1.0, 1.0))
    >>> [x.round(3).tolist() for x in tree.consistent([np.array([0.4, 0.4]), np.array([0.1, 0.1, 0.5, 0.5])])]
    [[0.367, 0.633], [0.183, 0.183, 0.317, 0.317]]
    """

    tree: LevelTree
    level_variances: tuple[float, ...]

    @cached_property
    def variances(self) -> tuple[F64, ...]:
        """Variance of each node's z, by level."""
        found = [np.full(self.tree.domain_size, self.level_variances[-1])]
        for level in range(self.tree.num_levels - 1, 0, -1):
            found.insert(0, 1 / (1 / self.level_variances[level - 1] + 1 / self._sums(found[0])))
        return tuple(found)

    @cached_property
    def _child_variances(self) -> tuple[F64, ...]:
        """Sum of the children's variances, by level of the parent, the root first."""
        return tuple(self._sums(level) for level in self.variances)

    def consistent(self, own: Sequence[F64]) -> list[F64]:
        """Return consistent shares of all nodes, by level: parents are the sums of their children, the root is 1."""
        raised = [own[-1]]
        for level in range(self.tree.num_levels - 1, 0, -1):
            weight = self.variances[level - 1] / self.level_variances[level - 1]
            raised.insert(0, weight * own[level - 1] + (1 - weight) * self._sums(raised[0]))
        parents = np.ones(1)
        for level, below in enumerate(raised):
            missing = (parents - self._sums(below)) / self._child_variances[level]
            parents = raised[level] = below + self.variances[level] * self._spread(missing, below.size)
        return raised

    def weights(self, start: int, stop: int) -> tuple[float, list[F64]]:
        """Return (constant, weights by level): how own estimates add up to the consistent share of ``start .. stop-1``.

        Within a node's subtree let b be the regression of the range's part on the node's total: 1 or 0 at a leaf,
        and at a parent the children's b, weighted with their variances. The covariance of the range with a child is
        ``(child's variance / V) (the parent's covariance) + child's variance (b of the child - b of the parent)``,
        and a node's weight is that covariance over its own variance.
        """
        slopes = [((np.arange(self.tree.domain_size) >= start) & (np.arange(self.tree.domain_size) < stop)) * 1.0]
        for level in range(self.tree.num_levels - 1, -1, -1):
            below = self._sums(slopes[0] * self.variances[level])
            slopes.insert(0, below / self._child_variances[level])
        shared, found = np.zeros(1), []
        for level, spread in enumerate(self.variances):
            upper = shared / self._child_variances[level] - slopes[level]
            shared = spread * (self._spread(upper, spread.size) + slopes[level + 1])
            found.append(np.asarray(shared / self.level_variances[level]))
        return float(slopes[0][0]), found

    def _sums(self, nodes: F64) -> F64:
        """Add up each parent's children."""
        return np.asarray(np.add.reduceat(nodes, np.arange(0, nodes.size, self.tree.branching)))

    def _spread(self, parents: F64, size: int) -> F64:
        """Give each child its parent's number."""
        return np.repeat(parents, self.tree.branching)[:size]
