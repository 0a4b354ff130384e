"""Ten seconds of each misfortune to a console that is read; then its pages and its estimates are there again."""

import subprocess
import threading
import time
from contextlib import contextmanager

import httpx
import pytest

from overstory.collector.store import open_store
from support.console_store import write_registry
from support.misfortunes import EVERYWHERE, SECONDS, disk_for, unlucky, until

pytestmark = pytest.mark.slow


@contextmanager
def store_away(_, folder):
    (folder / "reports.db").rename(folder / "away.db")
    yield
    (folder / "away.db").rename(folder / "reports.db")


CASES = EVERYWHERE | {"store_away": store_away}


@pytest.mark.parametrize("name", CASES)
def test_after_ten_seconds_of_it_pages_are_shown(name, tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    with disk_for(name, folder):
        lives_through(CASES[name], folder)


def lives_through(befalls, folder):
    write_registry(folder)
    open_store(str(folder / "reports.db"), create=True).close()
    command = unlucky(folder, "console", "--registry", "metrics.toml", "--store", "reports.db", "--port", "0")
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        link = process.stdout.readline()
        address = link.removeprefix("console on ").partition("/login#")[0]
        statuses, over = set(), threading.Event()

        def ask(path="/"):
            try:
                return httpx.get(address + path, timeout=5).status_code
            except httpx.HTTPError:
                return 0

        def read():
            while not over.wait(0.05):
                statuses.add(ask("/registry"))

        readers = [threading.Thread(target=read) for _ in range(2)]
        for reader in readers:
            reader.start()
        until(lambda: 200 in statuses)
        with befalls(process.pid, folder):
            time.sleep(SECONDS)
        until(lambda: ask("/readyz") == 200)
        until(lambda: all(ask("/registry") == 200 for _ in range(20)))
        over.set()
        for reader in readers:
            reader.join(30)
        assert statuses <= {0, 200, 500, 503}
        process.terminate()
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
