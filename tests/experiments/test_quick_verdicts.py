"""Every experiment, in quick mode: it runs, compares with what was published, and explains what differs."""

import pytest

from overstory.experiments.context import Context
from overstory.experiments.registry import EXPERIMENTS


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_nothing_differs_without_a_reason(name):
    result = EXPERIMENTS[name].run(Context(EXPERIMENTS[name]))
    assert result.comparisons
    assert [one.name for one in result.unexplained] == []
    names = [one.name for one in result.comparisons]
    assert len(set(names)) == len(names)
    assert all(figure.name.startswith(name) and figure.alt and figure.caption for figure in result.figures)
