"""Google's family: permanent responses of two metrics, or of two parameter sets, are independent on a device."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product
from typing import Any

import pytest

from overstory.client import Randomizer
from overstory.protocol.mechanisms.registry import mechanism

ALARM = 1e-6
BITS = 16
DEVICES = 2_000


def google(f: float) -> Any:
    family = "google-rappor-python"
    return mechanism("rappor", num_bits=BITS, num_hashes=1, num_cohorts=1, f=f, p=0.5, q=0.75, hash_family=family)


def pairs(one: tuple[str, Any], other: tuple[str, Any]) -> dict[int, Counter[tuple[int, int]]]:
    """Count the pairs of permanent bits by true bit: one metric and mechanism, the other."""
    seen: dict[int, Counter[tuple[int, int]]] = {0: Counter(), 1: Counter()}
    for number in range(DEVICES):
        secret = number.to_bytes(32, "big")
        left, right = (
            Randomizer(built, secret=secret, metric=metric, cohort=0).permanent("value")
            for metric, built in (one, other)
        )
        true = one[1].encode("value", 0)
        for bit in range(BITS):
            seen[true >> bit & 1][left >> bit & 1, right >> bit & 1] += 1
    return seen


def far(counts: Counter[tuple[int, int]]) -> bool:
    """Whether any of the four counts is further from the product of its margins than chance allows (Bernstein)."""
    total = counts.total()
    for left, right in product((0, 1), repeat=2):
        chance = (counts[left, 0] + counts[left, 1]) * (counts[0, right] + counts[1, right]) / total**2
        log = math.log(2 * 8 / ALARM)
        allowed = math.sqrt(2 * total * chance * (1 - chance) * log) + log
        if abs(counts[left, right] - total * chance) > allowed:
            return True
    return False


CASES = [
    (("first", 0.5), ("second", 0.5)),
    (("first", 0.5), ("first", 0.25)),
    (("first", 0.5), ("second", 0.25)),
]


@pytest.mark.parametrize(("one", "other"), CASES)
def test_responses_of_two_metrics_or_parameters_are_independent(
    one: tuple[str, float], other: tuple[str, float]
) -> None:
    seen = pairs((one[0], google(one[1])), (other[0], google(other[1])))
    assert all(seen[true].total() for true in (0, 1))
    assert not any(far(counts) for counts in seen.values())


def test_one_metric_with_itself_is_not_independent() -> None:
    # The check notices: a response is the same whenever it is asked for.
    same = ("first", google(0.5))
    assert all(far(counts) for counts in pairs(same, same).values())
