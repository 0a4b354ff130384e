"""Where a test's device keeps its files, its clock, and the device itself."""

import pytest

from overstory.client.state.files import StatePaths
from support.devices import Clock, device


@pytest.fixture
def paths(tmp_path):
    return StatePaths(tmp_path / "state")


@pytest.fixture
def policy(tmp_path):
    return tmp_path / "policy.json"


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def client(tmp_path, clock):
    """A device that agreed to the usual metrics."""
    return device(tmp_path, clock=clock)
