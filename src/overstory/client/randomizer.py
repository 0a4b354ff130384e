"""From a value to a report on one device; the permanent response is derived, and no value is kept."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, NoReturn

from overstory.protocol.errors import ParameterError
from overstory.protocol.kinds.base import Kind, Report, whole_number
from overstory.protocol.sampling import Entropy, KeyedEntropy, SystemEntropy, check_secret, context, uniform_below
from overstory.protocol.wire.upload import ID_BYTES

if TYPE_CHECKING:
    from overstory.protocol.metrics import Metric


_new_report = tuple.__new__  # half the time of the named tuple's own constructor


def new_secret() -> bytes:
    """Return a fresh 32-byte device secret. Make one per device and keep it: a new one restarts the privacy loss.

    Examples
    --------
    >>> len(new_secret()), new_secret() == new_secret()
    (32, False)
    """
    return os.urandom(32)


def cohort_of(mechanism: Kind, secret: bytes, metric: str) -> int:
    """Return the device's cohort: it follows from the secret, the metric's id and the number of cohorts alone."""
    return uniform_below(mechanism.num_cohorts, KeyedEntropy(secret, context(metric), purpose=b"cohort"))


def randomizer_of(metric: Metric, key: bytes) -> Randomizer:
    """Return what makes a metric's reports on the device with this metric key."""
    account = hashlib.blake2b(metric.account, key=key, digest_size=32, person=b"account").digest()
    cohort = cohort_of(metric.mechanism, key, metric.id)
    return Randomizer(metric.mechanism, secret=account, metric=metric.id, cohort=cohort)


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
        What the program was built with, where `mechanism` comes later, from a server: other parameters are refused, for
        each further set draws another permanent response, and they add up.
    entropy
        Where the fresh bits of `report` come from: the operating system, unless this is an experiment.

    Raises
    ------
    ParameterError
        When the secret is too short, the metric has no name, the cohort does not exist, or the program was built with
        other parameters.

    Examples
    --------
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> device = Randomizer(mechanism("rappor"), secret=b"sixteen bytes...", metric="search-engine")
    >>> again = Randomizer(mechanism("rappor"), secret=b"sixteen bytes...", metric="search-engine")
    >>> device.permanent("example.org") == again.permanent("example.org")
    True
    """

    def __init__(
        self,
        mechanism: Kind,
        *,
        secret: bytes,
        metric: str,
        cohort: int | None = None,
        built_with: Kind | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not isinstance(metric, str) or not metric:
            raise ParameterError(f"metric = {metric!r}: give the metric's id, a string that is not empty")
        if built_with is not None and mechanism.digest != built_with.digest:
            raise ParameterError(
                f"{metric}: these are not the parameters that this program was built with; every further set of "
                "parameters adds up, so other ones need a new program, and a consent to it"
            )
        self.mechanism, self.metric = mechanism, metric
        self._secret = check_secret(secret)
        self.cohort = cohort_of(mechanism, secret, metric) if cohort is None else whole_number(cohort)
        self._respond = mechanism.responder(self._secret, metric, self.cohort)
        self._instantaneous = mechanism.instantaneous
        self._random_bits = (entropy if entropy is not None else SystemEntropy()).bits
        self._periods = KeyedEntropy(self._secret, context(metric, mechanism.digest, self.cohort), purpose=b"period")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Randomizer holds a device's secret: do not pickle it, build it anew from the secret")

    def permanent(self, value: Any) -> int:
        """Return the device's permanent response to `value`.

        Raises
        ------
        ParameterError
            When the value is outside the domain.
        """
        return self._respond(whole_number(value))

    def report(self, value: Any) -> Report:
        """Return a fresh report of `value`.

        Raises
        ------
        ParameterError
            When the value is outside the domain.
        """
        permanent = self._respond(whole_number(value))
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
