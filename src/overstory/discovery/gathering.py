"""From single devices' answers to the batches that the search reads."""

from __future__ import annotations

from collections.abc import Iterable

from overstory.analysis.reports import ReportBatch
from overstory.discovery.device import Answer
from overstory.discovery.plans import Plan
from overstory.discovery.simulating import GroupReports
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.mechanism import Report


def gather(plan: Plan, answers: Iterable[Answer]) -> tuple[GroupReports, ...]:
    """Return the answers group by group, question by question.

    Raises
    ------
    ParameterError
        When an answer's group does not exist, or it holds another number of reports than the group has questions.
    """
    columns: list[list[list[Report]]] = [[[] for _ in group.questions] for group in plan.groups]
    for number, answer in enumerate(answers):
        if not 0 <= answer.group < len(columns):
            raise ParameterError(f"answer {number}: group {answer.group} does not exist")
        if len(answer.reports) != len(columns[answer.group]):
            raise ParameterError(
                f"answer {number}: {len(answer.reports)} reports, {len(columns[answer.group])} asked for"
            )
        for column, report in zip(columns[answer.group], answer.reports, strict=True):
            column.append(report)
    return tuple(
        tuple(ReportBatch.of(q.mechanism, column) for q, column in zip(group.questions, own, strict=True))
        for group, own in zip(plan.groups, columns, strict=True)
    )
