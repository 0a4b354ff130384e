"""Estimates that are computed once: a cache, and a process that decodes."""
