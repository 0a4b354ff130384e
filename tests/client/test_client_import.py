"""What importing the client costs, and what it brings along."""

import subprocess
import sys

import pytest

LIST = "import sys; before = set(sys.modules); import overstory.client{more}; print(*sorted(set(sys.modules) - before))"
HEAVY = {"sqlite3", "tomllib", "http.client", "ssl", "asyncio", "numpy", "overstory.privacy", "overstory.analysis"}


def modules_of(more=""):
    script = LIST.format(more=more)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_client_brings_nothing_heavy():
    assert not modules_of() & HEAVY


def test_the_client_itself_brings_no_database_network_or_parser():
    assert not modules_of("; from overstory.client import Client, Outcome") & HEAVY


def test_every_public_name_is_there():
    import overstory.client

    for name in overstory.client.__all__:
        assert getattr(overstory.client, name).__name__ == name
    assert set(overstory.client.__all__) <= set(dir(overstory.client))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = overstory.client.nothing


def test_importing_the_client_is_quick():
    """50 ms are promised on an idle machine (bench/speed_client.py); the best of some tries has ten times that."""
    timed = "import time; t = time.perf_counter(); import overstory.client; print(time.perf_counter() - t)"
    tries = [
        float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    assert min(tries) < 0.5, tries
