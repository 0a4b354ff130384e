"""The one mechanism there is: an encoding and two rounds of bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

from overstory.protocol.channels import BinaryChannel, Rounds
from overstory.protocol.derivation import digest
from overstory.protocol.encodings import Encoding, bits_at, check_cohort, encode
from overstory.protocol.entropy import Entropy, uniform_below
from overstory.protocol.errors import ParameterError
from overstory.protocol.permanence import KeyedPermanence, Permanence, Subject
from overstory.protocol.sampling import Draw, drawer


class Report(NamedTuple):
    """What leaves the device: the cohort and the randomized bits (bit i of the vector is bit i of the integer)."""

    cohort: int
    bits: int


@dataclass(frozen=True)
class BitMechanism:
    """Encode a value as bits, randomize them permanently, randomize that afresh for every report.

    Parameters
    ----------
    name
        The registry's name.
    parameters
        As the caller gave them, completed by the defaults.
    encoding
        From a value to bits.
    rounds
        The permanent and the instantaneous channel; either may be the identity.
    permanence
        How a device derives its permanent responses.

    Raises
    ------
    ParameterError
        When the channels carry no signal, or protect nothing.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> rappor = mechanism("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> round(rappor.epsilon_report, 4), round(rappor.epsilon_permanent, 4)
    (1.0743, 4.3944)
    """

    name: str
    parameters: Mapping[str, Any] = field(hash=False)
    encoding: Encoding
    rounds: Rounds
    permanence: Permanence = field(default_factory=KeyedPermanence, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))
        if self.rounds.combined.span == 0:
            raise ParameterError(
                f"{self.name}: the report would not depend on the value (p = q, or f = 1): nothing can be learned"
            )
        if self.epsilon_report == float("inf"):
            raise ParameterError(
                f"{self.name}: a report would give the value away (a bit that is never changed): "
                "raise f or p, or lower q"
            )

    @property
    def channel(self) -> BinaryChannel:
        """P(report bit | true bit): RAPPOR's q* is its `keep_one`, RAPPOR's p* its `raise_zero`."""
        return self.rounds.combined

    @cached_property
    def epsilon_report(self) -> float:
        """Epsilon of one report, in nats, rounded up (RAPPOR's eps_1)."""
        return self.epsilon_n(1)

    @cached_property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one value, rounded up (RAPPOR's eps_infinity)."""
        return self.rounds.epsilon_permanent(self.encoding.differences)

    def epsilon_n(self, reports: int) -> float:
        """Exact epsilon of `reports` reports of one value, rounded up."""
        return self.rounds.epsilon(self.encoding.differences, reports=reports)

    def encode(self, value: Any, cohort: int) -> int:
        """Return the true bits of `value` in `cohort`; they never leave the device."""
        return encode(self.encoding, value, cohort)

    def responder(self, secret: bytes, metric: str, cohort: int) -> Callable[[Any], int]:
        """Return the function from a value to the permanent response that `secret` gives to it, for ever the same.

        Raises
        ------
        ParameterError
            Here when the cohort or the secret is not usable; from the function when the value is not.
        """
        check_cohort(cohort, self.encoding.num_cohorts)
        permanent, positions = self.rounds.permanent, self.encoding.positions
        if permanent.is_identity:
            return lambda value: bits_at(positions(value, cohort))
        subject = Subject(metric, self.digest, cohort)
        respond = self.permanence.responder(permanent, self.encoding.num_bits, secret, subject)
        return lambda value: respond(_as_bytes(value), bits_at(positions(value, cohort)))

    @cached_property
    def instantaneous(self) -> Draw:
        """The function (permanent response, random_bits) -> the bits of a fresh report."""
        if self.rounds.instantaneous.is_identity:
            return lambda permanent, random_bits: permanent  # noqa: ARG005 - one round draws nothing afresh
        return drawer(self.rounds.instantaneous, self.encoding.num_bits)

    def randomize(self, value: Any, entropy: Entropy, *, cohort: int | None = None) -> Report:
        """Return one report of a device that nobody has seen before (both rounds drawn from `entropy`).

        A device that reports more than once must keep its permanent response: use `overstory.client.Randomizer`.

        Raises
        ------
        ParameterError
            When the value or the cohort is outside the domain.
        """
        chosen = uniform_below(self.encoding.num_cohorts, entropy) if cohort is None else cohort
        bits = self.encode(value, chosen)
        if not self.rounds.permanent.is_identity:
            bits = drawer(self.rounds.permanent, self.encoding.num_bits)(bits, entropy.bits)
        return Report(chosen, self.instantaneous(bits, entropy.bits))

    def canonical(self) -> dict[str, Any]:
        """Return all that a report's meaning and privacy depend on, as JSON values."""
        thresholds = [list(c.thresholds) for c in (self.rounds.permanent, self.rounds.instantaneous)]
        return {"name": self.name, "thresholds": thresholds, **self.encoding.canonical()}

    @cached_property
    def digest(self) -> bytes:
        """The 16-byte digest of the canonical form: what reports on the wire are labelled with."""
        return digest(self.canonical())


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    # An enumeration's member is its number: its own text changes with its class's name.
    return value if isinstance(value, bytes) else str(int(value) if isinstance(value, int) else value).encode()
