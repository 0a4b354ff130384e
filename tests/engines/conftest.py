"""Small blocks, so that a few hundred reports are many units."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from overstory.engines import division
from overstory.files import blocks
from support.engine_files import RAPPOR, Collection


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"BLOCK": 50, "SEEDED_BLOCK": 60, "GROUP_BYTES": 400, "SORTED_BYTES": 2000}.items():
        monkeypatch.setattr(blocks, name, size)
    monkeypatch.setattr("overstory.engines.units.PART_BYTES", 1)


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Divide a few values, of units that take no time."""
    monkeypatch.setattr(division, "LEAST_VALUES", 1)
    monkeypatch.setattr(division, "LEAST_SECONDS", 1e-12)


@pytest.fixture
def collection(tmp_path: Path, small_blocks: None) -> Callable[..., Collection]:
    def made(name: str = "rappor", parameters: dict[str, Any] = RAPPOR, size: int = 900) -> Collection:
        folder = tmp_path / "reports"
        folder.mkdir()
        return Collection(folder, name, parameters, size)

    return made
