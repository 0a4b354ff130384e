"""Counts and estimates of a store, of exported folders or of a collector's address, without server code."""
