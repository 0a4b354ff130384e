"""What importing the client costs, and what it brings along."""

import importlib
import subprocess
import sys

import pytest

LIST = "import sys; before = set(sys.modules); import overstory.client{more}; print(*sorted(set(sys.modules) - before))"
LAZY = ("client", "discovery", "privacy")
HEAVY = {"sqlite3", "tomllib", "http.client", "ssl", "asyncio", "numpy", "overstory.privacy", "overstory.analysis"}


def printed(script):
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("more", ["", "; from overstory.client import Client, Outcome"])
def test_importing_the_client_brings_no_database_network_or_parser(more):
    assert not set(printed(LIST.format(more=more))) & HEAVY


@pytest.mark.parametrize("package", ["overstory", *(f"overstory.{name}" for name in LAZY)])
def test_every_public_name_is_there(package):
    public = importlib.import_module(package)
    for name in set(public.__all__) - {"__version__"}:
        assert getattr(public, name).__name__ == name
    assert set(public.__all__) <= set(dir(public))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = public.nothing


def test_importing_the_package_itself_loads_nothing_of_it():
    script = "import sys, overstory; print(*(name for name in sys.modules if name.startswith('overstory')))"
    assert set(printed(script)) == {"overstory", "overstory._lazy"}


MOST_MODULES = 35
"""Of ours, packages included, that a client of one metric loads: each is read, and its classes are made."""

ONE_METRIC = """
import pathlib, sys, tempfile
from overstory.client import Client
from overstory.protocol.metrics.registry import EXAMPLE
with tempfile.TemporaryDirectory() as folder:
    pathlib.Path(folder, "metrics.toml").write_text(EXAMPLE)
    client = Client("themes", pathlib.Path(folder, "metrics.toml"), state=folder, environ={})
    print(*(name for name in sys.modules if name.partition(".")[0] == "overstory"))
"""


def test_a_client_of_one_metric_loads_its_oracle_and_little_else():
    """`bench/speed_cold.py` prints what it costs: it was 12.4 times `python -c pass`, and is at most 7 times."""
    loaded = printed(ONE_METRIC)
    assert len(loaded) <= MOST_MODULES, loaded
    assert "overstory.protocol.kinds.symbols" in loaded
    others = ("bits", "sets", "seeds", "finite_fields", "hashing", "tables", "groups")
    assert not {name for name in loaded if name.rpartition(".")[2] in others}


RECORD = """
import sys, tempfile
from overstory.client import Client, parse_registry
from overstory.protocol.metrics.registry import EXAMPLE
with tempfile.TemporaryDirectory() as folder:
    client = Client("themes", parse_registry(EXAMPLE), state=folder, environ={})
    client.consent("local")
    assert client.record("colour", "red") == "recorded"
    print(*(name for name in sys.modules if name.startswith("overstory.privacy.")))
    client.close()
"""


def test_a_record_loads_nothing_of_the_privacy_package():
    """What a report costs is worked out when the ledger is written, by `flush`."""
    assert printed(RECORD) == []
