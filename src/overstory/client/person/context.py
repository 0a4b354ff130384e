"""What a command of the person's works on."""

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
class Setting:
    """What a command works on."""

    name: str | None  # the application; None where neither the person nor the state names it
    paths: StatePaths  # the state
    registry: MetricRegistry  # the metrics at hand; empty where none were given and the program left none
    environ: Mapping[str, str]  # the environment
    out: TextIO  # where to write
    no_registry: str | None = None  # why there are no metrics at hand; None where there are

    def say(self, *lines: str) -> None:
        """Write lines, without anything that could steer a terminal."""
        from overstory.presentation.streams import printable

        for line in lines:
            self.out.write(f"{printable(line)}\n")

    def say_json(self, told: Any) -> None:
        """Write JSON."""
        self.out.write(f"{json.dumps(told, indent=2, allow_nan=False)}\n")

    @property
    def effective(self) -> EffectiveChoice:
        """What may be done now, and why."""
        from overstory.client.consent.policy import effective

        return effective(self.paths, self.environ, policy_file(self.environ))
