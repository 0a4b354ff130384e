"""A longer grace opens periods whose batch ids are forgotten: reviewers are told."""

import pytest

from overstory.privacy.registry.changes import compare_registries
from overstory.protocol.metrics import parse_registry
from overstory.protocol.metrics.registry import EXAMPLE


@pytest.mark.parametrize(("days", "told"), [(60, True), (10, False)])
def test_a_longer_grace_says_what_it_opens_again(days, told):
    before = parse_registry(EXAMPLE)
    after = parse_registry(EXAMPLE.rstrip() + f"\ngrace_days = {days}\n")
    (change,) = [change for change in compare_registries(before, after) if change.what == "grace_days"]
    assert ("would count twice" in change.detail) is told
