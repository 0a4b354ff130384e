"""The device's half: which group it is in, and the one answer that it sends. Standard library only."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from overstory.client.offers import Offer, OfferLedger
from overstory.client.outcomes import ConsentError
from overstory.client.randomizer import Randomizer
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.base import Report
from overstory.protocol.sampling import Entropy, check_secret, context
from overstory.protocol.search.plans import Plan

NOTHING: Final = b"nothing"
"""The tag of the answer of a device that has no value."""


class Answer(NamedTuple):
    """What leaves the device: its group (public) and a report for each of the group's questions.

    Attributes
    ----------
    group
        The device's group, from 0; it is public.
    reports
        One report for each question of the group, in order.
    """

    group: int
    reports: tuple[Report, ...]


class Device:
    """One device in a collection by a plan.

    The group follows from the device's secret, not from the value, and is public. All that the device ever sends
    about one value costs the group's epsilon (`Plan.epsilon` bounds it): the permanent response is a function of the
    secret, so asking again repeats the answer. A second value costs as much again, and so does another plan; the ledger
    charges both, and where they would pass its limit, by default one value's, the first answer is repeated.

    Parameters
    ----------
    plan
        The plan of the collection, equal to the server's.
    secret
        At least 16 bytes, the device's own.
    metric
        The metric's id: two metrics have independent groups and responses.
    consented
        Whether the person has agreed to this collection; or what says so, asked before every answer.
    group
        Only where the group was assigned elsewhere.
    built_with
        The plan that the program was built with: one that comes later, from a server, may protect more, never less.
        Another plan than this is refused unless there is a ledger.
    ledger
        What was answered so far, over plans, groups and values; give one with a file, or a restart forgets it.
    entropy
        Where fresh bits come from, for oracles with a second round; the operating system unless given.

    Raises
    ------
    ParameterError
        When the secret is too short, the metric has no name, the group does not exist, or the plan reveals more than
        `built_with`, or together with plans before it more than the ledger allows.

    Examples
    --------
    >>> from overstory.protocol.search.protocols import prefix_extension
    >>> plan = prefix_extension(epsilon=2.0)
    >>> device = Device(plan, secret=b"sixteen bytes...", metric="crash-address", consented=True)
    >>> device.answer(0x1234) == device.answer(0x1234) == device.answer(0x5678), round(device.spent, 4)
    (True, 2.0)
    """

    def __init__(
        self,
        plan: Plan,
        *,
        secret: bytes,
        metric: str,
        consented: bool | Callable[[], bool],
        group: int | None = None,
        built_with: Plan | None = None,
        ledger: OfferLedger | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not isinstance(metric, str) or not metric:
            raise ParameterError(f"metric = {metric!r}: give the metric's id, a string that is not empty")
        if not isinstance(consented, bool) and not callable(consented):
            raise ParameterError(f"consented = {consented!r}: give True or False, or a function that says so")
        if built_with is not None:
            _refuse_other(plan, built_with, has_ledger=ledger is not None)
        if group is not None and not 0 <= group < len(plan.groups):
            raise ParameterError(f"group {group} does not exist: the plan has groups 0 .. {len(plan.groups) - 1}")
        self.plan = plan
        self.group = plan.group_of(secret, metric) if group is None else group
        self._secret, self._metric, self._consented = check_secret(secret), metric, consented
        self._ledger = OfferLedger() if ledger is None else ledger
        self._most = (built_with or plan).epsilon
        self._digest = hashlib.blake2b(context(plan.digest, self.group), digest_size=16, person=b"plan").digest()
        self._asked = [
            (
                question,
                Randomizer(question.mechanism, secret=secret, metric=f"{metric}/{question.name}", entropy=entropy),
            )
            for question in plan.groups[self.group].questions
        ]
        limit = self._most if self._ledger.limit is None else self._ledger.limit
        if not self._mine and self.spent + self.epsilon > limit:
            raise ParameterError(
                f"{metric}: what was answered so far costs epsilon {self.spent:.6g}, and an answer by this plan "
                f"({self.epsilon:.6g} more) would pass the ledger's limit, {limit:.6g}"
            )

    @property
    def epsilon(self) -> float:
        """Of all that this device sends about one value by this plan, exactly, rounded up."""
        return self.plan.groups[self.group].epsilon

    @property
    def spent(self) -> float:
        """Of all that the ledger has of this device and metric: of all plans, groups and values, rounded up."""
        return self._ledger.spent(self._secret, self._metric)

    def answer(self, value: Any) -> Answer:
        """Return what is sent for `value`: where it would be one too many for the ledger, the first answer again.

        A value without a code (too long, of other characters) is answered as "elsewhere", and all such values are one:
        silence would show that it is outside.

        Raises
        ------
        ConsentError
            When the person has not agreed.
        ParameterError
            When the value is of the wrong kind, or has no code and the question is about one bit of it.
        """
        self._check_consent()
        code = self.plan.code_of(value)
        hashed = hashlib.blake2b(context(self._metric, self._digest, str(code)), digest_size=16, key=self._secret)
        return self._sent(
            hashed.digest(),
            [device.permanent(question.value(self.plan.held(question, code))) for question, device in self._asked],
        )

    def nothing(self) -> Answer:
        """Return what a device sends that has no value, or one outside the domain: it is charged like a value.

        Raises
        ------
        ConsentError
            When the person has not agreed.
        """
        self._check_consent()
        return self._sent(NOTHING, [device.nothing() for _, device in self._asked])

    def _check_consent(self) -> None:
        agreed = self._consented() if callable(self._consented) else self._consented
        if agreed is not True:
            raise ConsentError(f"{self._metric}: the person has not agreed to this collection; nothing is answered")

    @property
    def _mine(self) -> list[Offer]:
        return [offer for offer in self._ledger.offers(self._secret, self._metric) if offer.digest == self._digest]

    def _sent(self, tag: bytes, permanent: list[int]) -> Answer:
        """Charge the permanent responses, or take the first that were charged; return an answer of them."""
        charged = self._ledger.charge(
            self._secret,
            self._metric,
            self._digest,
            self.epsilon,
            most=self._most,
            tag=tag,
            answer=() if self._mine else permanent,
        )
        if not charged:
            before = self._mine
            if not before:
                raise ParameterError(
                    f"{self._metric}: other plans have used up the ledger's limit; nothing is answered"
                )
            permanent = list(before[0].answer)
        reports = (device.report_of(held) for (_, device), held in zip(self._asked, permanent, strict=True))
        return Answer(self.group, tuple(reports))


def _refuse_other(plan: Plan, built_with: Plan, *, has_ledger: bool) -> None:
    if plan.epsilon > built_with.epsilon:
        raise ParameterError(
            f"the plan offered has epsilon {plan.epsilon:.6g}, above the {built_with.epsilon:.6g} that "
            "this program was built with; a weaker collection needs a new metric and a new consent"
        )
    if plan.digest != built_with.digest and not has_ledger:
        raise ParameterError(
            "the plan offered is not the one that this program was built with; every further plan adds up, so give "
            "ledger=OfferLedger(file) to keep account of them"
        )
