"""What a symbol discloses: two k-ary channels, through the symbol that values may share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, ClassVar

from overstory.privacy.histories.pairs import PRECISE, Worst, symbol_change, symbol_ratios
from overstory.privacy.histories.symbols import worst_of_symbols
from overstory.privacy.payloads.base import Disclosure, Evidence
from overstory.privacy.payloads.shared import NO_LIKENESS, Constant, Likeness, weighted
from overstory.privacy.payloads.success import Atom, Attack, Success, share, true_positives
from overstory.privacy.terms import Terms
from overstory.protocol.channels import SymbolChannel
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.mechanisms.payloads import SymbolMechanism
from overstory.protocol.probability import ONE, as_decimal, log_ratio, mix, power, round_up
from overstory.protocol.sampling import SymbolRounds


@dataclass(frozen=True)
class SymbolTerms(Terms):
    """Two k-ary channels: the probability of keeping, over 2**32, apart from the uniform draw."""

    kind: ClassVar[str] = "symbols"
    num_symbols: int
    permanent: int
    instantaneous: int
    most_values: int | None

    @property
    def rounds(self) -> SymbolRounds:
        """The channels."""
        alphas = Fraction(self.permanent, ONE), Fraction(self.instantaneous, ONE)
        return SymbolRounds(*(SymbolChannel(self.num_symbols, alpha) for alpha in alphas))

    @property
    def fresh(self) -> bool:
        """Whether the permanent round changes nothing."""
        return self.permanent == ONE

    @property
    def epsilon_permanent(self) -> float:
        """Epsilon of seeing the permanent symbol itself."""
        return self.rounds.epsilon_permanent

    def _few(self, reports: int) -> float:
        return self.rounds.epsilon(reports=reports)

    def change_leak(self, reports: int) -> float:
        """Exact epsilon of one change of symbol, or to nothing or from it, within `reports` reports."""
        return symbol_change(self.rounds, reports)

    def _worst(self, reports: int) -> Worst:
        if self.instantaneous == ONE:
            return super()._worst(reports)
        return worst_of_symbols(self.rounds, self.most_values or self.num_symbols, reports)

    def canonical(self) -> dict[str, Any]:
        """Return the terms as JSON values."""
        return {"kind": self.kind, **asdict(self)}


@dataclass(frozen=True)
class SymbolDisclosure(Disclosure[SymbolMechanism]):
    """What a symbol discloses."""

    terms_type: ClassVar[type[Terms]] = SymbolTerms

    @property
    def terms(self) -> SymbolTerms:
        """Both channels' integers."""
        rounds, symbols = self.mechanism.rounds, self.mechanism.encoding.num_symbols
        permanent, instantaneous = int(rounds.permanent.alpha * ONE), int(rounds.instantaneous.alpha * ONE)
        return SymbolTerms(symbols, permanent, instantaneous, min(symbols, self.mechanism.domain_size or symbols))

    def epsilon_between(self, first: Sequence[Any], second: Sequence[Any], cohort: int) -> float:
        """Return epsilon between the histories of symbols that the values have in the cohort."""
        symbols = ([self.mechanism.encode(value, cohort) for value in history] for history in (first, second))
        ratios = symbol_ratios(self.mechanism.rounds, *([(s, s) for s in history] for history in symbols))
        return round_up(max(log_ratio(*ratio) for ratio in ratios))

    def evidence(self, reports: Sequence[Report]) -> Evidence:
        """Return the evidence of how often each symbol was reported, through one permanent symbol."""
        rounds, cohort, n = self.mechanism.rounds, reports[0].cohort, len(reports)
        counts = Counter(report.bits for report in reports)
        later, size = rounds.instantaneous, self.mechanism.payload_limit
        if max(counts) >= size:
            raise ParameterError(f"a {self.mechanism.name} report is a symbol of 0 .. {size - 1}, not {max(counts)}")
        with localcontext(PRECISE):
            seen = {z: power(later.keep, count) * power(later.other, n - count) for z, count in counts.items()}
            unseen = power(later.other, n)
            # Sum over all permanent symbols z of prod_i P2(report_i | z); unseen ones are alike.
            somewhere = sum(seen.values(), Decimal(size - len(seen)) * unseen)
        if somewhere == 0:
            raise ParameterError("no device sends these reports of one value: they differ without a cause")

        def evidence(value: Any) -> Decimal:
            here = seen.get(self.mechanism.encode(value, cohort), unseen)
            with localcontext(PRECISE):
                # P1(z|x) is `other` for every z, and alpha more for z = x.
                return log_ratio(mix(rounds.permanent.alpha, here, somewhere / size), Fraction(1))

        return evidence

    def attack(self, candidates: int) -> Attack:
        """Return the attack on one symbol; exact where the symbol is the value."""
        rounds, size = self.mechanism.rounds, self.mechanism.payload_limit
        values = self.mechanism.domain_size or candidates
        successes = []
        for channel in (rounds.combined, rounds.permanent):
            with localcontext(PRECISE):
                keep, other = as_decimal(channel.keep), as_decimal(channel.other)
                # Symbols that a value has, and those that none has; hash functions that reach the most are the worst.
                reached = min(size, values)
                guess = share(reached * keep + (size - reached) * other, values)
            successes.append(Success(guess, true_positives(_atoms(channel))))
        one, ever = successes
        return Attack(values, one, ever, exact=self.mechanism.encoding.direct)

    @property
    def payload(self) -> Constant:
        """The permanent symbol, with the cohort."""
        first, symbols = self.mechanism.rounds.permanent, self.mechanism.payload_limit
        own, others = (float(first.keep), 1), (float(first.other * (symbols - 1)), symbols - 1)
        return weighted((own, others)).times(self.mechanism.num_cohorts)

    @property
    def repeats(self) -> bool:
        """Whether the second round changes nothing."""
        return self.mechanism.rounds.instantaneous.alpha == 1

    @property
    def likeness(self) -> Likeness:
        """Of symbols drawn from one permanent symbol."""
        return NO_LIKENESS if self.repeats else Likeness(symbol=self.mechanism.rounds)

    def words(self, payload: int, labels: Sequence[str] = ()) -> str:
        """Return the symbol, or the value that it is."""
        if self.mechanism.encoding.direct and payload < len(labels):
            return f'says "{labels[payload]}" (by chance, not necessarily yours)'
        return f"symbol {payload} of 0 .. {self.mechanism.payload_limit - 1}"


def _atoms(channel: SymbolChannel) -> list[Atom]:
    """Reports of the one value's symbol, of the other's, and of all that are neither's."""
    keep, other = as_decimal(channel.keep), as_decimal(channel.other)
    with localcontext(PRECISE):
        rest = (channel.domain_size - 2) * other
    return [(keep, other), (other, keep), (rest, rest)]
