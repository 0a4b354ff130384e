"""The ledger: what one person's device has spent, in whole numbers, from which the cost is computed.

Within an account epsilon is that of any two histories of as many reports. Accounts are *sequential* composition: their
epsilons add up. *Parallel* composition, where the largest epsilon counts, is across people alone: nothing of one person
composes in parallel, whatever a collector is said to be unable to link.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from overstory.privacy.approximate import epsilon_at
from overstory.privacy.terms import Terms, add_up
from overstory.protocol.errors import ParameterError


@dataclass(frozen=True)
class Account:
    """What a device has reported for one metric while a permanent response stood for the same values.

    Examples
    --------
    >>> from overstory.privacy.terms import terms_of
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> colour = mechanism("basic-rappor", domain_size=4)
    >>> account = Account("colour", colour.digest.hex(), terms_of(colour), ((0, 2), (1, 1)))
    >>> account.reports, round(account.epsilon_any, 4)
    (3, 2.1402)
    """

    metric: str  # the metric that was reported for
    # A digest in hexadecimal of what the permanent responses stand for: the mechanism's or, where a registry also says
    # which value is which symbol, `Metric.account`. Under another one they are others, and independent
    digest: str
    terms: Terms  # what the mechanism's privacy depends on
    # how many reports each permanent response had: (its number, its reports), in order
    numbered: tuple[tuple[int, int], ...] = ()
    attribute: str | None = None  # what the metric tells of, which others may tell of too; None without

    @property
    def reports(self) -> int:
        """All reports."""
        return sum(reports for _, reports in self.numbered)

    @property
    def epsilon_any(self) -> float:
        """Epsilon between any two histories of as many reports, changing or not, rounded up."""
        return self.terms.epsilon_any(self.reports) if self.reports else 0.0

    def epsilon_at(self, delta: float) -> float:
        """The same but for a chance of `delta`, rounded up: less where all noise is fresh."""
        return epsilon_at(self.terms, self.reports, delta) if self.reports else 0.0


@dataclass(frozen=True)
class Ledger:
    """One device's accounts.

    Raises
    ------
    ParameterError
        When an account comes twice.

    Examples
    --------
    >>> from overstory.privacy.terms import terms_of
    >>> from overstory.protocol.kinds.registry import mechanism
    >>> colour = mechanism("basic-rappor", domain_size=4)
    >>> names = ("colour", "shade")
    >>> ledger = Ledger(tuple(Account(name, colour.digest.hex(), terms_of(colour), ((0, 2),)) for name in names))
    >>> round(ledger.epsilon_any, 4)
    2.5541
    """

    accounts: tuple[Account, ...] = ()  # one for every metric and account, in order

    def __post_init__(self) -> None:
        ordered = {(account.metric, account.digest): account for account in self.accounts}
        if len(ordered) < len(self.accounts):
            raise ParameterError("a ledger has one account for every metric and digest; one comes twice")
        object.__setattr__(self, "accounts", tuple(account for _, account in sorted(ordered.items())))

    def of(self, metrics: Collection[str]) -> Ledger:
        """Return the part of some metrics."""
        return Ledger(tuple(account for account in self.accounts if account.metric in metrics))

    @property
    def reports(self) -> int:
        """All reports."""
        return sum(account.reports for account in self.accounts)

    @property
    def epsilon_any(self) -> float:
        """All that was spent, rounded up: against any history of as many reports."""
        return add_up((1, account.epsilon_any) for account in self.accounts)

    def epsilon_at(self, delta: float) -> float:
        """The same, except with probability `delta`, rounded up: accounts whose noise is all fresh share it equally.

        Epsilons add up, and so do the deltas.

        Raises
        ------
        ParameterError
            When `delta` is not between 0 and 1.
        """
        # Basic composition: (sum of epsilons, sum of deltas), delta split equally over the fresh accounts.
        fresh = sum(account.terms.fresh for account in self.accounts)
        return add_up((1, account.epsilon_at(delta / max(fresh, 1))) for account in self.accounts)
