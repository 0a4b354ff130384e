r"""Several reports of one device are not several devices: the variance of N reports that share permanent responses.

A device draws its permanent response once (and its cohort, hash seed or matrix row); given these, its reports are
independent. Let g be the chance, given what was drawn once, that a report supports a value. One report's support
indicator has variance :math:`V = \pi (1 - \pi)`, :math:`\pi = E g`, and two reports of the device have the covariance
:math:`C = \operatorname{Var} g`. So r reports of one device that keeps its value add up to a variance of

.. math:: r V + r (r - 1) C = r^2 \left( C + \frac{V - C}{r} \right) ,

for their mean Var(E[.|permanent]) + E[Var(.|permanent)] / r. Over devices with r_1, r_2, ... reports, N in all,

.. math:: N V + (R - 1) N C , \qquad R = \sum r_i^2 \big/ \sum r_i ,

and R is r where all send r. The factor on the naive N V is the *design effect* :math:`1 + (R - 1) C / V` of cluster
samples [1]_. If values change it is an upper bound: see docs/explanation/repeated.md, which proves all of this.

References
----------
.. [1] Kish, "Survey sampling", Wiley 1965, section 5.4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from overstory.analysis.variance import Amount, support_noise, supporting
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.bits import BitMechanism
from overstory.protocol.mechanisms.mechanism import Mechanism
from overstory.protocol.mechanisms.sets import SetMechanism
from overstory.protocol.mechanisms.symbols import SymbolMechanism


def check_reports_per_device(number: float) -> float:
    """Return the number, or raise ParameterError unless it is finite and at least 1."""
    if isinstance(number, bool) or not math.isfinite(number) or number < 1:
        raise ParameterError(
            f"reports_per_device = {number!r}: give a number of at least 1; for uneven numbers of reports their sum of "
            "squares over their sum"
        )
    return float(number)


@dataclass(frozen=True)
class Sharing:
    """How many reports share what was drawn once, and what two of them then have in common.

    Parameters
    ----------
    reports_per_device
        R above: the mean number of reports of a report's device, at least 1.
    own, other
        Covariance of two reports' support indicators: of the value that their device holds, and of any other.

    Raises
    ------
    ParameterError
        When `reports_per_device` is no number of at least 1.

    Examples
    --------
    >>> Sharing(3.0, own=0.1, other=0.05).excess(holders=10.0, others=20.0)
    4.0
    """

    reports_per_device: float = 1.0
    own: float = 0.0
    other: float = 0.0

    def __post_init__(self) -> None:
        check_reports_per_device(self.reports_per_device)

    def excess(self, holders: Amount, others: Amount) -> Amount:
        """Return what sharing adds to the variance of a support count of so many reports."""
        return (self.reports_per_device - 1.0) * (holders * self.own + others * self.other)

    @property
    def note(self) -> tuple[str, ...]:
        """What a reader must know; nothing where nothing is shared."""
        return repeated_note(self.reports_per_device) if self.own or self.other else ()


ONE_EACH: Final = Sharing()
"""Every device reported once."""


def reports_per_device(total: float, squares: float) -> float:
    """Return R for devices whose numbers of reports have this sum and sum of squares.

    Never below the plain mean; only devices that report equally often have R equal to it.

    Parameters
    ----------
    total
        The sum of the devices' numbers of reports: N.
    squares
        The sum of their squares.

    Raises
    ------
    ParameterError
        When no whole numbers have these sums.

    Examples
    --------
    Two devices that reported once, and one that reported four times:

    >>> reports_per_device(1 + 1 + 4, 1 + 1 + 16)
    3.0
    """
    if not 0 < total <= squares <= total * total:
        raise ParameterError(f"no devices sent {total} reports of which the squared numbers add up to {squares}")
    return check_reports_per_device(squares / total)


def repeated_note(per_device: float) -> tuple[str, ...]:
    """Return what is supposed about devices that report several times; nothing for one report each."""
    if per_device == 1:
        return ()
    said = (
        f"a device is taken to have sent {per_device:g} reports of one value that did not change (mean over reports): "
        "standard errors count what they share, and are too large where values changed"
    )
    return (said,)


def sharing(mechanism: Mechanism, per_device: float = 1.0) -> Sharing:
    """Return what a mechanism's reports share when a device sends `per_device` of one value.

    - Bits: the permanent bit, 1 with probability y, moves a report's bit by the second round's span s: ``y (1 - y)
      s**2``, y being P1(1|1) for the value's own bit and P1(1|0) for another's.
    - Symbols: the same with y the chance that the permanent symbol is the value's own; of another value's, over the
      seeds or rows (they are the device's own, and shared): ``c keep1 + (1 - c) other1``, c the share of collisions.
    - Sets: all reports of a device are one: ``p* (1 - p*)`` and ``q* (1 - q*)``.

    Raises
    ------
    ParameterError
        When the mechanism is of no known kind, or `per_device` is below 1.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> sharing(mechanism("basic-rappor", domain_size=4, f=0.5, p=0.5, q=0.75)).own  # .75 * .25 * .25**2
    0.01171875
    """
    if isinstance(mechanism, BitMechanism):
        first, span = mechanism.rounds.permanent, float(mechanism.rounds.instantaneous.span)
        drawn = float(first.keep_one), float(first.raise_zero)
    elif isinstance(mechanism, SymbolMechanism):
        kept, chance = mechanism.rounds.permanent, float(mechanism.encoding.collision)
        span = float(mechanism.rounds.instantaneous.alpha)
        drawn = float(kept.keep), chance * float(kept.keep) + (1 - chance) * float(kept.other)
    elif isinstance(mechanism, SetMechanism):
        drawn, span = (float(mechanism.p_star), float(mechanism.q_star)), 1.0
    else:
        raise ParameterError(f"what reports of {mechanism.name} share is not known: it is of no known kind")
    own, other = (y * (1 - y) * span * span for y in drawn)
    return Sharing(per_device, own, other)


def design_effect(mechanism: Mechanism, per_device: float, frequency: float = 0.0) -> float:
    """Factor on the naive variance of N reports when a device sends `per_device` of them.

    1 for mechanisms whose noise is all fresh; `per_device` for those whose noise is all memoized. The naive variance
    is `frequency_variance`'s at N reports.

    Parameters
    ----------
    mechanism
        Whose reports.
    per_device
        R: reports of one device; see `reports_per_device` for uneven numbers.
    frequency
        The value's true share.

    Raises
    ------
    ParameterError
        When `per_device` is below 1 or the frequency is no share.

    Examples
    --------
    RAPPOR, section 6.3 (Table 2: 186,792 reports of 10,133 machines), had they reported equally often:

    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> round(design_effect(mechanism("rappor", f=0.5, p=0.5, q=0.75), 186_792 / 10_133), 3)
    1.832
    >>> design_effect(mechanism("opt-wb", domain_size=10, epsilon=1.0, window=10), 48.0)
    1.0
    >>> design_effect(mechanism("grr", domain_size=10, epsilon=1.0), 48.0)
    48.0
    """
    if not 0 <= frequency <= 1:
        raise ParameterError(f"a frequency is a share, 0 to 1, not {frequency}")
    shared, (load, sampling) = sharing(mechanism, per_device), supporting(mechanism, frequency)
    kept, raised = float(mechanism.p_star), float(mechanism.q_star)
    noise = support_noise(load, 1 - load, kept, raised)
    sampled = sampling * (kept - raised) ** 2
    return (noise + shared.excess(load, 1 - load) + per_device * sampled) / (noise + sampled)
