"""Law 7 at length: a damaged request is a valid one or one declared error, `OVERSTORY_DAMAGED` times."""

import pytest

from support.rounds import rounds
from support.uploads_to_spoil import REASONS, outcomes

CASES = rounds(100_000, "OVERSTORY_DAMAGED")


@pytest.mark.slow
def test_no_damage_raises_anything_but_the_declared_error():
    seen = outcomes(CASES, seed=20261121)
    assert sum(seen.values()) == CASES
    assert REASONS | {"valid"} == set(seen)
