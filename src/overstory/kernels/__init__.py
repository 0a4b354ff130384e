"""Kernels, by Numba or NumPy: arrays in and out, nothing above NumPy. Each has a slow, obvious twin in the tests."""
