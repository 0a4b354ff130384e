"""Hashes of strings for kernels."""
