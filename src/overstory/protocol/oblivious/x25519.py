"""X25519 (RFC 7748): Diffie-Hellman on the curve y^2 = x^3 + 486662 x^2 + x over GF(2^255 - 19).

Whole numbers of Python do not take the same time for all values. So this is for a private key that is used for one
message and then forgotten, never for a key that lasts.
"""

from __future__ import annotations

from typing import Final

from overstory.protocol.errors import ParameterError

KEY_BYTES: Final = 32
P: Final = 2**255 - 19
A24: Final = 121665  # (486662 - 2) / 4
BASE: Final = (9).to_bytes(KEY_BYTES, "little")


def public_key(private: bytes) -> bytes:
    """Return the public key of 32 private bytes."""
    return shared_secret(private, BASE)


def shared_secret(private: bytes, public: bytes) -> bytes:
    """Return what the owner of `private` and that of `public` have in common.

    ParameterError where a key is not 32 bytes, or the result is zero: a public key of small order, which hides nothing.
    """
    if len(private) != KEY_BYTES or len(public) != KEY_BYTES:
        raise ParameterError(f"a key of X25519 has {KEY_BYTES} bytes, not {len(private)} and {len(public)}")
    secret = _ladder(_scalar(private), int.from_bytes(public, "little") & ((1 << 255) - 1))
    if not secret:
        raise ParameterError("this public key has a small order: the secret would be zero for any private key")
    return secret.to_bytes(KEY_BYTES, "little")


def _scalar(private: bytes) -> int:
    """Return the private key as a number: a multiple of 8 with bit 254 set."""
    number = int.from_bytes(private, "little")
    return number & ((1 << 254) - 8) | 1 << 254


def _ladder(scalar: int, u: int) -> int:
    """Return the u-coordinate of `scalar` times the point of u (RFC 7748, section 5: the Montgomery ladder)."""
    x1, x2, z2, x3, z3, swapped = u % P, 1, 0, u % P, 1, 0
    for place in range(254, -1, -1):
        bit = scalar >> place & 1
        if swapped != bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swapped = bit
        a, b = x2 + z2, x2 - z2
        aa, bb = a * a % P, b * b % P
        e = aa - bb
        da, cb = (x3 - z3) * a % P, (x3 + z3) * b % P
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = aa * bb % P, e * (aa + A24 * e) % P
    if swapped:
        x2, z2 = x3, z3
    return x2 * pow(z2, P - 2, P) % P
