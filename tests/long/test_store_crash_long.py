"""Many rounds of a store whose process is killed."""

from __future__ import annotations

import random

import pytest

from support.rounds import rounds
from support.store_crashes import killed_rounds
from support.store_databases import fresh


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("sqlite", rounds(30)), ("postgresql", rounds(15))])
def test_killed_many_times(kind: str, kills: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    base = tmp_path_factory.getbasetemp()
    with fresh(kind, base.parent if base.name.startswith("popen-") else base) as url:
        killed_rounds(url, kills, random.Random(kind))
