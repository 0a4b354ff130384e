"""The device's half: which group it is in, and the one answer that it sends. Standard library only."""

from __future__ import annotations

from typing import Any, NamedTuple

from overstory.client.randomizer import Randomizer
from overstory.discovery.plans import Plan
from overstory.protocol.entropy import Entropy
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Report


class Answer(NamedTuple):
    """What leaves the device: its group (public) and a report for each of the group's questions."""

    group: int
    reports: tuple[Report, ...]


class Device:
    """One device in a collection by a plan.

    The group follows from the device's secret, not from the value, and is public. All that the device ever sends
    about one value costs the group's epsilon (`Plan.epsilon` bounds it): the permanent response is a function of the
    secret, so asking again repeats the answer. A second value costs as much again, and so does another plan.

    Parameters
    ----------
    plan
        The same as the server's.
    secret
        At least 16 bytes, the device's own.
    metric
        The metric's id.
    group
        Only where the group was assigned elsewhere.
    built_with
        The plan that the program was built with: one that comes later, from a server, may protect more, never less.
    entropy
        Where fresh bits come from, for oracles with a second round; the operating system unless given.

    Raises
    ------
    ParameterError
        When the secret is too short, the metric has no name, the group does not exist, or the plan reveals more than
        `built_with`.

    Examples
    --------
    >>> from overstory.discovery.protocols import prefix_extension
    >>> device = Device(prefix_extension(epsilon=2.0), secret=b"sixteen bytes...", metric="crash-address")
    >>> device.answer(0x1234) == device.answer(0x1234)
    True
    """

    def __init__(
        self,
        plan: Plan,
        *,
        secret: bytes,
        metric: str,
        group: int | None = None,
        built_with: Plan | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        if not isinstance(metric, str) or not metric:
            raise ParameterError(f"metric = {metric!r}: give the metric's id, a string that is not empty")
        if built_with is not None and plan.epsilon > built_with.epsilon:
            raise ParameterError(
                f"the plan offered has epsilon {plan.epsilon:.6g}, above the {built_with.epsilon:.6g} that "
                "this program was built with; a weaker collection needs a new metric and a new consent"
            )
        if group is not None and not 0 <= group < len(plan.groups):
            raise ParameterError(f"group {group} does not exist: the plan has groups 0 .. {len(plan.groups) - 1}")
        self.plan = plan
        self.group = plan.group_of(secret, metric) if group is None else group
        self._asked = [
            (
                question,
                Randomizer(question.mechanism, secret=secret, metric=f"{metric}/{question.name}", entropy=entropy),
            )
            for question in plan.groups[self.group].questions
        ]

    @property
    def epsilon(self) -> float:
        """Of all that this device sends about one value, exactly, rounded up."""
        return self.plan.groups[self.group].epsilon

    def answer(self, value: Any) -> Answer:
        """Return what is sent for `value`.

        Raises
        ------
        ParameterError
            When the value is outside the domain.
        """
        code = self.plan.domain.code(value)
        reports = (
            randomizer.report(question.value(self.plan.held(question, code))) for question, randomizer in self._asked
        )
        return Answer(self.group, tuple(reports))
