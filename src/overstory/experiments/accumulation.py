"""What simulated devices' reports add up to, in memory that does not grow with their number."""

from __future__ import annotations

from functools import reduce
from operator import add

from overstory.analysis.oracle import FrequencyOracle
from overstory.analysis.reports import SupportCounts
from overstory.analysis.support.simulation import SimulatedDevices


def accumulated(oracle: FrequencyOracle, devices: SimulatedDevices, index: int = 0) -> SupportCounts:
    """Return the support counts of report number `index` of every device.

    Examples
    --------
    >>> import numpy as np
    >>> from overstory.analysis.oracle import frequency_oracle
    >>> oracle = frequency_oracle("oue", domain_size=4, epsilon=1.0)
    >>> accumulated(oracle, oracle.devices(np.zeros(1000, np.int32), np.random.default_rng(1))).num_reports
    1000
    """
    return reduce(add, (oracle.accumulate(batch) for batch in devices.batches(index)))
