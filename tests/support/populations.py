"""Populations of devices that a search is tried on."""

import numpy as np


def zipf(num_devices: int, num_values: int, seed: int, *, bits: int = 64, exponent: float = 1.1):
    """Devices whose values follow Zipf's law over random integers."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, num_values + 1) ** -exponent
    values = rng.integers(0, 1 << bits, num_values, dtype=np.uint64)
    return values[rng.choice(num_values, num_devices, p=weights / weights.sum())]
