"""Domains: from what an application measures to a symbol of ``0 .. size - 1``.

A domain decides three things once, for device and collector alike: which symbol a value is, what happens to a value
that is none of them, and what a symbol is called. It draws no randomness, so it can neither help nor harm privacy;
but it must give one answer everywhere, so no answer here depends on how a division was rounded.
"""

from overstory.protocol.domains.domains import MAX_SIZE, Bins, Categories, Domain, Integers, domain_from
from overstory.protocol.domains.numbers import Outside, finite, limits, refusal

__all__ = [
    "MAX_SIZE",
    "Bins",
    "Categories",
    "Domain",
    "Integers",
    "Outside",
    "domain_from",
    "finite",
    "limits",
    "refusal",
]
