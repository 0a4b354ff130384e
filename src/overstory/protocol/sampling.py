"""Passing a bit vector through a channel, exactly, in a few operations on Python's big integers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from overstory.protocol.channels import BinaryChannel
from overstory.protocol.probability import ONE, THRESHOLD_BITS

# `Entropy.bits` of some source, bound once: a call less for every report.
RandomBits = Callable[[int], int]
# From bits and a source of randomness to bits.
Draw = Callable[[int, RandomBits], int]


@dataclass(frozen=True)
class ChannelSampler:
    """A channel made ready to be drawn from: one U per bit, compared with the threshold of the bit's own value.

    From the last digit up, ``U < t``: where t has a 1, U is below it if U has a 0 there, or if what follows is below;
    where t has a 0, only if U has a 0 there and what follows is below. Trailing zeros of t need no word.

    Parameters
    ----------
    digits
        Per word, from the last digit up: (digit of keep_one, digit of raise_zero).
    keep_always, raise_always
        Whether that threshold is 2**32, which every U is below.

    Examples
    --------
    >>> ChannelSampler.of(BinaryChannel.of(0.5, 0.25)).digits
    ((False, True), (True, False))
    """

    digits: tuple[tuple[bool, bool], ...]
    keep_always: bool
    raise_always: bool

    @classmethod
    def of(cls, channel: BinaryChannel) -> ChannelSampler:
        """Build the sampler of a channel on the 2**-32 grid."""
        keep, raised = channel.thresholds
        both = (keep | raised) % ONE
        spare = (both & -both).bit_length() - 1 if both else THRESHOLD_BITS
        digits = tuple((bool(keep >> i & 1), bool(raised >> i & 1)) for i in range(spare, THRESHOLD_BITS))
        return cls(digits, keep == ONE, raised == ONE)

    def drawer(self, num_bits: int) -> Draw:
        """Return the function that passes vectors of `num_bits` bits through the channel.

        It computes ``(bits & U < keep_one) | (~bits & U < raise_zero)`` with fresh U's.
        """
        mask, count = (1 << num_bits) - 1, num_bits * len(self.digits)
        (first_keep, first_raised), *others = self.digits or ((False, False),)
        rest = tuple(others)
        keep_always, raise_always = self.keep_always, self.raise_always

        def draw(bits: int, random_bits: RandomBits) -> int:
            # `ones` and `zeros` are the complements of U < keep_one and U < raise_zero, for negative integers are slow;
            # above bit num_bits they hold what is left of the pool. The last digit's word lies lowest in the pool.
            pool = random_bits(count)
            ones = pool if first_keep else mask
            zeros = pool if first_raised else mask
            for keep, raised in rest:
                pool >>= num_bits
                ones = ones & pool if keep else ones | pool
                zeros = zeros & pool if raised else zeros | pool
            if keep_always:
                ones = 0
            if raise_always:
                zeros = 0
            return (zeros ^ (bits & (ones ^ zeros))) & mask ^ mask

        return draw


@lru_cache(maxsize=256)
def drawer(channel: BinaryChannel, num_bits: int) -> Draw:
    """Return the function (bits, random_bits) -> bits of a channel on the 2**-32 grid, made once.

    Examples
    --------
    >>> from overstory.protocol.entropy import SeededEntropy
    >>> drawer(BinaryChannel.identity(), 8)(0b1010, SeededEntropy(1).bits) == 0b1010
    True
    """
    return ChannelSampler.of(channel).drawer(num_bits)
