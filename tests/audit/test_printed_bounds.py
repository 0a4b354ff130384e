"""What an audit prints is never above what it proved, and both epsilons are printed in their true order."""

import math
import re
from decimal import Decimal

import pytest

from overstory.audit.audit import AuditResult
from overstory.audit.game import Game


def printed(correct: int, declared: float) -> tuple[AuditResult, list[Decimal], str]:
    """The bound and the declared epsilon in the lines of an audit with 2,001 guesses, and the verdict's sentence."""
    game = Game("likelihood", 2001, correct, 0.0008)
    result = AuditResult("grr", ("0", "1"), 2001, 2001, 0.001, declared, (), (game,))
    _, _, lines, verdict, _ = result.blocks()
    numbers = re.findall(r"(?:at least|declared:) (\d+\.\d+)", "\n".join(lines.texts))
    return result, [Decimal(number) for number in numbers], verdict.text


@pytest.mark.sampled(10)
@pytest.mark.parametrize("correct", range(1100, 2002, 17))
def test_a_bound_is_rounded_down_and_what_is_declared_up(correct: int) -> None:
    result, (lower, declared), _ = printed(correct, 20.00001)
    assert 0 <= Decimal(result.lower) - lower < Decimal("0.0001")
    assert declared == Decimal("20.0001")


@pytest.mark.parametrize("correct", [1200, 1600, 1999])
@pytest.mark.parametrize("less", [0.1, 1e-4, 1e-6, 1e-10, 0.0])
def test_a_violation_shows_which_epsilon_is_larger(correct: int, less: float) -> None:
    """Also where they differ in the last digit of a float."""
    bound = Game("likelihood", 2001, correct, 0.0008).lower
    epsilon = math.nextafter(bound - less, 0.0)
    result, (lower, declared), sentence = printed(correct, epsilon)
    assert result.verdict == "violates"
    rounding = 4 * Decimal(math.ulp(epsilon))  # what `rounded_up` takes for a float's own
    assert Decimal(epsilon) - rounding <= declared < lower <= Decimal(bound)
    assert f"epsilon at least {lower}, declared {declared}" in sentence
