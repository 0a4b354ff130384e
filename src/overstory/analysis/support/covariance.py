r"""How the errors of two values go together, for estimates in closed form.

With v and w different, one report's support indicators :math:`S_v, S_w` have a covariance :math:`c_1` if its device
holds one of the two and :math:`c_0` if it holds another, so over N reports of which :math:`n_v` and :math:`n_w` hold
them the debiased counts have

.. math:: (p^* - q^*)^2 \operatorname{Cov} = (n_v + n_w) c_1 + (N - n_v - n_w) c_0 .

Two reports of one device add what they share, as in `overstory.analysis.variance`, with the covariances of the
permanent responses. Over all devices like these a report holds one value, a multinomial: :math:`- R N f_v f_w` more.

- Bits: each is flipped by itself: 0.
- Symbols: a report supports one value: :math:`- p^* q^*` and :math:`- q^{*2}`.
- Sets: two sets meet in ``c_int`` outputs; a third value's set holds those in the mean over the values.
- Hashes and signs: 0, two values' symbols being independent over the seeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from overstory.analysis.selection import people_covariance
from overstory.analysis.variance import clustering
from overstory.protocol.encodings.bits import SampledBits
from overstory.protocol.encodings.sets import Projective, Subsets
from overstory.protocol.encodings.symbols import Direct

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from overstory.analysis.estimate import Estimate
    from overstory.analysis.selection import IntervalKind
    from overstory.protocol.mechanisms.base import Mechanism

    F64 = NDArray[np.float64]
    Indices = NDArray[np.intp]


def pair_covariance(mechanism: Mechanism, own: float, other: float, span: float = 1.0) -> tuple[float, float]:
    """Return c_1 and c_0 of a response that supports its device's value and another with these probabilities.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> [round(c, 4) for c in pair_covariance(mechanism("grr", domain_size=3, epsilon=1.0), 0.6, 0.2)]
    [-0.12, -0.04]
    """
    encoding: Any = mechanism.encoding
    if isinstance(encoding, Direct):
        return -own * other * span**2, -(other**2) * span**2
    if isinstance(encoding, Subsets | Projective):
        outputs, owned, shared = encoding.sizes
        values, holders = (
            (encoding.domain_size, encoding.subset_size) if isinstance(encoding, Subsets) else (outputs, owned)
        )
        # Of the outputs that two values share, a third value owns `inside` of `others`, in the mean over third values.
        # Quotients of whole numbers: of 10,000 values, the numbers themselves are too large for a float.
        inside, others = (holders - 2, values - 2) if values > 2 else (0, 1)
        owned_too, owned_not = shared * inside, shared * (others - inside)
        both = own * (owned_too / (others * owned)) + (1 - own) * (owned_not / (others * (outputs - owned)))
        return own * (shared / owned) - own * other, both - other**2
    return 0.0, 0.0


@dataclass(frozen=True)
class SupportErrors:
    """How debiased supports vary together: see the module.

    Parameters
    ----------
    span
        p* - q*.
    once
        c_1 and c_0 in one report.
    shared
        c_1 and c_0 in two reports of one device.
    alone
        The covariance of a value's own support in two reports of one device: one that holds it, and another.
    """

    span: float
    once: tuple[float, float]
    shared: tuple[float, float]
    alone: tuple[float, float]

    @classmethod
    def of(cls, mechanism: Mechanism) -> SupportErrors:
        """Return a mechanism's."""
        p_star, q_star, cluster = float(mechanism.p_star), float(mechanism.q_star), clustering(mechanism)
        return cls(
            p_star - q_star,
            pair_covariance(mechanism, p_star, q_star),
            pair_covariance(mechanism, *mechanism.permanent_support),
            (cluster.own, cluster.other),
        )

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: Indices) -> F64:
        """Return the covariances of the raw counts at `places`; only what is off the diagonal means something."""
        reports, each = estimate.num_reports, estimate.reports_per_device
        counts = estimate.raw_counts[places]
        holders = np.clip(counts, 0, reports)
        pairs = np.minimum(holders[:, None] + holders, reports)
        noise = pairs * self.once[0] + (reports - pairs) * self.once[1]
        noise += (each - 1.0) * (pairs * self.shared[0] + (reports - pairs) * self.shared[1])
        drawn = people_covariance(counts, reports, each) if kind == "population" else 0.0
        return np.asarray(noise / self.span**2 + drawn)

    def overlap(self, shares: F64, kind: IntervalKind) -> F64:
        """Return the covariance of two shares' estimates from one device that reports in both collections."""
        held = np.clip(shares, 0.0, 1.0)
        pairs = np.minimum(held[:, None] + held, 1.0)
        noise = pairs * self.shared[0] + (1.0 - pairs) * self.shared[1]
        np.fill_diagonal(noise, held * self.alone[0] + (1.0 - held) * self.alone[1])
        drawn = people_covariance(held, 1, 1.0) if kind == "population" else 0.0
        return np.asarray(noise / self.span**2 + drawn)


@dataclass(frozen=True, eq=False)
class SampledErrors:
    """How the shares of sampled bits vary together: two values meet in the devices that were asked for both.

    Given who was asked, each bit is flipped by itself. That the devices asked for v and for w are samples, which have
    ``s_vw`` devices in common, leaves :math:`- x_v x_w (s_{vw} / (s_v s_w) - 1 / N)`.
    """

    sample: SampledBits
    totals: NDArray[np.int64]

    def covariance(self, estimate: Estimate, kind: IntervalKind, places: Indices) -> F64:
        """Return the covariances of the raw counts at `places`; only what is off the diagonal means something."""
        size, reports = self.sample.domain_size, max(estimate.num_reports, 1)
        asked = np.zeros((len(self.totals), size))
        for offset in self.sample.offsets:
            asked[np.arange(len(self.totals)), (np.arange(len(self.totals)) + offset) % size] = 1.0
        both = (asked[:, places].T * self.totals) @ asked[:, places]
        each = np.maximum(np.diag(both), 1.0)
        # - x_v x_w s_vw / (s_v s_w) of all devices like these; the sampling of people is - x_v x_w / N of it.
        spread = both / np.outer(each, each) - (kind == "reports") / reports
        drawn = people_covariance(estimate.raw_counts[places], reports, estimate.reports_per_device)
        return np.asarray(drawn * spread * reports)
