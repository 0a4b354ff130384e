"""What a shortcut answers is answered alike without it, whatever bytes come in whatever pieces (ATTACK: held)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from support.differential import Side, fuzz

REQUESTS = int(os.environ.get("FUZZ_REQUESTS", "1000000"))
SECONDS = 60 * float(os.environ.get("FUZZ_MINUTES", "0.5"))


def test_nothing_differs_in_two_thousand_requests() -> None:
    outcome = fuzz(2_000, seed=1)
    assert outcome.differences == []
    assert outcome.unparsed > 200  # the shortcuts were taken
    assert {b"200", b"400", b"404", b"405", b"410"} <= set(outcome.statuses)
    assert {status for status in outcome.statuses if status.startswith(b"5")} <= {b"501"}  # a coding that is not read


def test_a_shortcut_that_does_something_else_is_noticed() -> None:
    sides = Side(shortcuts=True), Side(shortcuts=False)
    templates: Any = sides[0].kind.endpoint._ingest._templates
    recognise = templates.recognise

    def twisted(body: bytes, now: float) -> Any:
        found = recognise(body, now)
        return None if found is None else found._replace(bits=bytes(len(found.bits)))

    templates.recognise = twisted
    assert fuzz(1_000, seed=2, sides=sides).differences


@pytest.mark.slow
def test_nothing_differs_in_some_minutes_of_requests() -> None:
    """FUZZ_REQUESTS and FUZZ_MINUTES (half a minute) say how many, and how long at most."""
    outcome = fuzz(REQUESTS, seed=20261122, seconds=SECONDS)
    assert outcome.differences == []
    assert outcome.requests >= min(REQUESTS, 150 * SECONDS)
    assert outcome.unparsed > outcome.requests / 20
    assert {status for status in outcome.statuses if status.startswith(b"5")} <= {b"501"}  # a coding that is not read
