"""See the forest, never the trees: statistics under local differential privacy.

The client half (`overstory.client`, `overstory.protocol`, `overstory.privacy`) needs the standard library alone;
the rest is loaded when it is first used and comes with ``pip install "overstory[analysis]"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overstory.analysis.oracle import FrequencyOracle

__version__ = "0.1.0"
__all__ = ["__version__", "oracle"]


def oracle(name: str, **parameters: Any) -> FrequencyOracle:
    """Return the frequency oracle of that registry name: the device's half and the server's, as one object.

    Raises
    ------
    overstory.protocol.errors.ParameterError
        When there is no such oracle, or a parameter is unknown, missing or out of range.

    Examples
    --------
    >>> import overstory
    >>> rappor = overstory.oracle("rappor", num_bits=128, num_hashes=2, num_cohorts=16, f=0.5, p=0.5, q=0.75)
    >>> round(rappor.epsilon_report, 3), round(rappor.epsilon_permanent, 3)
    (1.074, 4.394)
    """
    from overstory.analysis.oracle import frequency_oracle

    return frequency_oracle(name, **parameters)
