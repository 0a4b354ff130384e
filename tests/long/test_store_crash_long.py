"""Many rounds of a store whose process is killed."""

from __future__ import annotations

import random

import pytest

from support.store_crashes import killed_rounds
from support.store_databases import fresh


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rounds"), [("sqlite", 100), ("postgresql", 50)])
def test_killed_many_times(kind: str, rounds: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    with fresh(kind, base.parent if base.name.startswith("popen-") else base) as url:
        killed_rounds(url, rounds, random.Random(kind))
