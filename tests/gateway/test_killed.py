"""A year of half hours, killed at random moments and started again: every period once, every response the same."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from typing import Any

import pytest

from support.gateway_samples import FIRST, bits, device_of, metric, registry_text, served, uploads, year


def start(folder, url):
    command = [sys.executable, "-m", "overstory", "gateway", "--metric", "fixed", "--registry", "metrics.toml"]
    command += ["--readings", "year.csv", "--state", "state", "--agree", "on", "--server", url, "--quiet"]
    clean = {name: value for name, value in os.environ.items() if name not in {"DO_NOT_TRACK", "OVERSTORY"}}
    return subprocess.Popen(command, cwd=folder, env=clean, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def killed_until_done(folder, periods, kills, rng):
    """Run to the end, killing so often on the way; return how many were killed at work."""
    (folder / "metrics.toml").write_text(registry_text())
    (folder / "year.csv").write_bytes(year(periods))
    struck = 0
    with served(folder) as url:
        for _ in range(kills):
            running = start(folder, url)
            before = len(uploads(folder))
            until = time.monotonic() + 30
            while len(uploads(folder)) == before and running.poll() is None and time.monotonic() < until:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.25))
            running.send_signal(signal.SIGKILL)
            running.communicate()
            struck += running.returncode == -signal.SIGKILL
        last = start(folder, url)
        _, said = last.communicate(timeout=240)
    assert last.returncode == 0, said
    return struck


def check(folder, periods):
    sent = uploads(folder)
    assert [upload.period - FIRST for upload in sent] == list(range(periods)), "every period, and none twice"
    assert len({upload.batch for upload in sent}) == periods
    device = device_of(folder, "fixed")
    by_symbol: Any = defaultdict(set)
    for upload in sent:
        by_symbol[metric("fixed").encode(((upload.period - FIRST) * 7 % 20) / 10 + 0.05)].add(bits(upload))
    assert all(found == {device.permanent(symbol)} for symbol, found in by_symbol.items())


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_killed_and_restarted(tmp_path):
    assert killed_until_done(tmp_path, 4000, kills=3, rng=random.Random(5)) >= 2
    check(tmp_path, 4000)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_year_killed_and_restarted_often(tmp_path):
    assert killed_until_done(tmp_path, 17_520, kills=25, rng=random.Random(6)) >= 10
    check(tmp_path, 17_520)
