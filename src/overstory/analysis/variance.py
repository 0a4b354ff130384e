r"""How precise a frequency can be: the variance of its unbiased estimate, before anything is collected.

Reports of one device share what it drew once. Let g be the chance, given that, that a report supports a value. One
report's support indicator has variance :math:`V = \pi (1 - \pi)`, :math:`\pi = E g`, and two reports of the device have
the covariance :math:`C = \operatorname{Var} g`. Over devices with r_1, r_2, ... reports, N in all, that is

.. math:: N V + (R - 1) N C , \qquad R = \sum r_i^2 \big/ \sum r_i .

The factor on the naive N V is the *design effect* :math:`1 + (R - 1) C / V` of cluster samples (Kish, "Survey
sampling", Wiley 1965, section 5.4). If values change it is an upper bound: docs/explanation/repeated.md proves it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from overstory.presentation.formats import repeated_note
from overstory.protocol.channels import check_reports_per_device
from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Mechanism
from overstory.protocol.kinds.hashes import SeededHash

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Amount = TypeVar("Amount", float, "NDArray[np.float64]")


def support_noise(holders: Amount, others: Amount, p_star: float, q_star: float) -> Amount:
    """Variance of how many of these reports support a value: ``holders p* (1 - p*) + others q* (1 - q*)``."""
    return holders * p_star * (1 - p_star) + others * q_star * (1 - q_star)


def frequency_variance(
    mechanism: Mechanism, num_reports: float, frequency: float = 0.0, *, num_candidates: int | None = None
) -> float:
    """Variance of the unbiased estimate of a value's frequency, from one report a device.

    When a share u of the devices truly supports something, its debiased count has variance
    ``n (u p* (1 - p*) + (1 - u) q* (1 - q*)) / (p* - q*)**2``, p* being the probability that a device's report
    supports its own value and q* that it supports another (Wang et al. 2017, theorem 2, in their letters).

    - All pure oracles (bits of one-hot vectors, symbols, hashes, signs, sets): u = x.
    - Bloom: a value has h bits, which share their filters with other strings: u is x plus the others' load
      ``h / k``; a bit is read against its cohort's k - h others, which leaves ``1 - h/k`` of its information, and
      M candidates fitted to k m counts leave ``1 - M / (k m)`` of it to each (docs/explanation/planning.md derives both
      and compares with the Cramer-Rao bound).
    - Sampled bits: a value is asked of a share d'/d of the devices; that these are a sample of all of them adds
      ``x (1 - x) (1 - d'/d)`` to the numerator.
    - Hashes of a small set of pseudo-random seeds (no balanced one): M values, or d, fitted to s (g - 1) counts leave
      ``1 - M / (s (g - 1))`` of the information; too many to be fitted, they keep what their collisions add, here of
      others that are all equally frequent.
    - One item drawn of L (sets): the drawn item's share is x / L, and L^2 times its variance over all devices like
      these, less their own ``x (1 - x)``, is the noise and the draw.

    M is `num_candidates`; unless given, so few that it does not matter.
    """
    if num_reports <= 0 or not 0 <= frequency <= 1:
        raise ParameterError(f"give a positive number of reports and a share, not {num_reports} and {frequency}")
    if mechanism.drawn is not None:
        return _drawn_variance(*mechanism.drawn, num_reports, frequency)
    encoding = mechanism.encoding
    load, sampling = _supporting(mechanism, frequency)
    # (u p* (1 - p*) + (1 - u) q* (1 - q*)) / (p* - q*)^2, and what sampling adds, over the reports that inform.
    information = encoding.asked * encoding.information(num_candidates)
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    noise = support_noise(load, 1 - load, p_star, q_star)
    alone = (noise / (p_star - q_star) ** 2 + sampling) / (information * num_reports)
    return _by_seed(encoding, alone, num_reports, frequency, num_candidates) if encoding.uneven else alone


def _drawn_variance(inner: Mechanism, length: int, num_reports: float, frequency: float) -> float:
    """Return L^2 (Var + g (1 - g) / n) - x (1 - x) / n, with g = x / L the share of devices that draw the item."""
    drawn = frequency / length
    of_population = frequency_variance(inner, num_reports, drawn) + drawn * (1 - drawn) / num_reports
    return length**2 * of_population - frequency * (1 - frequency) / num_reports


def _by_seed(
    encoding: SeededHash, alone: float, num_reports: float, frequency: float, num_candidates: int | None
) -> float:
    """Return the variance with few pseudo-random seeds: see `overstory.analysis.kinds.hashes`."""
    values = encoding.domain_size or num_candidates or 0
    # 1 / (1 / s + 1 / n) cells in place of s where reports are few, each with g - 1 independent counts.
    counts = encoding.num_seeds * num_reports / (encoding.num_seeds + num_reports) * (encoding.hash_range - 1)
    if encoding.can_be_fitted(values, counts / (encoding.hash_range - 1)):
        return alone / (1 - values / counts)
    return alone + _collisions(encoding, values, frequency)


def _collisions(encoding: SeededHash, values: int, frequency: float) -> float:
    # The sum over the others of f_w^2 / (s (g - 1)), all of them alike: f_w = (1 - f) / (d - 1).
    return (1 - frequency) ** 2 / max(values - 1, 1) / (encoding.num_seeds * (encoding.hash_range - 1))


def lasting_variance(mechanism: Mechanism, frequency: float = 0.0, *, num_candidates: int | None = None) -> float:
    """Return the part of a frequency's variance that no number of reports makes smaller.

    >>> from overstory.protocol.kinds.registry import mechanism
    >>> [lasting_variance(mechanism("olh", epsilon=1.0, domain_size=d)) > 0 for d in (100, 10_000)]
    [False, True]
    """
    if mechanism.drawn is not None:
        inner, length = mechanism.drawn
        return length**2 * lasting_variance(inner, frequency / length)
    encoding = mechanism.encoding
    values = encoding.domain_size or num_candidates or 0
    if not encoding.uneven or encoding.can_be_fitted(values):
        return 0.0
    return _collisions(encoding, values, frequency)


def _supporting(mechanism: Mechanism, frequency: float) -> tuple[float, float]:
    """Return u, the share of devices that truly support a value of this frequency, and the sampling term above."""
    encoding = mechanism.encoding
    return encoding.supporting(frequency), frequency * (1 - frequency) * (1 - encoding.asked)


@dataclass(frozen=True)
class Clustering:
    """How many reports share what was drawn once, and what two of them then have in common."""

    reports_per_device: float = 1.0  # R above, at least 1
    # P(the permanent response supports its value), P(it supports another), and the second round's span
    permanent: tuple[float, float, float] = (1.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        check_reports_per_device(self.reports_per_device)

    @property
    def covariances(self) -> tuple[float, float]:
        """Of two reports' support of their device's value, and of their support of any other value."""
        own, other, span = self.permanent
        # Var E[report | permanent] = y (1 - y) s^2.
        return own * (1 - own) * span**2, other * (1 - other) * span**2

    def excess(self, holders: Amount, others: Amount) -> Amount:
        """Return what sharing adds to the variance of a support count."""
        own, other = self.covariances
        return (self.reports_per_device - 1.0) * (holders * own + others * other)

    @property
    def note(self) -> tuple[str, ...]:
        """What a reader must know; nothing where nothing is shared."""
        return repeated_note(self.reports_per_device) if any(self.covariances) else ()


ONE_EACH: Final = Clustering()  # every device reported once


def reports_per_device(total: float, squares: float) -> float:
    """Return R for devices whose numbers of reports have this sum and sum of squares; never below the plain mean."""
    if not 0 < total <= squares <= total * total:
        raise ParameterError(f"no devices sent {total} reports of which the squared numbers add up to {squares}")
    return check_reports_per_device(squares / total)


def clustering(mechanism: Mechanism, per_device: float = 1.0) -> Clustering:
    """Return what reports share when a device sends `per_device`: docs/explanation/repeated.md has the table."""
    return Clustering(per_device, mechanism.permanent_support)


def design_effect(mechanism: Mechanism, per_device: float, frequency: float = 0.0) -> float:
    """Factor on `frequency_variance` of R reports a device: 1 where all noise is fresh, R where all is memoized."""
    if not 0 <= frequency <= 1:
        raise ParameterError(f"a frequency is a share, 0 to 1, not {frequency}")
    shared, (load, sampling) = clustering(mechanism, per_device), _supporting(mechanism, frequency)
    # (V + (R - 1) C + R S) / (V + S), S being the sampling of positions, which all reports of a device share.
    p_star, q_star = float(mechanism.p_star), float(mechanism.q_star)
    noise = support_noise(load, 1 - load, p_star, q_star)
    sampled = sampling * (p_star - q_star) ** 2
    return (noise + shared.excess(load, 1 - load) + per_device * sampled) / (noise + sampled)
