"""Where a test's device keeps its files."""

import pytest

from overstory.client.state.files import StatePaths


@pytest.fixture
def paths(tmp_path):
    return StatePaths(tmp_path / "state")


@pytest.fixture
def policy(tmp_path):
    return tmp_path / "policy.json"
