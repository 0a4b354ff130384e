"""Registries, readings and what was handed over, for the gateway's tests."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overstory.client.randomizer import randomizer_of
from overstory.client.state.files import StatePaths
from overstory.client.state.state import State
from overstory.client.upload.delivery import Collector
from overstory.client.upload.http import Request
from overstory.gateway.gateway import AT_ONCE, Gateway, Lines, Settings, replay
from overstory.gateway.readings import BadLine, Layout, Reading, read_lines
from overstory.protocol.metrics import Metric, MetricRegistry, parse_registry
from overstory.protocol.wire.upload import Upload, decode_batch
from support.collector_doubles import CountingCollector
from support.oblivious_receiver import hop
from support.registry_texts import registry_of

HALF_HOUR = 1800
START = 1_735_689_600  # 1 January 2025, UTC
FIRST = START // HALF_HOUR

BINS = '{kind = "bins", min = 0, max = 2, count = 20}'
METRICS = {
    "energy": {"oracle": '"opt-wb"', "parameters": "{epsilon = 1.0, window = 10}"},
    "fixed": {"oracle": '"sue"'},
    "capped": {
        "oracle": '"l-osue"',
        "parameters": "{epsilon_permanent = 3.0, epsilon_report = 1.0}",
        "max_values": "2",
        "over_cap": '"drop"',
    },
    "count": {"parameters": "{epsilon = 2.0}", "domain": '{kind = "integers", min = 0, max = 9}'},
    "mode": {"parameters": "{epsilon = 2.0}", "domain": '{kind = "categories", names = ["on", "off"]}'},
    "narrow": {
        "parameters": "{epsilon = 2.0}",
        "domain": '{kind = "bins", min = 0, max = 1, count = 4, outside = "reject"}',
    },
}
"""A metric with fresh noise, one that memoizes all of it, whole numbers, words, and one that refuses."""


def registry_text() -> str:
    about = {"domain": BINS, "period": '"30 minutes"', "window": "10", "retention_days": "365"}
    return registry_of(METRICS, **about, expires="2040-01-01")


REGISTRY: MetricRegistry = parse_registry(registry_text())


def metric(name: str = "energy") -> Metric:
    return REGISTRY[name]


def at(period: int, seconds: float = 0.0) -> float:
    """A time within a period, counted from the first."""
    return START + period * HALF_HOUR + seconds


def reading(period: int, value, seconds: float = 0.0) -> Reading:
    return Reading(1, at(period, seconds), value)


def fed(gateway: Gateway, periods: int) -> Gateway:
    """A gateway that has taken one reading of each of so many periods, and is at their end."""
    for period in range(periods):
        gateway.take(reading(period, 0.5))
    gateway.finish()
    return gateway


def year(periods: int) -> bytes:
    """A file of one reading a period: of a few distinct values."""
    lines = (f"{START + i * HALF_HOUR},{(i * 7 % 20) / 10 + 0.05:.2f}" for i in range(periods))
    return ("time,value\n" + "\n".join(lines) + "\n").encode()


def run(folder: Path, text: bytes, name: str = "energy", **choices):
    """Replay a file to the collector of a folder; return the summary, and the lines' under "lines"."""
    layout, lines = choices.pop("layout", Layout()), Lines("file")
    chosen = Settings(name, folder / "state", agree=choices.pop("agree", "on"), **choices)
    gateway = Gateway(REGISTRY, chosen, collector_in(folder), environ={})
    try:
        replay(gateway, read_lines(text.splitlines(keepends=True), layout, metric(name), "file"), lines)
        return {"lines": lines.to_json(), **gateway.summary()}
    finally:
        gateway.close()


collectors: dict[Path, CountingCollector] = defaultdict(CountingCollector)
"""What is there of the gateways of a folder, through restarts."""


def collector_in(folder: Path) -> Collector:
    return Collector("http://collector.example", collectors[folder], most_uploads=AT_ONCE)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The same collector over HTTP; gives its address."""

    def answer(heard):
        response = collectors[folder](Request("", heard.body, ""))
        return response.status, response.headers, response.body

    with hop(answer) as (url, _):
        yield url


def uploads(folder: Path) -> list[Upload]:
    """What was handed over, by period."""
    return sorted(collectors[folder].counted.values(), key=lambda upload: upload.period)


def device_of(folder: Path, name: str):
    """What randomizes the readings of a metric, from the state in a folder."""
    return randomizer_of(metric(name), State(StatePaths(folder / "state")).begin().key(name))


def bits(upload: Upload) -> int:
    (report,) = decode_batch(upload.reports)
    return report.bits


def items(text: str, name: str = "energy", **layout) -> list[Reading | BadLine]:
    raw = text.encode().splitlines(keepends=True)
    return list(read_lines(raw, Layout(**layout), metric(name), "file"))
