"""An address for each screen of the console and each state that it can show: with data, empty, ended."""

from __future__ import annotations

from typing import Final

from overstory.console.app import SCREENS
from overstory.console.view import Screen
from overstory.protocol.metrics import MetricRegistry
from support.console_in_process import HostileScreen
from support.console_store import NOW

ALL: Final[tuple[Screen, ...]] = (HostileScreen(), *SCREENS)
"""The screens, after one in which every word is hostile."""

METRICS: Final = ("theme", "start", "home", "over", "quiet")


def addresses(screen: Screen, registry: MetricRegistry) -> list[str]:
    """Return the addresses of a screen: one, or one for each metric, in the newest period that is over."""
    if "{" not in screen.path:
        return [screen.path]
    filled = []
    for name in METRICS:
        period = registry[name].period
        label = period.label(period.number(NOW) - (10 if name == "over" else 1))
        filled.append(screen.path.replace("{metric}", name).replace("{period}", label))
    return filled
