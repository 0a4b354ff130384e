"""From a value to a report on one device, with the permanent response memoized."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from overstory.protocol.encodings.base import check_count, whole_number
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import LocalRandomizer, Report
from overstory.protocol.sampling import Entropy, KeyedEntropy, SystemEntropy, check_secret, context, uniform_below
from overstory.protocol.wire.upload import ID_BYTES

if TYPE_CHECKING:
    from overstory.client.offers import OfferLedger

_new_report = tuple.__new__  # half the time of the named tuple's own constructor


def new_secret() -> bytes:
    """Return a fresh 32-byte device secret. Make one per device and keep it: a new one restarts the privacy loss.

    Examples
    --------
    >>> len(new_secret()), new_secret() == new_secret()
    (32, False)
    """
    return os.urandom(32)


class Randomizer:
    """One metric's randomizer on one device.

    Parameters
    ----------
    mechanism
        What to randomize with: an encoding and its channels.
    secret
        The device's secret, at least 16 bytes. The cohort and every permanent response follow from it.
    metric
        The metric's id: two metrics have independent responses.
    cohort
        Only where the cohort was assigned elsewhere; otherwise it follows from the secret.
    built_with
        What the program was built with: parameters that come later, from a server, may protect more, never less.
        Other ones than these are refused unless there is a ledger: each further set adds up.
    offers
        The ledger of the parameters that were accepted; by default they may cost as much together, per value, as
        those that the program was built with.
    entropy
        Where the fresh bits of `report` come from: the operating system, unless this is an experiment.
    memo_size
        How many permanent responses are cached in memory (others are derived again).

    Raises
    ------
    ParameterError
        When the secret is too short, the metric has no name or the cohort does not exist.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> device = Randomizer(mechanism("rappor"), secret=b"sixteen bytes...", metric="search-engine")
    >>> again = Randomizer(mechanism("rappor"), secret=b"sixteen bytes...", metric="search-engine")
    >>> device.permanent("example.org") == again.permanent("example.org")
    True
    """

    def __init__(
        self,
        mechanism: LocalRandomizer,
        *,
        secret: bytes,
        metric: str,
        cohort: int | None = None,
        built_with: LocalRandomizer | None = None,
        offers: OfferLedger | None = None,
        entropy: Entropy | None = None,
        memo_size: int = 1024,
    ) -> None:
        if not isinstance(metric, str) or not metric:
            raise ParameterError(f"metric = {metric!r}: give the metric's id, a string that is not empty")
        check_count("memo_size", memo_size, 0, sys.maxsize)
        if built_with is not None:
            refuse_weaker(mechanism, built_with)
            _accept(mechanism, built_with, offers, check_secret(secret), metric)
        self.mechanism, self.metric = mechanism, metric
        self._secret = check_secret(secret)
        self._memo: dict[Any, int] = {}
        self._memo_size = memo_size
        self.cohort = self._derive_cohort() if cohort is None else whole_number(cohort)
        self._respond = mechanism.responder(self._secret, metric, self.cohort)
        self._instantaneous = mechanism.instantaneous
        self._random_bits = (entropy if entropy is not None else SystemEntropy()).bits
        self._periods = KeyedEntropy(self._secret, context(metric, mechanism.digest, self.cohort), purpose=b"period")

    def _derive_cohort(self) -> int:
        drawn = KeyedEntropy(self._secret, context(self.metric), purpose=b"cohort")
        return uniform_below(self.mechanism.num_cohorts, drawn)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Randomizer holds a device's secret: do not pickle it, build it anew from the secret")

    def permanent(self, value: Any) -> int:
        """Return the device's permanent response to `value`.

        Raises
        ------
        ParameterError
            When the value is outside the domain.
        """
        try:
            cached = self._memo.get((type(value), value))
        except TypeError:
            raise _unusable(value) from None
        return self._remember(value) if cached is None else cached

    def report(self, value: Any) -> Report:
        """Return a fresh report of `value`.

        Raises
        ------
        ParameterError
            When the value is outside the domain.
        """
        try:
            permanent = self._memo.get((type(value), value))
        except TypeError:
            raise _unusable(value) from None
        if permanent is None:
            permanent = self._remember(value)
        return _new_report(Report, (self.cohort, self._instantaneous(permanent, self._random_bits)))

    def report_of(self, permanent: int) -> Report:
        """Return a fresh report of a permanent response that `permanent` gave."""
        return _new_report(Report, (self.cohort, self._instantaneous(permanent, self._random_bits)))

    def nothing(self) -> int:
        """Return the device's permanent response to no value: what it reports where it has none to report."""
        return self.mechanism.nothing(self._secret, self.metric, self.cohort)

    def report_in(self, period: int, permanent: int) -> tuple[bytes, Report]:
        """Return a batch id and the report of a period, from the secret alone: the same ones whenever it is asked.

        So a copy of a device, or one that forgot what it sent, repeats the very same upload, which is counted once.
        Both are keyed functions of metric, parameters, cohort, period and permanent response: of another period, or
        another response, they are independent.

        Parameters
        ----------
        period
            The number of the period.
        permanent
            A permanent response that `permanent` gave; where all noise is fresh, that is the true encoding.
        """
        held = permanent.to_bytes((permanent.bit_length() + 7) >> 3, "little")
        drawn = self._periods.about(context(period, held))
        batch = drawn.bits(8 * ID_BYTES).to_bytes(ID_BYTES, "little")
        return batch, _new_report(Report, (self.cohort, self._instantaneous(permanent, drawn.bits)))

    def _remember(self, value: Any) -> int:
        bits = self._respond(whole_number(value))
        if len(self._memo) >= self._memo_size:
            self._memo.clear()  # one step, so that threads need no lock; what is lost is derived again
        if self._memo_size:
            self._memo[type(value), value] = bits  # 1 and True are equal to a dictionary, not to an encoding
        return bits


NUMBERS: Final = (1, 2, 3, 5, 10, 20, 50, 100)
CHANGES: Final = (2, 3, 5, 10)


@lru_cache(maxsize=256)
def refuse_weaker(offered: LocalRandomizer, built_with: LocalRandomizer) -> None:
    """Raise ParameterError when `offered` reveals more than `built_with`, in any way that is looked at.

    That is: one report, several, or any number of one value; a change of value; the number of cohorts or seeds, and the
    size of a report, by which a device may be told again.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> refuse_weaker(mechanism("rappor", q=0.7), built_with=mechanism("rappor", q=0.75))
    """
    for reports in NUMBERS:
        _refuse_above(f"{reports} reports of one value", offered.epsilon_n(reports), built_with.epsilon_n(reports))
    _refuse_above("all reports of one value", offered.epsilon_permanent, built_with.epsilon_permanent)
    from overstory.privacy.payloads.registry import terms_of

    terms = terms_of(offered), terms_of(built_with)
    for reports in CHANGES:
        leaks = (each.change_leak(reports) for each in terms)
        _refuse_above(f"a change of value within {reports} reports", *leaks)
    for what, most, limit in (
        ("cohorts or seeds", offered.num_cohorts, built_with.num_cohorts),
        ("bits in a report", offered.payload_bits, built_with.payload_bits),
    ):
        if most > limit:
            raise ParameterError(
                f"the parameters offered let a device be told again more easily: {most} {what}, at most {limit} were "
                "agreed; a weaker collection needs a new metric and a new consent"
            )


def _accept(
    offered: LocalRandomizer, built_with: LocalRandomizer, offers: OfferLedger | None, secret: bytes, metric: str
) -> None:
    """Charge an offer to the ledger; without one, refuse any but the parameters that the program was built with."""
    if offers is None:
        if offered.digest != built_with.digest:
            raise ParameterError(
                f"{metric}: these are not the parameters that this program was built with; every further set of "
                "parameters adds up, so give offers=OfferLedger(file) to keep account of them"
            )
        return
    if not offers.charge(secret, metric, offered.digest, offered.epsilon_permanent, most=built_with.epsilon_permanent):
        raise ParameterError(
            f"{metric}: the parameters accepted so far cost epsilon {offers.spent(secret, metric):.6g} per value, and "
            f"with these ({offered.epsilon_permanent:.6g} more) they would pass the limit of the ledger of offers"
        )


def _refuse_above(what: str, offered: float, limit: float) -> None:
    if offered > limit:
        raise ParameterError(
            f"the parameters offered protect less than those this program was built with: epsilon of {what} is "
            f"{offered:.6g}, at most {limit:.6g} was agreed; a weaker collection needs a new metric and a new consent"
        )


def _unusable(value: Any) -> ParameterError:
    return ParameterError(f"a {type(value).__name__} cannot be reported: give a symbol, a string or bytes")
