"""Two rounds on a symbol: the k-ary counterpart of `overstory.protocol.channels.Rounds`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from overstory.protocol.channels import SymbolChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.probability import ONE, log_ratio, mix, power, round_up
from overstory.protocol.sampling import Draw, RandomBits


@dataclass(frozen=True)
class SymbolRounds:
    """A permanent channel whose symbol is memoized, and an instantaneous one drawn afresh for every report.

    The product of two keep-or-uniform channels is one again, with alpha = alpha1 alpha2: so the second round for a
    wished epsilon_report is exact, alpha2 = alpha(epsilon_report) / alpha(epsilon_permanent). The published second
    rounds of L-GRR and LOLOHA leave out the way over a third symbol, and add more noise than needed.

    Examples
    --------
    >>> rounds = SymbolRounds(SymbolChannel.of(10, epsilon=2.0), SymbolChannel.of(10, epsilon=1.5))
    >>> rounds.epsilon() < 1.5 and rounds.epsilon(reports=100) <= rounds.epsilon_permanent
    True
    """

    permanent: SymbolChannel
    instantaneous: SymbolChannel

    @cached_property
    def combined(self) -> SymbolChannel:
        """The channel of one report."""
        return self.permanent.then(self.instantaneous)

    def epsilon(self, *, reports: int = 1) -> float:
        """Exact epsilon of `reports` reports of one memoized symbol, rounded up.

        The permanent symbol z is drawn once, so n reports have probability sum_z P1(z|x) prod_i P2(y_i|z). Between x
        and x' it is largest when every report is x: the ratio rises with z = x's weight and falls with all others'.

        Raises
        ------
        ParameterError
            When `reports` is not positive.
        """
        if reports < 1:
            raise ParameterError(f"reports = {reports}: at least one report is needed to lose privacy")
        seen = power(self.instantaneous.keep, reports), power(self.instantaneous.other, reports)
        return round_up(log_ratio(mix(self.permanent.keep, *seen), mix(self.permanent.other, *seen)))

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of any number of reports of one memoized symbol: of seeing the permanent symbol itself."""
        return self.permanent.epsilon


def symbol_drawer(channel: SymbolChannel) -> Draw:
    """Return the function (symbol, random_bits) -> symbol of a channel with alpha on the 2**-32 grid.

    Raises
    ------
    ParameterError
        When alpha is not on the grid (a product of channels): draw its rounds one after the other.

    Examples
    --------
    >>> from overstory.protocol.entropy import SeededEntropy
    >>> symbol_drawer(SymbolChannel(5, 1))(3, SeededEntropy(1).bits)
    3
    """
    scaled = channel.alpha * ONE
    if scaled.denominator != 1:
        raise ParameterError("this channel is not on the 2**-32 grid: draw the rounds it is composed of")
    threshold, size = int(scaled), channel.domain_size
    width = (size - 1).bit_length()

    def draw(symbol: int, random_bits: RandomBits) -> int:
        if threshold == ONE or random_bits(32) < threshold:
            return symbol
        while (drawn := random_bits(width)) >= size:
            pass
        return drawn

    return draw
