"""Simulated devices on the client's own path."""
