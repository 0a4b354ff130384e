"""The ledger: what one person's device has spent, and what is left.

This page is a constitution. A ledger holds whole numbers, from which every epsilon follows; it is frozen, and a
new one follows from it by a spend; n spends at once and n spends one after the other lead to the same ledger, in any
order. What it states is never below the truth of what was charged to it. Of a state that went back, or has a copy, it
does not know what the other one reported; the same value in the same period is the same report, and another is missing
here.

- *Sequential* composition is all there is within a ledger: the epsilons of metrics, of mechanisms and of values add up.
- The reports of one memoized value are no sum: they share a permanent response. They are counted, and cost epsilon_n.
- *Parallel* composition, where the largest epsilon counts and not the sum, is across people alone: `across_people`
  takes ledgers of different persons and refuses two of one. Values, bins, metrics and times of one person never
  compose in parallel, whatever a collector is said to be unable to link.
- `epsilon` compares with histories of the same pattern of equal and different permanent responses. That a value changed
  is told by `change_leak`, which no such sum covers. `epsilon_any` compares with any history of as many reports.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from overstory.privacy.accounts import Account, Spend, account_from_json
from overstory.privacy.terms import add_up
from overstory.privacy.text import epsilon_text
from overstory.protocol.errors import FormatError, OverstoryError, ParameterError
from overstory.protocol.mechanisms.base import digest

VERSION: Final = 1


class OverspentError(OverstoryError):
    """A spend that the budget does not allow; the ledger is as it was."""


@dataclass(frozen=True)
class Quote:
    """What a spend would do: epsilon before and after, and what the budget says.

    Attributes
    ----------
    before
        Epsilon of all spends so far, in nats, rounded up.
    after
        Epsilon with the quoted spend, in nats, rounded up.
    budget
        The ledger's limit in nats; infinite where it has none.
    """

    before: float
    after: float
    budget: float

    @property
    def cost(self) -> float:
        """How much epsilon would rise, rounded up."""
        return 0.0 if self.after == self.before else add_up([(1, self.after), (-1, self.before)])

    @property
    def allowed(self) -> bool:
        """Whether the budget suffices."""
        return self.after <= self.budget

    @property
    def remaining(self) -> float:
        """What would be left of the budget, rounded down; below 0 where it does not suffice."""
        return _left(self.budget, self.after)


@dataclass(frozen=True)
class Ledger:
    """One device's spends.

    Parameters
    ----------
    person, device
        The names of person and device: they need no meaning, but two persons need two.
    budget
        What all of it may cost; infinite unless given.
    accounts
        One for every metric and mechanism, in order.

    Raises
    ------
    ParameterError
        When the budget is no number above 0, or an account comes twice.

    Examples
    --------
    >>> from overstory.privacy.accounts import Event
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> colour = mechanism("basic-rappor", domain_size=4)
    >>> blue, green = (Spend.of("colour", colour, Event.VALUE, number=number) for number in (0, 1))
    >>> ledger = Ledger("someone", budget=4.0).commit(blue).commit(blue)
    >>> round(ledger.epsilon, 4), round(ledger.remaining, 4)
    (1.0085, 2.9915)
    >>> quote = ledger.dry_run(green, times=1000)
    >>> round(quote.cost, 4), quote.allowed
    (2.1972, True)
    >>> ledger.commit(green, times=1000).commit(blue, times=1000)
    Traceback (most recent call last):
    ...
    overstory.privacy.ledger.OverspentError: colour: 1000 times this would bring epsilon to 4.3945, above 4.0000
    """

    person: str
    device: str = ""
    budget: float = math.inf
    accounts: tuple[Account, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.person, str) or not isinstance(self.device, str):
            raise ParameterError(f"person = {self.person!r}, device = {self.device!r}: give two texts")
        if not isinstance(self.budget, int | float) or isinstance(self.budget, bool) or not self.budget > 0:
            raise ParameterError(f"budget = {self.budget!r}: give a number above 0")
        ordered = {_key(account): account for account in self.accounts}
        if len(ordered) < len(self.accounts):
            raise ParameterError("a ledger has one account for every metric and mechanism; one comes twice")
        object.__setattr__(self, "budget", float(self.budget))
        object.__setattr__(self, "accounts", tuple(account for _, account in sorted(ordered.items())))

    @property
    def epsilon(self) -> float:
        """All that was spent, rounded up: against histories with the same pattern of permanent responses."""
        return _sum(account.epsilon for account in self.accounts)

    @property
    def epsilon_any(self) -> float:
        """All that was spent, rounded up: against any history of as many reports."""
        return _sum(account.epsilon_any for account in self.accounts)

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
        return _sum(account.epsilon_at(delta / max(fresh, 1)) for account in self.accounts)

    @property
    def change_leak(self) -> float:
        """What the reports disclose of one change of value in every account, rounded up."""
        return _sum(account.change_leak for account in self.accounts)

    @property
    def remaining(self) -> float:
        """What is left of the budget, rounded down."""
        return _left(self.budget, self.epsilon)

    def epsilon_of(self, metric: str) -> float:
        """What was spent on a metric, rounded up."""
        return _sum(account.epsilon for account in self.accounts if account.metric == metric)

    def epsilon_window(self, reports: int) -> float:
        """What any `reports` consecutive reports of every account disclosed, rounded up."""
        return _sum(account.epsilon_window(reports) for account in self.accounts)

    def after(self, spend: Spend, times: int = 1) -> Ledger:
        """Return the ledger after `times` such spends, also where the budget forbids them.

        Raises
        ------
        ParameterError
            When `times` is not positive, or the spend refers to values that were never reported.
        """
        accounts = {_key(account): account for account in self.accounts}
        mine = spend.metric, spend.mechanism
        account = accounts.get(mine) or Account(*mine, spend.terms)
        if account.terms != spend.terms:
            raise ParameterError(f"{spend.metric}: the mechanism {spend.mechanism} has had other terms before")
        return replace(self, accounts=tuple((accounts | {mine: account.after(spend, times)}).values()))

    def dry_run(self, spend: Spend, times: int = 1) -> Quote:
        """Say what `times` such spends would do, and do nothing."""
        return Quote(self.epsilon, self.after(spend, times).epsilon, self.budget)

    def commit(self, spend: Spend, times: int = 1) -> Ledger:
        """Return the ledger after `times` such spends.

        Raises
        ------
        OverspentError
            When the budget does not suffice.
        ParameterError
            See `after`.
        """
        after = self.after(spend, times)
        if after.epsilon > self.budget:
            raise OverspentError(
                f"{spend.metric}: {times} times this would bring epsilon to {epsilon_text(after.epsilon)}, "
                f"above {epsilon_text(self.budget)}"
            )
        return after

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, which are the canonical form; a budget without bound is null."""
        return {
            "ledger": VERSION,
            "person": self.person,
            "device": self.device,
            "budget": None if math.isinf(self.budget) else self.budget,
            "accounts": [account.to_json() for account in self.accounts],
        }

    @property
    def digest(self) -> bytes:
        """The digest of the canonical form: equal for equal ledgers."""
        return digest(self.to_json())

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Ledger:
        """Return the ledger that `to_json` wrote.

        Raises
        ------
        FormatError
            When it is none, or of an unknown version.
        """
        if not isinstance(read, Mapping) or read.get("ledger") != VERSION:
            raise FormatError(f"expected version {VERSION} of a ledger, found {read!r:.60}", field="ledger")
        try:
            accounts = tuple(map(account_from_json, read["accounts"]))
            budget = math.inf if read["budget"] is None else read["budget"]
            return cls(read["person"], read["device"], budget, accounts)
        except FormatError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"this is no ledger: {error}", field="ledger") from error


def across_people(ledgers: Iterable[Ledger]) -> float:
    """Return the largest epsilon of different persons: parallel composition, rounded up.

    Parameters
    ----------
    ledgers
        The ledgers of different persons, one for each person.

    Raises
    ------
    ParameterError
        When two ledgers are of one person: what a person spends in two places adds up.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> from overstory.privacy.accounts import Event
    >>> blue = Spend.of("colour", mechanism("grr", domain_size=4, epsilon=1.0), Event.VALUE, number=0)
    >>> round(across_people(Ledger(person).commit(blue) for person in ("first", "second")), 4)
    1.0
    """
    people = list(ledgers)
    if len({ledger.person for ledger in people}) < len(people):
        raise ParameterError("two ledgers are of one person: only different people compose in parallel")
    return max((ledger.epsilon for ledger in people), default=0.0)


def across_devices(ledgers: Iterable[Ledger]) -> float:
    """Return the epsilon of one person's devices together: sequential composition, rounded up.

    Parameters
    ----------
    ledgers
        The ledgers of one person, one for each device.

    Raises
    ------
    ParameterError
        When they are of several persons, or one device comes twice.

    Examples
    --------
    >>> from overstory.protocol.mechanisms.registry import mechanism
    >>> from overstory.privacy.accounts import Event
    >>> blue = Spend.of("colour", mechanism("grr", domain_size=4, epsilon=1.0), Event.VALUE, number=0)
    >>> phone, laptop = (Ledger("someone", device).commit(blue) for device in ("phone", "laptop"))
    >>> round(across_devices([phone, laptop]), 4)
    2.0
    """
    devices = list(ledgers)
    if len({ledger.person for ledger in devices}) > 1 or len({ledger.device for ledger in devices}) < len(devices):
        raise ParameterError("give the ledgers of one person's different devices")
    return _sum(ledger.epsilon for ledger in devices)


def _key(account: Account) -> tuple[str, str]:
    return account.metric, account.mechanism


def _sum(epsilons: Iterable[float]) -> float:
    return add_up((1, epsilon) for epsilon in epsilons)


def _left(budget: float, spent: float) -> float:
    if math.isinf(budget) or math.isinf(spent):
        return math.inf if math.isinf(budget) else -math.inf
    return 0.0 - add_up([(1, spent), (-1, budget)])
