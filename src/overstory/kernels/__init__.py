"""Numba kernels: arrays in, arrays out. They know nothing above NumPy; each has a slow, obvious twin in the tests."""
