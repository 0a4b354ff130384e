"""The inputs and the output of the person's commands."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from overstory.client.state.paths import StatePaths, policy_file

if TYPE_CHECKING:
    from overstory.client.consent.policy import EffectiveChoice
    from overstory.protocol.metrics import MetricRegistry


@dataclass(frozen=True)
class CommandContext:
    """The application, its state and registry, and the output of one command."""

    name: str | None  # the application; None where neither the person nor the state names it
    paths: StatePaths  # the state
    registry: MetricRegistry  # the metrics; empty where none were given and the program stored none
    environ: Mapping[str, str]  # the environment
    out: TextIO  # where to write
    no_registry: str | None = None  # why there is no registry; None where there is one

    def say(self, *lines: str) -> None:
        """Write lines, without terminal control characters."""
        from overstory.presentation.streams import printable

        for line in lines:
            self.out.write(f"{printable(line)}\n")

    def say_json(self, content: Any) -> None:
        """Write JSON."""
        self.out.write(f"{json.dumps(content, indent=2, allow_nan=False)}\n")

    @property
    def effective(self) -> EffectiveChoice:
        """What may be done now, and why."""
        from overstory.client.consent.policy import effective

        return effective(self.paths, self.environ, policy_file(self.environ))
