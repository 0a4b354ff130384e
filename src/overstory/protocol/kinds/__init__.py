"""Kinds of data: the encoding, the noise and the builder of each. The standard library alone."""
