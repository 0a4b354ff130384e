"""Counts and estimates of a store or of a collector's address; no HTTP server code."""
