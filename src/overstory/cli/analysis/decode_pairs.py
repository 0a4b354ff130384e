"""``overstory decode --pair``: the table of two variables, from files of RAPPOR's public tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.analysis.association.linked import boolean_variable, filter_variable
from overstory.analysis.association.linked_filters import table_of_variables
from overstory.analysis.association.summary import ROW, TableSummary
from overstory.analysis.kinds.linked import apart
from overstory.analysis.tables.output import NOT_LISTED, unlike
from overstory.cli.output import show_answer
from overstory.files.rappor import BIT, pair_form, read_map, read_pair_counts, read_params
from overstory.presentation.document import Column, Table
from overstory.presentation.formats import epsilons_text, finite
from overstory.presentation.result import Result
from overstory.privacy.terms import add_up
from overstory.protocol.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from overstory.analysis.association.table import TableEstimate
    from overstory.analysis.decoding import CandidateMap
    from overstory.cli.analysis.decode import DecodeRequest
    from overstory.files.rappor import PairForm, RapporParameters
    from overstory.presentation.document import Block
    from overstory.protocol.kinds.bits import BitMechanism

BOOLEAN = ("true", "false")


@dataclass(frozen=True)
class PairAnswer(Result):
    """The table with what its reports cost."""

    name: ClassVar[str] = "table"
    every: ClassVar[str] = "cell"

    summary: TableSummary
    privacy: dict[str, Any]

    def as_table(self) -> Table:
        return Table("", tuple(map(Column, ROW)), list(self.summary.rows()))

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:  # noqa: ARG002 - all of it is shown
        return {**self.summary.to_json(), **self.privacy}

    def shown(self, *, everything: bool) -> Iterable[Block]:  # noqa: ARG002 - all of it is shown
        return self.summary.blocks()

    def sentences(self) -> Iterable[str]:
        return (f"privacy of both variables together: {epsilons_text(self.privacy)}",)

    def all_notes(self) -> Iterable[str]:
        return self.summary.table.notes


def run(request: DecodeRequest) -> int:
    """Read the table of two variables, from files of RAPPOR's public tools."""
    _check(request)
    assert request.params is not None
    assert request.counts is not None
    assert request.pair is not None
    parameters = read_params(request.params)
    mechanism = parameters.mechanism()
    form = pair_form(parameters, request.pair)
    table = _learned(request, request.counts, form, mechanism, _maps(request, parameters, form))
    show_answer(
        request.printing, PairAnswer(TableSummary(table, alpha=request.options.alpha), _privacy(mechanism, form))
    )
    return 0


def _check(request: DecodeRequest) -> None:
    has_bit = any(name.endswith(BIT) for name in request.pair or ())
    if len(request.maps) != (1 if has_bit else 2):
        problem = "one map: the other variable is one bit" if has_bit else "the map of each variable, in order"
        raise ParameterError(f"--map: give {problem}")
    if request.options.method == "lasso" or request.plot:
        raise ParameterError(f"{'--plot' if request.plot else '--method lasso'} does not apply to --pair")


def _maps(request: DecodeRequest, parameters: RapporParameters, form: PairForm) -> list[CandidateMap | None]:
    paths = iter(request.maps)
    shape: dict[str, Any] = {"num_bits": parameters.k, "num_hashes": parameters.h, "num_cohorts": parameters.m}
    return [None if width == 1 else read_map(next(paths), **shape) for width in form.widths]


def _labels(request: DecodeRequest, maps: list[CandidateMap | None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return each variable's values, and what strings outside the list are called."""
    named = [BOOLEAN if each is None else tuple(map(str, each.candidates)) for each in maps]
    for place, each in enumerate(maps):
        if each is not None and not request.options.complete:
            named[place] = (*named[place], unlike(NOT_LISTED, named[place]))
    return named[0], named[1]


def _learned(
    request: DecodeRequest, source: str, form: PairForm, mechanism: BitMechanism, maps: list[CandidateMap | None]
) -> TableEstimate:
    counts = apart(read_pair_counts(source, form), *form.widths)
    each = request.repeats
    variables = [
        boolean_variable(mechanism, supported, counts.totals, each)
        if given is None
        else filter_variable(mechanism, given, supported, counts.totals, each, complete=request.options.complete)
        for given, supported in zip(maps, (counts.first, counts.second), strict=True)
    ]
    return table_of_variables(
        (variables[0], variables[1]),
        counts,
        form.names,
        _labels(request, maps),
        reports_per_device=each,
        interval_kind=request.options.interval_kind or "population",
    )


def _privacy(mechanism: BitMechanism, form: PairForm) -> dict[str, Any]:
    """Return the epsilons of both variables together: the sums of theirs."""
    rounds, one_bit = mechanism.rounds, ((1, 0), (0, 1))
    reports, permanents = [], []
    for width in form.widths:
        is_boolean = width == 1
        reports.append(rounds.epsilon(one_bit) if is_boolean else mechanism.epsilon_report)
        permanents.append(rounds.epsilon_permanent(one_bit) if is_boolean else mechanism.epsilon_permanent)
    return {
        "epsilon_report": finite(add_up((1, epsilon) for epsilon in reports)),
        "epsilon_permanent": finite(add_up((1, epsilon) for epsilon in permanents)),
    }
