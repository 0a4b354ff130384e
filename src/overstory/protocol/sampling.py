"""Passing a bit vector through a channel, exactly, in a few operations on Python's big integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from overstory.protocol.channels import BinaryChannel
from overstory.protocol.entropy import Entropy
from overstory.protocol.probability import ONE, THRESHOLD_BITS


@dataclass(frozen=True)
class Comparison:
    """``U < threshold`` for a whole vector of 32-bit U's at once.

    Parameters
    ----------
    digits
        The threshold's binary digits, most significant first, trailing zeros dropped.
    always
        True for the threshold 2**32, which every U is below.

    Examples
    --------
    >>> half = Comparison.with_threshold(1 << 31)
    >>> half.digits, bin(half([0b0011], mask=0b1111))
    ((True,), '0b1100')
    """

    digits: tuple[bool, ...]
    always: bool = False

    @classmethod
    def with_threshold(cls, threshold: int) -> Comparison:
        """Build the comparison with `threshold` in ``0 .. 2**32``."""
        if threshold == ONE:
            return cls((), always=True)
        text = f"{threshold:0{THRESHOLD_BITS}b}".rstrip("0")
        return cls(tuple(digit == "1" for digit in text))

    def __call__(self, words: list[int], mask: int) -> int:
        """Return the vector of ``U < threshold``, `words[j]` holding digit j of every U.

        From the last digit up: where the threshold has a 1, U is below it if U has a 0 there, or if what follows
        is below; where it has a 0, only if U has a 0 there and what follows is below.
        """
        if self.always:
            return mask
        below = 0
        for digit, word in zip(reversed(self.digits), reversed(words[: len(self.digits)]), strict=True):
            below = (word ^ mask) | below if digit else (word ^ mask) & below
        return below


@dataclass(frozen=True)
class ChannelSampler:
    """A channel made ready to be drawn from: one U per bit, compared with the threshold of the bit's own value."""

    keep_one: Comparison
    raise_zero: Comparison
    num_words: int

    @classmethod
    def of(cls, channel: BinaryChannel) -> ChannelSampler:
        """Build the sampler of a channel on the 2**-32 grid."""
        keep, raised = (Comparison.with_threshold(threshold) for threshold in channel.thresholds)
        return cls(keep, raised, max(len(keep.digits), len(raised.digits)))

    def draw(self, bits: int, num_bits: int, entropy: Entropy) -> int:
        """Pass `bits` through the channel: ``(bits & U < keep_one) | (~bits & U < raise_zero)``."""
        mask = (1 << num_bits) - 1
        pool = entropy.bits(num_bits * self.num_words)
        words = []
        for _ in range(self.num_words):
            words.append(pool & mask)
            pool >>= num_bits
        ones, zeros = self.keep_one(words, mask), self.raise_zero(words, mask)
        return zeros ^ (bits & (ones ^ zeros))


@lru_cache(maxsize=256)
def sampler(channel: BinaryChannel) -> ChannelSampler:
    """Return the channel's sampler, made once."""
    return ChannelSampler.of(channel)
