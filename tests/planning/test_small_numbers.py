"""Needs that no number of devices meets, or no channel, are one sentence."""

import pytest

import overstory
from overstory.planning.sample_size import required_sample_size
from overstory.protocol.errors import ParameterError
from overstory.protocol.mechanisms.registry import mechanism


@pytest.mark.parametrize("share", [5e-324, 1e-160])
def test_a_share_that_nobody_could_detect_is_refused(share: float) -> None:
    with pytest.raises(ParameterError, match="no number of devices would be enough"):
        required_sample_size(mechanism("oue", domain_size=9, epsilon=1.0), share, 9)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-17, 1e-10])
@pytest.mark.parametrize("name", ["olh", "blh", "l-grr", "loloha"])
def test_an_epsilon_below_the_grid_is_refused(name: str, epsilon: float) -> None:
    two = name in {"l-grr", "loloha"}
    needs = {"epsilon_permanent": epsilon, "epsilon_report": epsilon / 2} if two else {"epsilon": epsilon}
    with pytest.raises(ParameterError, match=r"too small|nothing can be learned"):
        overstory.oracle(name, domain_size=100, **needs)
