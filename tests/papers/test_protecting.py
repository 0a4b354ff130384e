"""ProTECting's experiments: what is measured is in the bins of the shipped domain."""

import numpy as np

from overstory.protocol.domains.numbers import Bins
from papers.smart_homes import homes


def test_bins_are_those_of_the_shipped_domain():
    readings = np.array([0.0, 0.019, 0.02, 0.5, 1.99, 2.0, 7.5], np.float32)
    domain = Bins(0, homes.MOST_KWH, homes.BINS)
    assert homes.binned(readings, homes.BINS).tolist()[3:] == [domain.symbol(float(value)) for value in readings[3:]]
