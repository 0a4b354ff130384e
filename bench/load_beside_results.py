"""How many posts a collector takes while somebody asks for long answers: `python bench/load_beside_results.py`.

The collector and the client are those of `load.py`. Beside them, a page of estimates near the largest answer there is
(650 half-hours of 100 values, 28 MB of JSON) is asked for again and again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np

from load import REGISTRY, SERVED, client_process, listening, memory, show
from overstory.analysis.oracle import FrequencyOracle
from overstory.collector.store import Received, open_store
from overstory.protocol.metrics import Metric, load_registry

PERIODS, VALUES = 650, 100

THEME = """
[metrics.theme]
title = "Theme"
description = "Which of many themes is used."
owner = "Load test"
purpose = "https://example.org/issues/1"
domain = {{kind = "categories", names = [{names}]}}
oracle = "oue"
parameters = {{epsilon = 1.0}}
period = "30 minutes"
window = 1000
retention_days = 90
expires = 2100-01-01
"""


def fill(url: str, metric: Metric) -> str:
    """Store 200 reports in each period; return an admin token."""
    sent = FrequencyOracle(metric.mechanism).simulate(np.arange(200) % VALUES, 1)
    columns = sent.num_bits, sent.num_cohorts, len(sent), sent.cohorts.tobytes(), sent.octets().tobytes()
    newest = metric.period.number(time.time())
    with open_store(url) as store:
        for period in range(newest - PERIODS + 1, newest + 1):
            about = metric.id, period, os.urandom(16), metric.mechanism.digest
            store.add([Received(*about, *columns, metric.accept_until(period), metric.period.start(period + 1))])
        store.compact(int(time.time()))
        return store.add_token("admin", "load")


def ask_again_and_again(address: tuple[str, int], token: str, stop: threading.Event) -> None:
    """Ask until told to stop, and print how long each answer took."""
    url = f"http://{address[0]}:{address[1]}/v1/metrics/theme/estimates?reading=per-period"
    while not stop.is_set():
        started = time.perf_counter()
        request = urllib.request.Request(url, headers={"authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            size = len(answer.read())
        print(f"an answer of {size / 1e6:.1f} MB took {time.perf_counter() - started:.1f} s")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    asked = {"reports": 1, "seconds": args.seconds, "connections": 64, "rate": None}
    with tempfile.TemporaryDirectory() as folder:
        registry, url = Path(folder, "metrics.toml"), str(Path(folder, "load.db"))
        registry.write_text(REGISTRY + THEME.format(names=", ".join(f'"v{number}"' for number in range(VALUES))))
        open_store(url, load_registry(registry), create=True).close()
        token = fill(url, load_registry(registry)["theme"])
        with listening([*SERVED, "--registry", str(registry), "--store", url]) as (address, process):
            client_process(address, registry, **asked | {"seconds": 1.0})
            for _ in range(args.repeats):
                alone = client_process(address, registry, **asked)
                show("alone", alone)
                stop = threading.Event()
                asking = threading.Thread(target=ask_again_and_again, args=(address, token, stop))
                asking.start()
                time.sleep(2.5)  # the process that decodes has started
                beside = client_process(address, registry, **asked)
                show(f"beside estimates, {memory(process):.0f} MiB", beside)
                print(f"{beside.rate / alone.rate:.2f} of the rate alone")
                stop.set()
                asking.join()


if __name__ == "__main__":
    main()
