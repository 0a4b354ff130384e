"""What reading costs a collector: its rate while browsers reload the console's heaviest page, over its rate alone.

A real `overstory serve` and a real `overstory console` on one store, each a process. `--browsers` readers ask for the
page of one period with 300 candidates again, a second after each answer: of yesterday, with 20,000 reports, or with
`--running` of the day that takes the reports, where every page counts what has just come and decodes it anew.
Rounds with and without readers take turns, so that the machine's other work falls on both. Where no
processor is idle, the ratio says how two processes share one.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from load import REGISTRY, SERVED, client_process, listening
from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import Received, open_store
from overstory.protocol.metrics import Metric, load_registry

PAUSE = 1.0
CANDIDATES = 300
CONSOLE = [sys.executable, "-m", "overstory", "console", "--port", "0"]


class Browser(threading.Thread):
    """Reloads a page until it is told to end."""

    def __init__(self, address: str, token: str) -> None:
        super().__init__(daemon=True)
        self._request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
        self.statuses: Counter[int] = Counter()
        self._end = threading.Event()

    def run(self) -> None:
        """Reload it."""
        while not self._end.is_set():
            try:
                with urllib.request.urlopen(self._request, timeout=60) as answer:
                    answer.read()
                    self.statuses[answer.status] += 1
            except urllib.error.HTTPError as error:
                self.statuses[error.code] += 1
            self._end.wait(PAUSE)

    def end(self) -> None:
        """Let the page under way be the last."""
        self._end.set()
        self.join()


@contextmanager
def serving(folder: Path, *, running: bool) -> Iterator[tuple[tuple[str, int], str, str]]:
    """Yield a collector's address, the address of the console's page, and a token that may read it."""
    names = "".join(f"https://page-{number}.example/\n" for number in range(CANDIDATES))
    (folder / "pages.txt").write_text(names, "utf-8")
    registry, store = folder / "metrics.toml", str(folder / "load.db")
    text = REGISTRY.replace('{kind = "strings"}', '{kind = "strings", candidates = "pages.txt"}')
    registry.write_text(text, "utf-8")
    with open_store(store, create=True) as opened:
        token = opened.add_token("viewer", "bench")
        metric = load_registry(registry)["homepage"]
        today = metric.period.number(time.time())
        opened.add([yesterday(metric, today - 1)])
        opened.compact(time.time())
    given = ["--registry", str(registry), "--store", store]
    with listening([*SERVED, *given]) as (collector, _), listening_console([*CONSOLE, *given]) as console:
        yield collector, f"{console}/m/homepage/{metric.period.label(today if running else today - 1)}", token


def yesterday(metric: Metric, period: int) -> Received:
    """Return 20,000 reports of a period."""
    rng = np.random.default_rng(1)
    held = rng.integers(0, CANDIDATES, 20_000)
    batch = FrequencyOracle(metric.mechanism).simulate(held, rng, candidates=metric.labels)
    return Received(
        metric=metric.id,
        period=period,
        batch=bytes(16),
        digest=metric.mechanism.digest,
        num_bits=batch.num_bits,
        num_cohorts=batch.num_cohorts,
        num_reports=len(batch),
        cohorts=batch.cohorts.tobytes(),
        bits=batch.octets().tobytes(),
        forget_after=metric.accept_until(period),
        ends=metric.period.start(period + 1),
    )


@contextmanager
def listening_console(command: list[str]) -> Iterator[str]:
    """Run a console; yield its address."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1].partition("/login")[0]
        process.terminate()
        process.wait(60)


def main() -> None:
    """Print the rates and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--browsers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--running", action="store_true")
    args = parser.parse_args()
    pages: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as name, serving(Path(name), running=args.running) as (collector, page, token):
        asked = {"reports": 1, "seconds": args.seconds, "connections": 16, "rate": None}
        registry = Path(name) / "metrics.toml"
        client_process(collector, registry, **asked)  # warm
        rates: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(args.rounds):
            for has_browsers in (False, True, True, False):
                browsers = [Browser(page, token) for _ in range(args.browsers if has_browsers else 0)]
                for browser in browsers:
                    browser.start()
                rates[has_browsers].append(client_process(collector, registry, **asked).rate)
                for browser in browsers:
                    browser.end()
                    pages += browser.statuses
    alone, beside = (statistics.median(rates[has_browsers]) for has_browsers in (False, True))
    shown = ", ".join(f"{number} with status {status}" for status, number in sorted(pages.items()))
    for words, found in (("alone", rates[False]), (f"beside {args.browsers} browsers", rates[True])):
        print(f"{words}: {', '.join(f'{rate:,.0f}' for rate in found)} requests/s")
    print(f"ratio of medians {beside / alone:.0%}; pages: {shown}")


if __name__ == "__main__":
    main()
