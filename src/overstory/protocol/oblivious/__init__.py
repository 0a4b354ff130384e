"""Oblivious HTTP (RFC 9458): a request that a relay cannot read, to a server that cannot see who sends it.

The sending side alone, in the standard library alone: the receiving side holds a private key for long, and uses the
package `cryptography` (`overstory.collector.oblivious`).
"""
