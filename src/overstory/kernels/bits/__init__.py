"""Reports that are vectors of bits: simulated and summed."""
