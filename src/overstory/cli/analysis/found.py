"""What a search of reports found, of simulated devices or in files; and a list of candidates that grows."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from overstory.analysis.tables.output import file_columns
from overstory.presentation.document import Column, Lines, Table
from overstory.presentation.formats import plural
from overstory.presentation.result import Result

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from overstory.discovery import Discovered, Plan
    from overstory.presentation.document import Block


@dataclass(frozen=True, eq=False)
class FoundValues(Result):
    """What was found, by which plan."""

    name: ClassVar[str] = "search"

    plan: Plan
    found: Discovered

    def as_table(self) -> Table:
        columns = (*file_columns(adjustment=self.found.adjustment), Column("source"))
        return Table("", columns, self.found.rows(everything=True))

    def to_json(self, *, everything: bool = True) -> dict[str, Any]:
        """Return the values, unless `everything` the detected ones alone, and the plan."""
        plan = self.plan
        about = {
            **plan.domain.canonical(),
            "beam": plan.beam,
            "levels": [level.num_bits for level in plan.levels],
            "shares": list(plan.shares),
            "known": len(plan.known),
        }
        return {**self.found.to_json(everything=everything), "plan": about}

    def shown(self, *, everything: bool) -> Iterable[Block]:
        return self.found.shown(everything=everything)

    def sentences(self) -> Iterator[str]:
        cost = f"each device answered one of {plural(len(self.plan.questions), 'question')}, once, and revealed in all"
        yield from self.found.sentences(plural(self.found.num_reports, "report"), "reports", cost)
        yield from self.found.notes


def offer_candidates(path: str, discovered: Discovered) -> list[Block]:
    """Write the candidates that a file has, and the detected values after them; return what to say of it."""
    from overstory.files.rappor import read_candidates, write_candidates
    from overstory.queries.searches import merged_candidates

    before = read_candidates(path) if Path(path).exists() and Path(path).stat().st_size else []
    after = merged_candidates(before, discovered)
    if not after:
        print(f"overstory: nothing was detected: {path} is not written", file=sys.stderr)
        return []
    write_candidates(path, after)
    more = f", {len(after) - len(before):,} of them new" if before else ""
    return [Lines(f"{plural(len(after), 'candidate')} in {path}{more}")]
