"""Slow, obvious twins of simulated devices: Python integers, one device at a time, sharing nothing with the package."""

import hashlib
import struct

MASK = 2**64 - 1


def split_mix(seed: int, number: int) -> int:
    """Output number `number`, from 0 on, of SplitMix64 (Steele, Lea, Flood 2014), as its authors' code gives it."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) & MASK
    return finalized(z)


def finalized(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


class Words:
    """A device's random words for one purpose."""

    def __init__(self, key: bytes, domain: bytes, *names: int) -> None:
        self.start = 0
        for name, word in zip(
            names, struct.unpack("<4Q", hashlib.blake2s(key=key, person=domain).digest()), strict=False
        ):
            self.start = finalized(((self.start ^ name) + word) & MASK)

    def word(self, number: int) -> int:
        return split_mix(self.start, number)

    def coin(self) -> int:
        """The 32 bits that decide."""
        return self.word(0) >> 32

    def below(self, number: int, size: int) -> int:
        return self.word(number) * size >> 64


def simulate_one(positions, symbol, cohort, permanent, instantaneous, key, *, num_bits, device, report_index) -> int:
    """One report as one big integer: bit i is 1 when its uniform number U is below the threshold of what it was.

    Digit j of U, the highest first, is bit i mod 64 of word number ``j words + i // 64``.
    """
    bits, words = 0, -(-num_bits // 64)
    for position in positions[cohort][symbol]:
        bits |= 1 << int(position)
    purposes = ((permanent, b"perm-v1", (cohort, symbol)), (instantaneous, b"inst-v1", (report_index,)))
    for channel, domain, names in purposes:
        if channel is None:
            continue
        stream, out = Words(key, domain, device, *names), 0
        numbers = [[stream.word(digit * words + at) for at in range(words)] for digit in range(32)]
        for place in range(num_bits):
            digits = (numbers[digit][place // 64] >> (place % 64) & 1 for digit in range(32))
            # Digits past the last 1 of both thresholds change nothing: they are never drawn.
            uniform = sum(digit << (31 - number) for number, digit in enumerate(digits))
            out |= (uniform < channel[0 if bits >> place & 1 else 1]) << place
        bits = out
    return bits
