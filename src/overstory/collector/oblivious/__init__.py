"""Oblivious HTTP (RFC 9458), the receiving side: its private keys, and what comes sealed for them."""
