"""Where a test's device keeps its files."""

import pytest

from overstory.client.consent.policy import CI_VARIABLES
from overstory.client.state.paths import StatePaths


@pytest.fixture
def nothing_forbids(monkeypatch):
    """An environment in which nothing forbids reporting."""
    for name in (*CI_VARIABLES, "DO_NOT_TRACK", "OVERSTORY", "OVERSTORY_STATE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def paths(tmp_path):
    return StatePaths(tmp_path / "state")


@pytest.fixture
def policy(tmp_path):
    return tmp_path / "policy.json"
