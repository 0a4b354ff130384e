"""Kill a process at work on a store, again and again, and see that every report is counted exactly once.

The process is `python -m support.store_crashes URL FIRST LAST STEP`.
"""

# ruff: noqa: T201 - the worker's parent reads what it prints

import random
import subprocess
import sys
import time
from pathlib import Path

from sqlalchemy import select, text

from overstory.analysis.alarms.sums import ReportSums
from overstory.analysis.reports import SupportCounts
from overstory.collector.store import Store, open_store
from overstory.collector.store.schema import tables_of_ids
from overstory.protocol.kinds.base import Report
from overstory.protocol.metrics import Metric
from support.store_samples import NOW, Received, counted, received, registry, reports, summed

TESTS = Path(__file__).parents[1]
PERIOD, PERIODS = 20_000, 2
STEP = 5
MANY = 100_000
WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")


def sent(metric: Metric, number: int) -> list[Report]:
    """Return the reports of a batch: they follow from its number."""
    return reports(metric, 1 + number % 3, random.Random(number))


def batch(metric: Metric, number: int) -> Received:
    return received(metric, PERIOD + number % PERIODS, sent(metric, number), batch=number.to_bytes(16, "big"))


def work(url: str, first: int, last: int, step: int) -> None:
    """Add the batches `first` .. `last` - 1, `step` of them at a time, and compact every now and then.

    Prints ``ready``, waits for a line, then prints each number that the store has acknowledged: ``new 17``, ``old 17``.
    """
    metrics = registry()
    metric = metrics["bloom"]
    with open_store(url, metrics) as store:
        metric.mechanism.digest  # noqa: B018 - computed before the start
        store.compact(NOW)
        print("ready", flush=True)
        sys.stdin.readline()
        for start in range(first, last, step):
            numbers = range(start, min(start + step, last))
            new = store.add([batch(metric, number) for number in numbers])
            for number, is_new in zip(numbers, new, strict=True):
                print("new" if is_new else "old", number)
            sys.stdout.flush()
            if start // step % 3 == 0:
                store.compact(NOW)
    print("done", flush=True)


def start(url: str, first: int, last: int, step: int) -> subprocess.Popen[str]:
    """Start a worker, and return when it is ready to go."""
    arguments = [sys.executable, "-m", "support.store_crashes", url, str(first), str(last), str(step)]
    worker = subprocess.Popen(arguments, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "ready\n"
    return worker


def go(worker: subprocess.Popen[str]) -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def acknowledged(output: str) -> dict[int, bool]:
    """Return which batches a worker was told are stored, and whether they were new to it."""
    whole = output[: output.rfind("\n") + 1]  # what was being written when it was killed is not counted
    lines = [line.split() for line in whole.splitlines() if line != "done"]
    return {int(number): word == "new" for word, number in lines}


def killed_rounds(url: str, rounds: int, rng: random.Random) -> None:
    """Kill a worker `rounds` times; after each, the store holds what was acknowledged, and every batch once."""
    metrics = registry()
    metric = metrics["bloom"]
    first = 0
    with open_store(url, metrics, create=True):
        pass
    for _ in range(rounds):
        worker = start(url, first, MANY, STEP)
        go(worker)
        try:
            worker.wait(timeout=rng.uniform(0.02, 0.4))
            raise AssertionError("the worker ended by itself")
        except subprocess.TimeoutExpired:
            worker.kill()
        output, _ = worker.communicate()
        told = acknowledged(output)
        with open_store(url, metrics) as store:
            wait_for_the_end_of(store)
            kept = stored_numbers(store)
            assert set(told) <= kept
            assert store.counts(metric, 0, 1 << 20) == expected(metric, kept)
            assert store.sums(metric, 0, 1 << 20) == summed_numbers(metric, kept)
        # The next one sends the last batches again, as a sender does who heard nothing: some of them are old.
        first = max(0, max(kept, default=0) - 3 * STEP)
    with open_store(url, metrics) as store:
        kept = stored_numbers(store)
        everything = range(max(kept) + 20)
        assert store.add([batch(metric, number) for number in everything]) == [n not in kept for n in everything]
        assert not store.compact(NOW).waiting
        assert store.counts(metric, 0, 1 << 20) == expected(metric, set(everything))
        assert store.sums(metric, 0, 1 << 20) == summed_numbers(metric, set(everything))
        assert sum(one.kept for one in store.summary().metrics) == sum(len(sent(metric, n)) for n in everything)


def wait_for_the_end_of(store: Store) -> None:
    """Wait until no other connection is open: a database's server may yet commit what a killed worker had sent."""
    if not store.url.startswith("postgresql"):
        return
    others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    deadline = time.monotonic() + 60
    while True:
        with store._database.snapshot() as connection:
            if not connection.exec_driver_sql(others).scalar():
                return
        assert time.monotonic() < deadline, "the connection of a killed worker does not end"
        time.sleep(0.01)


def stored_numbers(store: Store) -> set[int]:
    """Return the numbers of the batches whose ids are stored."""
    with store._database.snapshot_of_ids() as connection:
        return {
            int.from_bytes(batch, "big")
            for table in tables_of_ids(connection)
            for batch in connection.execute(select(table.c.id)).scalars()
        }


def expected(metric: Metric, numbers: set[int]) -> dict[int, SupportCounts]:
    """Return the counts of these batches, each counted once."""
    return {period: counted(metric, reports) for period, reports in _by_period(metric, numbers).items()}


def summed_numbers(metric: Metric, numbers: set[int]) -> dict[int, ReportSums]:
    """Return the sums of these batches' reports, each summed once."""
    return {period: summed(metric, reports) for period, reports in _by_period(metric, numbers).items() if reports}


def _by_period(metric: Metric, numbers: set[int]) -> dict[int, list[Report]]:
    by_period = {PERIOD + rest: [n for n in numbers if n % PERIODS == rest] for rest in range(PERIODS)}
    return {
        period: [report for number in some for report in sent(metric, number)]
        for period, some in by_period.items()
        if some
    }


def until_it_waits(store: Store, work, waiting: int = 1) -> None:
    """Return once so many wait for a lock of this database."""
    end = time.monotonic() + 20
    while not work.done() and time.monotonic() < end:
        with store._database.snapshot() as connection:
            if connection.execute(WAITING).scalar_one() >= waiting:
                return
        time.sleep(0.01)
    raise AssertionError("nobody waited")


if __name__ == "__main__":
    work(sys.argv[1], *map(int, sys.argv[2:]))
