"""Each estimate is decoded once, by another process, within a time limit; the results are those of `read_estimates`."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from overstory.console import data as estimates_module
from overstory.console.data import BoundedCache, Estimates, Task, Worker, WorkerError, counts_key, shared_digest
from overstory.console.view import Screen, ScreenError, View
from overstory.presentation.document import Heading
from overstory.protocol.errors import ParameterError
from overstory.queries.estimates import read_estimates
from overstory.queries.readings import PLAIN, EstimateOptions
from support.console_in_process import client_of, console_on, open_test_store
from support.console_weeks import registry, weeks

METRICS = registry()


def task(work, *values):
    return Task(b"", lambda: partial(work, *values))


@pytest.fixture
def estimates():
    made = Estimates(patience=60.0)
    yield made
    made.close()


def read(estimates, counted, reading="total", options=PLAIN):
    [series] = estimates.read_all([counted], reading, options)
    return series


def same(a, b):
    assert a.summary() == b.summary()
    assert list(a.csv_lines()) == list(b.csv_lines())


@pytest.mark.parametrize("reading", ["total", "per-period", "cumulative"])
@pytest.mark.parametrize("metric", ["pages", "theme"])
def test_the_numbers_are_those_of_read_estimates(estimates, metric, reading):
    counted = weeks(METRICS[metric], 4)
    options = EstimateOptions(alpha=0.1, correction="bonferroni", interval_kind="reports")
    for _ in range(2):
        same(read(estimates, counted, reading, options), read_estimates(counted, reading, options))
    decoded = {"total": 1, "per-period": 4, "cumulative": 4}[reading]
    assert estimates.decoded == (decoded if metric == "pages" else 0)


def test_a_new_week_decodes_one_week(estimates):
    counted = weeks(METRICS["pages"], 6)
    fewer = replace(counted, last=counted.last - 1, counts={p: counted.counts[p] for p in counted.periods[:-1]})
    read(estimates, fewer, "per-period")
    assert estimates.decoded == 5
    read(estimates, counted, "per-period")
    assert estimates.decoded == 6


def test_other_choices_candidates_or_counts_are_decoded_again(estimates):
    counted = weeks(METRICS["pages"], 1)
    for options in (
        EstimateOptions(),
        EstimateOptions(alpha=0.2),
        EstimateOptions(candidates=("page1", "page2")),
        EstimateOptions(candidates=("page1page2",)),
        EstimateOptions(method="lasso"),
    ):
        same(read(estimates, counted, "total", options), read_estimates(counted, "total", options))
    assert estimates.decoded == 5
    more = replace(counted, counts={p: counts + counts for p, counts in counted.counts.items()})
    read(estimates, more)
    assert estimates.decoded == 6


def test_one_decoding_however_many_ask(estimates):
    counted, results = weeks(METRICS["pages"], 3), []
    threads = [
        threading.Thread(target=lambda: results.append(read(estimates, counted, "per-period"))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    assert estimates.decoded == 3


def test_a_page_that_waits_too_long_asks_again_and_the_work_goes_on():
    estimates = Estimates(patience=0.0)
    counted = weeks(METRICS["pages"], 3)
    with pytest.raises(ScreenError, match=r"decoding: \d of 3 estimates are ready") as early:
        read(estimates, counted, "per-period")
    assert (early.value.status, early.value.refresh) == (202, 1)
    end = time.monotonic() + 60
    while True:
        try:
            same(read(estimates, counted, "per-period"), read_estimates(counted, "per-period"))
            break
        except ScreenError:
            assert time.monotonic() < end
            time.sleep(0.05)
    assert estimates.decoded == 3
    estimates.close()


def test_an_estimate_over_its_time_limit_is_stopped_and_the_next_one_works(estimates):
    estimates.worker = Worker(0.001)
    counted = weeks(METRICS["pages"], 1)
    with pytest.raises(WorkerError, match=r"longer than 0\.001 seconds"):
        read(estimates, counted)
    assert estimates.worker.pid is None, "the process has ended"
    with pytest.raises(WorkerError, match="longer"):
        read(estimates, counted)
    assert estimates.decoded == 1, "and not tried again at once"
    estimates.worker = Worker()
    same(read(estimates, counted, "per-period"), read_estimates(counted, "per-period"))
    estimates.worker.close()


def test_a_process_that_dies_is_started_again(estimates):
    read(estimates, weeks(METRICS["pages"], 1))
    first = estimates.worker.pid
    os.kill(first, signal.SIGKILL)
    read(estimates, weeks(METRICS["pages"], 1, seed=2))
    assert estimates.worker.pid != first
    with pytest.raises(WorkerError, match="ended without a word"):
        estimates.worker.estimate(task(os._exit, 9))
    assert estimates.worker.estimate(task(abs, -1))[0] == 1


def test_a_process_that_computes_is_killed_when_the_console_ends():
    worker = Worker()
    worker.estimate(task(abs, -1))
    [process] = (child for child in multiprocessing.active_children() if child.pid == worker.pid)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(worker.estimate, task(time.sleep, 600))
        time.sleep(0.1)
        worker.close()
        with pytest.raises(WorkerError):
            asked.result(10)
    until_ended(process.pid)


def until_ended(pid):
    """Wait for the end of a process by its number: which thread learns its exit code is a race."""
    end = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_process_that_is_stopped_and_cannot_end_itself_is_killed(monkeypatch):
    monkeypatch.setattr(estimates_module, "SLACK", 0.5)
    worker = Worker(1.0)
    worker.estimate(task(abs, -1))
    stopped = worker.pid
    os.kill(stopped, signal.SIGSTOP)
    with pytest.raises(WorkerError, match="longer than 1 seconds"):
        worker.estimate(task(abs, -2))
    until_ended(stopped)
    assert worker.estimate(task(abs, -3))[0] == 3
    worker.close()


def test_what_failed_late_is_not_tried_again_at_once_and_too_many_failures_are_forgotten(estimates, monkeypatch):
    """Four are asked for together and fail one after the other: each is forgiven by the time of its own failure."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)

    def fail(*_):
        clock.now += 90.0
        raise WorkerError("too long")

    monkeypatch.setattr(estimates_module, "time", clock)
    monkeypatch.setattr(Worker, "estimate", fail)
    counted = weeks(METRICS["pages"], 4)
    for _ in range(2):
        with pytest.raises(WorkerError, match="too long"):
            read(estimates, counted, "per-period")
    assert estimates.decoded == 4
    monkeypatch.setattr(estimates_module, "MOST_WAITING", 3)
    with pytest.raises(WorkerError):
        read(estimates, counted, "per-period")
    assert (estimates.decoded, len(estimates._failed), len(estimates._futures)) == (5, 4, 4)


@pytest.mark.parametrize("error", [MemoryError(), OSError("no process"), KeyError("x")])
def test_no_error_ends_the_thread_that_decodes(estimates, monkeypatch, error):
    def fail(*_):
        raise error

    with monkeypatch.context() as unlucky:
        unlucky.setattr(Worker, "estimate", fail)
        with pytest.raises(WorkerError, match=type(error).__name__):
            read(estimates, weeks(METRICS["pages"], 1))
    counted = weeks(METRICS["pages"], 1, seed=2)
    same(read(estimates, counted), read_estimates(counted))


def test_a_closed_worker_starts_no_process_for_what_still_waits():
    """The thread that decodes may take its next estimate while the console ends."""
    estimates = Estimates(patience=None)
    estimates.worker.close()
    with pytest.raises(WorkerError):
        read(estimates, weeks(METRICS["pages"], 1, seed=4))
    assert estimates.worker.pid is None
    estimates.close()


CONSOLE = """
import os
from functools import partial
from overstory.console.data import Task, Worker

if __name__ == "__main__":
    worker = Worker()
    worker.estimate(Task(b"", lambda: partial(abs, -1)))
    print(worker.pid, flush=True)
    os.kill(os.getpid(), 9)
"""


def test_the_process_ends_when_its_console_is_killed(tmp_path):
    (tmp_path / "console.py").write_text(CONSOLE)
    ran = subprocess.run([sys.executable, tmp_path / "console.py"], stdout=subprocess.PIPE, timeout=60, check=False)
    until_ended(int(ran.stdout))


def is_running(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_what_does_not_fit_is_refused_with_a_reason(estimates, monkeypatch):
    counted = weeks(METRICS["pages"], 1)
    with pytest.raises(ParameterError, match="has no candidates"):
        read(estimates, replace(counted, metric=replace(counted.metric, candidates=None)))
    monkeypatch.setattr(estimates_module, "MOST_CANDIDATES", 29)
    with pytest.raises(ParameterError, match="overstory decode --registry FILE --store URL --metric pages"):
        read(estimates, weeks(METRICS["pages"], 1))
    monkeypatch.setattr(estimates_module, "MOST_CANDIDATES", 100)
    monkeypatch.setattr(estimates_module, "MOST_WAITING", 3)
    with pytest.raises(ScreenError, match="4 estimates would have to be decoded, and 0 wait already") as busy:
        read(estimates, weeks(METRICS["pages"], 4), "per-period")
    assert busy.value.status == 503
    assert estimates.decoded == 0


def test_the_cache_is_bounded_and_drops_what_was_not_used():
    counted = weeks(METRICS["theme"], 5)
    cache = BoundedCache(most_bytes=5_000)
    parts = read_estimates(counted, "per-period").parts
    shared = shared_digest(counted.metric, EstimateOptions(), counted.metric.labels)
    keys = [counts_key(shared, 1.0, counted.counts[part.first]) for part in parts]
    assert len(set(keys)) == 5
    for key, part in zip(keys, parts, strict=True):
        cache.put(key, part.estimate, 2_000)
        cache.get(keys[0])
    assert [cache.get(keys[place]) is not None for place in (0, 3, 4)] == [True, False, True]
    assert cache.size <= 5_000
    cache.put(b"large", parts[0].estimate, 5_001)
    assert cache.get(b"large") is None


@pytest.mark.slow
def test_two_years_of_300_candidates_fit_into_the_cache(estimates):
    metrics = registry(300)
    counted = weeks(metrics["pages"], 104)
    read(estimates, counted, "per-period")
    begin = time.perf_counter()
    series = read(estimates, counted, "per-period")
    assert time.perf_counter() - begin < 1.0
    assert len(series.parts) == 104
    assert 0 < estimates.cache.size < 64 << 20


def test_estimates_of_one_list_share_it(estimates):
    series = read(estimates, weeks(METRICS["pages"], 3), "per-period")
    assert len({id(part.estimate.values) for part in series.parts}) == 1
    assert np.isfinite(series.parts[0].estimate.standard_errors).all()


def show_slowly(data, _):
    data.read(weeks(METRICS["pages"], 2), "per-period")
    return View("Ready", (Heading(1, "Ready"),))


def test_a_page_that_decodes_says_so_and_asks_again_until_it_is_ready(tmp_path):
    with open_test_store(tmp_path) as store:
        console = console_on(store, screens=[Screen("Slow", "/slow", show_slowly, viewer=None)])
        console.data.decoder.patience = 0.0
        client = client_of(console)
        first, answer = client.get("/slow"), client.get("/slow.json")
        assert (first.status_code, first.headers["refresh"], first.headers["retry-after"]) == (202, "1", "1")
        assert "Decoding</h1>" in first.text
        assert re.search(r"ecoding: [0-2] of 2 estimates are ready\.", first.text)
        assert (answer.status_code, answer.json()["title"]) == (202, "Decoding")
        end = time.monotonic() + 60
        while (last := client.get("/slow")).status_code == 202:
            assert time.monotonic() < end
            time.sleep(0.1)
        assert (last.status_code, "refresh" in last.headers, "Ready" in last.text) == (200, False, True)
        console.data.decoder.close()
