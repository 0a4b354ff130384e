"""What several screens say of a metric: what it costs a person, the smallest share that shows, what a page rests on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from overstory.analysis.selection import ADJUSTMENTS
from overstory.planning.detection import required_sample_size, smallest_share
from overstory.presentation.document import Field, Links
from overstory.presentation.formats import epsilon_text, percent
from overstory.privacy.registry.cost import metric_cost
from overstory.protocol.errors import ParameterError
from overstory.protocol.metrics.period import DAY

if TYPE_CHECKING:
    from overstory.analysis.selection import Adjustment
    from overstory.console.data import ConsoleData
    from overstory.protocol.kinds.base import Mechanism
    from overstory.protocol.metrics import Metric

YEAR: Final = 365 * DAY
NO_DIMENSIONS: Final = (
    "A report holds nothing but its value: what goes together with it (a platform, a version) cannot be looked up "
    "afterwards. To learn it, collect a metric of the pair, or give the metric groups."
)


def metric_links(data: ConsoleData, metric: Metric, current: str, period: str = "") -> Links:
    """Return the screens of a metric: that of its newest period with reports, and that of the period that is shown."""
    path = f"/m/{metric.id}"
    labels = [metric.period.label(newest) for newest in data.store.periods(metric.id)[-1:]]
    labels += [period] if period and period not in labels else []
    places = (("Over time", path), *((label, f"{path}/{label}") for label in labels))
    return Links(metric.title, (*places, ("Compare", f"{path}/compare"), ("Privacy", f"{path}/privacy")), current)


@lru_cache(maxsize=256)
def epsilons(metric: Metric) -> tuple[tuple[str, str], ...]:
    """Return what one report, one value and a year of reports cost a person at most."""
    lines = {line.kind: line.epsilon for line in metric_cost(metric).lines}
    a_year = metric_cost(metric, max(1, YEAR // metric.period.seconds)).headline
    return (
        ("Epsilon, one report", epsilon_text(lines["report"])),
        ("Epsilon, one value", epsilon_text(metric.mechanism.epsilon_permanent)),
        ("Epsilon, a year", epsilon_text(a_year.epsilon)),
    )


@lru_cache(maxsize=4096)
def share_that_shows(mechanism: Mechanism, people: int, candidates: int, alpha: float = 0.05) -> str:
    """Return the smallest share that so many people show nine times in ten, in words."""
    try:
        share = smallest_share(mechanism, people, max(candidates, 1), alpha=alpha)
    except ParameterError:
        share = None
    return "none" if share is None else percent(share)


@lru_cache(maxsize=4096)
def people_for(mechanism: Mechanism, share: float, candidates: int, alpha: float = 0.05) -> str:
    """Return the number of people with whom a share shows nine times in ten, in words."""
    try:
        return f"{required_sample_size(mechanism, share, max(candidates, 1), alpha=alpha):,} devices"
    except ParameterError as error:
        return str(error)


def state_words(data: ConsoleData, metric: Metric, period: int) -> str:
    """Say whether a period is running, settling or final, and until when."""
    state = data.state(metric, period)
    if state == "running":
        return f"running until {_day(metric.period.start(period + 1))}"
    return "final" if state == "final" else f"over; final from {_day(metric.final_from(period))}"


def sentence(note: str) -> str:
    """Return a note of an estimate as a page's sentence: what the command line calls by an option is a field here."""
    words = note.replace("--reports-per-device", "“Reports per device”")
    return f"{words[:1].upper()}{words[1:]}."


def _day(unix_time: float) -> str:
    return f"{dt.datetime.fromtimestamp(unix_time, dt.UTC):%Y-%m-%d %H:%M} UTC"


ADJUSTMENT_NAMES: Final[Mapping[Adjustment, str]] = {
    "fcr": "wider",
    "conditional": "given that they were {0}",
    "none": "plain",
}


def number_field(
    name: str, label: str, value: float | None, least: float, most: float | None, step: float | None, hint: str = ""
) -> Field:
    """Return a field that asks for a number; None is an empty one."""
    text = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return Field(name, label, text, "number", least=least, most=most, step=step, hint=hint)


def adjustment_field(chosen: Adjustment, selected: str = "detected") -> Field:
    """Return the field that asks for the intervals of selected values."""
    choices = tuple((adjustment, ADJUSTMENT_NAMES[adjustment].format(selected)) for adjustment in ADJUSTMENTS)
    hint = f"They were chosen because they are {selected}: plain ones are too short."
    return Field("adjustment", f"Intervals of {selected} values", chosen, "choice", choices, hint=hint)
